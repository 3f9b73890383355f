package org.pincite.opensearch;

import org.opensearch.action.search.SearchRequest;
import org.opensearch.action.search.SearchResponse;
import org.opensearch.common.action.ActionFuture;
import org.opensearch.index.query.QueryBuilders;
import org.opensearch.search.builder.SearchSourceBuilder;
import org.opensearch.test.OpenSearchIntegTestCase.ClusterScope;
import org.opensearch.test.OpenSearchIntegTestCase.Scope;
import org.opensearch.threadpool.ThreadPool;
import org.opensearch.transport.client.Client;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** A sidecar that errs, lies, is late or gone, on three nodes: the search is the client's own each time. */
@ClusterScope(scope = Scope.SUITE, numDataNodes = 3, numClientNodes = 0, supportsDedicatedMasters = false)
public class FailuresIT extends HookTestCase {

    private void assertFailsOpen(Reason reason, StubSidecar.Behaviour behaviour) throws IOException {
        stub.behaviour = behaviour;
        String body = body(query(MATCH), "\"from\": 3", "\"size\": 5");
        Map<String, Object> hooked = hooked(body);
        assertReport(Status.UNAVAILABLE, reason, hooked);
        HookReport report = report(hooked);
        assertEquals(N_DOCS, report.nCandidates());
        assertNull(report.model());
        assertEquals(comparable(search(INDEX, "", body)), comparable(hooked));
    }

    private void assertBadReply(StubSidecar.Change change) throws IOException {
        assertFailsOpen(Reason.BAD_REPLY, (exchange, request) -> StubSidecar.send(exchange, 200, StubSidecar.reply(request, change)));
    }

    private static List<String> with(List<String> results, int index, String result) {
        List<String> changed = new ArrayList<>(results);
        changed.set(index, result);
        return changed;
    }

    public void testBadReplies() throws IOException {
        assertBadReply(results -> results.subList(1, results.size()));
        assertBadReply(results -> List.of());
        assertBadReply(results -> with(results, 1, results.get(0)));
        assertBadReply(results -> with(results, 1, results.get(1).replaceFirst("\"id\": \"[^\"]*\"", "\"id\": \"foreign\"")));
        assertBadReply(results -> with(results, 0, results.get(0).replaceFirst("\"score\": [0-9.]+", "\"score\": NaN")));
        assertBadReply(results -> with(results, 0, results.get(0).replaceFirst("\"score\": [0-9.]+", "\"score\": null")));
        assertBadReply(results -> reversed(results));
        assertFailsOpen(Reason.BAD_REPLY, (exchange, request) -> StubSidecar.send(exchange, 200, "<html>garbage</html>"));
        assertFailsOpen(Reason.BAD_REPLY, (exchange, request) -> StubSidecar.send(exchange, 200, ""));
    }

    /** Whether the headers or the end of the connection is seen first decides how it is called. */
    public void testAReplyThatBreaksOff() throws IOException {
        stub.behaviour = (exchange, request) -> {
            byte[] bytes = StubSidecar.reply(request, results -> results).getBytes(StandardCharsets.UTF_8);
            exchange.sendResponseHeaders(200, bytes.length);
            exchange.getResponseBody().write(bytes, 0, bytes.length / 2);
            exchange.getResponseBody().flush();
        };
        String body = body(query(MATCH), "\"from\": 3", "\"size\": 5");
        Map<String, Object> hooked = hooked(body);
        HookReport report = report(hooked);
        assertTrue(report.toString(), report.reason() == Reason.BAD_REPLY || report.reason() == Reason.SIDECAR_ERROR);
        assertEquals(comparable(search(INDEX, "", body)), comparable(hooked));
    }

    public void testOtherFailures() throws IOException {
        assertFailsOpen(Reason.SIDECAR_OVERLOADED, (exchange, request) -> StubSidecar.send(exchange, 429, "{}"));
        assertFailsOpen(Reason.SIDECAR_ERROR, (exchange, request) -> StubSidecar.send(exchange, 500, "{}"));
        assertFailsOpen(Reason.CONTRACT_MISMATCH, (exchange, request) -> StubSidecar.send(exchange, 409, "{}"));
        assertFailsOpen(
            Reason.CONTRACT_MISMATCH,
            (exchange, request) -> StubSidecar.send(
                exchange,
                200,
                StubSidecar.reply(request, results -> results).replace("\"contract\": 1", "\"contract\": 2")
            )
        );
        stub.token = "another";
        assertFailsOpen(Reason.SIDECAR_UNAUTHORIZED, StubSidecar::reverse);
    }

