package org.pincite.opensearch;

import org.opensearch.action.search.SearchRequest;
import org.opensearch.action.search.SearchResponse;
import org.opensearch.common.util.concurrent.ThreadContext;
import org.opensearch.core.action.ActionListener;
import org.opensearch.index.query.BoolQueryBuilder;
import org.opensearch.index.query.QueryBuilder;
import org.opensearch.search.SearchHit;
import org.opensearch.search.builder.SearchSourceBuilder;
import org.opensearch.tasks.Task;
import org.opensearch.threadpool.Scheduler;
import org.opensearch.transport.client.Client;

import java.time.Duration;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.BiFunction;
import java.util.function.Consumer;

/**
 * The legs of one search beside the client's own query: what they bring, or why not.
 *
 * <p>They begin when the client's query begins and run beside it; nobody waits for them before that query is done.
 * Each ends once: with hits, with a failure, or given up.
 */
final class Legs {
    /** The attribute of the pipeline's context that holds them. */
    static final String ATTRIBUTE = "pincite.legs";
    static final String KNN = "knn";
    static final String CENTROIDS = "centroids";

    /**
     * How a leg ended.
     *
     * @param hits best first; none when it was left out
     * @param tookMs from the start of the search, in milliseconds
     * @param reason why it was left out, null when it ran
     */
    record Result(String name, List<SearchHit> hits, double tookMs, LegReason reason) {}

    /** What the legs take from their node. */
    record Node(
        HookSettings settings,
        SidecarClient sidecar,
        HookStats stats,
        Client client,
        ThreadContext threadContext,
        Consumer<Runnable> executor,
        BiFunction<Long, Runnable, Scheduler.ScheduledCancellable> scheduler
    ) {}

    private final long startNanos = System.nanoTime();
    private final QueryBuilder query;
    private final QueryBuilder postFilter;
    private final HookStats stats;
    private final CompletableFuture<Result> knn = new CompletableFuture<>();
    private final CompletableFuture<Result> centroids = new CompletableFuture<>();
    private volatile SidecarClient.Call call;

    private Legs(SearchSourceBuilder source, HookStats stats) {
        this.query = source.query();
        this.postFilter = source.postFilter();
        this.stats = stats;
    }

    /** Starts the legs of a search and returns at once. Called on the caller's thread, in the caller's context. */
    static Legs start(Node node, SearchRequest request, Ask.Widened ask) {
        SearchSourceBuilder source = request.source();
        Legs legs = new Legs(source, node.stats());
        if (node.settings().knnLeg() == false) {
            legs.leaveOut(KNN, LegReason.DISABLED);
        }
        if (node.settings().centroidLeg() == false) {
            legs.leaveOut(CENTROIDS, LegReason.DISABLED);
        }
        if (source.collapse() != null) {
            // Groups of two searches can't be put together: each knows its own members only.
            legs.leaveOut(LegReason.COLLAPSED);
        }
        BoolQueryBuilder filters = LegFilters.of(source, ask.query());
        if (filters == null) {
            legs.leaveOut(LegReason.FILTER_NOT_SEPARABLE);
        }
        if (legs.isDone() == false) {
            try {
                legs.ask(node, new LegSearch(request, ask.window(), filters, node.settings().deadlineMs()), ask);
            } catch (Exception e) {
                legs.leaveOut(LegReason.LEGS_UNAVAILABLE);
            }
        }
        return legs;
    }

    private void ask(Node node, LegSearch search, Ask.Widened ask) throws Exception {
        int deadlineMs = node.settings().deadlineMs();
        AtomicReference<LegsReply> reply = new AtomicReference<>();
        // The searches are the caller's, on whatever thread the reply comes.
        Runnable asCaller = node.threadContext().preserveContext(() -> search(node.client(), search, reply.get()));
        call = node.sidecar().send(
            SidecarClient.LEGS,
            LegsReply.request(ask.query(), ask.window(), deadlineMs),
            Duration.ofMillis(deadlineMs),
            node.threadContext().getHeader(Task.X_OPAQUE_ID),
            (body, failure) -> {
                stats.sidecar("legs", System.nanoTime() - startNanos);
                if (failure != null) {
                    leaveOut(failure.reason() == Reason.SIDECAR_TIMEOUT ? LegReason.LEG_TIMEOUT : LegReason.LEGS_UNAVAILABLE);
                    return;
                }
                try {
                    reply.set(LegsReply.parse(body));
                    node.executor().accept(asCaller);
                } catch (Exception e) {
                    leaveOut(LegReason.LEGS_UNAVAILABLE);
                }
            }
        );
    }

