package org.pincite.opensearch;

import org.apache.lucene.search.SortField;
import org.apache.lucene.search.TotalHits;
import org.opensearch.action.OriginalIndices;
import org.opensearch.action.search.SearchPhaseName;
import org.opensearch.action.search.SearchRequest;
import org.opensearch.action.search.SearchResponse;
import org.opensearch.action.search.ShardSearchFailure;
import org.opensearch.common.unit.TimeValue;
import org.opensearch.common.util.concurrent.ThreadContext;
import org.opensearch.core.action.ActionListener;
import org.opensearch.core.common.bytes.BytesArray;
import org.opensearch.core.common.io.stream.StreamOutput;
import org.opensearch.core.index.shard.ShardId;
import org.opensearch.core.xcontent.XContentBuilder;
import org.opensearch.search.SearchExtBuilder;
import org.opensearch.search.SearchHit;
import org.opensearch.search.SearchHits;
import org.opensearch.search.SearchShardTarget;
import org.opensearch.search.internal.InternalSearchResponse;
import org.opensearch.search.pipeline.PipelineProcessingContext;
import org.opensearch.search.pipeline.ProcessorExecutionDetail;
import org.opensearch.tasks.Task;
import org.opensearch.test.OpenSearchTestCase;
import org.opensearch.threadpool.Scheduler;
import org.opensearch.threadpool.TestThreadPool;
import org.opensearch.threadpool.ThreadPool;
import org.junit.After;
import org.junit.Before;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BiFunction;
import java.util.function.Consumer;

/** The response processor on its own: races, threads and a node that gives way under it. */
public class RerankProcessorTests extends OpenSearchTestCase {
    private static final int N_HITS = 5;

    private final StubSidecar stub = new StubSidecar();
    private ThreadPool threadPool;
    private SidecarClient client;

    @Before
    public void startStub() throws IOException {
        stub.start();
        threadPool = new TestThreadPool("rerank");
        client = new SidecarClient(List.of(stub.url()), StubSidecar.TOKEN, 64);
    }

    @After
    public void stopStub() throws InterruptedException {
        client.close();
        stub.stop();
        terminate(threadPool);
    }

    private static SearchHit hit(int i, String index, String clusterAlias) {
        SearchHit hit = new SearchHit(i, "d" + i, Map.of(), Map.of());
        hit.score(10 - i);
        hit.setSeqNo(i);
        hit.setPrimaryTerm(1);
        hit.shard(new SearchShardTarget("node", new ShardId(index, "u", 0), clusterAlias, OriginalIndices.NONE));
        hit.sourceRef(new BytesArray("{}"));
        return hit;
    }

    private static SearchHit[] hits(String index, String clusterAlias) {
        SearchHit[] hits = new SearchHit[N_HITS];
        for (int i = 0; i < N_HITS; i++) {
            hits[i] = hit(i, index, clusterAlias);
        }
        return hits;
    }

    /** What another plugin's response processor leaves. */
    private static final class OtherExt extends SearchExtBuilder {
        @Override
        public String getWriteableName() {
            return "other";
        }

        @Override
        public void writeTo(StreamOutput out) {}

        @Override
        public XContentBuilder toXContent(XContentBuilder builder, Params params) throws IOException {
            return builder.field("other", 1);
        }

        @Override
        public boolean equals(Object other) {
            return other instanceof OtherExt;
        }

        @Override
        public int hashCode() {
            return 1;
        }
    }

    private static SearchResponse response(SearchHit[] hits, List<SearchExtBuilder> exts) {
        Object[] collapseValues = Arrays.stream(hits).map(hit -> "value of " + hit.getId()).toArray();
        SearchHits searchHits = new SearchHits(
            hits,
            new TotalHits(77, TotalHits.Relation.GREATER_THAN_OR_EQUAL_TO),
            10f,
            new SortField[] { SortField.FIELD_SCORE },
            "case_id",
            collapseValues
        );
        InternalSearchResponse internal = new InternalSearchResponse(
            searchHits,
            null,
            null,
            null,
            true,
            true,
            3,
            exts,
            List.of(new ProcessorExecutionDetail("other"))
        );
        // A response has one of the two at most.
        boolean scroll = randomBoolean();
        return new SearchResponse(
            internal,
            scroll ? "scroll" : null,
            9,
            7,
            1,
            40,
            new SearchResponse.PhaseTook(Map.of(SearchPhaseName.QUERY.getName(), 5L)),
            new ShardSearchFailure[] { new ShardSearchFailure(new IllegalStateException("x")) },
            new SearchResponse.Clusters(2, 1, 1),
            scroll ? null : "pit"
        );
    }

    private RerankProcessor processor(
        int deadlineMs,
        Consumer<Runnable> executor,
        BiFunction<Long, Runnable, Scheduler.ScheduledCancellable> scheduler
    ) throws Exception {
        return new RerankProcessor(
            "t",
            null,
            false,
            new RerankProcessor.Node(
                WindowProcessorTests.settings("pincite.deadline_ms", Integer.toString(deadlineMs)),
                WindowProcessorTests.indices(),
                client,
                new HookStats(),
                threadPool.getThreadContext(),
                executor,
                scheduler
            )
        );
    }

