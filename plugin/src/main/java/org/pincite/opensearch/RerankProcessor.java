package org.pincite.opensearch;

import org.apache.logging.log4j.LogManager;
import org.apache.logging.log4j.Logger;
import org.opensearch.action.search.SearchRequest;
import org.opensearch.action.search.SearchResponse;
import org.opensearch.action.support.ContextPreservingActionListener;
import org.opensearch.common.util.concurrent.ThreadContext;
import org.opensearch.core.action.ActionListener;
import org.opensearch.search.SearchHit;
import org.opensearch.search.pipeline.AbstractProcessor;
import org.opensearch.search.pipeline.PipelineProcessingContext;
import org.opensearch.search.pipeline.Processor;
import org.opensearch.search.pipeline.SearchResponseProcessor;
import org.opensearch.tasks.Task;
import org.opensearch.threadpool.Scheduler;

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.BiFunction;
import java.util.function.Consumer;

/**
 * Lets the sidecar rerank the hits of a widened search and cuts the client's page from them.
 *
 * <p>It never blocks, answers its listener exactly once and within {@code pincite.deadline_ms}, and never fails a
 * search: without scores for every candidate the page is cut from the first stage's order.
 */
final class RerankProcessor extends AbstractProcessor implements SearchResponseProcessor {
    static final String TYPE = "pincite_rerank";

    private static final Logger logger = LogManager.getLogger(RerankProcessor.class);
    private static final long LOG_EVERY_NANOS = TimeUnit.SECONDS.toNanos(30);
    private static final AtomicLong lastLog = new AtomicLong(System.nanoTime() - LOG_EVERY_NANOS);
    private static final int[] FIRST_STAGE_ORDER = new int[0];

    /** What a processor takes from its node. */
    record Node(
        HookSettings settings,
        PinciteIndices indices,
        SidecarClient sidecar,
        ThreadContext threadContext,
        Consumer<Runnable> executor,
        BiFunction<Long, Runnable, Scheduler.ScheduledCancellable> scheduler
    ) {}

    private final Node node;

    RerankProcessor(String tag, String description, boolean ignoreFailure, Node node) {
        super(tag, description, ignoreFailure);
        this.node = node;
    }

    @Override
    public String getType() {
        return TYPE;
    }

    @Override
    public SearchResponse processResponse(SearchRequest request, SearchResponse response) {
        throw new UnsupportedOperationException("[" + TYPE + "] never blocks");
    }

    @Override
    public void processResponseAsync(
        SearchRequest request,
        SearchResponse response,
        PipelineProcessingContext context,
        ActionListener<SearchResponse> listener
    ) {
        ActionListener<SearchResponse> once = ActionListener.notifyOnce(
            new ContextPreservingActionListener<>(node.threadContext().newRestorableContext(true), listener)
        );
        Rerank rerank = null;
        SearchResponse early;
        try {
            Object ask = context.getAttribute(Ask.ATTRIBUTE);
            if (ask instanceof Ask.Done) {
                early = response;
            } else {
                context.setAttribute(Ask.ATTRIBUTE, new Ask.Done());
                if (ask instanceof Ask.Widened widened) {
                    rerank = new Rerank(response, widened, once);
                    rerank.start();
                    return;
                }
                Ask.Skipped skipped = ask instanceof Ask.Skipped known
                    ? known
                    : new Ask.Skipped(Reason.NOT_WIDENED, "The pipeline has no [" + WindowProcessor.TYPE + "] before this.");
                early = Page.rebuild(response, null, HookReport.not(skipped.reason(), skipped.message(), 0, 0, List.of(), 0.0), 0);
            }
        } catch (Exception e) {
            if (rerank != null) {
                rerank.fail(Reason.INTERNAL_ERROR, internal(e));
                return;
            }
            warn("the search was not reranked", e);
            early = response;
        }
        once.onResponse(early);
    }

    private static String internal(Exception e) {
        warn("reranking failed in the plugin", e);
        return "Reranking failed in the plugin: " + e.getClass().getSimpleName() + ".";
    }

    /** A sidecar that is down must not fill the log: one line in 30 s, the rest at debug. */
    private static void warn(String message, Exception e) {
        long now = System.nanoTime();
        long last = lastLog.get();
        if (now - last >= LOG_EVERY_NANOS && lastLog.compareAndSet(last, now)) {
            logger.warn(message, e);
        } else {
            logger.debug(message, e);
        }
    }