    private void search(Client client, LegSearch search, LegsReply reply) {
        LegReason without = reply.reason() == null ? LegReason.NOT_IN_INDEX : reply.reason();
        if (reply.knn() == null) {
            leaveOut(KNN, without);
        }
        if (reply.centroids() == null) {
            leaveOut(CENTROIDS, without);
        }
        if (knn.isDone() == false) {
            run(client, KNN, () -> search.knn(reply.knn()));
        }
        if (centroids.isDone() == false) {
            run(client, CENTROIDS, () -> search.centroids(reply.centroids()));
        }
    }

    private interface Request {
        SearchRequest make() throws Exception;
    }

    private void run(Client client, String name, Request request) {
        try {
            client.search(request.make(), new ActionListener<>() {
                @Override
                public void onResponse(SearchResponse response) {
                    // As with the client's own search, the hits of a shard that failed are missing and no more.
                    boolean ran = response.getSuccessfulShards() > 0 || response.getTotalShards() == 0;
                    end(name, List.of(response.getHits().getHits()), ran ? null : LegReason.LEG_FAILED);
                }

                @Override
                public void onFailure(Exception e) {
                    leaveOut(name, LegReason.LEG_FAILED);
                }
            });
        } catch (Exception e) {
            leaveOut(name, LegReason.LEG_FAILED);
        }
    }

    private void leaveOut(LegReason reason) {
        leaveOut(KNN, reason);
        leaveOut(CENTROIDS, reason);
    }

    private void leaveOut(String name, LegReason reason) {
        end(name, List.of(), reason);
    }

    private void end(String name, List<SearchHit> hits, LegReason reason) {
        long nanos = System.nanoTime() - startNanos;
        CompletableFuture<Result> leg = name.equals(KNN) ? knn : centroids;
        if (leg.isDone() == false) {
            Result result = new Result(name, reason == null ? hits : List.of(), nanos / 1e6, reason);
            if (leg.complete(result)) {
                stats.leg(name, nanos, reason);
            }
        }
    }

    private boolean isDone() {
        return knn.isDone() && centroids.isDone();
    }

    /**
     * Hands on how the legs ended: at once when they have, else when they do, or at the end of the budget without
     * those that are late.
     */
    void whenDone(long budgetMs, BiFunction<Long, Runnable, Scheduler.ScheduledCancellable> scheduler, Consumer<List<Result>> then) {
        Scheduler.ScheduledCancellable timer = null;
        if (isDone() == false) {
            try {
                timer = scheduler.apply(Math.max(1, budgetMs), this::giveUp);
            } catch (RuntimeException e) {
                giveUp();
            }
        }
        Scheduler.ScheduledCancellable pending = timer;
        CompletableFuture.allOf(knn, centroids).thenRun(() -> {
            if (pending != null) {
                pending.cancel();
            }
            then.accept(List.of(knn.join(), centroids.join()));
        });
    }

    private void giveUp() {
        leaveOut(LegReason.LEG_TIMEOUT);
        SidecarClient.Call pending = call;
        if (pending != null) {
            pending.cancel();
        }
    }

    /**
     * Tells whether the legs were filtered as the search in the end was. A processor between ours may have put a
     * filter around the query, which the legs do not have.
     */
    boolean belongTo(SearchRequest request) {
        SearchSourceBuilder source = request.source();
        return source != null && Objects.equals(source.query(), query) && Objects.equals(source.postFilter(), postFilter);
    }

    /** Returns the results without the hits, for legs that do not belong to the search. */
    static List<Result> leftOut(List<Result> results) {
        return results.stream()
            .map(leg -> {
                LegReason reason = leg.reason() == null ? LegReason.FILTER_NOT_SEPARABLE : leg.reason();
                return new Result(leg.name(), List.of(), leg.tookMs(), reason);
            })
            .toList();
    }
}