    private RerankProcessor processor(int deadlineMs) throws Exception {
        return processor(
            deadlineMs,
            threadPool.generic()::execute,
            (ms, task) -> threadPool.schedule(task, TimeValue.timeValueMillis(ms), ThreadPool.Names.GENERIC)
        );
    }

    private static PipelineProcessingContext context(int from, int size, boolean wantsVersion) {
        PipelineProcessingContext context = new PipelineProcessingContext();
        context.setAttribute(Ask.ATTRIBUTE, new Ask.Widened(from, size, wantsVersion, 200, "sublet"));
        return context;
    }

    private static SearchResponse run(RerankProcessor processor, SearchResponse response, PipelineProcessingContext context)
        throws Exception {
        CompletableFuture<SearchResponse> answer = new CompletableFuture<>();
        processor.processResponseAsync(
            new SearchRequest("chunks"),
            response,
            context,
            ActionListener.wrap(answer::complete, answer::completeExceptionally)
        );
        return answer.get(20, TimeUnit.SECONDS);
    }

    private static HookReport report(SearchResponse response) {
        List<HookReport> reports = new ArrayList<>();
        for (SearchExtBuilder ext : response.getInternalResponse().getSearchExtBuilders()) {
            if (ext instanceof PinciteExt pincite) {
                reports.add(pincite.report());
            }
        }
        assertEquals(1, reports.size());
        return reports.get(0);
    }

    private static List<String> ids(SearchResponse response) {
        return Arrays.stream(response.getHits().getHits()).map(SearchHit::getId).toList();
    }

    public void testEveryFieldOfTheResponse() throws Exception {
        List<SearchExtBuilder> exts = List.of(
            new OtherExt(),
            new PinciteExt(HookReport.not(Reason.DISABLED, "old", 0, 0, List.of(), 0.0))
        );
        SearchResponse before = response(hits("chunks", null), exts);
        SearchResponse after = run(processor(20_000), before, context(1, 3, true));
        assertEquals(Status.APPLIED, report(after).status());
        assertEquals(List.of("d3", "d2", "d1"), ids(after));
        assertArrayEquals(new Object[] { "value of d3", "value of d2", "value of d1" }, after.getHits().getCollapseValues());
        assertEquals("case_id", after.getHits().getCollapseField());
        assertSame(before.getHits().getSortFields(), after.getHits().getSortFields());
        assertSame(before.getHits().getTotalHits(), after.getHits().getTotalHits());
        assertEquals(10f, after.getHits().getMaxScore(), 0f);
        assertTrue(after.isTimedOut());
        assertTrue(after.isTerminatedEarly());
        assertEquals(3, after.getNumReducePhases());
        assertEquals(before.getScrollId(), after.getScrollId());
        assertEquals(before.pointInTimeId(), after.pointInTimeId());
        assertEquals(9, after.getTotalShards());
        assertEquals(7, after.getSuccessfulShards());
        assertEquals(1, after.getSkippedShards());
        assertSame(before.getShardFailures(), after.getShardFailures());
        assertSame(before.getClusters(), after.getClusters());
        assertSame(before.getPhaseTook(), after.getPhaseTook());
        assertTrue(after.getTook().millis() >= 40);
        assertEquals(1, after.getInternalResponse().getProcessorResult().size());
        // Another's ext stays, one of our name is replaced: the name must not come twice.
        List<SearchExtBuilder> left = after.getInternalResponse().getSearchExtBuilders();
        assertEquals(List.of("other", "pincite"), left.stream().map(SearchExtBuilder::getWriteableName).toList());
        assertEquals(3, after.getHits().getAt(0).getSeqNo());
    }

    public void testVersionsAreStrippedUnlessAskedFor() throws Exception {
        SearchResponse after = run(processor(20_000), response(hits("chunks", null), List.of()), context(0, 5, false));
        for (SearchHit hit : after.getHits()) {
            assertTrue(hit.getSeqNo() < 0);
            assertEquals(0, hit.getPrimaryTerm());
        }
    }

    public void testHitsOfOtherClustersAndIndices() throws Exception {
        for (SearchHit[] hits : List.of(hits("chunks", "east"), hits("plain", null), hits("nowhere", null))) {
            SearchResponse after = run(processor(20_000), response(hits, List.of()), context(0, 2, false));
            assertEquals(Reason.INDEX_NOT_PINCITE, report(after).reason());
            assertEquals(List.of("d0", "d1"), ids(after));
        }
        assertEquals(0, stub.calls.get());
    }

    public void testHitsWithoutVersions() throws Exception {
        SearchHit[] hits = hits("chunks", null);
        hits[2].setSeqNo(-2);
        SearchResponse after = run(processor(20_000), response(hits, List.of()), context(0, 2, false));
        assertEquals(Reason.NOT_WIDENED, report(after).reason());
        assertEquals(List.of("d0", "d1"), ids(after));
    }

