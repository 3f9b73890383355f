package org.pincite.opensearch;

import org.opensearch.test.OpenSearchTestCase;

import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;

public class RerankReplyTests extends OpenSearchTestCase {
    private static final String TEMPLATE = """
        {"contract": 1, "model": {"encoder": "e", "reranker": "r"}, "took_ms": 2, "stages": [{"name": "maxsim", "took_ms": 1.5}],
         "results": [%s]}""";

    private static String result(String id, String score) {
        return "{\"id\": \""
            + id
            + "\", \"score\": "
            + score
            + ", \"scores\": {\"first_stage\": 0.5, \"maxsim\": 0.25, \"fused\": null, \"cross_encoder\": null}}";
    }

    private static RerankReply parse(String json, String... ids) throws HookException {
        return RerankReply.parse(json.getBytes(StandardCharsets.UTF_8), List.of(ids));
    }

    private static RerankReply results(List<String> results, String... ids) throws HookException {
        return parse(TEMPLATE.replace("%s", String.join(",", results)), ids);
    }

    private static void assertBad(Reason reason, String json, String... ids) {
        HookException e = expectThrows(HookException.class, () -> parse(json, ids));
        assertEquals(e.getMessage(), reason, e.reason());
    }

    private static void assertBadResults(List<String> results, String... ids) {
        assertBad(Reason.BAD_REPLY, TEMPLATE.replace("%s", String.join(",", results)), ids);
    }

    public void testGoldenExamples() throws Exception {
        Map<String, byte[]> valid = Contracts.examples("hook_rerank_response", "valid");
        RerankReply two = RerankReply.parse(valid.get("two.json"), List.of("a1", "b2"));
        assertEquals(new HookReport.Model("minilm", "identity"), two.model());
        assertEquals(14.2, two.tookMs(), 0);
        assertEquals(List.of("encode_query", "fetch_tokens", "maxsim"), two.stages().stream().map(HookReport.Stage::name).toList());
        assertEquals(List.of(1, 0), two.results().stream().map(RerankReply.Result::position).toList());
        assertEquals(0.91, two.results().get(0).score(), 0);
        assertEquals(Double.valueOf(0.66), two.results().get(0).scores().get("maxsim"));
        assertNull(two.results().get(0).scores().get("cross_encoder"));
        assertEquals(0, two.nWithoutTokens());
        assertEquals(1, RerankReply.parse(valid.get("no_tokens.json"), List.of("b2")).nWithoutTokens());

        for (Map.Entry<String, byte[]> example : Contracts.examples("hook_rerank_response", "invalid").entrySet()) {
            HookException e = expectThrows(HookException.class, () -> RerankReply.parse(example.getValue(), List.of("b2")));
            Reason expected = example.getKey().equals("other_contract.json") ? Reason.CONTRACT_MISMATCH : Reason.BAD_REPLY;
            assertEquals(example.getKey(), expected, e.reason());
        }
    }

    public void testTiesKeepTheFirstStagesOrder() throws Exception {
        RerankReply reply = results(List.of(result("c", "0.5"), result("a", "0.5"), result("b", "0.5"), result("d", "0.1")), "a", "b", "c", "d");
        assertEquals(List.of(0, 1, 2, 3), reply.results().stream().map(RerankReply.Result::position).toList());
        // 0.0 and -0.0 are one score.
        reply = results(List.of(result("b", "0.0"), result("a", "-0.0")), "a", "b");
        assertEquals(List.of(0, 1), reply.results().stream().map(RerankReply.Result::position).toList());
    }

    public void testNotAPermutation() {
        assertBadResults(List.of(result("a", "1")), "a", "b");
        assertBadResults(List.of(result("a", "1"), result("a", "0.5")), "a", "b");
        assertBadResults(List.of(result("a", "1"), result("x", "0.5")), "a", "b");
        assertBadResults(List.of(result("a", "1"), result("b", "0.5"), result("c", "0.1")), "a", "b");
    }

    public void testScoresThatAreNone() {
        for (String score : List.of("null", "NaN", "\"NaN\"", "Infinity", "1e999", "\"0.5\"", "true", "[1]")) {
            assertBadResults(List.of(result("a", score)), "a");
        }
        assertBadResults(List.of(result("a", "1").replace("0.25", "NaN")), "a");
        assertBadResults(List.of(result("a", "1").replace("0.25", "1e999")), "a");
    }

    public void testNotSorted() {
        assertBadResults(List.of(result("a", "0.5"), result("b", "0.6")), "a", "b");
    }

    public void testWhatIsNotTheContract() {
        String good = TEMPLATE.replace("%s", result("a", "1"));
        for (String bad : List.of(
            "",
            "null",
            "[]",
            "<html>",
            good.substring(0, good.length() / 2),
            good + "x",
            good + good,
            good.replace("\"took_ms\": 2,", ""),
            good.replace("\"took_ms\": 2,", "\"took_ms\": -1,"),
            good.replace("\"took_ms\": 2,", "\"took_ms\": 2, \"extra\": 1,"),
            good.replace("\"took_ms\": 2,", "\"took_ms\": 2, \"took_ms\": 2,"),
            good.replace("\"contract\": 1,", ""),
            good.replace("\"contract\": 1", "\"contract\": \"1\""),
            good.replace("\"contract\": 1", "\"contract\": 1.5"),
            good.replace("\"encoder\": \"e\"", "\"encoder\": null"),
            good.replace("\"id\": \"a\"", "\"id\": 1"),
            good.replace("\"maxsim\": 0.25,", ""),
            good.replace("\"maxsim\": 0.25,", "\"maxsim\": 0.25, \"colour\": 1,"),
            "[".repeat(100_000)
        )) {
            assertBad(Reason.BAD_REPLY, bad, "a");
        }
        assertBad(Reason.CONTRACT_MISMATCH, good.replace("\"contract\": 1", "\"contract\": 2"), "a");
    }

    public void testMessagesHoldNoText() {
        HookException e = expectThrows(
            HookException.class,
            () -> results(List.of(result("secret passage", "1"), result("b", "\"secret query\"")), "a", "b")
        );
        assertFalse(e.getMessage(), e.getMessage().contains("secret"));
    }
}
