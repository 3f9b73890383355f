package org.pincite.opensearch;

import org.apache.hc.core5.http.io.entity.EntityUtils;
import org.opensearch.client.Request;
import org.opensearch.client.RequestOptions;
import org.opensearch.client.Response;
import org.opensearch.common.settings.MockSecureSettings;
import org.opensearch.common.settings.Settings;
import org.opensearch.plugins.Plugin;
import org.opensearch.test.OpenSearchIntegTestCase;
import org.opensearch.transport.Netty4ModulePlugin;
import org.junit.After;
import org.junit.AfterClass;
import org.junit.Before;
import org.junit.BeforeClass;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/** What the tests of the hook share: nodes with the plugin and real REST, indices, a stub in the sidecar's place. */
public abstract class HookTestCase extends OpenSearchIntegTestCase {
    static final int N_DOCS = 60;
    static final String INDEX = "chunks";
    static final String MATCH = "{\"match\": {\"text\": \"tenant\"}}";

    static StubSidecar stub;
    static boolean pipelinesAreThere;

    @BeforeClass
    public static void startStub() throws IOException {
        stub = new StubSidecar();
        stub.start();
        pipelinesAreThere = false;
    }

    @AfterClass
    public static void stopStub() throws InterruptedException {
        stub.stop();
        stub = null;
    }

    @Override
    protected Collection<Class<? extends Plugin>> nodePlugins() {
        return List.of(PincitePlugin.class, Netty4ModulePlugin.class);
    }

    @Override
    protected boolean addMockHttpTransport() {
        return false;
    }

    @Override
    protected Settings nodeSettings(int nodeOrdinal) {
        MockSecureSettings secure = new MockSecureSettings();
        secure.setString("pincite.sidecar.token", StubSidecar.TOKEN);
        return Settings.builder()
            .put(super.nodeSettings(nodeOrdinal))
            .put("http.type", Netty4ModulePlugin.NETTY_HTTP_TRANSPORT_NAME)
            .putList("pincite.sidecar.urls", stub.url().toString())
            // Not the deadline under test: a busy machine must not turn good replies into late ones.
            .put("pincite.deadline_ms", 20_000)
            // Tests of other failures must not open it; its own tests set it.
            .put("pincite.breaker.failures", 1_000_000)
            .setSecureSettings(secure)
            .build();
    }

    @Before
    public void setUpIndices() throws IOException {
        stub.reset();
        if (pipelinesAreThere == false) {
            call("PUT", "/_search/pipeline/pincite", Files.readString(pipelines().resolve("pincite.search.json")));
            call("PUT", "/_search/pipeline/pincite_ten", pipeline("\"window\": 10", ""));
            pipelinesAreThere = true;
        }
        createIndex("/" + INDEX, true, "");
        index(INDEX, N_DOCS);
    }

    @After
    public void releaseStub() {
        stub.reset();
    }

    static Path pipelines() {
        return Path.of(System.getProperty("pincite.pipelines.dir", "../ingest_pipelines"));
    }

    static String pipeline(String window, String rerank) {
        return "{\"request_processors\": [{\"pincite_window\": {"
            + window
            + "}}], \"response_processors\": [{\"pincite_rerank\": {"
            + rerank
            + "}}]}";
    }

    static void createIndex(String path, boolean pincite, String settings) throws IOException {
        String meta = pincite ? "\"_meta\": {\"pincite\": {\"encoder\": \"stub\"}}," : "";
        call("PUT", path, """
            {"settings": {"index": {"number_of_shards": 2, "number_of_replicas": 0%s}},
             "mappings": {%s "properties": {
               "text": {"type": "text"}, "case_id": {"type": "keyword"}, "page": {"type": "integer"},
               "parts": {"type": "nested", "properties": {"text": {"type": "text"}}}}}}""".formatted(settings, meta));
    }

