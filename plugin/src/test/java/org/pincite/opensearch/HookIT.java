package org.pincite.opensearch;

import org.apache.hc.core5.http.io.entity.EntityUtils;
import org.opensearch.client.Request;
import org.opensearch.client.ResponseException;
import org.opensearch.test.OpenSearchIntegTestCase.ClusterScope;
import org.opensearch.test.OpenSearchIntegTestCase.Scope;

import java.io.IOException;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** The hook on three nodes over real REST, with a stub in the sidecar's place. */
@ClusterScope(scope = Scope.SUITE, numDataNodes = 3, numClientNodes = 0, supportsDedicatedMasters = false)
public class HookIT extends HookTestCase {
    /** A search: all of its body but the page, and the page. */
    private record Search(String name, String rest, int from, int size) {
        String body() {
            return HookTestCase.body(rest, "\"from\": " + from, "\"size\": " + size);
        }

        /** The same search for every hit. */
        String all() {
            return HookTestCase.body(rest, "\"size\": 200");
        }
    }

    /** Searches of every kind that is reranked; each must come back as it was but for order, choice, took and ext. */
    private static List<Search> searches() {
        String match = query(MATCH);
        String fields = String.join(
            ", ",
            "\"aggs\": {\"cases\": {\"terms\": {\"field\": \"case_id\"}, \"aggs\": {\"p\": {\"avg\": {\"field\": \"page\"}}}}}",
            "\"highlight\": {\"fields\": {\"text\": {\"number_of_fragments\": 1}}}",
            "\"suggest\": {\"s\": {\"text\": \"tenent\", \"term\": {\"field\": \"text\"}}}",
            "\"docvalue_fields\": [\"page\"]",
            "\"fields\": [\"case_id\"]",
            "\"_source\": [\"page\"]"
        );
        String rescore = """
            "rescore": {"window_size": 20, "query": {"rescore_query":
              {"function_score": {"field_value_factor": {"field": "page"}}}}}""";
        String nested = """
            {"nested": {"path": "parts", "query": {"match": {"parts.text": "tenant"}}, "inner_hits": {}}}""";
        String named = """
            {"bool": {"should": [{"match": {"text": {"query": "tenant", "_name": "n"}}}]}}""";
        return List.of(
            new Search("plain", match, 0, 10),
            new Search("aggregations, highlight, suggest, fields", match + ", " + fields, 0, 10),
            new Search("versions asked for", match + ", \"seq_no_primary_term\": true, \"version\": true", 0, 10),
            new Search("explain", match + ", \"explain\": true", 0, 3),
            new Search("no total", match + ", \"track_total_hits\": false", 0, 10),
            new Search("small total", match + ", \"track_total_hits\": 5", 0, 10),
            new Search("page 2", match, 7, 7),
            new Search("last page", match, 55, 10),
            new Search("sorted by score", match + ", \"sort\": [\"_score\"], \"track_scores\": true", 0, 10),
            new Search("post filter", match + ", \"post_filter\": {\"range\": {\"page\": {\"gte\": 10}}}, \"min_score\": 0.001", 0, 10),
            new Search("terminate after", match + ", \"terminate_after\": 1000, \"timeout\": \"60s\"", 0, 10),
            new Search("rescore", match + ", " + rescore, 0, 10),
            new Search("collapse", match + ", \"collapse\": {\"field\": \"case_id\"}", 0, 4),
            new Search(
                "collapse with inner hits",
                match + ", \"collapse\": {\"field\": \"case_id\", \"inner_hits\": {\"name\": \"more\", \"size\": 2}}",
                2,
                4
            ),
            new Search("nested with inner hits", query(nested), 0, 60),
            new Search("named", query(named), 0, 10),
            new Search("no source, stored fields", match + ", \"_source\": false, \"stored_fields\": [\"case_id\"]", 0, 10)
        );
    }

