package org.pincite.opensearch;

import org.opensearch.action.search.SearchRequest;
import org.opensearch.index.query.QueryBuilder;
import org.opensearch.index.query.QueryBuilders;
import org.opensearch.plugins.Plugin;
import org.opensearch.search.builder.SearchSourceBuilder;
import org.opensearch.test.OpenSearchIntegTestCase.ClusterScope;
import org.opensearch.test.OpenSearchIntegTestCase.Scope;
import org.junit.Before;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.stream.IntStream;
import java.util.stream.Stream;

/** The k-NN and the centroid leg on three nodes, beside the client's query. */
@ClusterScope(scope = Scope.SUITE, numDataNodes = 3, numClientNodes = 0, supportsDedicatedMasters = false)
public class LegsIT extends HookTestCase {
    private static final String CODED = "coded";
    /** The ten documents d6 to d15. */
    private static final String KNN = "{\"field\": \"vector\", \"vector\": [10], \"k\": 10}";
    /** The twelve documents whose number is one more than a multiple of five. */
    private static final String CENTROIDS = """
        {"k": 200, "query": {"bool": {"should": [{"dis_max": {"tie_breaker": 0.0, "queries": [
          {"constant_score": {"filter": {"term": {"centroids": "c1"}}, "boost": 0.81}}]}}]}}}""";
    private static final List<String> BM25_FIRST = IntStream.range(0, 30).mapToObj(i -> "d" + (58 - 2 * i)).toList();

    @Override
    protected Collection<Class<? extends Plugin>> nodePlugins() {
        return Stream.concat(super.nodePlugins().stream(), Stream.of(FakeKnn.class)).toList();
    }

    /** Even documents are about tenants, the more so the higher their number; odd ones are about landlords. */
    @Before
    public void setUpCoded() throws IOException {
        call("PUT", "/" + CODED, """
            {"settings": {"index": {"number_of_shards": 3, "number_of_replicas": 0}},
             "mappings": {"_meta": {"pincite": {"encoder": "stub"}}, "properties": {
               "text": {"type": "text"}, "acl": {"type": "keyword"}, "page": {"type": "integer"},
               "vector": {"type": "float"}, "centroids": {"type": "keyword"}, "tokens": {"type": "keyword", "store": true}}}}""");
        StringBuilder bulk = new StringBuilder();
        for (int i = 0; i < N_DOCS; i++) {
            String text = (i % 2 == 0 ? "tenant " : "landlord ").repeat(i + 1) + "clause ".repeat(N_DOCS - i);
            bulk.append(
                String.format(
                    Locale.ROOT,
                    "{\"index\": {\"_id\": \"d%d\"}}%n{\"text\": \"%s\", \"acl\": \"%s\", \"page\": %d, \"vector\": %d,"
                        + " \"centroids\": [\"c%d\"], \"tokens\": \"codecode%d\"}%n",
                    i,
                    text.strip(),
                    i % 3 == 0 ? "closed" : "open",
                    i,
                    i,
                    i % 5,
                    i
                )
            );
        }
        assertEquals(false, call("POST", "/" + CODED + "/_bulk?refresh=true", bulk.toString()).get("errors"));
        stub.legs(KNN, CENTROIDS);
    }

    private static Map<String, Object> coded(String... parts) throws IOException {
        // One order of equal terms' statistics on every shard.
        return search(CODED, "?search_pipeline=pincite&search_type=dfs_query_then_fetch", body(parts));
    }

    private static HookReport.Leg leg(Map<String, Object> response, String name) {
        return report(response).legs().stream().filter(leg -> leg.name().equals(name)).findFirst().orElseThrow();
    }

    private static void assertLegs(LegReason knn, LegReason centroids, Map<String, Object> response) {
        assertEquals(List.of("bm25", "knn", "centroids"), report(response).legs().stream().map(HookReport.Leg::name).toList());
        assertNull(leg(response, "bm25").reason());
        assertEquals(knn, leg(response, "knn").reason());
        assertEquals(centroids, leg(response, "centroids").reason());
    }

    private static List<String> sentIds() {
        return stub.lastRequest.candidates().stream().map(RerankRequest.Candidate::id).toList();
    }

