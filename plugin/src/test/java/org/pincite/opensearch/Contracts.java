package org.pincite.opensearch;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Stream;

import org.opensearch.common.xcontent.XContentHelper;
import org.opensearch.common.xcontent.json.JsonXContent;

/** The golden examples of {@code contracts/}, which Python reads too. */
final class Contracts {
    private Contracts() {}

    private static Path dir() {
        return Path.of(System.getProperty("pincite.contracts.dir", "../contracts"));
    }

    /** Returns the examples of a schema by file name; fails when there are none. */
    static Map<String, byte[]> examples(String schema, String kind) throws IOException {
        Map<String, byte[]> examples = new TreeMap<>();
        try (Stream<Path> files = Files.list(dir().resolve("examples").resolve(schema).resolve(kind))) {
            for (Path file : (Iterable<Path>) files.filter(f -> f.toString().endsWith(".json"))::iterator) {
                examples.put(file.getFileName().toString(), Files.readAllBytes(file));
            }
        }
        if (examples.isEmpty()) {
            throw new IllegalStateException("no " + kind + " examples of " + schema);
        }
        return examples;
    }

    static Map<String, Object> schema(String name) throws IOException {
        return map(Files.readString(dir().resolve("schemas").resolve(name + ".schema.json")));
    }

    static Map<String, Object> map(String json) {
        return XContentHelper.convertToMap(JsonXContent.jsonXContent, json, true);
    }

    /** Reads a rerank request as strictly as the schema. */
    static RerankRequest readRequest(byte[] json) {
        Fields fields = Fields.parse(json, "request");
        String query = fields.string("query");
        int deadlineMs = fields.has("deadline_ms") ? fields.integer("deadline_ms", 1) : RerankRequest.MAX_DEADLINE_MS;
        var candidates = fields.objects("candidates").stream().map(candidate -> {
            RerankRequest.Candidate read = new RerankRequest.Candidate(
                candidate.string("id"),
                candidate.integer("seq_no", 0),
                candidate.integer("primary_term", 1),
                toFloat(candidate.nullableNumber("bm25")),
                toFloat(candidate.nullableNumber("knn")),
                candidate.has("centroids") ? toFloat(candidate.nullableNumber("centroids")) : null
            );
            candidate.end();
            return read;
        }).toList();
        fields.end();
        return new RerankRequest(query, deadlineMs, candidates);
    }

    private static Float toFloat(Double value) {
        return value == null ? null : value.floatValue();
    }
}
