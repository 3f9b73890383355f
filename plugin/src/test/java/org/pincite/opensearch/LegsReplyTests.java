package org.pincite.opensearch;

import org.opensearch.test.OpenSearchTestCase;

import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;

public class LegsReplyTests extends OpenSearchTestCase {

    public void testGoldenExamples() throws Exception {
        Map<String, byte[]> valid = Contracts.examples("hook_legs_response", "valid");
        LegsReply both = LegsReply.parse(valid.get("both.json"));
        assertEquals("vector", both.knn().field());
        assertArrayEquals(new float[] { 0.6f, 0.8f }, both.knn().vector(), 0f);
        assertEquals(200, both.knn().k());
        assertEquals(List.of("bool"), List.copyOf(Contracts.map(both.centroids().query()).keySet()));
        LegsReply none = LegsReply.parse(valid.get("language.json"));
        assertNull(none.knn());
        assertNull(none.centroids());
        assertEquals(LegReason.ENCODER_LACKS_LANGUAGE, none.reason());
        for (Map.Entry<String, byte[]> example : Contracts.examples("hook_legs_response", "invalid").entrySet()) {
            HookException e = expectThrows(HookException.class, () -> LegsReply.parse(example.getValue()));
            assertEquals(example.getKey(), Reason.BAD_REPLY, e.reason());
        }
    }

    public void testTheRequestIsTheContracts() throws Exception {
        Map<?, ?> properties = (Map<?, ?>) Contracts.schema("hook_legs_request").get("properties");
        Map<String, Object> request = Contracts.map(new String(LegsReply.request("sublet 🏠", 200, 900), StandardCharsets.UTF_8));
        assertEquals(Map.of("query", "sublet 🏠", "k", 200, "deadline_ms", 900), request);
        assertTrue(properties.keySet().containsAll(request.keySet()));
        assertEquals(LegsReply.MAX_K, ((Map<?, ?>) properties.get("k")).get("maximum"));
        assertEquals(RerankRequest.MAX_QUERY_CHARS, ((Map<?, ?>) properties.get("query")).get("maxLength"));
    }

    public void testWhatIsNotTheContract() {
        String good = "{\"contract\": 1, \"encoder\": \"e\", \"took_ms\": 1, \"reason\": null, \"centroids\": null,"
            + " \"knn\": {\"field\": \"vector\", \"vector\": [1], \"k\": 1}}";
        for (String bad : List.of(
            "",
            "[]",
            good + "x",
            good.replace("[1]", "[\"1\"]"),
            good.replace("[1]", "[null]"),
            good.replace("[1]", "[1e999]"),
            good.replace("\"k\": 1", "\"k\": 1001"),
            good.replace("\"k\": 1", "\"k\": 0"),
            good.replace("\"field\": \"vector\"", "\"field\": \"\""),
            good.replace("\"encoder\": \"e\",", ""),
            good.replace("\"centroids\": null", "\"centroids\": {\"k\": 1, \"query\": {}}"),
            good.replace("\"centroids\": null", "\"centroids\": null, \"more\": 1")
        )) {
            HookException e = expectThrows(HookException.class, () -> LegsReply.parse(bad.getBytes(StandardCharsets.UTF_8)));
            assertEquals(bad, Reason.BAD_REPLY, e.reason());
        }
        String other = good.replace("\"contract\": 1", "\"contract\": 2");
        HookException e = expectThrows(HookException.class, () -> LegsReply.parse(other.getBytes(StandardCharsets.UTF_8)));
        assertEquals(Reason.CONTRACT_MISMATCH, e.reason());
    }
}