    public void testEveryLegContributes() throws IOException {
        Map<String, Object> hooked = coded(query(MATCH), "\"size\": 100");
        assertReport(Status.APPLIED, null, hooked);
        assertLegs(null, null, hooked);
        List<String> sent = sentIds();
        assertEquals(40, sent.size());
        assertEquals(BM25_FIRST, sent.subList(0, 30));
        assertEquals(Set.of("d7", "d9", "d11", "d13", "d15"), new HashSet<>(sent.subList(30, 35)));
        assertEquals(Set.of("d1", "d21", "d31", "d41", "d51"), new HashSet<>(sent.subList(35, 40)));
        assertEquals(reversed(sent), ids(hooked));
        for (RerankRequest.Candidate candidate : stub.lastRequest.candidates()) {
            int i = Integer.parseInt(candidate.id().substring(1));
            assertEquals(candidate.id(), i % 2 == 0, candidate.bm25() != null);
            assertEquals(candidate.id(), i >= 6 && i <= 15, candidate.knn() != null);
            assertEquals(candidate.id(), i % 5 == 1, candidate.centroids() != null);
        }
        HookReport report = report(hooked);
        assertEquals(4, report.nKnnOnly());
        assertEquals(new HookReport.Leg("bm25", 30, 20, 0, null), without(leg(hooked, "bm25")));
        assertEquals(new HookReport.Leg("knn", 10, 4, 0, null), without(leg(hooked, "knn")));
        assertEquals(new HookReport.Leg("centroids", 12, 5, 0, null), without(leg(hooked, "centroids")));
        HookReport.Hit d11 = report.hits().stream().filter(hit -> hit.id().equals("d11")).findFirst().orElseThrow();
        assertNotNull(d11.scores().get("knn"));
        assertEquals(0.81, d11.scores().get("centroids"), 1e-6);
        assertEquals(Map.of("query", "tenant", "k", 200, "deadline_ms", 20_000), stub.lastLegs);
    }

    private static HookReport.Leg without(HookReport.Leg leg) {
        return new HookReport.Leg(leg.name(), leg.nHits(), leg.nOnly(), 0, leg.reason());
    }

    /** The first of the promises: totals, aggregations and what else is not a hit are the client's own. */
    public void testTheRestOfTheResponseIsTheClients() throws IOException {
        String[] parts = {
            query(MATCH),
            "\"aggs\": {\"p\": {\"avg\": {\"field\": \"page\"}}}",
            "\"suggest\": {\"s\": {\"text\": \"tenantt\", \"term\": {\"field\": \"text\"}}}",
            "\"track_total_hits\": true",
            "\"size\": 60" };
        Map<String, Object> untouched = search(CODED, "?search_type=dfs_query_then_fetch", body(parts));
        Map<String, Object> hooked = coded(parts);
        assertReport(Status.APPLIED, null, hooked);
        assertEquals(withoutHits(untouched), withoutHits(hooked));
        assertEquals(30, hits(untouched).size());
        assertEquals(40, hits(hooked).size());
    }

    public void testAHitOfALegIsWhole() throws IOException {
        String[] how = {
            "\"fields\": [\"page\"]",
            "\"docvalue_fields\": [\"acl\"]",
            "\"_source\": [\"text\", \"page\"]",
            "\"version\": true",
            "\"seq_no_primary_term\": true",
            "\"highlight\": {\"fields\": {\"text\": {}}}",
            "\"size\": 100" };
        String either = query("{\"match\": {\"text\": \"tenant\"}}");
        Map<String, Object> hooked = coded(Stream.concat(Stream.of(either), Stream.of(how)).toArray(String[]::new));
        Map<String, Map<String, Object>> all = new LinkedHashMap<>();
        String every = query("{\"bool\": {\"should\": [{\"match\": {\"text\": \"tenant\"}}, {\"exists\": {\"field\": \"page\"}}]}}");
        Map<String, Object> plain = search(CODED, "", body(Stream.concat(Stream.of(every), Stream.of(how)).toArray(String[]::new)));
        hits(plain).forEach(hit -> all.put((String) hit.get("_id"), hit));
        int fromLegs = 0;
        for (Map<String, Object> hit : hits(hooked)) {
            Map<String, Object> expected = new LinkedHashMap<>(all.get(hit.get("_id")));
            Map<String, Object> got = new LinkedHashMap<>(hit);
            expected.remove("_score");
            if (got.remove("_score") == null) {
                fromLegs++;
                assertFalse(got.containsKey("sort"));
            }
            assertEquals(expected, got);
        }
        assertEquals(10, fromLegs);
    }

