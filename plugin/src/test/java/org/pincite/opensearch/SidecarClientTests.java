package org.pincite.opensearch;

import org.opensearch.test.OpenSearchTestCase;
import org.junit.After;
import org.junit.Before;

import java.io.IOException;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

public class SidecarClientTests extends OpenSearchTestCase {
    private static final RerankRequest REQUEST = new RerankRequest(
        "may the tenant sublet 🏠",
        900,
        List.of(new RerankRequest.Candidate("a", 0, 1, 2.5f, null, null), new RerankRequest.Candidate("b", 3, 1, null, null, null))
    );

    private final StubSidecar stub = new StubSidecar();
    private SidecarClient client;

    private record Outcome(byte[] body, HookException failure) {
        Reason reason() {
            return failure == null ? null : failure.reason();
        }
    }

    @Before
    public void startStub() throws IOException {
        stub.start();
        client = new SidecarClient(List.of(stub.url()), StubSidecar.TOKEN, 4);
    }

    @After
    public void stopStub() throws InterruptedException {
        client.close();
        stub.stop();
    }

    private static Outcome call(SidecarClient client, int timeoutMs, String opaqueId) throws Exception {
        CompletableFuture<Outcome> outcome = new CompletableFuture<>();
        client.send(REQUEST.toJson(), Duration.ofMillis(timeoutMs), opaqueId, (body, failure) -> {
            assertTrue("called twice", outcome.complete(new Outcome(body, failure)));
        });
        return outcome.get(10, TimeUnit.SECONDS);
    }

    private Outcome call() throws Exception {
        return call(client, 5000, null);
    }

