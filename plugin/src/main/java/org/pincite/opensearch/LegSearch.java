package org.pincite.opensearch;

import org.opensearch.action.search.SearchRequest;
import org.opensearch.common.unit.TimeValue;
import org.opensearch.common.xcontent.XContentFactory;
import org.opensearch.core.xcontent.ToXContent;
import org.opensearch.core.xcontent.XContentBuilder;
import org.opensearch.index.query.BoolQueryBuilder;
import org.opensearch.index.query.QueryBuilder;
import org.opensearch.index.query.WrapperQueryBuilder;
import org.opensearch.search.builder.SearchSourceBuilder;
import org.opensearch.search.fetch.subphase.FetchSourceContext;
import org.opensearch.search.fetch.subphase.FieldAndFormat;
import org.opensearch.search.fetch.subphase.highlight.HighlightBuilder;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** Makes a leg's search: where and how the client's looks and fetches, with another query under the same filters. */
final class LegSearch {
    private final SearchRequest client;
    private final int window;
    private final BoolQueryBuilder filters;
    private final TimeValue deadline;
    private final SearchSourceBuilder template;

    /**
     * @param client the client's search as it is now; it may be changed later
     * @param window how many hits to find
     * @param filters of {@link LegFilters}
     * @param deadlineMs after which the search is of no use, in milliseconds
     */
    LegSearch(SearchRequest client, int window, BoolQueryBuilder filters, int deadlineMs) {
        this.client = new SearchRequest(client);
        this.window = window;
        this.filters = filters;
        this.deadline = TimeValue.timeValueMillis(deadlineMs);
        this.template = client.source().shallowCopy();
    }

    private boolean isFiltered() {
        return filters.filter().isEmpty() == false || filters.mustNot().isEmpty() == false;
    }

    /** Returns the search of the k-NN leg; the filters stand in the clause, so that k hits pass them. */
    SearchRequest knn(LegsReply.Knn knn) throws IOException {
        try (XContentBuilder json = XContentFactory.jsonBuilder()) {
            json.startObject().startObject("knn").startObject(knn.field());
            json.array("vector", knn.vector());
            json.field("k", knn.k());
            if (isFiltered()) {
                json.field("filter");
                filters.toXContent(json, ToXContent.EMPTY_PARAMS);
            }
            json.endObject().endObject().endObject();
            return with(new WrapperQueryBuilder(json.toString()));
        }
    }

    /** Returns the search of the centroid leg. */
    SearchRequest centroids(LegsReply.Centroids centroids) {
        BoolQueryBuilder query = new BoolQueryBuilder().must(new WrapperQueryBuilder(centroids.query()));
        filters.filter().forEach(query::filter);
        filters.mustNot().forEach(query::mustNot);
        return with(query);
    }

    private SearchRequest with(QueryBuilder query) {
        SearchRequest request = new SearchRequest(client.indices()).indicesOptions(client.indicesOptions())
            .routing(client.routing())
            .preference(client.preference())
            .searchType(client.searchType())
            .source(source(query));
        if (client.allowPartialSearchResults() != null) {
            request.allowPartialSearchResults(client.allowPartialSearchResults());
        }
        // An index's default pipeline may be ours: a leg has no legs.
        request.pipeline("_none");
        request.setCancelAfterTimeInterval(deadline);
        return request;
    }

    private SearchSourceBuilder source(QueryBuilder query) {
        SearchSourceBuilder source = new SearchSourceBuilder().query(query)
            .from(0)
            .size(window)
            .trackTotalHits(false)
            .timeout(deadline)
            .fetchSource(withoutCodes(template.fetchSource()))
            .seqNoAndPrimaryTerm(true)
            .version(template.version())
            .explain(template.explain())
            .highlighter(highlight());
        if (template.storedFields() != null) {
            source.storedFields(template.storedFields());
        }
        for (FieldAndFormat field : orNone(template.docValueFields())) {
            source.docValueField(field.field, field.format);
        }
        for (FieldAndFormat field : orNone(template.fetchFields())) {
            source.fetchField(field.field, field.format);
        }
        for (SearchSourceBuilder.ScriptField field : orNone(template.scriptFields())) {
            source.scriptField(field.fieldName(), field.script(), field.ignoreFailure());
        }
        if (template.pointInTimeBuilder() != null) {
            source.pointInTimeBuilder(template.pointInTimeBuilder());
        }
        if (template.slice() != null) {
            source.slice(template.slice());
        }
        return source;
    }

    /** The client's words are to be highlighted, not the terms of a leg. */
    private HighlightBuilder highlight() {
        HighlightBuilder highlight = template.highlighter();
        if (highlight == null) {
            return null;
        }
        QueryBuilder by = highlight.highlightQuery() == null ? template.query() : highlight.highlightQuery();
        return new HighlightBuilder(highlight, by, highlight.fields());
    }

    private static FetchSourceContext withoutCodes(FetchSourceContext source) {
        if (source == null) {
            return new FetchSourceContext(true, new String[0], Codes.FIELDS.toArray(String[]::new));
        }
        if (source.fetchSource() == false) {
            return source;
        }
        List<String> excludes = new ArrayList<>(Arrays.asList(source.excludes()));
        excludes.addAll(Codes.FIELDS);
        return new FetchSourceContext(true, source.includes(), excludes.toArray(String[]::new));
    }

    private static <T> List<T> orNone(List<T> list) {
        return list == null ? List.of() : list;
    }
}
