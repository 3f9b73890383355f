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
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
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
        HookStats stats,
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
            new WithoutCodes(new ContextPreservingActionListener<>(node.threadContext().newRestorableContext(true), listener))
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
                    Legs legs = context.getAttribute(Legs.ATTRIBUTE) instanceof Legs started ? started : null;
                    rerank = new Rerank(request, response, widened, legs, once);
                    rerank.start();
                    return;
                }
                Ask.Skipped skipped = ask instanceof Ask.Skipped known
                    ? known
                    : new Ask.Skipped(Reason.NOT_WIDENED, "The pipeline has no [" + WindowProcessor.TYPE + "] before this.");
                HookReport report = HookReport.not(skipped.reason(), skipped.message(), 0, 0, List.of(), 0.0);
                node.stats().search(report);
                early = Page.rebuild(response, null, report, 0);
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

    /** The last thing done to any response that comes by here. */
    private final class WithoutCodes implements ActionListener<SearchResponse> {
        private final ActionListener<SearchResponse> listener;

        WithoutCodes(ActionListener<SearchResponse> listener) {
            this.listener = listener;
        }

        @Override
        public void onResponse(SearchResponse response) {
            try {
                Codes.strip(response, node.indices()::isPincite);
            } catch (Exception e) {
                warn("the source of a hit could not be read", e);
            }
            listener.onResponse(response);
        }

        @Override
        public void onFailure(Exception e) {
            listener.onFailure(e);
        }
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
        private final SearchRequest request;
        private final SearchResponse response;
        private final SearchHit[] hits;
        private final Ask.Widened ask;
        private final Legs legs;
        private final ActionListener<SearchResponse> listener;
        private final AtomicBoolean finished = new AtomicBoolean();
        private final int deadlineMs = node.settings().deadlineMs();
        private final String opaqueId = node.threadContext().getHeader(Task.X_OPAQUE_ID);
        private volatile Candidates candidates;
        private volatile boolean sent;
        private volatile long sentNanos;
        private volatile Scheduler.ScheduledCancellable timer;
        private volatile SidecarClient.Call call;

        Rerank(
            SearchRequest request,
            SearchResponse response,
            Ask.Widened ask,
            Legs legs,
            ActionListener<SearchResponse> listener
        ) {
            this.request = request;
            this.response = response;
            this.hits = response.getHits().getHits();
            this.ask = ask;
            this.legs = legs;
            this.listener = listener;
        }

        void start() {
            timer = node.scheduler().apply((long) deadlineMs, this::onDeadline);
            if (legs == null) {
                send(List.of());
            } else {
                // Half of the deadline is for the legs, the rest is the reranker's.
                legs.whenDone(deadlineMs / 2, node.scheduler(), this::onLegs);
            }
        }

        private void onLegs(List<Legs.Result> results) {
            try {
                send(legs.belongTo(request) ? results : Legs.leftOut(results));
            } catch (Exception e) {
                fail(Reason.INTERNAL_ERROR, internal(e));
            }
        }

        private void send(List<Legs.Result> results) {
            if (finished.get()) {
                return;
            }
            try {
                Candidates found = Candidates.of(
                    hits,
                    ask.window(),
                    response.getTook().millis(),
                    results,
                    node.indices()::isPincite
                );
                candidates = found;
                if (found.all().length <= ask.from()) {
                    boolean nothing = found.all().length == 0;
                    throw new HookException(Reason.NO_HITS, nothing ? "The search found nothing." : "The page lies behind the last hit.");
                }
                long left = deadlineMs - millisSince(startNanos);
                if (left < 1) {
                    throw new HookException(
                        Reason.SIDECAR_TIMEOUT,
                        "The deadline of " + deadlineMs + " ms passed before the sidecar was called."
                    );
                }
                byte[] body = new RerankRequest(ask.query(), (int) left, found.sent()).toJson();
                sent = true;
                sentNanos = System.nanoTime();
                call = node.sidecar().send(body, Duration.ofMillis(left), opaqueId, this::onReply);
            } catch (HookException e) {
                fail(e.reason(), e.getMessage());
                return;
            } catch (Exception e) {
                fail(Reason.INTERNAL_ERROR, internal(e));
                return;
            }
            if (finished.get()) {
                // The deadline came while the call was being made.
                call.cancel();
            }
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
            node.stats().sidecar("rerank", callNanos);
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
                apply(RerankReply.parse(body, candidates.ids()), callNanos);
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
            SearchHit[] all = candidates.all();
            int[] order = reply.results().stream().mapToInt(RerankReply.Result::position).toArray();
            int[] places = Page.cut(order, all.length, ask.from(), ask.size());
            List<HookReport.Hit> scored = new ArrayList<>(places.length);
            for (int i = 0; i < places.length; i++) {
                int rank = ask.from() + i;
                RerankReply.Result result = rank < order.length ? reply.results().get(rank) : null;
                scored.add(
                    new HookReport.Hit(
                        all[places[i]].getId(),
                        rank + 1,
                        places[i] + 1,
                        result == null ? null : result.score(),
                        result == null ? Map.of() : scores(result, candidates.sent().get(places[i]))
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
                candidates.nKnnOnly(),
                candidates.legs(),
                null,
                List.copyOf(scored)
            );
            finish(all, places, report);
        }

        /** Answers with the first stage's order. */
        void fail(Reason reason, String message) {
            try {
                Candidates found = candidates;
                HookReport report = HookReport.not(
                    reason,
                    message,
                    ask.window(),
                    sent ? found.sent().size() : 0,
                    List.of(),
                    (System.nanoTime() - startNanos) / 1e6
                ).with(found == null ? List.of() : found.legs());
                boolean answered = finish(hits, Page.cut(FIRST_STAGE_ORDER, hits.length, ask.from(), ask.size()), report);
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
        private boolean finish(SearchHit[] all, int[] places, HookReport report) {
            // Everything that can fail comes before the claim, so that a failure here still leaves the search
            // to be answered by fail().
            SearchResponse page = Page.rebuild(response, all, places, report, millisSince(startNanos));
            if (finished.compareAndSet(false, true) == false) {
                return false;
            }
            node.stats().search(report);
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

    /** Returns the stages' scores, and those of the legs that found the hit. */
    private static Map<String, Double> scores(RerankReply.Result result, RerankRequest.Candidate candidate) {
        if (candidate.knn() == null && candidate.centroids() == null) {
            return result.scores();
        }
        Map<String, Double> scores = new LinkedHashMap<>(result.scores());
        if (candidate.knn() != null) {
            scores.put(Legs.KNN, candidate.knn().doubleValue());
        }
        if (candidate.centroids() != null) {
            scores.put(Legs.CENTROIDS, candidate.centroids().doubleValue());
        }
        return scores;
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
