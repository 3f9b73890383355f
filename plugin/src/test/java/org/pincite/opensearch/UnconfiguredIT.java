package org.pincite.opensearch;

import org.opensearch.action.search.SearchRequest;
import org.opensearch.action.search.SearchResponse;
import org.opensearch.common.xcontent.XContentType;
import org.opensearch.core.common.bytes.BytesArray;
import org.opensearch.action.search.PutSearchPipelineRequest;
import org.opensearch.index.query.QueryBuilders;
import org.opensearch.plugins.Plugin;
import org.opensearch.search.SearchExtBuilder;
import org.opensearch.search.builder.SearchSourceBuilder;
import org.opensearch.test.OpenSearchSingleNodeTestCase;

import java.util.Collection;
import java.util.List;

/** A node on which nothing is set: the plugin starts and leaves searches alone. */
public class UnconfiguredIT extends OpenSearchSingleNodeTestCase {

    @Override
    protected Collection<Class<? extends Plugin>> getPlugins() {
        return List.of(PincitePlugin.class);
    }

    public void testNoSidecarUrl() throws Exception {
        client().admin()
            .cluster()
            .putSearchPipeline(
                new PutSearchPipelineRequest(
                    "pincite",
                    new BytesArray(
                        "{\"request_processors\": [{\"pincite_window\": {}}], \"response_processors\": [{\"pincite_rerank\": {}}]}"
                    ),
                    XContentType.JSON
                )
            )
            .get();
        client().admin()
            .indices()
            .prepareCreate("chunks")
            .setMapping("{\"_meta\": {\"pincite\": {}}, \"properties\": {\"text\": {\"type\": \"text\"}}}")
            .get();
        client().prepareIndex("chunks").setId("a").setSource("{\"text\": \"tenant\"}", XContentType.JSON).get();
        client().admin().indices().prepareRefresh("chunks").get();

        SearchRequest request = new SearchRequest("chunks").source(
            new SearchSourceBuilder().query(QueryBuilders.matchQuery("text", "tenant"))
        );
        request.pipeline("pincite");
        SearchResponse response = client().search(request).get();
        assertEquals(1, response.getHits().getHits().length);
        List<SearchExtBuilder> exts = response.getInternalResponse().getSearchExtBuilders();
        assertEquals(1, exts.size());
        assertEquals(Reason.SIDECAR_NOT_CONFIGURED, ((PinciteExt) exts.get(0)).report().reason());
    }
}
