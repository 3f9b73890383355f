package org.pincite.opensearch;

import org.opensearch.index.query.BoolQueryBuilder;
import org.opensearch.index.query.QueryBuilders;
import org.opensearch.index.query.functionscore.ScoreFunctionBuilders;
import org.opensearch.common.lucene.search.function.CombineFunction;
import org.opensearch.common.xcontent.json.JsonXContent;
import org.opensearch.core.xcontent.XContentBuilder;
import org.opensearch.core.xcontent.XContentParser;
import org.opensearch.plugins.Plugin;
import org.opensearch.plugins.SearchPlugin;

import java.io.IOException;
import java.util.List;
import java.util.Map;

/** A query {@code knn} over a number field, in the place of the k-NN plugin: the k nearest numbers that pass the filter. */
public final class FakeKnn extends Plugin implements SearchPlugin {

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
}
