package org.pincite.opensearch;

import org.opensearch.Version;
import org.opensearch.action.search.SearchRequest;
import org.opensearch.cluster.ClusterName;
import org.opensearch.cluster.ClusterState;
import org.opensearch.cluster.metadata.IndexMetadata;
import org.opensearch.cluster.metadata.IndexNameExpressionResolver;
import org.opensearch.cluster.metadata.Metadata;
import org.opensearch.common.settings.ClusterSettings;
import org.opensearch.common.settings.Settings;
import org.opensearch.common.util.concurrent.ThreadContext;
import org.opensearch.core.action.ActionListener;
import org.opensearch.core.common.io.stream.NamedWriteableRegistry;
import org.opensearch.index.query.QueryBuilders;
import org.opensearch.search.builder.SearchSourceBuilder;
import org.opensearch.search.pipeline.PipelineProcessingContext;
import org.opensearch.test.OpenSearchTestCase;

import java.lang.reflect.Method;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.atomic.AtomicReference;

public class WindowProcessorTests extends OpenSearchTestCase {

    /** A cluster with the indices {@code chunks} (alias {@code all-chunks}) and {@code plain}. */
    static ClusterState cluster() throws Exception {
        Settings settings = Settings.builder()
            .put(IndexMetadata.SETTING_VERSION_CREATED, Version.CURRENT)
            .put(IndexMetadata.SETTING_NUMBER_OF_SHARDS, 1)
            .put(IndexMetadata.SETTING_NUMBER_OF_REPLICAS, 0)
            .build();
        IndexMetadata chunks = IndexMetadata.builder("chunks")
            .settings(Settings.builder().put(settings).put(IndexMetadata.SETTING_INDEX_UUID, "u1"))
            .putMapping("{\"_doc\": {\"_meta\": {\"pincite\": {\"encoder\": \"e\"}}}}")
            .putAlias(org.opensearch.cluster.metadata.AliasMetadata.builder("all-chunks"))
            .build();
        IndexMetadata plain = IndexMetadata.builder("plain")
            .settings(Settings.builder().put(settings).put(IndexMetadata.SETTING_INDEX_UUID, "u2"))
            .putMapping("{\"_doc\": {\"_meta\": {\"pincite\": \"not an object\"}}}")
            .build();
        return ClusterState.builder(ClusterName.DEFAULT).metadata(Metadata.builder().put(chunks, false).put(plain, false)).build();
    }

    static PinciteIndices indices() throws Exception {
        ClusterState state = cluster();
        return new PinciteIndices(
            () -> state,
            new IndexNameExpressionResolver(new ThreadContext(Settings.EMPTY)),
            new NamedWriteableRegistry(List.of())
        );
    }

    static HookSettings settings(String... keyValues) {
        Settings.Builder settings = Settings.builder();
        for (int i = 0; i < keyValues.length; i += 2) {
            settings.put(keyValues[i], keyValues[i + 1]);
        }
        return new HookSettings(settings.build(), new ClusterSettings(settings.build(), new HashSet<>(HookSettings.all())));
    }

    private static Object process(PinciteIndices indices, SearchRequest request, Integer window) {
        PipelineProcessingContext context = new PipelineProcessingContext();
        HookSettings settings = settings("pincite.sidecar.urls", "http://127.0.0.1:1");
        AtomicReference<SearchRequest> passedOn = new AtomicReference<>();
        new WindowProcessor("t", null, false, window, settings, indices, null).processRequestAsync(
            request,
            context,
            ActionListener.wrap(passedOn::set, e -> { throw new AssertionError(e); })
        );
        assertSame(request, passedOn.get());
        return context.getAttribute(Ask.ATTRIBUTE);
    }

    private static SearchRequest request(String... indices) {
        return new SearchRequest(indices).source(new SearchSourceBuilder().query(QueryBuilders.matchQuery("text", "sublet")));
    }

    private static void assertSkipped(Reason reason, Object ask) {
        assertEquals(reason, ((Ask.Skipped) ask).reason());
    }