    public void testEveryOtherFieldIsAsItWas() throws IOException {
        for (Search search : searches()) {
            String name = search.name();
            Map<String, Object> untouched = search(INDEX, "", search.body());
            Map<String, Object> all = search(INDEX, "", search.all());
            Map<String, Object> hooked = hooked(search.body());
            assertReport(Status.APPLIED, null, hooked);
            assertEquals(name, withoutHits(untouched), withoutHits(hooked));
            assertEquals(name, hits(untouched).size(), hits(hooked).size());
            Map<String, Map<String, Object>> byId = new LinkedHashMap<>();
            hits(all).forEach(hit -> byId.put((String) hit.get("_id"), hit));
            for (Map<String, Object> hit : hits(hooked)) {
                assertEquals(name, byId.get(hit.get("_id")), hit);
            }
            int from = search.from();
            assertEquals(name, reversed(ids(all)).subList(from, from + hits(hooked).size()), ids(hooked));
        }
    }

    public void testFailOpenIsTheUntouchedSearch() throws IOException {
        stub.behaviour = (exchange, request) -> StubSidecar.send(exchange, 500, "{}");
        for (Search search : searches()) {
            Map<String, Object> hooked = hooked(search.body());
            assertReport(Status.UNAVAILABLE, Reason.SIDECAR_ERROR, hooked);
            assertEquals(search.name(), comparable(search(INDEX, "", search.body())), comparable(hooked));
        }
        assertEquals(searches().size(), stub.calls.get());
    }

    public void testProfile() throws IOException {
        String body = body(query(MATCH), "\"profile\": true");
        Map<String, Object> untouched = search(INDEX, "", body);
        Map<String, Object> hooked = hooked(body);
        assertReport(Status.APPLIED, null, hooked);
        assertEquals(2, objects(object(hooked.get("profile")).get("shards")).size());
        assertEquals(untouched.keySet(), comparableKeys(hooked));
        assertEquals(object(untouched.get("hits")).get("total"), object(hooked.get("hits")).get("total"));
    }

    private static Set<String> comparableKeys(Map<String, Object> response) {
        Set<String> keys = new HashSet<>(response.keySet());
        keys.remove("ext");
        return keys;
    }

    public void testPhaseTookAndFilterPath() throws IOException {
        Map<String, Object> hooked = search(INDEX, "?search_pipeline=pincite&phase_took=true", body(query(MATCH)));
        assertReport(Status.APPLIED, null, hooked);
        assertTrue(object(hooked.get("phase_took")).containsKey("query"));
        hooked = search(INDEX, "?search_pipeline=pincite&filter_path=ext.pincite.status", body(query(MATCH)));
        assertEquals(Map.of("ext", Map.of("pincite", Map.of("status", "applied"))), hooked);
    }

    public void testPointInTime() throws IOException {
        String pit = (String) call("POST", "/" + INDEX + "/_search/point_in_time?keep_alive=1m", null).get("pit_id");
        try {
            String body = body(query(MATCH), "\"pit\": {\"id\": \"" + pit + "\"}", "\"size\": 5");
            Map<String, Object> untouched = call("GET", "/_search", body);
            Map<String, Object> hooked = call("GET", "/_search?search_pipeline=pincite", body);
            assertReport(Status.APPLIED, null, hooked);
            assertEquals(untouched.get("pit_id"), hooked.get("pit_id"));
            assertEquals(withoutHits(untouched), withoutHits(hooked));
            stub.behaviour = (exchange, request) -> StubSidecar.send(exchange, 503, "{}");
            assertEquals(comparable(untouched), comparable(call("GET", "/_search?search_pipeline=pincite", body)));
        } finally {
            call("DELETE", "/_search/point_in_time", "{\"pit_id\": [\"" + pit + "\"]}");
        }
    }