    /** Documents of equal length with another term frequency each, so that no two scores are equal. */
    static void index(String name, int n) throws IOException {
        StringBuilder bulk = new StringBuilder();
        for (int i = 0; i < n; i++) {
            String text = "tenant ".repeat(i + 1) + "clause ".repeat(n - i);
            bulk.append(String.format(Locale.ROOT, "{\"index\": {\"_id\": \"d%d\"}}%n", i));
            bulk.append(
                String.format(
                    Locale.ROOT,
                    "{\"text\": \"%s\", \"case_id\": \"c%d\", \"page\": %d, \"parts\": [{\"text\": \"tenant %d\"}]}%n",
                    text.strip(),
                    i % 7,
                    i,
                    i
                )
            );
        }
        Map<String, Object> answer = call("POST", "/" + name + "/_bulk?refresh=true", bulk.toString());
        assertEquals(false, answer.get("errors"));
    }

    static Map<String, Object> call(String method, String path, String body, String... headers) throws IOException {
        Request request = new Request(method, path);
        if (body != null) {
            request.setJsonEntity(body);
        }
        RequestOptions.Builder options = RequestOptions.DEFAULT.toBuilder();
        for (int i = 0; i < headers.length; i += 2) {
            options.addHeader(headers[i], headers[i + 1]);
        }
        request.setOptions(options);
        Response response = getRestClient().performRequest(request);
        try {
            return Contracts.map(EntityUtils.toString(response.getEntity()));
        } catch (org.apache.hc.core5.http.ParseException e) {
            throw new IOException(e);
        }
    }

    static Map<String, Object> search(String index, String params, String body) throws IOException {
        return call("GET", "/" + index + "/_search" + params, body);
    }

    static Map<String, Object> hooked(String body) throws IOException {
        return search(INDEX, "?search_pipeline=pincite", body);
    }

    @SuppressWarnings("unchecked")
    static Map<String, Object> object(Object value) {
        return (Map<String, Object>) value;
    }

    @SuppressWarnings("unchecked")
    static List<Map<String, Object>> objects(Object value) {
        return (List<Map<String, Object>>) value;
    }

    static List<Map<String, Object>> hits(Map<String, Object> response) {
        return objects(object(response.get("hits")).get("hits"));
    }

    static List<String> ids(Map<String, Object> response) {
        return hits(response).stream().map(hit -> (String) hit.get("_id")).toList();
    }

    /** Returns {@code ext.pincite}, read as strictly as its schema. */
    static HookReport report(Map<String, Object> response) {
        Map<String, Object> ext = object(response.get("ext"));
        assertNotNull("no ext in " + response.keySet(), ext);
        return HookReport.from(Fields.of(object(ext.get("pincite")), "ext.pincite"));
    }

    static void assertReport(Status status, Reason reason, Map<String, Object> response) {
        HookReport report = report(response);
        assertEquals(report.toString(), status, report.status());
        assertEquals(report.toString(), reason, report.reason());
        assertEquals(report.toString(), reason == null, report.message() == null);
        boolean scored = status == Status.APPLIED || status == Status.PARTIAL;
        assertEquals(report.toString(), scored ? ids(response) : List.of(), report.hits().stream().map(HookReport.Hit::id).toList());
    }

    static String body(String... parts) {
        return "{" + String.join(", ", parts) + "}";
    }

    static String query(String json) {
        return "\"query\": " + json;
    }

    static <T> List<T> reversed(List<T> list) {
        List<T> reversed = new ArrayList<>(list);
        Collections.reverse(reversed);
        return reversed;
    }

    /** Everything but ext and times. */
    static Map<String, Object> comparable(Map<String, Object> response) {
        Map<String, Object> rest = new LinkedHashMap<>(response);
        rest.remove("ext");
        rest.remove("took");
        return rest;
    }

    /** Everything but ext, times and the hits themselves. */
    static Map<String, Object> withoutHits(Map<String, Object> response) {
        Map<String, Object> rest = comparable(response);
        Map<String, Object> hits = new LinkedHashMap<>(object(rest.get("hits")));
        hits.remove("hits");
        rest.put("hits", hits);
        return rest;
    }

    interface Body {
        void run() throws IOException;
    }

    static void withSetting(String key, String value, Body body) throws IOException {
        call("PUT", "/_cluster/settings", "{\"persistent\": {\"" + key + "\": " + value + "}}");
        try {
            body.run();
        } finally {
            call("PUT", "/_cluster/settings", "{\"persistent\": {\"" + key + "\": null}}");
        }
    }
}
