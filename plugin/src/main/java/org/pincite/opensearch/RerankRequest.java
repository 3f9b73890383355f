package org.pincite.opensearch;

import org.opensearch.common.xcontent.XContentFactory;
import org.opensearch.core.common.bytes.BytesReference;
import org.opensearch.core.xcontent.XContentBuilder;

import java.io.IOException;
import java.util.List;

/**
 * What the hook asks the sidecar: {@code contracts/schemas/hook_rerank_request.schema.json}.
 *
 * @param query the text to rerank by
 * @param deadlineMs what is left of the search's deadline, in milliseconds
 * @param candidates the hits, in first-stage order
 */
record RerankRequest(String query, int deadlineMs, List<Candidate> candidates) {
    static final int MAX_QUERY_CHARS = 8192;
    static final int MAX_CANDIDATES = 1000;
    static final int MAX_DEADLINE_MS = 60_000;
    static final int MAX_ID_CHARS = 512;

    /**
     * One hit.
     *
     * @param id its {@code _id}
     * @param seqNo its {@code _seq_no}
     * @param primaryTerm its {@code _primary_term}
     * @param bm25 the raw score of the client's own query, null when it has none
     * @param knn the raw score of the k-NN leg, null when that leg did not find it or did not run
     * @param centroids the raw score of the centroid leg, null when that leg did not find it or did not run
     */
    record Candidate(String id, long seqNo, long primaryTerm, Float bm25, Float knn, Float centroids) {
        Candidate {
            if (id == null || id.isEmpty() || id.length() > MAX_ID_CHARS) {
                throw new IllegalArgumentException("a candidate without a usable id");
            }
            if (seqNo < 0 || primaryTerm < 1) {
                throw new IllegalArgumentException("a candidate without its version");
            }
            for (Float score : new Float[] { bm25, knn, centroids }) {
                if (score != null && Float.isFinite(score) == false) {
                    throw new IllegalArgumentException("a candidate with a score that is not finite");
                }
            }
        }
    }

    RerankRequest {
        if (query.isEmpty() || query.codePointCount(0, query.length()) > MAX_QUERY_CHARS) {
            throw new IllegalArgumentException("the query is empty or too long");
        }
        if (deadlineMs < 1 || deadlineMs > MAX_DEADLINE_MS) {
            throw new IllegalArgumentException("the deadline is out of range");
        }
        if (candidates.isEmpty() || candidates.size() > MAX_CANDIDATES) {
            throw new IllegalArgumentException("no candidates or too many");
        }
        candidates = List.copyOf(candidates);
    }

    /** Returns the JSON body, UTF-8. */
    byte[] toJson() throws IOException {
        try (XContentBuilder json = XContentFactory.jsonBuilder()) {
            json.startObject();
            json.field("query", query);
            json.field("deadline_ms", deadlineMs);
            json.startArray("candidates");
            for (Candidate candidate : candidates) {
                json.startObject();
                json.field("id", candidate.id());
                json.field("seq_no", candidate.seqNo());
                json.field("primary_term", candidate.primaryTerm());
                json.field("bm25", candidate.bm25());
                json.field("knn", candidate.knn());
                // The oldest sidecar of this contract does not know the field, so it is not sent in vain.
                if (candidate.centroids() != null) {
                    json.field("centroids", candidate.centroids());
                }
                json.endObject();
            }
            json.endArray();
            json.endObject();
            return BytesReference.toBytes(BytesReference.bytes(json));
        }
    }
}