    public void testPartial() throws IOException {
        stub.behaviour = (exchange, request) -> StubSidecar.send(
            exchange,
            200,
            StubSidecar.reply(request, results -> with(results, 4, results.get(4).replace("\"maxsim\": 0.25", "\"maxsim\": null")))
        );
        Map<String, Object> hooked = hooked(body(query(MATCH)));
        assertReport(Status.PARTIAL, Reason.TOKENS_MISSING, hooked);
        assertTrue(report(hooked).message(), report(hooked).message().startsWith("1 of 60 "));
    }

    public void testDeadline() throws IOException {
        String body = body(query(MATCH), "\"from\": 3", "\"size\": 5");
        Map<String, Object> untouched = search(INDEX, "", body);
        stub.hold();
        withSetting("pincite.deadline_ms", "300", () -> {
            long start = System.nanoTime();
            Map<String, Object> hooked = hooked(body);
            long elapsedMs = (System.nanoTime() - start) / 1_000_000;
            assertReport(Status.UNAVAILABLE, Reason.SIDECAR_TIMEOUT, hooked);
            assertEquals(comparable(untouched), comparable(hooked));
            HookReport report = report(hooked);
            assertTrue(report.toString(), report.tookMs() >= 290 && report.tookMs() < 10_000);
            assertTrue("took " + hooked.get("took"), ((Number) hooked.get("took")).longValue() >= 290);
            assertTrue("elapsed " + elapsedMs, elapsedMs < 10_000);
            assertTrue(stub.lastRequest.deadlineMs() <= 300);
        });
        stub.reset();
        assertReport(Status.APPLIED, null, hooked(body));
    }