    /** One search on its way through the sidecar. */
    private final class Rerank {
        private final long startNanos = System.nanoTime();
        private final SearchResponse response;
        private final SearchHit[] hits;
        private final Ask.Widened ask;
        private final ActionListener<SearchResponse> listener;
        private final AtomicBoolean finished = new AtomicBoolean();
        private final int deadlineMs = node.settings().deadlineMs();
        private List<String> ids = List.of();
        private volatile long sentNanos;
        private volatile Scheduler.ScheduledCancellable timer;
        private volatile SidecarClient.Call call;

        Rerank(SearchResponse response, Ask.Widened ask, ActionListener<SearchResponse> listener) {
            this.response = response;
            this.hits = response.getHits().getHits();
            this.ask = ask;
            this.listener = listener;
        }

        void start() throws Exception {
            if (hits.length <= ask.from()) {
                fail(Reason.NO_HITS, hits.length == 0 ? "The search found nothing." : "The page lies behind the last hit.");
                return;
            }
            List<RerankRequest.Candidate> candidates = candidates();
            if (candidates == null) {
                return;
            }
            ids = candidates.stream().map(RerankRequest.Candidate::id).toList();
            String opaqueId = node.threadContext().getHeader(Task.X_OPAQUE_ID);
            long left = deadlineMs - millisSince(startNanos);
            if (left < 1) {
                fail(Reason.SIDECAR_TIMEOUT, "The deadline of " + deadlineMs + " ms passed before the sidecar was called.");
                return;
            }
            byte[] body = new RerankRequest(ask.query(), (int) left, candidates).toJson();
            timer = node.scheduler().apply(left, this::onDeadline);
            sentNanos = System.nanoTime();
            try {
                call = node.sidecar().send(body, Duration.ofMillis(left), opaqueId, this::onReply);
            } catch (HookException e) {
                fail(e.reason(), e.getMessage());
                return;
            }
            if (finished.get()) {
                // The deadline came while the call was being made.
                call.cancel();
            }
        }

        /** Returns what to send, or null when the search was skipped for what is among its hits. */
        private List<RerankRequest.Candidate> candidates() {
            int n = Math.min(hits.length, ask.window());
            List<RerankRequest.Candidate> candidates = new ArrayList<>(n);
            Set<String> seen = new HashSet<>();
            Set<String> pincite = new HashSet<>();
            for (int i = 0; i < n; i++) {
                SearchHit hit = hits[i];
                String index = hit.getIndex();
                boolean local = hit.getClusterAlias() == null && index != null;
                if (local == false || pincite.contains(index) == false && node.indices().isPincite(index) == false) {
                    fail(Reason.INDEX_NOT_PINCITE, "A hit is from an index without _meta.pincite in its mapping.");
                    return null;
                }
                pincite.add(index);
                if (hit.getId() == null || hit.getSeqNo() < 0 || hit.getPrimaryTerm() < 1) {
                    fail(Reason.NOT_WIDENED, "The hits came without ids or versions.");
                    return null;
                }
                if (seen.add(hit.getId()) == false) {
                    fail(Reason.DUPLICATE_IDS, "Two hits of different indices have the same id.");
                    return null;
                }
                float score = hit.getScore();
                candidates.add(
                    new RerankRequest.Candidate(
                        hit.getId(),
                        hit.getSeqNo(),
                        hit.getPrimaryTerm(),
                        Float.isFinite(score) ? score : null,
                        null
                    )
                );
            }
            return candidates;
        }

        private void onDeadline() {
            // Finish first: a cancelled call reports itself, and must find the search answered.
            fail(Reason.SIDECAR_TIMEOUT, "The sidecar did not answer within " + deadlineMs + " ms.");
            SidecarClient.Call pending = call;
            if (pending != null) {
                pending.cancel();
            }
        }

        /** Called on a thread of the HTTP client, which must not run the rest of the search. */
        private void onReply(byte[] body, HookException failure) {
            long callNanos = System.nanoTime() - sentNanos;
            if (finished.get()) {
                return;
            }
            try {
                node.executor().accept(() -> read(body, failure, callNanos));
            } catch (RuntimeException e) {
                // The node is shutting down or its queue is full; this thread will have to do.
                fail(Reason.INTERNAL_ERROR, internal(e));
            }
        }