    public void testWhatIsSent() throws IOException {
        Map<String, Object> all = search(INDEX, "", body(query(MATCH), "\"size\": 200", "\"seq_no_primary_term\": true"));
        Map<String, Object> hooked = call(
            "GET",
            "/" + INDEX + "/_search?search_pipeline=pincite",
            body(query(MATCH), "\"size\": 3"),
            "X-Opaque-Id",
            "ui-7"
        );
        RerankRequest sent = stub.lastRequest;
        assertEquals("tenant", sent.query());
        assertEquals(ids(all), sent.candidates().stream().map(RerankRequest.Candidate::id).toList());
        for (int i = 0; i < N_DOCS; i++) {
            Map<String, Object> hit = hits(all).get(i);
            RerankRequest.Candidate candidate = sent.candidates().get(i);
            assertEquals(((Number) hit.get("_seq_no")).longValue(), candidate.seqNo());
            assertEquals(((Number) hit.get("_primary_term")).longValue(), candidate.primaryTerm());
            assertEquals(((Number) hit.get("_score")).floatValue(), candidate.bm25(), 0f);
            assertNull(candidate.knn());
        }
        assertTrue("deadline_ms " + sent.deadlineMs(), sent.deadlineMs() <= 20_000);
        assertEquals("ui-7", stub.lastHeaders.getFirst("X-Opaque-Id"));

        HookReport report = report(hooked);
        assertEquals(200, report.window());
        assertEquals(N_DOCS, report.nCandidates());
        assertEquals(new HookReport.Model("stub", "reverse"), report.model());
        assertEquals(List.of("maxsim", "sidecar"), report.stages().stream().map(HookReport.Stage::name).toList());
        assertEquals(List.of(1, 2, 3), report.hits().stream().map(HookReport.Hit::rank).toList());
        assertEquals(List.of(60, 59, 58), report.hits().stream().map(HookReport.Hit::firstRank).toList());
        assertEquals(Double.valueOf(59.5), report.hits().get(0).score());
        assertEquals(Double.valueOf(0.25), report.hits().get(0).scores().get("maxsim"));
        assertFalse(hits(hooked).get(0).containsKey("_seq_no"));
        assertEquals(object(all.get("hits")).get("max_score"), object(hooked.get("hits")).get("max_score"));
    }

    public void testPagesAreDisjointAndCover() throws IOException {
        List<String> first = ids(search(INDEX, "", body(query(MATCH), "\"size\": 200")));
        List<String> expected = new ArrayList<>(reversed(first.subList(0, 10)));
        expected.addAll(first.subList(10, N_DOCS));
        List<String> seen = new ArrayList<>();
        for (int from = 0; from < N_DOCS; from += 7) {
            Map<String, Object> page = search(
                INDEX,
                "?search_pipeline=pincite_ten",
                body(query(MATCH), "\"from\": " + from, "\"size\": 7")
            );
            assertReport(Status.APPLIED, null, page);
            assertEquals(10, report(page).nCandidates());
            seen.addAll(ids(page));
        }
        assertEquals(expected, seen);
    }

    public void testAcrossTheWindowsEnd() throws IOException {
        Map<String, Object> page = search(INDEX, "?search_pipeline=pincite_ten", body(query(MATCH), "\"from\": 8", "\"size\": 4"));
        List<HookReport.Hit> hits = report(page).hits();
        assertEquals(List.of(9, 10, 11, 12), hits.stream().map(HookReport.Hit::rank).toList());
        assertEquals(List.of(2, 1, 11, 12), hits.stream().map(HookReport.Hit::firstRank).toList());
        assertNotNull(hits.get(1).score());
        assertNull(hits.get(2).score());
    }

    public void testFromPastTheEnd() throws IOException {
        Map<String, Object> page = hooked(body(query(MATCH), "\"from\": 60"));
        assertReport(Status.SKIPPED, Reason.NO_HITS, page);
        assertEquals(comparable(search(INDEX, "", body(query(MATCH), "\"from\": 60"))), comparable(page));
        page = hooked(body(query("{\"match\": {\"text\": \"nothing\"}}")));
        assertReport(Status.SKIPPED, Reason.NO_HITS, page);
        assertEquals(0, stub.calls.get());
    }

