package org.pincite.opensearch;

import com.sun.net.httpserver.Headers;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * An HTTP server in the sidecar's place. By default it reverses the candidates; a test can make it misbehave. It reads
 * every request as strictly as the schema and refuses one without token or contract, as the sidecar does.
 */
final class StubSidecar {
    static final String TOKEN = "stub-token-1";

    /** What to do with a request that is in order. */
    interface Behaviour {
        void answer(HttpExchange exchange, RerankRequest request) throws IOException;
    }

    /** What to do with a request for legs that is in order. */
    interface LegsBehaviour {
        void answer(HttpExchange exchange, Map<String, Object> request) throws IOException;
    }

    final AtomicInteger calls = new AtomicInteger();
    final AtomicInteger legsCalls = new AtomicInteger();
    /** Null: a sidecar of before there were legs, which answers 404. */
    volatile LegsBehaviour legs;
    volatile Map<String, Object> lastLegs;
    volatile String lastLegsOpaqueId;
    volatile Behaviour behaviour = StubSidecar::reverse;
    volatile String token = TOKEN;
    volatile RerankRequest lastRequest;
    volatile Headers lastHeaders;
    private volatile CountDownLatch held = new CountDownLatch(0);
    private HttpServer server;
    private ExecutorService executor;
    private int port;

    void start() throws IOException {
        executor = Executors.newCachedThreadPool();
        server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), port), 64);
        port = server.getAddress().getPort();
        server.setExecutor(executor);
        server.createContext("/v1/hook/rerank", this::handle);
        server.createContext(SidecarClient.LEGS, this::handleLegs);
        server.start();
    }

    void stop() throws InterruptedException {
        release();
        server.stop(0);
        executor.shutdownNow();
        executor.awaitTermination(5, TimeUnit.SECONDS);
    }

    /** Goes back to good behaviour. */
    void reset() {
        release();
        behaviour = StubSidecar::reverse;
        token = TOKEN;
        calls.set(0);
        legsCalls.set(0);
        legs = null;
        lastLegs = null;
        lastRequest = null;
        lastHeaders = null;
    }

    URI url() {
        return URI.create("http://127.0.0.1:" + port);
    }

    /** Lets every request wait until {@link #release()}. */
    void hold() {
        held = new CountDownLatch(1);
        behaviour = (exchange, request) -> {
            try {
                held.await(20, TimeUnit.SECONDS);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
            reverse(exchange, request);
        };
    }

    void release() {
        held.countDown();
    }

    private void handle(HttpExchange exchange) throws IOException {
        try (exchange) {
            calls.incrementAndGet();
            lastHeaders = exchange.getRequestHeaders();
            byte[] body = exchange.getRequestBody().readAllBytes();
            if (("Bearer " + token).equals(lastHeaders.getFirst("Authorization")) == false) {
                send(exchange, 401, "{}");
            } else if ("1".equals(lastHeaders.getFirst("Pincite-Contract")) == false) {
                send(exchange, 409, "{}");
            } else if ("POST".equals(exchange.getRequestMethod()) == false
                || "application/json".equals(lastHeaders.getFirst("Content-Type")) == false) {
                    send(exchange, 415, "{}");
                } else {
                    RerankRequest request;
                    try {
                        request = Contracts.readRequest(body);
                    } catch (IllegalArgumentException e) {
                        send(exchange, 422, "{}");
                        return;
                    }
                    lastRequest = request;
                    behaviour.answer(exchange, request);
                }
        } catch (IOException e) {
            // The client has gone: a deadline passed.
        }
    }

    private void handleLegs(HttpExchange exchange) throws IOException {
        try (exchange) {
            legsCalls.incrementAndGet();
            Headers headers = exchange.getRequestHeaders();
            byte[] body = exchange.getRequestBody().readAllBytes();
            LegsBehaviour how = legs;
            if (how == null) {
                send(exchange, 404, "{}");
            } else if (("Bearer " + token).equals(headers.getFirst("Authorization")) == false) {
                send(exchange, 401, "{}");
            } else if ("1".equals(headers.getFirst("Pincite-Contract")) == false) {
                send(exchange, 409, "{}");
            } else {
                lastLegs = Contracts.map(new String(body, StandardCharsets.UTF_8));
                lastLegsOpaqueId = headers.getFirst("X-Opaque-Id");
                how.answer(exchange, lastLegs);
            }
        } catch (IOException e) {
            // The client has gone: a deadline passed.
        }
    }

    /** Answers every request for legs with these; null for no such leg. */
    void legs(String knn, String centroids) {
        legs = (exchange, request) -> send(
            exchange,
            200,
            "{\"contract\": 1, \"encoder\": \"stub\", \"took_ms\": 0.1, \"reason\": null, \"knn\": "
                + knn
                + ", \"centroids\": "
                + centroids
                + "}"
        );
    }

    static void send(HttpExchange exchange, int status, String body) throws IOException {
        byte[] bytes = body.getBytes(StandardCharsets.UTF_8);
        exchange.getResponseHeaders().set("Content-Type", "application/json");
        exchange.sendResponseHeaders(status, bytes.length == 0 ? -1 : bytes.length);
        exchange.getResponseBody().write(bytes);
    }

    static void reverse(HttpExchange exchange, RerankRequest request) throws IOException {
        send(exchange, 200, reply(request, ids -> ids));
    }

    /** Changes the list of result objects of a good reply. */
    interface Change {
        List<String> of(List<String> results);
    }

    static String reply(RerankRequest request, Change change) {
        int n = request.candidates().size();
        List<String> results = new ArrayList<>();
        for (int i = n - 1; i >= 0; i--) {
            results.add(
                String.format(
                    Locale.ROOT,
                    "{\"id\": \"%s\", \"score\": %d.5, \"scores\": {\"first_stage\": 0.5, \"maxsim\": 0.25, \"fused\": 1, \"cross_encoder\": null}}",
                    request.candidates().get(i).id(),
                    i
                )
            );
        }
        return "{\"contract\": 1, \"model\": {\"encoder\": \"stub\", \"reranker\": \"reverse\"}, \"took_ms\": 0.1,"
            + " \"stages\": [{\"name\": \"maxsim\", \"took_ms\": 0.05}], \"results\": ["
            + String.join(",", change.of(results))
            + "]}";
    }
}
