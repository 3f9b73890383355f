package org.pincite.opensearch;

import org.opensearch.common.xcontent.XContentFactory;
import org.opensearch.common.xcontent.json.JsonXContent;
import org.opensearch.core.common.ParsingException;
import org.opensearch.core.common.io.stream.NamedWriteableRegistry;
import org.opensearch.core.xcontent.ToXContent;
import org.opensearch.core.xcontent.XContentBuilder;
import org.opensearch.core.xcontent.XContentParser;
import org.opensearch.search.SearchExtBuilder;
import org.opensearch.test.OpenSearchTestCase;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

public class PinciteExtTests extends OpenSearchTestCase {

    private static PinciteExt parse(String json) throws IOException {
        try (XContentParser parser = JsonXContent.jsonXContent.createParser(null, null, json)) {
            parser.nextToken();
            return PinciteExt.fromXContent(parser);
        }
    }

    private static Map<String, Object> render(PinciteExt ext) throws IOException {
        try (XContentBuilder json = XContentFactory.jsonBuilder()) {
            json.startObject();
            ext.toXContent(json, ToXContent.EMPTY_PARAMS);
            json.endObject();
            return Contracts.map(json.toString());
        }
    }

    private static PinciteExt overTheWire(PinciteExt ext) throws IOException {
        NamedWriteableRegistry registry = new NamedWriteableRegistry(
            List.of(new NamedWriteableRegistry.Entry(SearchExtBuilder.class, PinciteExt.NAME, PinciteExt::new))
        );
        return (PinciteExt) copyNamedWriteable(ext, registry, SearchExtBuilder.class);
    }

    public void testGoldenExamples() throws IOException {
        for (Map.Entry<String, byte[]> example : Contracts.examples("ext_pincite", "valid").entrySet()) {
            String json = new String(example.getValue(), StandardCharsets.UTF_8);
            PinciteExt ext = parse(json);
            Map<String, Object> expected = Contracts.map(json);
            // These four are optional in the schema and always written here.
            expected.putIfAbsent("message", null);
            expected.putIfAbsent("n_knn_only", 0);
            expected.putIfAbsent("legs", List.of());
            expected.putIfAbsent("answer_id", null);
            assertEquals(example.getKey(), Map.of("pincite", expected), render(ext));
            PinciteExt copy = overTheWire(ext);
            assertEquals(ext, copy);
            assertEquals(ext.hashCode(), copy.hashCode());
            assertEquals(render(ext), render(copy));
        }
        for (Map.Entry<String, byte[]> example : Contracts.examples("ext_pincite", "invalid").entrySet()) {
            expectThrows(ParsingException.class, () -> parse(new String(example.getValue(), StandardCharsets.UTF_8)));
        }
    }

    public void testReasonsAndStatusesAreTheSchemas() throws IOException {
        Map<?, ?> properties = (Map<?, ?>) Contracts.schema("ext_pincite").get("properties");
        List<Object> reasons = new ArrayList<>((List<?>) ((Map<?, ?>) properties.get("reason")).get("enum"));
        assertTrue(reasons.remove((Object) null));
        assertEquals(reasons, Arrays.stream(Reason.values()).map(Reason::code).toList());
        Map<?, ?> leg = (Map<?, ?>) ((Map<?, ?>) ((Map<?, ?>) properties.get("legs")).get("items")).get("properties");
        assertEquals(HookReport.Leg.NAMES, ((Map<?, ?>) leg.get("name")).get("enum"));
        List<Object> left = new ArrayList<>((List<?>) ((Map<?, ?>) leg.get("reason")).get("enum"));
        assertTrue(left.remove((Object) null));
        assertEquals(left, Arrays.stream(LegReason.values()).map(LegReason::code).toList());
        assertEquals(((Map<?, ?>) properties.get("status")).get("enum"), Arrays.stream(Status.values()).map(Status::code).toList());
    }

    public void testAHitBeyondTheWindow() throws IOException {
        Map<String, Double> scores = new LinkedHashMap<>();
        scores.put("first_stage", 0.5);
        scores.put("maxsim", null);
        HookReport report = new HookReport(
            Status.PARTIAL,
            Reason.TOKENS_MISSING,
            null,
            10,
            2,
            List.of(new HookReport.Stage("sidecar", 1.5)),
            2.5,
            new HookReport.Model("e", "r"),
            0,
            List.of(
                new HookReport.Leg("bm25", 2, 1, 3.5, null),
                new HookReport.Leg("knn", 0, 0, 1.5, LegReason.LEG_TIMEOUT)
            ),
            "answer",
            List.of(new HookReport.Hit("a", 1, 2, 0.5, scores), new HookReport.Hit("b", 11, 11, null, Map.of()))
        );
        PinciteExt ext = new PinciteExt(report);
        assertEquals(ext, overTheWire(ext));
        assertEquals(report, parse(jsonOf(ext)).report());
    }

    private static String jsonOf(PinciteExt ext) throws IOException {
        try (XContentBuilder json = XContentFactory.jsonBuilder()) {
            json.map(castToMap(render(ext).get("pincite")));
            return json.toString();
        }
    }

    @SuppressWarnings("unchecked")
    private static Map<String, Object> castToMap(Object map) {
        return (Map<String, Object>) map;
    }

    public void testInput() throws IOException {
        assertEquals(new PinciteExt.Input("sublet", true), parse("{\"query\": \"sublet\"}").input());
        assertEquals(new PinciteExt.Input(null, false), parse("{\"enabled\": false}").input());
        assertEquals(PinciteExt.Input.NONE, parse("{}").input());
        PinciteExt ext = new PinciteExt(new PinciteExt.Input("sublet", false));
        assertEquals(ext, overTheWire(ext));
        assertEquals(Map.of("pincite", Map.of("query", "sublet", "enabled", false)), render(ext));
        assertEquals(ext.input(), PinciteExt.inputOf(List.of(ext)));
        assertEquals(PinciteExt.Input.NONE, PinciteExt.inputOf(List.of()));
    }

    public void testWrongInput() {
        for (String bad : List.of("{\"querry\": \"x\"}", "{\"query\": 1}", "{\"enabled\": \"yes\"}", "{\"query\": null}", "[]", "\"x\"", "1")) {
            expectThrows(ParsingException.class, () -> parse(bad));
        }
    }
}
