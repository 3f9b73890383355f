package org.pincite.opensearch;

import org.apache.logging.log4j.LogManager;
import org.apache.logging.log4j.Logger;
import org.opensearch.action.search.SearchRequest;
import org.opensearch.core.action.ActionListener;
import org.opensearch.ingest.ConfigurationUtils;
import org.opensearch.search.builder.SearchSourceBuilder;
import org.opensearch.search.pipeline.AbstractProcessor;
import org.opensearch.search.pipeline.PipelineProcessingContext;
import org.opensearch.search.pipeline.Processor;
import org.opensearch.search.pipeline.SearchRequestProcessor;
import org.opensearch.search.sort.ScoreSortBuilder;
import org.opensearch.search.sort.SortOrder;

import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * Widens a search to the first K1 hits, so that what is reranked does not depend on the page, and asks for the
 * versions of the hits. What the client asked is kept in the pipeline's context. A search that can't be reranked is
 * left untouched.
 */
final class WindowProcessor extends AbstractProcessor implements SearchRequestProcessor {
    static final String TYPE = "pincite_window";

    private static final Logger logger = LogManager.getLogger(WindowProcessor.class);

    /** Beyond this the sidecar's gain is not worth the first stage's work. */
    private static final int MAX_WIDENED = 10_000;
    private static final int DEFAULT_SIZE = 10;

    private final Integer window;
    private final HookSettings settings;
    private final PinciteIndices indices;
    private final LegStarter legs;

    /** Starts the legs of a search and returns at once. */
    interface LegStarter {
        Legs start(SearchRequest request, Ask.Widened ask);
    }

    /**
     * @param window K1 of this pipeline, or null for the node's
     * @param legs starts what runs beside the client's query, or null for nothing
     */
    WindowProcessor(
        String tag,
        String description,
        boolean ignoreFailure,
        Integer window,
        HookSettings settings,
        PinciteIndices indices,
        LegStarter legs
    ) {
        super(tag, description, ignoreFailure);
        this.window = window;
        this.settings = settings;
        this.indices = indices;
        this.legs = legs;
    }

    @Override
    public String getType() {
        return TYPE;
    }

    @Override
    public SearchRequest processRequest(SearchRequest request) {
        throw new UnsupportedOperationException("[" + TYPE + "] needs the pipeline's context");
    }

    @Override
    public void processRequestAsync(
        SearchRequest request,
        PipelineProcessingContext context,
        ActionListener<SearchRequest> listener
    ) {
        ActionListener<SearchRequest> once = ActionListener.notifyOnce(listener);
        try {
            // A second one in the same pipeline must not take the widened page for the client's.
            if (context.getAttribute(Ask.ATTRIBUTE) != null) {
                logger.debug("[{}] stands twice in the pipeline", TYPE);
            } else if (SubSearch.isOne(request)) {
                context.setAttribute(Ask.ATTRIBUTE, new Ask.Done());
            } else {
                Ask ask = look(request);
                context.setAttribute(Ask.ATTRIBUTE, ask);
                if (ask instanceof Ask.Widened widened) {
                    widen(request.source(), widened);
                    startLegs(request, widened, context);
                }
            }
        } catch (Exception e) {
            logger.warn("the window could not be widened, the search goes on as it is", e);
            context.setAttribute(
                Ask.ATTRIBUTE,
                new Ask.Skipped(Reason.INTERNAL_ERROR, "The plugin could not widen the search: " + e.getClass().getSimpleName() + ".")
            );
        }
        once.onResponse(request);
    }

    private void startLegs(SearchRequest request, Ask.Widened ask, PipelineProcessingContext context) {
        if (legs == null) {
            return;
        }
        try {
            context.setAttribute(Legs.ATTRIBUTE, legs.start(request, ask));
        } catch (Exception e) {
            // The search is widened and can be reranked all the same.
            logger.warn("the legs of a search did not start", e);
        }
    }

    private static void widen(SearchSourceBuilder source, Ask.Widened ask) {
        int size = Math.max(ask.window(), ask.from() + ask.size());
        // Three plain field writes: none of them fails once the first has been done.
        source.from(0);
        source.size(size);
        source.seqNoAndPrimaryTerm(true);
    }

    private Ask look(SearchRequest request) {
        SearchSourceBuilder source = request.source();
        PinciteExt.Input input = source == null ? PinciteExt.Input.NONE : PinciteExt.inputOf(source.ext());
        if (settings.enabled() == false) {
            return skip(Reason.DISABLED, "pincite.enabled is false.");
        }
        if (input.enabled() == false) {
            return skip(Reason.DISABLED, "ext.pincite.enabled is false.");
        }
        if (settings.sidecarUrls().isEmpty()) {
            return skip(Reason.SIDECAR_NOT_CONFIGURED, "pincite.sidecar.urls is empty on this node.");
        }
        if (request.scroll() != null) {
            return skip(Reason.SCROLL, "A scroll is not reranked.");
        }
        if (source == null) {
            return skip(Reason.NO_QUERY_TEXT, "The search has no body.");
        }
        if (source.size() == 0) {
            return skip(Reason.SIZE_ZERO, "The search asks for no hits.");
        }
        if (source.searchAfter() != null) {
            return skip(Reason.SEARCH_AFTER, "search_after needs the first stage's order.");
        }
        if (isSorted(source)) {
            return skip(Reason.SORTED, "The search has an order of its own.");
        }
        if (source.storedFields() != null && source.storedFields().fetchFields() == false) {
            return skip(Reason.NOT_WIDENED, "With stored_fields _none_ the hits have no ids.");
        }
        return lookAtQuery(request, input);
    }