    public void testHeadersInTimeAndBodyTooLate() throws IOException {
        withSetting("pincite.deadline_ms", "300", () -> assertFailsOpen(Reason.SIDECAR_TIMEOUT, (exchange, request) -> {
            exchange.sendResponseHeaders(200, 0);
            exchange.getResponseBody().write('{');
            exchange.getResponseBody().flush();
            try {
                Thread.sleep(1500);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }));
    }

    public void testSidecarGoneAndBack() throws Exception {
        String body = body(query(MATCH));
        assertReport(Status.APPLIED, null, hooked(body));
        stub.stop();
        try {
            Map<String, Object> hooked = hooked(body);
            assertReport(Status.UNAVAILABLE, Reason.SIDECAR_UNREACHABLE, hooked);
            assertEquals(comparable(search(INDEX, "", body)), comparable(hooked));
        } finally {
            stub.start();
        }
        assertReport(Status.APPLIED, null, hooked(body));
    }

    /** Many searches on one node while the sidecar hangs: none waits for another, all answer. */
    public void testManySearchesWhileTheSidecarHangs() throws Exception {
        stub.hold();
        withSetting("pincite.deadline_ms", "1000", () -> {
            Client client = internalCluster().client(internalCluster().getNodeNames()[0]);
            long start = System.nanoTime();
            List<ActionFuture<SearchResponse>> answers = new ArrayList<>();
            for (int i = 0; i < 60; i++) {
                SearchRequest request = new SearchRequest(INDEX).source(
                    new SearchSourceBuilder().query(QueryBuilders.matchQuery("text", "tenant")).size(2)
                );
                request.pipeline("pincite");
                answers.add(client.search(request));
            }
            for (ActionFuture<SearchResponse> answer : answers) {
                SearchResponse response = answer.actionGet();
                assertEquals(2, response.getHits().getHits().length);
                PinciteExt ext = (PinciteExt) response.getInternalResponse().getSearchExtBuilders().get(0);
                assertEquals(Reason.SIDECAR_TIMEOUT, ext.report().reason());
            }
            // Each would hold a search thread for a second if it blocked.
            int threads = internalCluster().getInstance(ThreadPool.class).info(ThreadPool.Names.SEARCH).getMax();
            long elapsedMs = (System.nanoTime() - start) / 1_000_000;
            assertTrue(threads + " threads, elapsed " + elapsedMs, elapsedMs < 60_000 / threads);
        });
    }

    public void testMoreFailures() throws IOException {
        assertFailsOpen(Reason.SIDECAR_ERROR, (exchange, request) -> StubSidecar.send(exchange, 503, "{}"));
        // A redirect is not followed: the token would go with it.
        assertFailsOpen(Reason.SIDECAR_ERROR, (exchange, request) -> {
            exchange.getResponseHeaders().set("Location", stub.url() + SidecarClient.RERANK);
            StubSidecar.send(exchange, 307, "{}");
        });
        assertFailsOpen(Reason.BAD_REPLY, (exchange, request) -> {
            byte[] much = new byte[SidecarClient.MAX_REPLY_BYTES + 1];
            Arrays.fill(much, (byte) ' ');
            exchange.sendResponseHeaders(200, much.length);
            exchange.getResponseBody().write(much);
        });
        withSetting("pincite.deadline_ms", "400", () -> assertFailsOpen(Reason.SIDECAR_TIMEOUT, (exchange, request) -> {
            byte[] bytes = StubSidecar.reply(request, results -> results).getBytes(StandardCharsets.UTF_8);
            exchange.sendResponseHeaders(200, bytes.length);
            for (byte b : bytes) {
                exchange.getResponseBody().write(b);
                exchange.getResponseBody().flush();
                try {
                    Thread.sleep(50);
                } catch (InterruptedException e) {
                    Thread.currentThread().interrupt();
                    return;
                }
            }
        }));
    }

    public void testTheBreakerOpensAndCloses() throws Exception {
        stub.behaviour = (exchange, request) -> StubSidecar.send(exchange, 500, "{}");
        String body = body(query(MATCH), "\"from\": 3", "\"size\": 5");
        withSetting("pincite.breaker.open_ms", "3600000", () -> withSetting("pincite.breaker.failures", "2", () -> {
            // Each node has its own; the requests go to the nodes in turn.
            for (int i = 0; i < 9; i++) {
                hooked(body);
            }
            int calls = stub.calls.get();
            Map<String, Object> hooked = hooked(body);
            assertReport(Status.UNAVAILABLE, Reason.BREAKER_OPEN, hooked);
            assertEquals(comparable(search(INDEX, "", body)), comparable(hooked));
            assertEquals(calls, stub.calls.get());
            assertEquals(Map.of("rerank", List.of("open"), "legs", List.of("closed")), call("GET", "/_pincite/stats", null).get("breakers"));
        }));
        stub.reset();
        withSetting("pincite.breaker.open_ms", "1", () -> {
            for (int i = 0; i < 3; i++) {
                hooked(body);
            }
        });
        for (int i = 0; i < 3; i++) {
            assertReport(Status.APPLIED, null, hooked(body));
        }
    }

    public void testInFlightLimit() throws Exception {
        stub.hold();
        withSetting("pincite.legs.knn", "false", () -> withSetting("pincite.legs.centroids", "false", () -> {
            withSetting("pincite.in_flight.max", "1", () -> {
                Client client = internalCluster().client(internalCluster().getNodeNames()[0]);
                List<ActionFuture<SearchResponse>> answers = new ArrayList<>();
                for (int i = 0; i < 4; i++) {
                    SearchRequest request = new SearchRequest(INDEX).source(
                        new SearchSourceBuilder().query(QueryBuilders.matchQuery("text", "tenant")).size(2)
                    );
                    request.pipeline("pincite");
                    answers.add(client.search(request));
                }
                int overloaded = 0;
                // Three do not wait; the one that does goes on when the sidecar does.
                long end = System.nanoTime() + 15_000_000_000L;
                while (answers.stream().filter(ActionFuture::isDone).count() < 3 && System.nanoTime() < end) {
                    Thread.onSpinWait();
                }
                stub.release();
                for (ActionFuture<SearchResponse> answer : answers) {
                    PinciteExt ext = (PinciteExt) answer.actionGet().getInternalResponse().getSearchExtBuilders().get(0);
                    overloaded += ext.report().reason() == Reason.SIDECAR_OVERLOADED ? 1 : 0;
                }
                assertEquals(3, overloaded);
            });
        }));
    }

    public void testStats() throws IOException {
        long before = applied();
        for (int i = 0; i < 3; i++) {
            assertReport(Status.APPLIED, null, hooked(body(query(MATCH))));
        }
        assertEquals(before + 3, applied());
        Map<String, Object> stats = call("GET", "/_pincite/stats", null);
        assertEquals(0, stats.get("in_flight"));
        assertEquals(Reason.values().length, object(stats.get("reasons")).size());
        Map<String, Object> rerank = object(object(stats.get("sidecar_calls")).get("rerank"));
        assertTrue(rerank.toString(), ((Number) rerank.get("count")).longValue() > 0);
        assertNotNull(rerank.get("at_most_ms"));
        assertFalse(stats.toString(), stats.toString().contains("127.0.0.1"));
    }

    /** The sum over the nodes: a client asks them in turn. */
    private static long applied() throws IOException {
        Map<String, Long> byNode = new HashMap<>();
        for (int i = 0; i < 12 && byNode.size() < 3; i++) {
            Map<String, Object> stats = call("GET", "/_pincite/stats", null);
            byNode.put((String) stats.get("node"), ((Number) object(stats.get("searches")).get("applied")).longValue());
        }
        assertEquals(3, byNode.size());
        return byNode.values().stream().mapToLong(Long::longValue).sum();
    }
}