    public void testFiltersHoldInEveryLeg() throws IOException {
        String bool = query(
            "{\"bool\": {\"must\": [{\"match\": {\"text\": \"tenant\"}}], \"filter\": [{\"term\": {\"acl\": \"open\"}}],"
                + " \"must_not\": [{\"term\": {\"page\": 11}}]}}"
        );
        Map<String, Object> hooked = coded(bool, "\"post_filter\": {\"range\": {\"page\": {\"lte\": 40}}}", "\"size\": 100");
        assertReport(Status.APPLIED, null, hooked);
        assertLegs(null, null, hooked);
        for (Map<String, Object> hit : hits(hooked)) {
            Map<String, Object> source = object(hit.get("_source"));
            assertEquals("open", source.get("acl"));
            int page = (Integer) source.get("page");
            assertTrue("page " + page, page != 11 && page <= 40);
        }
        assertTrue(ids(hooked).containsAll(List.of("d7", "d13", "d1", "d31")));
        assertFalse(ids(hooked).contains("d41"));
    }

    public void testFiltersThatCannotBeSeparated() throws IOException {
        for (String secret : List.of(
            "{\"function_score\": {\"query\": {\"bool\": {\"must\": {\"match\": {\"text\": \"tenant\"}}, \"filter\": {\"term\": {\"acl\": \"open\"}}}}}}",
            "{\"bool\": {\"must\": [{\"match\": {\"text\": \"tenant\"}}, {\"term\": {\"acl\": \"open\"}}]}}",
            "{\"bool\": {\"must\": [{\"match\": {\"text\": \"tenant\"}}, {\"constant_score\": {\"filter\": {\"term\": {\"acl\": \"open\"}}}}]}}",
            "{\"bool\": {\"must\": [{\"bool\": {\"must\": {\"match\": {\"text\": \"tenant\"}}, \"filter\": {\"term\": {\"acl\": \"open\"}}}}]}}"
        )) {
            Map<String, Object> hooked = coded(query(secret), "\"size\": 100");
            assertReport(Status.APPLIED, null, hooked);
            assertLegs(LegReason.FILTER_NOT_SEPARABLE, LegReason.FILTER_NOT_SEPARABLE, hooked);
            hits(hooked).forEach(hit -> assertEquals("open", object(hit.get("_source")).get("acl")));
        }
        assertEquals(0, stub.legsCalls.get());
    }

    public void testPagesAreDisjointAndCover() throws IOException {
        List<String> whole = ids(coded(query(MATCH), "\"size\": 100"));
        assertEquals(40, whole.size());
        List<String> seen = new ArrayList<>();
        for (int from = 0; from < 49; from += 7) {
            seen.addAll(ids(coded(query(MATCH), "\"from\": " + from, "\"size\": 7")));
        }
        assertEquals(whole, seen);
        Map<String, Object> past = coded(query(MATCH), "\"from\": 40");
        assertReport(Status.SKIPPED, Reason.NO_HITS, past);
        assertEquals(List.of(), ids(past));
    }

    /** Beyond the window the client's hits go on, without those that a leg has brought already. */
    public void testPagesAcrossTheWindowsEnd() throws IOException {
        List<String> seen = new ArrayList<>();
        for (int from = 0; from < 49; from += 7) {
            Map<String, Object> page = search(
                CODED,
                "?search_pipeline=pincite_ten&search_type=dfs_query_then_fetch",
                body(query(MATCH), "\"from\": " + from, "\"size\": 7")
            );
            seen.addAll(ids(page));
        }
        assertEquals(seen.size(), new HashSet<>(seen).size());
        assertTrue(seen.containsAll(BM25_FIRST));
        assertTrue(seen.size() + " hits", seen.size() > 30);
        assertEquals(seen, ids(search(CODED, "?search_pipeline=pincite_ten&search_type=dfs_query_then_fetch", body(query(MATCH), "\"size\": 100"))));
    }

    public void testALegThatFailsIsLeftOut() throws IOException {
        stub.legs("{\"field\": \"text\", \"vector\": [10], \"k\": 10}", CENTROIDS);
        Map<String, Object> hooked = coded(query(MATCH));
        assertReport(Status.APPLIED, null, hooked);
        assertLegs(LegReason.LEG_FAILED, null, hooked);
        stub.legs(KNN, "{\"k\": 200, \"query\": {\"nonsense\": {}}}");
        hooked = coded(query(MATCH));
        assertReport(Status.APPLIED, null, hooked);
        assertLegs(null, LegReason.LEG_FAILED, hooked);
    }

