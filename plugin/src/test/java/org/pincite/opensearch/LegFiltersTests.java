package org.pincite.opensearch;

import org.opensearch.index.query.BoolQueryBuilder;
import org.opensearch.index.query.QueryBuilder;
import org.opensearch.index.query.QueryBuilders;
import org.opensearch.search.builder.SearchSourceBuilder;
import org.opensearch.test.OpenSearchTestCase;

import java.util.List;
import java.util.Set;

public class LegFiltersTests extends OpenSearchTestCase {
    private static final QueryBuilder TEXT = QueryBuilders.matchQuery("text", "sublet");
    private static final QueryBuilder ACL = QueryBuilders.termQuery("acl", "open");
    private static final QueryBuilder OTHER = QueryBuilders.termQuery("state", "deleted");

    private static BoolQueryBuilder of(QueryBuilder query) {
        Set<String> texts = QueryText.of(query);
        return of(new SearchSourceBuilder().query(query), texts.size() == 1 ? texts.iterator().next() : "sublet");
    }

    private static BoolQueryBuilder of(SearchSourceBuilder source, String text) {
        return LegFilters.of(source, text);
    }

    private static BoolQueryBuilder bool() {
        return QueryBuilders.boolQuery();
    }

    public void testNoFilters() {
        for (QueryBuilder query : List.of(
            TEXT,
            QueryBuilders.multiMatchQuery("sublet", "text", "title"),
            QueryBuilders.matchPhraseQuery("text", "may sublet"),
            QueryBuilders.simpleQueryStringQuery("may the tenant sublet?".replace("?", "")),
            QueryBuilders.queryStringQuery("may the tenant sublet"),
            QueryBuilders.matchAllQuery(),
            QueryBuilders.disMaxQuery().add(TEXT),
            bool().should(TEXT).should(QueryBuilders.matchQuery("title", "sublet")),
            bool().must(bool().should(TEXT)),
            bool().must(TEXT).should(ACL),
            QueryBuilders.boostingQuery(TEXT, OTHER)
        )) {
            assertEquals(query.toString(), bool(), of(query));
        }
        assertEquals(bool(), of(new SearchSourceBuilder(), "sublet"));
    }

    public void testFiltersAreTaken() {
        assertEquals(bool().filter(ACL).mustNot(OTHER), of(bool().must(TEXT).filter(ACL).mustNot(OTHER)));
        assertEquals(bool().filter(ACL), of(bool().should(TEXT).filter(ACL)));
        SearchSourceBuilder source = new SearchSourceBuilder().query(bool().must(TEXT).filter(ACL)).postFilter(OTHER);
        assertEquals(bool().filter(ACL).filter(OTHER), of(source, "sublet"));
        assertEquals(bool().filter(OTHER), of(new SearchSourceBuilder().query(TEXT).postFilter(OTHER), "sublet"));
    }

    public void testWhatCannotBeSeparated() {
        for (QueryBuilder query : List.of(
            ACL,
            bool().must(TEXT).must(ACL),
            bool().should(TEXT).should(ACL),
            bool().must(TEXT).should(ACL).minimumShouldMatch(1),
            bool().must(bool().must(TEXT).filter(ACL)),
            bool().must(bool().must(TEXT).mustNot(OTHER)),
            bool().must(TEXT).must(QueryBuilders.matchQuery("acl", "open")),
            bool().must(TEXT).must(QueryBuilders.matchQuery("tenant", 7)),
            bool().must(TEXT).must(QueryBuilders.matchQuery("tenant", "7")),
            bool().must(TEXT).must(QueryBuilders.constantScoreQuery(ACL)),
            QueryBuilders.constantScoreQuery(TEXT),
            QueryBuilders.functionScoreQuery(TEXT),
            QueryBuilders.disMaxQuery().add(TEXT).add(ACL),
            QueryBuilders.boostingQuery(ACL, TEXT),
            QueryBuilders.nestedQuery("parts", TEXT, org.apache.lucene.search.join.ScoreMode.Max),
            QueryBuilders.queryStringQuery("sublet AND acl:open"),
            QueryBuilders.queryStringQuery("sublet AND tenant"),
            QueryBuilders.simpleQueryStringQuery("sublet -deleted"),
            QueryBuilders.wrapperQuery("{\"match\": {\"text\": \"sublet\"}}")
        )) {
            assertNull(query.toString(), of(query));
        }
        assertNull(of(new SearchSourceBuilder().query(TEXT).derivedField("d", "keyword", null), "sublet"));
        // The text to rerank by came in ext, and the query may be no more than a filter.
        assertNull(of(new SearchSourceBuilder().query(QueryBuilders.matchQuery("acl", "open")), "sublet"));
    }
}