    public void testSearchesThatAreLeftAlone() throws IOException {
        String tooMany = "x".repeat(RerankRequest.MAX_QUERY_CHARS + 1);
        Object[][] cases = {
            { Reason.SIZE_ZERO, body(query(MATCH), "\"size\": 0", "\"aggs\": {\"p\": {\"avg\": {\"field\": \"page\"}}}") },
            { Reason.SORTED, body(query(MATCH), "\"sort\": [{\"page\": \"desc\"}]") },
            { Reason.SORTED, body(query(MATCH), "\"sort\": [{\"_score\": \"asc\"}]") },
            { Reason.SORTED, body(query(MATCH), "\"sort\": [\"_score\", {\"page\": \"desc\"}]") },
            { Reason.SEARCH_AFTER, body(query(MATCH), "\"sort\": [{\"page\": \"desc\"}]", "\"search_after\": [50]") },
            { Reason.NO_QUERY_TEXT, body(query("{\"match_all\": {}}")) },
            { Reason.NO_QUERY_TEXT, body("\"size\": 3") },
            { Reason.NO_QUERY_TEXT, null },
            { Reason.NO_QUERY_TEXT, body(query("{\"term\": {\"case_id\": \"c1\"}}")) },
            {
                Reason.NO_QUERY_TEXT,
                body(query("{\"bool\": {\"should\": [{\"match\": {\"text\": \"tenant\"}}, {\"match\": {\"text\": \"clause\"}}]}}")) },
            { Reason.NO_QUERY_TEXT, body(query("{\"match\": {\"text\": \"tenant " + tooMany + "\"}}")) },
            { Reason.NO_QUERY_TEXT, body(query(MATCH), "\"ext\": {\"pincite\": {\"query\": \" \"}}") },
            { Reason.DISABLED, body(query(MATCH), "\"ext\": {\"pincite\": {\"enabled\": false}}") },
            { Reason.NOT_WIDENED, body(query(MATCH), "\"stored_fields\": \"_none_\"", "\"_source\": false") } };
        for (Object[] c : cases) {
            String body = (String) c[1];
            Map<String, Object> hooked = hooked(body);
            assertReport(Status.SKIPPED, (Reason) c[0], hooked);
            assertEquals(0, report(hooked).window());
            String plain = body == null ? null : body.replaceAll(", \"ext\": .*", "}");
            assertEquals(body, comparable(search(INDEX, "", plain)), comparable(hooked));
        }
        assertEquals(0, stub.calls.get());
    }

    public void testScroll() throws IOException {
        Map<String, Object> page = search(INDEX, "?search_pipeline=pincite&scroll=1m", body(query(MATCH), "\"size\": 40"));
        assertReport(Status.SKIPPED, Reason.SCROLL, page);
        List<String> seen = new ArrayList<>(ids(page));
        String id = (String) page.get("_scroll_id");
        page = call("POST", "/_search/scroll", "{\"scroll\": \"1m\", \"scroll_id\": \"" + id + "\"}");
        seen.addAll(ids(page));
        assertEquals(ids(search(INDEX, "", body(query(MATCH), "\"size\": 200"))), seen);
        call("DELETE", "/_search/scroll", "{\"scroll_id\": \"" + page.get("_scroll_id") + "\"}");
    }

    public void testAlias() throws IOException {
        call("POST", "/_aliases", "{\"actions\": [{\"add\": {\"index\": \"chunks\", \"alias\": \"all-chunks\"}}]}");
        assertReport(Status.APPLIED, null, search("all-chunks", "?search_pipeline=pincite", body(query(MATCH))));
    }

    public void testDisabledNode() throws IOException {
        withSetting("pincite.enabled", "false", () -> assertReport(Status.SKIPPED, Reason.DISABLED, hooked(body(query(MATCH)))));
        assertEquals(0, stub.calls.get());
        assertReport(Status.APPLIED, null, hooked(body(query(MATCH))));
    }

    public void testNodesWindow() throws IOException {
        withSetting("pincite.window", "25", () -> {
            assertEquals(25, report(hooked(body(query(MATCH)))).nCandidates());
            assertEquals(10, report(search(INDEX, "?search_pipeline=pincite_ten", body(query(MATCH)))).nCandidates());
        });
    }

    public void testMaxResultWindow() throws IOException {
        createIndex("/chunks-small", true, ", \"max_result_window\": 20");
        index("chunks-small", N_DOCS);
        // K1 is cut to what the index allows, for every page alike.
        List<String> first = ids(search("chunks-small", "", body(query(MATCH), "\"size\": 20")));
        for (int from = 0; from < 20; from += 10) {
            Map<String, Object> page = search("chunks-small", "?search_pipeline=pincite", body(query(MATCH), "\"from\": " + from));
            assertReport(Status.APPLIED, null, page);
            assertEquals(20, report(page).window());
            assertEquals(reversed(first).subList(from, from + 10), ids(page));
        }
        // Beyond it the client gets the error of its own search.
        String deep = body(query(MATCH), "\"from\": 15");
        ResponseException plain = expectThrows(ResponseException.class, () -> search("chunks-small", "", deep));
        ResponseException hooked = expectThrows(ResponseException.class, () -> search("chunks-small", "?search_pipeline=pincite", deep));
        assertEquals(400, plain.getResponse().getStatusLine().getStatusCode());
        assertEquals(400, hooked.getResponse().getStatusLine().getStatusCode());
        assertReport(
            Status.SKIPPED,
            Reason.WINDOW_TOO_LARGE,
            // One index of the two would refuse the page, but the other has all the hits.
            withLargeWindow()
        );
    }

