package org.pincite.opensearch;

import org.opensearch.action.search.SearchContextId;
import org.opensearch.action.search.SearchRequest;
import org.opensearch.cluster.ClusterState;
import org.opensearch.cluster.metadata.IndexMetadata;
import org.opensearch.cluster.metadata.IndexNameExpressionResolver;
import org.opensearch.cluster.metadata.MappingMetadata;
import org.opensearch.core.common.io.stream.NamedWriteableRegistry;
import org.opensearch.core.index.Index;
import org.opensearch.index.IndexSettings;
import org.opensearch.transport.RemoteClusterAware;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Supplier;

/** Knows which indices are Pincite's: those whose mapping has an object {@code _meta.pincite}. */
final class PinciteIndices {
    private static final int MAX_CACHED = 1024;

    private record Cached(long mappingVersion, boolean isPincite) {}

    /**
     * The indices of a search.
     *
     * @param anyPincite whether at least one is Pincite's
     * @param remote whether one lies in another cluster
     * @param maxResultWindow the smallest {@code index.max_result_window} among them
     */
    record Targets(boolean anyPincite, boolean remote, int maxResultWindow) {}

    private final Supplier<ClusterState> state;
    private final IndexNameExpressionResolver resolver;
    private final NamedWriteableRegistry registry;
    /** By index UUID: reading a mapping means unpacking it. */
    private final Map<String, Cached> cache = new ConcurrentHashMap<>();

    PinciteIndices(Supplier<ClusterState> state, IndexNameExpressionResolver resolver, NamedWriteableRegistry registry) {
        this.state = state;
        this.resolver = resolver;
        this.registry = registry;
    }

    /** Tells whether a concrete local index is Pincite's; false when it does not exist. */
    boolean isPincite(String index) {
        return isPincite(state.get().metadata().index(index));
    }

    private boolean isPincite(IndexMetadata index) {
        if (index == null || index.mapping() == null) {
            return false;
        }
        Cached known = cache.get(index.getIndexUUID());
        if (known == null || known.mappingVersion() != index.getMappingVersion()) {
            if (cache.size() >= MAX_CACHED) {
                cache.clear();
            }
            known = new Cached(index.getMappingVersion(), hasMeta(index.mapping()));
            cache.put(index.getIndexUUID(), known);
        }
        return known.isPincite();
    }

    private static boolean hasMeta(MappingMetadata mapping) {
        return mapping.sourceAsMap().get("_meta") instanceof Map<?, ?> meta && meta.get("pincite") instanceof Map<?, ?>;
    }

    /**
     * Looks up what a search goes to.
     *
     * @throws RuntimeException when the names do not resolve; the search itself will say so
     */
    Targets of(SearchRequest request) {
        ClusterState now = state.get();
        boolean anyPincite = false;
        boolean remote = false;
        int maxResultWindow = Integer.MAX_VALUE;
        if (request.source() != null && request.source().pointInTimeBuilder() != null) {
            String id = request.source().pointInTimeBuilder().getId();
            for (String name : SearchContextId.decode(registry, id).getActualIndices()) {
                remote |= isRemote(name);
                IndexMetadata index = now.metadata().index(name);
                if (index != null) {
                    anyPincite |= isPincite(index);
                    maxResultWindow = Math.min(maxResultWindow, maxResultWindow(index));
                }
            }
            return new Targets(anyPincite, remote, maxResultWindow);
        }
        for (String name : request.indices()) {
            remote |= isRemote(name);
        }
        if (remote) {
            return new Targets(false, true, maxResultWindow);
        }
        for (Index name : resolver.concreteIndices(now, request)) {
            IndexMetadata index = now.metadata().index(name);
            if (index != null) {
                anyPincite |= isPincite(index);
                maxResultWindow = Math.min(maxResultWindow, maxResultWindow(index));
            }
        }
        return new Targets(anyPincite, false, maxResultWindow);
    }

    private static boolean isRemote(String name) {
        // Date math (<logs-{now/d{yyyy.MM.dd|+12:00}}>) may hold a colon too and is always local.
        return name.startsWith("<") == false && name.indexOf(RemoteClusterAware.REMOTE_CLUSTER_INDEX_SEPARATOR) >= 0;
    }

    private static int maxResultWindow(IndexMetadata index) {
        return IndexSettings.MAX_RESULT_WINDOW_SETTING.get(index.getSettings());
    }
}