    public void testLegsThatTheSidecarDoesNotHave() throws IOException {
        stub.legs("null", CENTROIDS);
        assertLegs(LegReason.NOT_IN_INDEX, null, coded(query(MATCH)));
        stub.legs(KNN, "null");
        assertLegs(null, LegReason.NOT_IN_INDEX, coded(query(MATCH)));
        stub.legs = (exchange, request) -> StubSidecar.send(exchange, 200, """
            {"contract": 1, "encoder": "e", "took_ms": 1, "reason": "encoder_lacks_language", "knn": null, "centroids": null}""");
        assertLegs(LegReason.ENCODER_LACKS_LANGUAGE, LegReason.ENCODER_LACKS_LANGUAGE, coded(query(MATCH)));
    }

    public void testASidecarThatCannotSayTheLegs() throws IOException {
        List<StubSidecar.LegsBehaviour> ways = List.of(
            (exchange, request) -> StubSidecar.send(exchange, 500, "{}"),
            (exchange, request) -> StubSidecar.send(exchange, 404, "{}"),
            (exchange, request) -> StubSidecar.send(exchange, 429, "{}"),
            (exchange, request) -> StubSidecar.send(exchange, 200, "<html>"),
            (exchange, request) -> StubSidecar.send(exchange, 200, "{\"contract\": 2}"),
            (exchange, request) -> StubSidecar.send(exchange, 200, """
                {"contract": 1, "encoder": "e", "took_ms": 1, "reason": null, "centroids": null,
                 "knn": {"field": "vector", "vector": [1e999], "k": 10}}""")
        );
        for (StubSidecar.LegsBehaviour way : ways) {
            stub.legs = way;
            Map<String, Object> hooked = coded(query(MATCH));
            assertReport(Status.APPLIED, null, hooked);
            assertLegs(LegReason.LEGS_UNAVAILABLE, LegReason.LEGS_UNAVAILABLE, hooked);
        }
    }