        private void read(byte[] body, HookException failure, long callNanos) {
            try {
                if (failure != null) {
                    throw failure;
                }
                apply(RerankReply.parse(body, ids), callNanos);
            } catch (HookException e) {
                String message = e.reason() == Reason.SIDECAR_TIMEOUT
                    ? "The sidecar did not answer within " + deadlineMs + " ms."
                    : e.getMessage();
                fail(e.reason(), message);
            } catch (Exception e) {
                fail(Reason.INTERNAL_ERROR, internal(e));
            }
        }

        private void apply(RerankReply reply, long callNanos) {
            int[] order = reply.results().stream().mapToInt(RerankReply.Result::position).toArray();
            int[] places = Page.cut(order, hits.length, ask.from(), ask.size());
            List<HookReport.Hit> scored = new ArrayList<>(places.length);
            for (int i = 0; i < places.length; i++) {
                int rank = ask.from() + i;
                RerankReply.Result result = rank < order.length ? reply.results().get(rank) : null;
                scored.add(
                    new HookReport.Hit(
                        hits[places[i]].getId(),
                        rank + 1,
                        places[i] + 1,
                        result == null ? null : result.score(),
                        result == null ? Map.of() : result.scores()
                    )
                );
            }
            List<HookReport.Stage> stages = new ArrayList<>(reply.stages());
            stages.add(new HookReport.Stage("sidecar", callNanos / 1e6));
            int nMissing = reply.nWithoutTokens();
            HookReport report = new HookReport(
                nMissing == 0 ? Status.APPLIED : Status.PARTIAL,
                nMissing == 0 ? null : Reason.TOKENS_MISSING,
                nMissing == 0 ? null : nMissing + " of " + order.length + " candidates have no token vectors and keep their place.",
                ask.window(),
                order.length,
                stages,
                (System.nanoTime() - startNanos) / 1e6,
                reply.model(),
                0,
                null,
                List.copyOf(scored)
            );
            finish(places, report);
        }

        /** Answers with the first stage's order. */
        void fail(Reason reason, String message) {
            try {
                HookReport report = HookReport.not(
                    reason,
                    message,
                    ask.window(),
                    ids.size(),
                    List.of(),
                    (System.nanoTime() - startNanos) / 1e6
                );
                boolean answered = finish(Page.cut(FIRST_STAGE_ORDER, hits.length, ask.from(), ask.size()), report);
                if (answered && reason.status() == Status.UNAVAILABLE) {
                    warn("a search was not reranked: " + reason.code() + ": " + message, null);
                }
            } catch (Exception e) {
                // Too many hits are better than none.
                warn("the page could not be cut", e);
                if (finished.compareAndSet(false, true)) {
                    listener.onResponse(response);
                }
            }
        }

        /** Answers the search, and returns true, unless another thread has. */
        private boolean finish(int[] places, HookReport report) {
            // Everything that can fail comes before the claim, so that a failure here still leaves the search
            // to be answered by fail().
            SearchResponse page = Page.rebuild(response, places, report, millisSince(startNanos));
            if (finished.compareAndSet(false, true) == false) {
                return false;
            }
            Scheduler.ScheduledCancellable pending = timer;
            if (pending != null) {
                pending.cancel();
            }
            if (ask.wantsVersion() == false) {
                Page.stripVersions(page);
            }
            listener.onResponse(page);
            return true;
        }
    }

    private static long millisSince(long nanos) {
        return TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - nanos);
    }

    /** Makes the processor of a named pipeline. */
    static final class Factory implements Processor.Factory<SearchResponseProcessor> {
        private final Node node;

        Factory(Node node) {
            this.node = node;
        }

        @Override
        public RerankProcessor create(
            Map<String, Processor.Factory<SearchResponseProcessor>> factories,
            String tag,
            String description,
            boolean ignoreFailure,
            Map<String, Object> config,
            Processor.PipelineContext context
        ) {
            WindowProcessor.refuseInline(TYPE, tag, context);
            return new RerankProcessor(tag, description, ignoreFailure, node);
        }
    }
}