    private static Map<String, Object> withLargeWindow() throws IOException {
        createIndex("/chunks-large", true, ", \"max_result_window\": 50000");
        return search("chunks-large", "?search_pipeline=pincite", body(query(MATCH), "\"from\": 10000", "\"size\": 10"));
    }

    public void testExtQuery() throws IOException {
        String body = body(query("{\"match_all\": {}}"), "\"ext\": {\"pincite\": {\"query\": \"may the tenant sublet 🏠\"}}");
        assertReport(Status.APPLIED, null, hooked(body));
        assertEquals("may the tenant sublet 🏠", stub.lastRequest.query());
        // Half a surrogate pair is legal JSON and no text.
        assertReport(Status.APPLIED, null, hooked(body(query("{\"match\": {\"text\": \"\\ud83c tenant\"}}"))));
        assertEquals("\uFFFD tenant", stub.lastRequest.query());
        for (String bad : List.of("{\"querry\": \"x\"}", "{\"query\": 7}", "7")) {
            ResponseException e = expectThrows(
                ResponseException.class,
                () -> hooked(body(query(MATCH), "\"ext\": {\"pincite\": " + bad + "}"))
            );
            assertEquals(400, e.getResponse().getStatusLine().getStatusCode());
        }
    }

    public void testIndicesThatAreNotPincites() throws IOException {
        createIndex("/plain", false, "");
        index("plain", 20);
        String body = body(query(MATCH), "\"size\": 70");
        for (String target : List.of("plain", "plain,chunks", "*")) {
            Map<String, Object> hooked = search(target, "?search_pipeline=pincite", body);
            assertReport(Status.SKIPPED, Reason.INDEX_NOT_PINCITE, hooked);
            assertEquals(target, comparable(search(target, "", body)), comparable(hooked));
        }
        // No hit of the other index: nothing is in the way.
        assertReport(
            Status.APPLIED,
            null,
            search("plain,chunks", "?search_pipeline=pincite", body(query("{\"bool\": {\"must\": " + MATCH + ", \"filter\": {\"term\": {\"_index\": \"chunks\"}}}}")))
        );
        ResponseException e = expectThrows(ResponseException.class, () -> search("nowhere", "?search_pipeline=pincite", body));
        assertEquals(404, e.getResponse().getStatusLine().getStatusCode());
    }

    public void testIdsThatAreNotUnique() throws IOException {
        createIndex("/chunks-b", true, "");
        index("chunks-b", N_DOCS);
        String body = body(query(MATCH), "\"size\": 100");
        Map<String, Object> hooked = search("chunks,chunks-b", "?search_pipeline=pincite", body);
        assertReport(Status.SKIPPED, Reason.DUPLICATE_IDS, hooked);
        assertEquals(comparable(search("chunks,chunks-b", "", body)), comparable(hooked));
        assertEquals(0, stub.calls.get());
    }

    public void testDefaultPipeline() throws IOException {
        createIndex("/chunks-default", true, ", \"search.default_pipeline\": \"pincite\"");
        index("chunks-default", N_DOCS);
        assertReport(Status.APPLIED, null, search("chunks-default", "", body(query(MATCH))));
        for (String body : List.of(
            body(query("{\"match_all\": {}}"), "\"from\": 3", "\"size\": 12"),
            body("\"size\": 0", "\"aggs\": {\"p\": {\"avg\": {\"field\": \"page\"}}}"),
            body("\"aggs\": {\"p\": {\"avg\": {\"field\": \"page\"}}}"),
            "{}"
        )) {
            Map<String, Object> plain = search("chunks-default", "?search_pipeline=_none", body);
            assertFalse(plain.containsKey("ext"));
            Map<String, Object> hooked = search("chunks-default", "", body);
            assertEquals(Status.SKIPPED, report(hooked).status());
            assertEquals(body, comparable(plain), comparable(hooked));
        }
        assertEquals(N_DOCS, ((Number) call("GET", "/chunks-default/_count", body(query(MATCH))).get("count")).intValue());
        call("PUT", "/chunks-default/_settings", "{\"index.search.default_pipeline\": null}");
    }

