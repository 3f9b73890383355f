package org.pincite.opensearch;

import org.opensearch.test.OpenSearchTestCase;

import java.net.URI;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;

public class BreakerTests extends OpenSearchTestCase {
    private final AtomicLong now = new AtomicLong();
    private final Breaker breaker = new Breaker(() -> 3, () -> 100L, now::get);

    public void testOpensAfterFailuresInARow() {
        for (int i = 0; i < 2; i++) {
            assertTrue(breaker.admits());
            breaker.failed();
        }
        breaker.succeeded();
        for (int i = 0; i < 3; i++) {
            assertEquals(Breaker.State.CLOSED, breaker.state());
            assertTrue(breaker.admits());
            breaker.failed();
        }
        assertEquals(Breaker.State.OPEN, breaker.state());
        now.addAndGet(99);
        assertFalse(breaker.admits());
    }

    public void testOneProbeACoolDown() {
        for (int i = 0; i < 3; i++) {
            breaker.failed();
        }
        now.addAndGet(100);
        assertTrue(breaker.admits());
        assertEquals(Breaker.State.HALF_OPEN, breaker.state());
        assertFalse(breaker.admits());
        breaker.failed();
        assertEquals(Breaker.State.OPEN, breaker.state());
        now.addAndGet(100);
        assertTrue(breaker.admits());
        breaker.succeeded();
        assertEquals(Breaker.State.CLOSED, breaker.state());
        assertTrue(breaker.admits());
        assertTrue(breaker.admits());
    }

    /** A probe whose end nobody reports must not leave the sidecar alone for ever. */
    public void testALostProbe() {
        for (int i = 0; i < 3; i++) {
            breaker.failed();
        }
        now.addAndGet(100);
        assertTrue(breaker.admits());
        now.addAndGet(100);
        assertTrue(breaker.admits());
    }

    private static Reason call(SidecarClient client, int timeoutMs) throws Exception {
        CompletableFuture<Reason> outcome = new CompletableFuture<>();
        RerankRequest request = new RerankRequest("q", 900, List.of(new RerankRequest.Candidate("a", 0, 1, 1f, null, null)));
        try {
            SidecarClient.Call call = client.send(
                request.toJson(),
                Duration.ofMillis(timeoutMs),
                null,
                (body, failure) -> outcome.complete(failure == null ? null : failure.reason())
            );
            assertNotNull(call);
        } catch (HookException e) {
            return e.reason();
        }
        return outcome.get(10, TimeUnit.SECONDS);
    }

    public void testAClientLeavesAFailingSidecarAloneAndGoesOnToTheNext() throws Exception {
        StubSidecar bad = new StubSidecar();
        StubSidecar good = new StubSidecar();
        bad.start();
        good.start();
        bad.behaviour = (exchange, request) -> StubSidecar.send(exchange, 503, "{}");
        try (
            SidecarClient client = new SidecarClient(List.of(bad.url(), good.url()), StubSidecar.TOKEN, () -> 9, () -> 2, () -> 60_000_000_000L)
        ) {
            assertEquals(Reason.SIDECAR_ERROR, call(client, 5_000));
            assertEquals(Reason.SIDECAR_ERROR, call(client, 5_000));
            assertEquals(List.of(Breaker.State.OPEN, Breaker.State.CLOSED), client.breakers(SidecarClient.RERANK));
            assertNull(call(client, 5_000));
            assertEquals(2, bad.calls.get());
            assertEquals(1, good.calls.get());
            good.behaviour = bad.behaviour;
            assertEquals(Reason.SIDECAR_ERROR, call(client, 5_000));
            assertEquals(Reason.SIDECAR_ERROR, call(client, 5_000));
            assertEquals(Reason.BREAKER_OPEN, call(client, 5_000));
            assertEquals(0, client.inFlight());
        } finally {
            bad.stop();
            good.stop();
        }
    }

    public void testWhatCountsAsAFailure() throws Exception {
        StubSidecar stub = new StubSidecar();
        stub.start();
        try {
            // A refusal is an answer.
            for (int status : new int[] { 400, 401, 409, 429 }) {
                stub.behaviour = (exchange, request) -> StubSidecar.send(exchange, status, "{}");
                try (SidecarClient client = new SidecarClient(List.of(stub.url()), StubSidecar.TOKEN, () -> 9, () -> 1, () -> 60_000_000_000L)) {
                    assertNotNull(call(client, 5_000));
                    assertEquals(List.of(Breaker.State.CLOSED), client.breakers(SidecarClient.RERANK));
                }
            }
            stub.hold();
            try (SidecarClient client = new SidecarClient(List.of(stub.url()), StubSidecar.TOKEN, () -> 9, () -> 1, () -> 60_000_000_000L)) {
                assertEquals(Reason.SIDECAR_TIMEOUT, call(client, 200));
                assertEquals(List.of(Breaker.State.OPEN), client.breakers(SidecarClient.RERANK));
            }
        } finally {
            stub.stop();
        }
        try (SidecarClient client = new SidecarClient(List.of(URI.create("http://127.0.0.1:1")), null, () -> 9, () -> 1, () -> 60_000_000_000L)) {
            assertEquals(Reason.SIDECAR_UNREACHABLE, call(client, 5_000));
            assertEquals(Reason.BREAKER_OPEN, call(client, 5_000));
        }
    }
}
