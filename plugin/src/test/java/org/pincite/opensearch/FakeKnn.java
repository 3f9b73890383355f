package org.pincite.opensearch;

import org.opensearch.action.ActionRequest;
import org.opensearch.action.search.SearchRequest;
import org.opensearch.action.support.ActionFilter;
import org.opensearch.action.support.ActionFilterChain;
import org.opensearch.common.lucene.search.function.CombineFunction;
import org.opensearch.common.xcontent.json.JsonXContent;
import org.opensearch.core.action.ActionListener;
import org.opensearch.core.action.ActionResponse;
import org.opensearch.core.xcontent.XContentBuilder;
import org.opensearch.core.xcontent.XContentParser;
import org.opensearch.index.query.BoolQueryBuilder;
import org.opensearch.index.query.QueryBuilders;
import org.opensearch.index.query.functionscore.ScoreFunctionBuilders;
import org.opensearch.plugins.ActionPlugin;
import org.opensearch.plugins.Plugin;
import org.opensearch.plugins.SearchPlugin;
import org.opensearch.tasks.Task;

import java.io.IOException;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CopyOnWriteArrayList;

/** A query {@code knn} over a number field, in the place of the k-NN plugin: the k nearest numbers that pass the filter. */
public final class FakeKnn extends Plugin implements SearchPlugin, ActionPlugin {
    /** The X-Opaque-Id of each search that goes past search pipelines, as those of the legs do. */
    static final List<String> CALLERS = new CopyOnWriteArrayList<>();


    @Override
    public List<QuerySpec<?>> getQueries() {
        return List.of(new QuerySpec<BoolQueryBuilder>("knn", BoolQueryBuilder::new, FakeKnn::parse));
    }

    private static BoolQueryBuilder parse(XContentParser parser) throws IOException {
        Map<String, Object> clause = parser.map();
        String field = clause.keySet().iterator().next();
        Map<String, Object> knn = HookTestCase.object(clause.get(field));
        double x = ((Number) ((List<?>) knn.get("vector")).get(0)).doubleValue();
        int k = ((Number) knn.get("k")).intValue();
        BoolQueryBuilder bool = QueryBuilders.boolQuery();
        bool.must(
            QueryBuilders.functionScoreQuery(
                QueryBuilders.rangeQuery(field).gt(x - k / 2.0).lte(x + k / 2.0),
                ScoreFunctionBuilders.linearDecayFunction(field, x, 1000)
            ).boostMode(CombineFunction.REPLACE)
        );
        if (knn.get("filter") != null) {
            try (XContentBuilder json = JsonXContent.contentBuilder()) {
                bool.filter(QueryBuilders.wrapperQuery(json.map(HookTestCase.object(knn.get("filter"))).toString()));
            }
        }
        return bool;
    }

    @Override
    public List<ActionFilter> getActionFilters() {
        return List.of(new ActionFilter() {
            @Override
            public int order() {
                return 0;
            }

            @Override
            @SuppressWarnings("removal")
            public <Q extends ActionRequest, R extends ActionResponse> void apply(
                Task task,
                String action,
                Q request,
                ActionListener<R> listener,
                ActionFilterChain<Q, R> chain
            ) {
                if (request instanceof SearchRequest search && "_none".equals(search.pipeline())) {
                    CALLERS.add(String.valueOf(task.getHeader(Task.X_OPAQUE_ID)));
                }
                chain.proceed(task, action, request, listener);
            }
        });
    }
}
