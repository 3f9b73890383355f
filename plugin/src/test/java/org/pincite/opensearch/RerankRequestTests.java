package org.pincite.opensearch;

import org.opensearch.test.OpenSearchTestCase;

import java.nio.charset.StandardCharsets;
import java.util.Collections;
import java.util.List;
import java.util.Map;

public class RerankRequestTests extends OpenSearchTestCase {

    public void testGoldenExamples() throws Exception {
        for (Map.Entry<String, byte[]> example : Contracts.examples("hook_rerank_request", "valid").entrySet()) {
            RerankRequest request = Contracts.readRequest(example.getValue());
            Map<String, Object> expected = Contracts.map(new String(example.getValue(), StandardCharsets.UTF_8));
            expected.putIfAbsent("deadline_ms", RerankRequest.MAX_DEADLINE_MS);
            assertEquals(example.getKey(), expected, Contracts.map(new String(request.toJson(), StandardCharsets.UTF_8)));
        }
        for (Map.Entry<String, byte[]> example : Contracts.examples("hook_rerank_request", "invalid").entrySet()) {
            expectThrows(IllegalArgumentException.class, () -> Contracts.readRequest(example.getValue()));
        }
    }

    public void testLimitsAreTheSchemas() throws Exception {
        Map<?, ?> properties = (Map<?, ?>) Contracts.schema("hook_rerank_request").get("properties");
        assertEquals(RerankRequest.MAX_QUERY_CHARS, ((Map<?, ?>) properties.get("query")).get("maxLength"));
        assertEquals(RerankRequest.MAX_CANDIDATES, ((Map<?, ?>) properties.get("candidates")).get("maxItems"));
        assertEquals(RerankRequest.MAX_DEADLINE_MS, ((Map<?, ?>) properties.get("deadline_ms")).get("maximum"));
    }

    public void testQueryLengthIsInCodePoints() {
        List<RerankRequest.Candidate> one = List.of(new RerankRequest.Candidate("a", 0, 1, 1f, null, null));
        assertNotNull(new RerankRequest("🏠".repeat(8192), 1, one));
        expectThrows(IllegalArgumentException.class, () -> new RerankRequest("🏠".repeat(8193), 1, one));
    }

    public void testWhatNoCandidateMayBe() {
        for (float score : new float[] { Float.NaN, Float.POSITIVE_INFINITY }) {
            expectThrows(IllegalArgumentException.class, () -> new RerankRequest.Candidate("a", 0, 1, score, null, null));
        }
        expectThrows(IllegalArgumentException.class, () -> new RerankRequest.Candidate("a", -2, 0, 1f, null, null));
        expectThrows(IllegalArgumentException.class, () -> new RerankRequest.Candidate("", 0, 1, 1f, null, null));
        RerankRequest.Candidate one = new RerankRequest.Candidate("a", 0, 1, 1f, null, null);
        expectThrows(IllegalArgumentException.class, () -> new RerankRequest("q", 1, Collections.nCopies(1001, one)));
    }
}
