package org.pincite.opensearch;

import org.opensearch.common.xcontent.XContentFactory;
import org.opensearch.core.common.bytes.BytesReference;
import org.opensearch.core.xcontent.XContentBuilder;

import java.io.IOException;
import java.util.Map;

/**
 * What the sidecar says to search for: {@code contracts/schemas/hook_legs_response.schema.json}, read strictly.
 *
 * @param knn the k-NN leg, or null
 * @param centroids the centroid leg, or null
 * @param reason why there is no leg at all, or null
 */
record LegsReply(Knn knn, Centroids centroids, LegReason reason) {
    static final int MAX_K = 1000;
    static final int MAX_DIMENSION = 4096;

    /** The k nearest of {@code vector} in {@code field}. */
    record Knn(String field, float[] vector, int k) {}

    /** A query over the terms of the nearest centroids, as JSON. */
    record Centroids(String query, int k) {}

    /** Returns the request's JSON: {@code contracts/schemas/hook_legs_request.schema.json}. */
    static byte[] request(String query, int k, int deadlineMs) throws IOException {
        try (XContentBuilder json = XContentFactory.jsonBuilder()) {
            json.startObject().field("query", query).field("k", k).field("deadline_ms", deadlineMs).endObject();
            return BytesReference.toBytes(BytesReference.bytes(json));
        }
    }

    /**
     * Reads a reply of HTTP 200.
     *
     * @throws HookException {@code contract_mismatch} or {@code bad_reply}
     */
    static LegsReply parse(byte[] json) throws HookException {
        try {
            Fields fields = Fields.parse(json, "the sidecar's legs");
            int contract = fields.integer("contract", Integer.MIN_VALUE);
            if (contract != RerankReply.CONTRACT) {
                throw new HookException(Reason.CONTRACT_MISMATCH, "The sidecar speaks contract " + contract + ".");
            }
            fields.string("encoder");
            fields.millis("took_ms");
            String reason = fields.nullableString("reason");
            if (reason != null && reason.equals(LegReason.ENCODER_LACKS_LANGUAGE.code()) == false) {
                throw new IllegalArgumentException("an unknown reason");
            }
            Fields knn = fields.nullableObject("knn");
            Fields centroids = fields.nullableObject("centroids");
            fields.end();
            return new LegsReply(
                knn == null ? null : knn(knn),
                centroids == null ? null : centroids(centroids),
                reason == null ? null : LegReason.of(reason)
            );
        } catch (IllegalArgumentException | IOException e) {
            throw new HookException(Reason.BAD_REPLY, "The legs break the contract.");
        }
    }

    private static Knn knn(Fields fields) {
        String field = fields.string("field");
        float[] vector = fields.floats("vector", MAX_DIMENSION);
        int k = k(fields);
        fields.end();
        if (field.isEmpty() || vector.length == 0) {
            throw new IllegalArgumentException("a k-NN leg without a field or a vector");
        }
        return new Knn(field, vector, k);
    }

    private static Centroids centroids(Fields fields) throws IOException {
        Map<String, Object> query = fields.map("query");
        int k = k(fields);
        fields.end();
        if (query.size() != 1) {
            throw new IllegalArgumentException("a centroid leg without one query");
        }
        try (XContentBuilder json = XContentFactory.jsonBuilder()) {
            return new Centroids(json.map(query).toString(), k);
        }
    }

    private static int k(Fields fields) {
        int k = fields.integer("k", 1);
        if (k > MAX_K) {
            throw new IllegalArgumentException("k is too large");
        }
        return k;
    }
}