    private static int closedPort() throws IOException {
        try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            return socket.getLocalPort();
        }
    }

    public void testGoodReply() throws Exception {
        Outcome outcome = call(client, 5000, "abc");
        assertNull(outcome.reason());
        assertEquals(2, RerankReply.parse(outcome.body(), List.of("a", "b")).results().size());
        assertEquals(REQUEST, stub.lastRequest);
        assertEquals("abc", stub.lastHeaders.getFirst("X-Opaque-Id"));
    }

    public void testAnOpaqueIdThatHttpCannotCarry() throws Exception {
        assertNull(call(client, 5000, "new\nline").reason());
        assertNull(stub.lastHeaders.getFirst("X-Opaque-Id"));
    }

    public void testStatusCodes() throws Exception {
        Object[][] cases = {
            { 401, Reason.SIDECAR_UNAUTHORIZED },
            { 403, Reason.SIDECAR_UNAUTHORIZED },
            { 409, Reason.CONTRACT_MISMATCH },
            { 429, Reason.SIDECAR_OVERLOADED },
            { 500, Reason.SIDECAR_ERROR },
            { 503, Reason.SIDECAR_ERROR },
            { 404, Reason.SIDECAR_ERROR },
            { 302, Reason.SIDECAR_ERROR },
            { 201, Reason.SIDECAR_ERROR } };
        for (Object[] c : cases) {
            stub.behaviour = (exchange, request) -> {
                exchange.getResponseHeaders().set("Location", stub.url().toString());
                StubSidecar.send(exchange, (int) c[0], "{\"detail\": \"secret\"}");
            };
            Outcome outcome = call();
            assertEquals(c[0].toString(), c[1], outcome.reason());
            assertFalse(outcome.failure().getMessage().contains("secret"));
        }
    }

    public void testWrongToken() throws Exception {
        for (String token : new String[] { null, "other" }) {
            try (SidecarClient other = new SidecarClient(List.of(stub.url()), token, 1)) {
                assertEquals(Reason.SIDECAR_UNAUTHORIZED, call(other, 5000, null).reason());
            }
        }
    }

    public void testTimeout() throws Exception {
        stub.hold();
        long start = System.nanoTime();
        assertEquals(Reason.SIDECAR_TIMEOUT, call(client, 200, null).reason());
        assertTrue(TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - start) < 3000);
    }

    public void testHeadersAtOnceAndBodyNever() throws Exception {
        CountDownLatch end = new CountDownLatch(1);
        stub.behaviour = (exchange, request) -> {
            exchange.sendResponseHeaders(200, 100);
            exchange.getResponseBody().write('{');
            exchange.getResponseBody().flush();
            try {
                end.await(20, TimeUnit.SECONDS);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        };
        CompletableFuture<Outcome> outcome = new CompletableFuture<>();
        SidecarClient.Call call = client.send(
            REQUEST.toJson(),
            Duration.ofMillis(200),
            null,
            (body, failure) -> outcome.complete(new Outcome(body, failure))
        );
        // The HTTP client's own timeout ends with the headers; the processor's deadline cancels what comes after.
        Thread.sleep(400);
        call.cancel();
        assertNotNull(outcome.get(5, TimeUnit.SECONDS).failure());
        end.countDown();
    }

    public void testTruncatedBody() throws Exception {
        stub.behaviour = (exchange, request) -> {
            exchange.sendResponseHeaders(200, 1000);
            exchange.getResponseBody().write("{\"contract\": 1".getBytes(StandardCharsets.UTF_8));
            exchange.getResponseBody().flush();
        };
        assertEquals(Reason.BAD_REPLY, call().reason());
        assertEquals(1, stub.calls.get());
    }

    public void testBodyTooLong() throws Exception {
        stub.behaviour = (exchange, request) -> StubSidecar.send(exchange, 200, " ".repeat(SidecarClient.MAX_REPLY_BYTES + 1));
        assertEquals(Reason.BAD_REPLY, call().reason());
        stub.behaviour = (exchange, request) -> StubSidecar.send(exchange, 200, " ".repeat(SidecarClient.MAX_REPLY_BYTES));
        assertNull(call().reason());
    }

    public void testRefusedConnection() throws Exception {
        URI closed = URI.create("http://127.0.0.1:" + closedPort());
        try (SidecarClient other = new SidecarClient(List.of(closed), StubSidecar.TOKEN, 1)) {
            assertEquals(Reason.SIDECAR_UNREACHABLE, call(other, 5000, null).reason());
            // The place in flight was given back.
            assertEquals(Reason.SIDECAR_UNREACHABLE, call(other, 5000, null).reason());
        }
    }

    public void testUnknownHost() throws Exception {
        try (SidecarClient other = new SidecarClient(List.of(URI.create("http://sidecar.invalid:1")), null, 1)) {
            assertEquals(Reason.SIDECAR_UNREACHABLE, call(other, 9000, null).reason());
        }
    }

    public void testTheNextUrlWhenTheFirstRefuses() throws Exception {
        URI closed = URI.create("http://127.0.0.1:" + closedPort());
        try (SidecarClient other = new SidecarClient(List.of(closed, stub.url()), StubSidecar.TOKEN, 1)) {
            assertNull(call(other, 5000, null).reason());
            assertEquals(1, stub.calls.get());
        }
    }

    public void testBaseUrlWithSlash() throws Exception {
        try (SidecarClient other = new SidecarClient(List.of(URI.create(stub.url() + "/")), StubSidecar.TOKEN, 1)) {
            assertNull(call(other, 5000, null).reason());
        }
    }

    public void testBoundOnCallsInFlight() throws Exception {
        stub.hold();
        try (SidecarClient one = new SidecarClient(List.of(stub.url()), StubSidecar.TOKEN, 1)) {
            CompletableFuture<Outcome> first = new CompletableFuture<>();
            SidecarClient.Call pending = one.send(
                REQUEST.toJson(),
                Duration.ofSeconds(20),
                null,
                (body, failure) -> first.complete(new Outcome(body, failure))
            );
            HookException e = expectThrows(HookException.class, () -> call(one, 5000, null));
            assertEquals(Reason.SIDECAR_OVERLOADED, e.reason());
            pending.cancel();
            assertNotNull(first.get(5, TimeUnit.SECONDS).failure());
            stub.reset();
            assertNull(call(one, 5000, null).reason());
        }
    }

    /** A raw server: the first connections are closed without a word, as a server does that drops a kept one. */
    private void withRawServer(String scheme, int nClosed, String reply, RawTest test) throws Exception {
        AtomicInteger accepted = new AtomicInteger();
        Thread thread;
        try (ServerSocket server = new ServerSocket(0, 8, InetAddress.getLoopbackAddress())) {
            thread = new Thread(() -> serve(server, nClosed, reply, accepted));
            thread.start();
            URI url = URI.create(scheme + "://127.0.0.1:" + server.getLocalPort());
            try (SidecarClient other = new SidecarClient(List.of(url), null, 1)) {
                test.run(other, accepted);
            }
        }
        thread.join(5000);
    }

    private static void serve(ServerSocket server, int nClosed, String reply, AtomicInteger accepted) {
        while (server.isClosed() == false) {
            try (Socket socket = server.accept()) {
                int n = accepted.incrementAndGet();
                socket.getInputStream().read(new byte[65536]);
                if (n > nClosed) {
                    OutputStream out = socket.getOutputStream();
                    out.write(reply.getBytes(StandardCharsets.UTF_8));
                    out.flush();
                }
            } catch (IOException e) {
                // closed
            }
        }
    }

    private interface RawTest {
        void run(SidecarClient client, AtomicInteger accepted) throws Exception;
    }

    public void testAConnectionLostBeforeTheReplyIsTriedOnceMore() throws Exception {
        String ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}";
        withRawServer("http", 1, ok, (raw, accepted) -> {
            assertNull(call(raw, 5000, null).reason());
            assertEquals(2, accepted.get());
        });
        withRawServer("http", 9, ok, (raw, accepted) -> {
            assertEquals(Reason.SIDECAR_ERROR, call(raw, 5000, null).reason());
            assertEquals(2, accepted.get());
        });
    }

    public void testNotHttp() throws Exception {
        withRawServer("http", 0, "SSH-2.0-OpenSSH_9.9\r\n", (raw, accepted) -> {
            assertEquals(Reason.SIDECAR_ERROR, call(raw, 5000, null).reason());
        });
    }

    public void testTlsToAPlainServer() throws Exception {
        withRawServer("https", 0, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", (raw, accepted) -> {
            assertEquals(Reason.SIDECAR_UNREACHABLE, call(raw, 5000, null).reason());
        });
    }

    public void testANewTokenIsUsedFromTheNextCallOn() throws Exception {
        stub.token = "another";
        assertEquals(Reason.SIDECAR_UNAUTHORIZED, call().reason());
        client.token("another");
        assertNull(call().reason());
    }
}