    public void testAScoreThatIsNone() throws Exception {
        SearchHit[] hits = hits("chunks", null);
        hits[1].score(Float.NaN);
        assertEquals(Status.APPLIED, report(run(processor(20_000), response(hits, List.of()), context(0, 2, false))).status());
        assertNull(stub.lastRequest.candidates().get(1).bm25());
    }

    /** Replies that come just when the deadline passes: whoever is first, there is one whole answer. */
    public void testOneAnswerWhenReplyAndDeadlineRace() throws Exception {
        stub.behaviour = (exchange, request) -> {
            try {
                Thread.sleep(20 + (long) (Math.random() * 20));
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
            StubSidecar.reverse(exchange, request);
        };
        RerankProcessor processor = processor(30);
        int n = 200;
        AtomicInteger answers = new AtomicInteger();
        List<CompletableFuture<SearchResponse>> futures = new ArrayList<>();
        for (int i = 0; i < n; i++) {
            CompletableFuture<SearchResponse> future = new CompletableFuture<>();
            futures.add(future);
            processor.processResponseAsync(
                new SearchRequest("chunks"),
                response(hits("chunks", null), List.of()),
                context(0, 2, false),
                ActionListener.wrap(response -> {
                    answers.incrementAndGet();
                    future.complete(response);
                }, future::completeExceptionally)
            );
            if (i % 16 == 15) {
                future.get(20, TimeUnit.SECONDS);
            }
        }
        for (CompletableFuture<SearchResponse> future : futures) {
            SearchResponse response = future.get(20, TimeUnit.SECONDS);
            boolean applied = report(response).status() == Status.APPLIED;
            assertEquals(applied ? List.of("d4", "d3") : List.of("d0", "d1"), ids(response));
            assertEquals(applied ? 2 : 0, report(response).hits().size());
            for (SearchHit hit : response.getHits()) {
                assertTrue(hit.getSeqNo() < 0);
            }
        }
        Thread.sleep(100);
        assertEquals(n, answers.get());
    }

    public void testTheNextProcessorRunsOnANodesThreadInTheSearchsContext() throws Exception {
        RerankProcessor processor = processor(20_000);
        CompletableFuture<String> seen = new CompletableFuture<>();
        try (ThreadContext.StoredContext before = threadPool.getThreadContext().stashContext()) {
            assertNotNull(before);
            threadPool.getThreadContext().putHeader(Task.X_OPAQUE_ID, "ui-7");
            processor.processResponseAsync(
                new SearchRequest("chunks"),
                response(hits("chunks", null), List.of()),
                context(0, 2, false),
                ActionListener.wrap(
                    response -> seen.complete(
                        threadPool.getThreadContext().getHeader(Task.X_OPAQUE_ID) + " " + Thread.currentThread().getName()
                    ),
                    seen::completeExceptionally
                )
            );
        }
        String answer = seen.get(20, TimeUnit.SECONDS);
        assertTrue(answer, answer.startsWith("ui-7 ") && answer.contains("[generic]"));
    }

    public void testANodeThatGivesWay() throws Exception {
        Consumer<Runnable> full = task -> { throw new RejectedExecutionException("full"); };
        RerankProcessor noThreads = processor(
            20_000,
            full,
            (ms, task) -> threadPool.schedule(task, TimeValue.timeValueMillis(ms), ThreadPool.Names.GENERIC)
        );
        RerankProcessor noTimer = processor(20_000, threadPool.generic()::execute, (ms, task) -> {
            throw new RejectedExecutionException("full");
        });
        for (RerankProcessor processor : List.of(noThreads, noTimer)) {
            SearchResponse after = run(processor, response(hits("chunks", null), List.of()), context(0, 2, false));
            assertEquals(Reason.INTERNAL_ERROR, report(after).reason());
            assertEquals(List.of("d0", "d1"), ids(after));
        }
        client.close();
        SearchResponse after = run(processor(20_000), response(hits("chunks", null), List.of()), context(0, 2, false));
        assertEquals(Status.UNAVAILABLE, report(after).status());
        assertEquals(List.of("d0", "d1"), ids(after));
    }

    public void testWithoutOrAfterTheWindow() throws Exception {
        SearchResponse before = response(hits("chunks", null), List.of());
        SearchResponse after = run(processor(20_000), before, new PipelineProcessingContext());
        assertEquals(Reason.NOT_WIDENED, report(after).reason());
        assertEquals(5, after.getHits().getHits().length);

        PipelineProcessingContext done = new PipelineProcessingContext();
        done.setAttribute(Ask.ATTRIBUTE, new Ask.Done());
        assertSame(before, run(processor(20_000), before, done));
    }

    public void testSyncUseIsRefused() throws Exception {
        RerankProcessor processor = processor(1);
        expectThrows(UnsupportedOperationException.class, () -> processor.processResponse(null, null));
    }
}
