package org.pincite.opensearch;

import org.opensearch.search.SearchHit;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.function.Predicate;

/**
 * The hits of all legs as one list: those of the client's own query in its order, then those that k-NN alone or first
 * found, then the centroid leg's, and after these candidates the client's hits beyond the window.
 *
 * @param all every hit; the first {@code sent.size()} are candidates
 * @param sent the candidates
 * @param legs what each leg brought
 * @param nKnnOnly how many candidates only the k-NN leg found
 */
record Candidates(SearchHit[] all, List<RerankRequest.Candidate> sent, List<HookReport.Leg> legs, int nKnnOnly) {

    /** A hit and who found it. */
    private static final class Entry {
        final SearchHit hit;
        Float bm25;
        Float knn;
        Float centroids;

        Entry(SearchHit hit) {
            this.hit = hit;
        }
    }

    /**
     * Puts the legs together.
     *
     * @param hits the hits of the client's widened search
     * @param window how many of them are candidates (K1); the rest never is, so that the page makes no difference
     * @param bm25Millis the time of the client's query
     * @param legs the other legs, k-NN first; empty when there are none
     * @param isPincite whether an index is Pincite's
     * @throws HookException when a hit of the client's query keeps the search from being reranked
     */
    static Candidates of(SearchHit[] hits, int window, double bm25Millis, List<Legs.Result> legs, Predicate<String> isPincite)
        throws HookException {
        int n = Math.min(hits.length, window);
        List<Entry> entries = new ArrayList<>(n);
        Map<String, Entry> byId = new HashMap<>();
        for (int i = 0; i < n; i++) {
            SearchHit hit = hits[i];
            if (isLocal(hit) == false || isPincite.test(hit.getIndex()) == false) {
                throw new HookException(Reason.INDEX_NOT_PINCITE, "A hit is from an index without _meta.pincite in its mapping.");
            }
            if (isUsable(hit) == false) {
                throw new HookException(Reason.NOT_WIDENED, "The hits came without ids or versions.");
            }
            Entry entry = new Entry(hit);
            if (byId.put(hit.getId(), entry) != null) {
                throw new HookException(Reason.DUPLICATE_IDS, "Two hits of different indices have the same id.");
            }
            entry.bm25 = finite(hit);
            entries.add(entry);
        }
        int nBm25 = entries.size();
        for (Legs.Result leg : legs) {
            for (SearchHit hit : leg.hits()) {
                add(leg.name(), hit, entries, byId, isPincite);
            }
        }
        List<SearchHit> all = new ArrayList<>(entries.size() + hits.length - n);
        List<RerankRequest.Candidate> sent = new ArrayList<>(entries.size());
        for (int i = 0; i < entries.size(); i++) {
            Entry entry = entries.get(i);
            SearchHit hit = entry.hit;
            all.add(hit);
            sent.add(
                new RerankRequest.Candidate(hit.getId(), hit.getSeqNo(), hit.getPrimaryTerm(), entry.bm25, entry.knn, entry.centroids)
            );
            if (i >= nBm25) {
                // Its score is another query's and goes into ext.pincite; beside the client's scores it would mislead.
                hit.score(Float.NaN);
            }
        }
        for (SearchHit hit : Arrays.asList(hits).subList(n, hits.length)) {
            Entry same = byId.get(hit.getId());
            if (same == null || Objects.equals(same.hit.getIndex(), hit.getIndex()) == false) {
                all.add(hit);
            }
        }
        List<HookReport.Leg> reports = new ArrayList<>();
        if (legs.isEmpty() == false) {
            int only = (int) entries.subList(0, nBm25).stream().filter(e -> e.knn == null && e.centroids == null).count();
            reports.add(new HookReport.Leg("bm25", nBm25, only, bm25Millis, null));
        }
        int nKnnOnly = 0;
        for (Legs.Result leg : legs) {
            boolean isKnn = leg.name().equals(Legs.KNN);
            int own = 0;
            int only = 0;
            for (int i = 0; i < entries.size(); i++) {
                Entry entry = entries.get(i);
                boolean isOwn = (isKnn ? entry.knn : entry.centroids) != null;
                own += isOwn ? 1 : 0;
                only += isOwn && i >= nBm25 && (isKnn ? entry.centroids : entry.knn) == null ? 1 : 0;
            }
            nKnnOnly += isKnn ? only : 0;
            reports.add(new HookReport.Leg(leg.name(), own, only, leg.tookMs(), leg.reason()));
        }
        return new Candidates(all.toArray(SearchHit[]::new), sent, List.copyOf(reports), nKnnOnly);
    }

    private static void add(String leg, SearchHit hit, List<Entry> entries, Map<String, Entry> byId, Predicate<String> isPincite) {
        Float score = finite(hit);
        if (isLocal(hit) == false || isUsable(hit) == false || score == null) {
            return;
        }
        Entry entry = byId.get(hit.getId());
        if (entry == null) {
            if (entries.size() >= RerankRequest.MAX_CANDIDATES || isPincite.test(hit.getIndex()) == false) {
                return;
            }
            entry = new Entry(hit);
            byId.put(hit.getId(), entry);
            entries.add(entry);
        } else if (entry.hit.getIndex().equals(hit.getIndex()) == false) {
            // Another index's document of the same id: the sidecar could not tell the two apart.
            return;
        }
        if (leg.equals(Legs.KNN)) {
            entry.knn = score;
        } else {
            entry.centroids = score;
        }
    }

    private static boolean isLocal(SearchHit hit) {
        return hit.getClusterAlias() == null && hit.getIndex() != null;
    }

    private static boolean isUsable(SearchHit hit) {
        return hit.getId() != null && hit.getSeqNo() >= 0 && hit.getPrimaryTerm() >= 1;
    }

    private static Float finite(SearchHit hit) {
        return Float.isFinite(hit.getScore()) ? hit.getScore() : null;
    }

    List<String> ids() {
        return sent.stream().map(RerankRequest.Candidate::id).toList();
    }
}