    private Ask lookAtQuery(SearchRequest request, PinciteExt.Input input) {
        SearchSourceBuilder source = request.source();
        String text = input.query();
        if (text == null) {
            Set<String> texts = QueryText.of(source.query());
            if (texts.size() != 1) {
                return skip(
                    Reason.NO_QUERY_TEXT,
                    (texts.isEmpty() ? "The query has no full-text leaf" : "The query has several full-text leaves")
                        + "; ext.pincite.query can say what to rerank by."
                );
            }
            text = texts.iterator().next();
        }
        text = QueryText.wellFormed(text);
        if (text.isBlank()) {
            return skip(Reason.NO_QUERY_TEXT, "ext.pincite.query is empty.");
        }
        if (text.codePointCount(0, text.length()) > RerankRequest.MAX_QUERY_CHARS) {
            return skip(Reason.NO_QUERY_TEXT, "The query text is longer than " + RerankRequest.MAX_QUERY_CHARS + " characters.");
        }
        PinciteIndices.Targets targets;
        try {
            targets = indices.of(request);
        } catch (RuntimeException e) {
            return skip(Reason.INDEX_NOT_PINCITE, "The indices of the search do not resolve.");
        }
        if (targets.remote()) {
            return skip(Reason.INDEX_NOT_PINCITE, "Indices of other clusters are not reranked.");
        }
        if (targets.anyPincite() == false) {
            return skip(Reason.INDEX_NOT_PINCITE, "No index of the search has _meta.pincite in its mapping.");
        }
        int from = Math.max(source.from(), 0);
        int size = source.size() < 0 ? DEFAULT_SIZE : source.size();
        int max = Math.min(targets.maxResultWindow(), MAX_WIDENED);
        if ((long) from + size > max) {
            return skip(Reason.WINDOW_TOO_LARGE, "from + size is more than " + max + ".");
        }
        // An index may allow less than K1: rerank what it gives. The window is the same for every page then, too.
        int k1 = Math.min(window == null ? settings.window() : window, max);
        return new Ask.Widened(from, size, Boolean.TRUE.equals(source.seqNoAndPrimaryTerm()), k1, text);
    }

    private static Ask skip(Reason reason, String message) {
        return new Ask.Skipped(reason, message);
    }

    private static boolean isSorted(SearchSourceBuilder source) {
        List<?> sorts = source.sorts();
        if (sorts == null || sorts.isEmpty()) {
            return false;
        }
        return sorts.size() > 1 || sorts.get(0) instanceof ScoreSortBuilder == false || source.sorts().get(0).order() != SortOrder.DESC;
    }

    /** Makes the processor of a named pipeline. */
    static final class Factory implements Processor.Factory<SearchRequestProcessor> {
        private final HookSettings settings;
        private final PinciteIndices indices;
        private final LegStarter legs;

        Factory(HookSettings settings, PinciteIndices indices, LegStarter legs) {
            this.settings = settings;
            this.indices = indices;
            this.legs = legs;
        }

        @Override
        public WindowProcessor create(
            Map<String, Processor.Factory<SearchRequestProcessor>> factories,
            String tag,
            String description,
            boolean ignoreFailure,
            Map<String, Object> config,
            Processor.PipelineContext context
        ) {
            refuseInline(TYPE, tag, context);
            Integer window = null;
            if (config.containsKey("window")) {
                window = ConfigurationUtils.readIntProperty(TYPE, tag, config, "window", null);
                if (window == null || window < 1 || window > RerankRequest.MAX_CANDIDATES) {
                    throw ConfigurationUtils.newConfigurationException(
                        TYPE,
                        tag,
                        "window",
                        "must be from 1 to " + RerankRequest.MAX_CANDIDATES
                    );
                }
            }
            return new WindowProcessor(tag, description, ignoreFailure, window, settings, indices, legs);
        }
    }

    /** Refuses a pipeline that stands in a search request: who may search may not choose what the node calls. */
    static void refuseInline(String type, String tag, Processor.PipelineContext context) {
        if (context.getPipelineSource() == Processor.PipelineSource.SEARCH_REQUEST) {
            throw ConfigurationUtils.newConfigurationException(
                type,
                tag,
                null,
                "works in a named search pipeline only, not in one inside a search request"
            );
        }
    }
}
