package org.pincite.opensearch;

import org.opensearch.action.search.SearchResponse;
import org.opensearch.action.search.SearchResponseSections;
import org.opensearch.index.seqno.SequenceNumbers;
import org.opensearch.search.SearchExtBuilder;
import org.opensearch.search.SearchHit;
import org.opensearch.search.SearchHits;
import org.opensearch.search.aggregations.InternalAggregations;
import org.opensearch.search.internal.InternalSearchResponse;
import org.opensearch.search.profile.ProfileShardResult;
import org.opensearch.search.profile.SearchProfileShardResults;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;

/** The one place where a response is rebuilt: other hits, one more ext, every other field as it was. */
final class Page {
    private Page() {}

    /**
     * Returns the places, in the untouched list of hits, of those on the client's page.
     *
     * @param order places of the reranked hits, best first: a permutation of 0 to its length − 1
     * @param nHits how many hits there are; those beyond {@code order} keep their order after it
     */
    static int[] cut(int[] order, int nHits, int from, int size) {
        int start = Math.min(from, nHits);
        int end = (int) Math.min((long) from + size, nHits);
        int[] places = new int[end - start];
        for (int i = 0; i < places.length; i++) {
            int rank = start + i;
            places[i] = rank < order.length ? order[rank] : rank;
        }
        return places;
    }

    /**
     * Rebuilds a response with the hits at {@code places} and the report.
     *
     * @param places places in the response's hits, or null to leave the hits as they are
     * @param addedMs what the hook added to {@code took}, in milliseconds
     */
    static SearchResponse rebuild(SearchResponse response, int[] places, HookReport report, long addedMs) {
        return rebuild(response, response.getHits().getHits(), places, report, addedMs);
    }

    /**
     * Rebuilds a response with hits of its own and of legs.
     *
     * @param all what {@code places} are places in; hits of legs are among them only when the search is not collapsed
     */
    static SearchResponse rebuild(SearchResponse response, SearchHit[] all, int[] places, HookReport report, long addedMs) {
        SearchResponseSections sections = response.getInternalResponse();
        List<SearchExtBuilder> exts = new ArrayList<>();
        for (SearchExtBuilder ext : sections.getSearchExtBuilders()) {
            // Two of one name would be a JSON object with a key twice.
            if (PinciteExt.NAME.equals(ext.getWriteableName()) == false) {
                exts.add(ext);
            }
        }
        exts.add(new PinciteExt(report));
        Map<String, ProfileShardResult> profile = sections.profile();
        InternalSearchResponse internal = new InternalSearchResponse(
            places == null ? sections.hits() : select(sections.hits(), all, places),
            (InternalAggregations) sections.aggregations(),
            sections.suggest(),
            profile.isEmpty() ? null : new SearchProfileShardResults(profile),
            sections.timedOut(),
            sections.terminatedEarly(),
            sections.getNumReducePhases(),
            exts,
            sections.getProcessorResult()
        );
        return new SearchResponse(
            internal,
            response.getScrollId(),
            response.getTotalShards(),
            response.getSuccessfulShards(),
            response.getSkippedShards(),
            response.getTook().millis() + addedMs,
            response.getPhaseTook(),
            response.getShardFailures(),
            response.getClusters(),
            response.pointInTimeId()
        );
    }

    private static SearchHits select(SearchHits hits, SearchHit[] all, int[] places) {
        SearchHit[] page = Arrays.stream(places).mapToObj(place -> all[place]).toArray(SearchHit[]::new);
        Object[] values = hits.getCollapseValues();
        // One collapse value stands for each hit, so they move with them.
        if (values != null && values.length == all.length) {
            Object[] old = values;
            values = Arrays.stream(places).mapToObj(place -> old[place]).toArray();
        }
        return new SearchHits(page, hits.getTotalHits(), hits.getMaxScore(), hits.getSortFields(), hits.getCollapseField(), values);
    }

    /** Takes off the versions that the client did not ask for. The last thing done to a response. */
    static void stripVersions(SearchResponse response) {
        for (SearchHit hit : response.getHits().getHits()) {
            hit.setSeqNo(SequenceNumbers.UNASSIGNED_SEQ_NO);
            hit.setPrimaryTerm(SequenceNumbers.UNASSIGNED_PRIMARY_TERM);
        }
    }
}