    public void testMsearch() throws IOException {
        String lines = "{\"index\": \"chunks\"}\n"
            + body(query(MATCH), "\"search_pipeline\": \"pincite\"")
            + "\n{\"index\": \"chunks\"}\n"
            + body(query(MATCH))
            + "\n{\"index\": \"chunks\"}\n"
            + body(query("{\"match_all\": {}}"), "\"search_pipeline\": \"pincite\"")
            + "\n";
        Request request = new Request("POST", "/_msearch");
        request.setJsonEntity(lines);
        Map<String, Object> answer;
        try {
            answer = Contracts.map(EntityUtils.toString(getRestClient().performRequest(request).getEntity()));
        } catch (org.apache.hc.core5.http.ParseException e) {
            throw new IOException(e);
        }
        List<Map<String, Object>> responses = objects(answer.get("responses"));
        assertReport(Status.APPLIED, null, responses.get(0));
        assertFalse(responses.get(1).containsKey("ext"));
        assertReport(Status.SKIPPED, Reason.NO_QUERY_TEXT, responses.get(2));
    }

    public void testInlinePipelinesAreRefused() {
        for (String inline : List.of(
            "{\"request_processors\": [{\"pincite_window\": {}}]}",
            "{\"response_processors\": [{\"pincite_rerank\": {}}]}"
        )) {
            ResponseException e = expectThrows(
                ResponseException.class,
                () -> search(INDEX, "", body(query(MATCH), "\"search_pipeline\": " + inline))
            );
            assertEquals(400, e.getResponse().getStatusLine().getStatusCode());
            assertTrue(e.getMessage(), e.getMessage().contains("named search pipeline only"));
        }
        assertEquals(0, stub.calls.get());
    }

    public void testPipelinesHoldNoUrlNorSecret() {
        for (String bad : List.of(
            pipeline("\"url\": \"http://169.254.169.254\"", ""),
            pipeline("\"token\": \"x\"", ""),
            pipeline("\"window\": 0", ""),
            pipeline("\"window\": 1001", ""),
            pipeline("\"window\": \"many\"", ""),
            pipeline("\"window\": null", ""),
            pipeline("", "\"url\": \"http://169.254.169.254\""),
            pipeline("", "\"window\": 10")
        )) {
            ResponseException e = expectThrows(ResponseException.class, () -> call("PUT", "/_search/pipeline/bad", bad));
            assertEquals(bad, 400, e.getResponse().getStatusLine().getStatusCode());
        }
    }

    public void testPipelinesPutTogetherOtherwise() throws IOException {
        String body = body(query(MATCH), "\"from\": 3", "\"size\": 5");
        Map<String, Object> untouched = search(INDEX, "", body);
        List<String> all = ids(search(INDEX, "", body(query(MATCH), "\"size\": 200")));
        Map<String, String> pipelines = new LinkedHashMap<>();
        pipelines.put("no_window", "{\"response_processors\": [{\"pincite_rerank\": {}}]}");
        pipelines.put(
            "twice",
            "{\"request_processors\": [{\"pincite_window\": {}}, {\"pincite_window\": {\"window\": 5}}],"
                + " \"response_processors\": [{\"pincite_rerank\": {}}, {\"pincite_rerank\": {\"ignore_failure\": true}}]}"
        );
        for (Map.Entry<String, String> entry : pipelines.entrySet()) {
            call("PUT", "/_search/pipeline/" + entry.getKey(), entry.getValue());
            Map<String, Object> hooked = search(INDEX, "?search_pipeline=" + entry.getKey(), body);
            if (entry.getKey().equals("no_window")) {
                assertReport(Status.SKIPPED, Reason.NOT_WIDENED, hooked);
                assertEquals(comparable(untouched), comparable(hooked));
            } else {
                assertReport(Status.APPLIED, null, hooked);
                assertEquals(reversed(all).subList(3, 8), ids(hooked));
            }
            call("DELETE", "/_search/pipeline/" + entry.getKey(), null);
        }
    }

    public void testVerbosePipeline() throws IOException {
        Map<String, Object> hooked = search(INDEX, "?search_pipeline=pincite&verbose_pipeline=true", body(query(MATCH)));
        assertReport(Status.APPLIED, null, hooked);
        assertEquals(2, objects(hooked.get("processor_results")).size());
    }
}