    public void testLegsThatAreLate() throws IOException {
        stub.legs = (exchange, request) -> {
            try {
                Thread.sleep(3_000);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        };
        withSetting("pincite.deadline_ms", "1500", () -> {
            Map<String, Object> hooked = coded(query(MATCH));
            assertReport(Status.APPLIED, null, hooked);
            assertLegs(LegReason.LEG_TIMEOUT, LegReason.LEG_TIMEOUT, hooked);
            assertTrue(report(hooked).toString(), report(hooked).tookMs() < 1_500);
        });
    }

    public void testLegsThatAreSwitchedOff() throws IOException {
        withSetting("pincite.legs.knn", "false", () -> assertLegs(LegReason.DISABLED, null, coded(query(MATCH))));
        withSetting("pincite.legs.centroids", "false", () -> assertLegs(null, LegReason.DISABLED, coded(query(MATCH))));
    }

    public void testCollapsedSearchesHaveNoLegs() throws IOException {
        Map<String, Object> hooked = coded(query(MATCH), "\"collapse\": {\"field\": \"acl\"}");
        assertReport(Status.APPLIED, null, hooked);
        assertLegs(LegReason.COLLAPSED, LegReason.COLLAPSED, hooked);
        assertEquals(2, hits(hooked).size());
    }

    public void testHitsOfLegsAlone() throws IOException {
        Map<String, Object> hooked = coded(query("{\"match\": {\"text\": \"sublet\"}}"), "\"size\": 100");
        assertReport(Status.APPLIED, null, hooked);
        assertEquals(20, hits(hooked).size());
        assertEquals(0, object(object(hooked.get("hits")).get("total")).get("value"));
        stub.behaviour = (exchange, request) -> StubSidecar.send(exchange, 500, "{}");
        assertEquals(List.of(), ids(coded(query("{\"match\": {\"text\": \"sublet\"}}"))));
    }

    public void testALegHasNoLegs() throws IOException {
        call("PUT", "/" + CODED + "/_settings", "{\"index.search.default_pipeline\": \"pincite\"}");
        assertReport(Status.APPLIED, null, call("GET", "/" + CODED + "/_search", body(query(MATCH)), "X-Opaque-Id", "ui-8"));
        assertEquals(1, stub.legsCalls.get());
        assertEquals("ui-8", stub.lastLegsOpaqueId);
    }

    /** Whatever a node knows of who calls travels in the thread's context; the two searches have the caller's. */
    public void testLegsAreTheCallers() throws IOException {
        FakeKnn.CALLERS.clear();
        String path = "/" + CODED + "/_search?search_pipeline=pincite";
        assertLegs(null, null, call("GET", path, body(query(MATCH)), "X-Opaque-Id", "ui-9"));
        assertEquals(List.of("ui-9", "ui-9"), FakeKnn.CALLERS);
    }

    /** Where the search looks is where the legs look. */
    public void testRoutingAndAliasHoldInEveryLeg() throws IOException {
        call("POST", "/_aliases", "{\"actions\": [{\"add\": {\"index\": \"coded\", \"alias\": \"coded-all\"}}]}");
        Map<String, Object> hooked = search("coded-all", "?search_pipeline=pincite", body(query(MATCH), "\"size\": 100"));
        assertEquals(40, hits(hooked).size());
        Set<String> onShard = new HashSet<>(
            ids(search(CODED, "?preference=_shards:0", body(query("{\"match_all\": {}}"), "\"size\": 100")))
        );
        hooked = search(CODED, "?search_pipeline=pincite&preference=_shards:0", body(query(MATCH), "\"size\": 100"));
        assertLegs(null, null, hooked);
        assertTrue(onShard.containsAll(ids(hooked)));
        assertTrue(report(hooked).legs().toString(), leg(hooked, "centroids").nHits() < 12);
    }

    /** Its own words for the filter that another processor of the pipeline put around the query are unknown to a leg. */
    public void testLegsOfAQueryThatWasChangedAreDropped() throws Exception {
        QueryBuilder match = QueryBuilders.matchQuery("text", "tenant");
        SearchRequest request = new SearchRequest(CODED).source(new SearchSourceBuilder().query(match));
        Legs.Node node = new Legs.Node(
            WindowProcessorTests.settings("pincite.legs.knn", "false", "pincite.legs.centroids", "false"),
            null,
            new HookStats(),
            null,
            null,
            null,
            null
        );
        Legs legs = Legs.start(node, request, new Ask.Widened(0, 10, false, 200, "tenant"));
        assertTrue(legs.belongTo(request));
        request.source().postFilter(match);
        assertFalse(legs.belongTo(request));
        request.source().postFilter(null).query(QueryBuilders.boolQuery().must(match));
        assertFalse(legs.belongTo(request));
    }

    public void testPointInTime() throws IOException {
        String id = (String) call("POST", "/" + CODED + "/_search/point_in_time?keep_alive=1m", null).get("pit_id");
        Map<String, Object> hooked = call(
            "GET",
            "/_search?search_pipeline=pincite",
            body(query(MATCH), "\"size\": 100", "\"pit\": {\"id\": \"" + id + "\"}")
        );
        assertReport(Status.APPLIED, null, hooked);
        assertLegs(null, null, hooked);
        assertEquals(40, hits(hooked).size());
        call("DELETE", "/_search/point_in_time", "{\"pit_id\": [\"" + id + "\"]}");
    }

    public void testCodesNeverTravel() throws IOException {
        String[] asks = {
            "\"docvalue_fields\": [\"tokens\", \"vector\", \"centroids\", \"page\"]",
            "\"fields\": [\"*\"]",
            "\"stored_fields\": [\"tokens\", \"_source\"]",
            "\"_source\": true",
            "\"_source\": [\"tok*\", \"vector\", \"centroids\", \"page\"]",
            "\"collapse\": {\"field\": \"acl\", \"inner_hits\": {\"name\": \"same\", \"size\": 3, \"docvalue_fields\": [\"tokens\"]}}" };
        for (String ask : asks) {
            for (String more : List.of("\"from\": 0", "\"sort\": [{\"page\": \"asc\"}]", "\"ext\": {\"pincite\": {\"enabled\": false}}")) {
                String all = hits(coded(query(MATCH), "\"size\": 40", ask, more)).toString();
                assertFalse(ask + more, all.contains("codecode") || all.contains("tokens") || all.contains("centroids"));
                assertFalse(ask + more, all.contains("vector"));
                assertTrue(ask + more, all.contains("d58") || all.contains("d0"));
            }
        }
    }
}