    public void testWidens() throws Exception {
        for (String target : List.of("chunks", "all-chunks", "chunk*", "_all")) {
            SearchRequest request = request(target);
            assertEquals(new Ask.Widened(0, 10, false, 200, "sublet"), process(indices(), request, null));
            assertEquals(0, request.source().from());
            assertEquals(200, request.source().size());
            assertTrue(request.source().seqNoAndPrimaryTerm());
        }
        SearchRequest request = request("chunks");
        request.source().from(30).size(25).seqNoAndPrimaryTerm(true);
        assertEquals(new Ask.Widened(30, 25, true, 40, "sublet"), process(indices(), request, 40));
        assertEquals(0, request.source().from());
        assertEquals(55, request.source().size());
    }

    public void testTheLargestPage() throws Exception {
        SearchRequest request = request("chunks");
        request.source().from(9_990).size(10);
        assertEquals(new Ask.Widened(9_990, 10, false, 200, "sublet"), process(indices(), request, null));
        assertEquals(10_000, request.source().size());
        request = request("chunks");
        request.source().from(9_991).size(10);
        assertSkipped(Reason.WINDOW_TOO_LARGE, process(indices(), request, null));
        assertEquals(9_991, request.source().from());
        request = request("chunks");
        request.source().from(Integer.MAX_VALUE).size(Integer.MAX_VALUE);
        assertSkipped(Reason.WINDOW_TOO_LARGE, process(indices(), request, null));
    }

    public void testOtherIndices() throws Exception {
        for (String target : List.of("plain", "nowhere", "elsewhere:chunks", "chunks,elsewhere:*")) {
            SearchRequest request = request(target.split(","));
            assertSkipped(Reason.INDEX_NOT_PINCITE, process(indices(), request, null));
            assertEquals(-1, request.source().size());
            assertNull(request.source().seqNoAndPrimaryTerm());
        }
    }

    public void testNoSource() throws Exception {
        SearchRequest request = request("chunks");
        request.source(new SearchSourceBuilder());
        assertSkipped(Reason.NO_QUERY_TEXT, process(indices(), request, null));
    }

    public void testAFailureInsideLeavesTheSearchAlone() {
        SearchRequest request = request("chunks");
        // Without indices to ask, looking at the search throws a NullPointerException.
        Object ask = process(null, request, null);
        assertTrue(ask.toString(), ask instanceof Ask.Skipped);
        assertEquals(-1, request.source().size());
    }

    public void testTheMappingIsReadAgainWhenItChanges() throws Exception {
        AtomicReference<ClusterState> state = new AtomicReference<>(cluster());
        PinciteIndices indices = new PinciteIndices(
            state::get,
            new IndexNameExpressionResolver(new ThreadContext(Settings.EMPTY)),
            new NamedWriteableRegistry(List.of())
        );
        assertFalse(indices.isPincite("plain"));
        assertTrue(indices.isPincite("chunks"));
        assertFalse(indices.isPincite("nowhere"));
        IndexMetadata changed = IndexMetadata.builder(state.get().metadata().index("plain"))
            .putMapping("{\"_doc\": {\"_meta\": {\"pincite\": {}}}}")
            .mappingVersion(2)
            .build();
        state.set(ClusterState.builder(state.get()).metadata(Metadata.builder(state.get().metadata()).put(changed, true)).build());
        assertTrue(indices.isPincite("plain"));
    }

    public void testAnotherClustersSearchIsLeftAlone() throws Exception {
        Method sub = SearchRequest.class.getDeclaredMethod(
            "subSearchRequest",
            SearchRequest.class,
            String[].class,
            String.class,
            long.class,
            boolean.class
        );
        sub.setAccessible(true);
        SearchRequest request = (SearchRequest) sub.invoke(null, request("chunks"), new String[] { "chunks" }, "east", 0L, false);
        assertTrue(SubSearch.isOne(request));
        assertFalse(SubSearch.isOne(request("chunks")));
        assertEquals(new Ask.Done(), process(indices(), request, null));
        assertEquals(-1, request.source().size());
    }

    public void testSettingNames() {
        assertEquals(
            Set.of(
                "pincite.sidecar.urls",
                "pincite.sidecar.token",
                "pincite.deadline_ms",
                "pincite.window",
                "pincite.enabled",
                "pincite.in_flight.max",
                "pincite.breaker.failures",
                "pincite.breaker.open_ms",
                "pincite.legs.knn",
                "pincite.legs.centroids"
            ),
            Set.copyOf(HookSettings.all().stream().map(org.opensearch.common.settings.Setting::getKey).toList())
        );
    }
}
