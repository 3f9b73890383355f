"""``make bench-late-interaction``: our hook against the engine's own late interaction, on one node, in one run.

Ten contracts and agreements (LegalBench-RAG, PINCITE_TEST_DATA) in chunks of 150 tokens, their questions, the
embedded node. Both sides run the same k-NN first stage of 200 candidates and score the same token vectors
(the codec's 128 dimensions): we as residual codes in the sidecar behind the search pipeline, OpenSearch as
``lateInteractionScore`` over float vectors in a rescore of window 200. The query's encoding is not in the
times (the sidecar keeps the vectors of its last queries) and is printed apart.

Bytes a chunk are (index with the field - index without it) / chunks after a force-merge to one segment.
The last line is JSON: ``ratio_p50``, ``ratio_p95``, ``bytes_ratio``, ``overlap10``, ``ndcg_change``.
"""

from __future__ import annotations

import json
import math
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pincite.adapters.chunk_documents import to_source
from pincite.adapters.opensearch import Cluster
from pincite.adapters.opensearch_sources import SourceIndex
from pincite.domain import ids
from pincite.domain.protocols import EncodedChunk, TokenCoder
from pincite.domain.types import Chunk, Provenance, Span, Versioned
from pincite.encode.batches import centroid_terms
from pincite.encode.token_rows import CodecCoder, project
from pincite.evals.bench_stack import BenchStack, bench_stack
from pincite.evals.command import run_as_command
from pincite.evals.measures import ndcg10
from pincite.evals.refusal import data_file
from pincite.ingest.extract_text import PlainTextExtractor
from pincite.wiring.clock import now
from pincite.wiring.console import say
from pincite.wiring.late import coder_of
from pincite.wiring.services import Services
from pincite.wiring.settings import load_settings
from pincite.wiring.sources import tokenizer

if TYPE_CHECKING:
    from pincite.domain.protocols import FloatArray

_CHUNK_TOKENS = 150
_STATS_INTERVAL_S = 12.0
_WINDOW = 200
_TOP = 10
_N_TIMED = 30
_REPEATS_OURS, _REPEATS_THEIRS = 5, 2
_CHUNKER = Versioned(id="bench-150", version="1")
_ENGINE_INDEX, _ENGINE_BARE = "li-engine", "li-engine-bare"


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A question with its vectors and the chunks that hold its gold quotes."""

    text: str
    pooled: FloatArray
    tokens: FloatArray
    gold: frozenset[str]


def contracts() -> tuple[list[Chunk], list[tuple[str, str, list[tuple[int, int]]]]]:
    """Chunks of the contracts; (question, file name, gold spans) of the questions."""
    items = [
        json.loads(line)
        for line in data_file("legalbench_rag/legalbench_rag_qa_public.jsonl")
        .read_text(encoding="utf-8")
        .splitlines()
    ]
    chunks: list[Chunk] = []
    for name in sorted({item["file"] for item in items}):
        text = data_file(f"legalbench_rag/{name}").read_text(encoding="utf-8")
        chunks += _cut(name, text)
    questions = [
        (item["question"], item["file"], [tuple(span) for quote in item["quotes"] for span in quote["spans"]])
        for item in items
    ]
    return chunks, questions


def _cut(file_name: str, text: str) -> Iterable[Chunk]:
    spans = tokenizer().tokenize(text).spans
    source, content = ids.source_id("bench", file_name), ids.content_hash(text.encode())
    extractor = PlainTextExtractor().extractor
    for ordinal, start in enumerate(range(0, len(spans), _CHUNK_TOKENS)):
        piece = spans[start : start + _CHUNK_TOKENS]
        span = Span(start=piece[0].start, end=piece[-1].end)
        yield Chunk(
            chunk_id=ids.chunk_id(source, content, extractor, span, _CHUNKER),
            text=span.slice(text),
            title=file_name.rsplit("/", 1)[-1].removesuffix(".txt").replace("_", " "),
            n_tokens=len(piece),
            media_type="text/plain",
            provenance=Provenance(
                source_id=source,
                content_hash=content,
                file_name=file_name,
                case_id=None,
                passage_id=f"p{ordinal}",
                ordinal=ordinal,
                token_span=Span(start=start, end=start + len(piece)),
                char_span=span,
                page_start=None,
                page_end=None,
                page_label_start=None,
                page_label_end=None,
                section_path=(),
                extractor=extractor,
                chunker=_CHUNKER,
                ingest_run="0" * 16,
            ),
        )


def index_ours(
    app: Services, stack: BenchStack, chunks: list[Chunk], coder: TokenCoder
) -> tuple[dict[str, FloatArray], list[FloatArray]]:
    """Index the chunks with and without codes; float token vectors (128 dimensions) by id, pooled vectors."""
    floats: dict[str, FloatArray] = {}
    pooled: list[FloatArray] = []
    cluster = app.cluster
    full, bare = app.indices, stack.services("libare").indices
    stack.services("libare").init()
    assert isinstance(coder, CodecCoder)  # noqa: S101  # the shipped codec is the default
    assert coder.codec is not None  # noqa: S101
    encoder = app.encoder()
    for start in range(0, len(chunks), 64):
        batch = chunks[start : start + 64]
        encoded = encoder.encode_passages([c.text for c in batch], contexts=[c.title for c in batch])
        ready = []
        lines: list[Mapping[str, Any]] = []
        for chunk, one in zip(batch, encoded, strict=True):
            pooled.append(one.pooled)
            floats[chunk.chunk_id] = project(one.tokens, coder.codec.document_projection)
            rows = coder.rows(one.tokens)
            ready.append(
                EncodedChunk(chunk=chunk, pooled=one.pooled, rows=rows, centroids=centroid_terms(rows, coder))
            )
            source_id = chunk.provenance.source_id
            lines += [
                {"index": {"_index": bare.alias("chunks"), "_id": chunk.chunk_id, "routing": source_id}},
                to_source(chunk, encoder_id=encoder.encoder_id, codec_id=coder.codec_id, ingested_at=now())
                | {"vector": one.pooled.tolist()},
            ]
        SourceIndex(full).write_chunks(
            ready, encoder_id=encoder.encoder_id, codec_id=coder.codec_id, ingested_at=now()
        )
        _bulk(cluster, lines)
        say(f"  indexed {start + len(batch)} of {len(chunks)} chunks")
    return floats, pooled


def index_theirs(
    cluster: Cluster, chunks: list[Chunk], floats: Mapping[str, FloatArray], vectors: Sequence[FloatArray]
) -> None:
    """Index float token vectors as the engine's documentation has them, and the same without them."""
    mapping = {
        "settings": {"index.knn": True, "index.number_of_shards": 1, "index.number_of_replicas": 0},
        "mappings": {
            "properties": {
                "text": {"type": "text"},
                "vector": {
                    "type": "knn_vector",
                    "dimension": len(vectors[0]),
                    "method": {"name": "hnsw", "engine": "lucene", "space_type": "cosinesimil"},
                },
                "late": {"type": "object", "enabled": False},
            }
        },
    }
    for index in (_ENGINE_INDEX, _ENGINE_BARE):
        cluster.request("DELETE", f"/{index}", params={"ignore_unavailable": "true"})
        cluster.request("PUT", f"/{index}", mapping)
    for start in range(0, len(chunks), 16):
        lines: list[Mapping[str, Any]] = []
        for chunk, vector in zip(chunks[start : start + 16], vectors[start : start + 16], strict=True):
            document = {"text": chunk.text, "vector": vector.tolist()}
            late = {"late": floats[chunk.chunk_id].tolist()}
            lines += [{"index": {"_index": _ENGINE_INDEX, "_id": chunk.chunk_id}}, document | late]
            lines += [{"index": {"_index": _ENGINE_BARE, "_id": chunk.chunk_id}}, document]
        _bulk(cluster, lines)


def _bulk(cluster: Cluster, lines: Sequence[Mapping[str, Any]]) -> None:
    for item in cluster.bulk(lines):
        if "error" in item:
            raise RuntimeError(item["error"])


def stored_bytes(cluster: Cluster, index: str) -> int:
    """Size of an index after a force-merge to one segment."""
    cluster.request("POST", f"/{index}/_refresh")
    cluster.request("POST", f"/{index}/_forcemerge", params={"max_num_segments": 1}, timeout_s=600)
    cluster.request("POST", f"/{index}/_flush", params={"force": "true"}, timeout_s=120)
    # The node measures a store's size at most every 10 s, and drops merged segments a little later.
    time.sleep(_STATS_INTERVAL_S)
    cluster.request("POST", f"/{index}/_flush", params={"force": "true"}, timeout_s=120)
    stats = cluster.request("GET", f"/{index}/_stats/store,docs")
    return int(stats["_all"]["primaries"]["store"]["size_in_bytes"])


def ours_body(query: Query) -> dict[str, Any]:
    """The k-NN search that the pipeline reranks."""
    return {
        "size": _TOP,
        "_source": False,
        "query": {"knn": {"vector": {"vector": query.pooled.tolist(), "k": _WINDOW}}},
        "ext": {"pincite": {"query": query.text}},
    }


def theirs_body(query: Query) -> dict[str, Any]:
    """The same first stage, rescored by the engine's late interaction."""
    script = {
        "source": "lateInteractionScore(params.query_vectors, 'late', params._source, params.space_type)",
        "params": {"query_vectors": query.tokens.tolist(), "space_type": "innerproduct"},
    }
    return {
        "size": _TOP,
        "_source": False,
        "query": {"knn": {"vector": {"vector": query.pooled.tolist(), "k": _WINDOW}}},
        "rescore": {
            "window_size": _WINDOW,
            "query": {
                "query_weight": 0,
                "rescore_query_weight": 1,
                "rescore_query": {"script_score": {"query": {"match_all": {}}, "script": script}},
            },
        },
    }


def timed(search: Callable[[Query], Any], query: Query) -> tuple[float, list[str], Any]:
    """Milliseconds of a search, its hits, its response."""
    began = time.perf_counter()
    reply = search(query)
    return (time.perf_counter() - began) * 1e3, [hit["_id"] for hit in reply["hits"]["hits"]], reply


def float_order(query: Query, candidates: Sequence[str], floats: Mapping[str, FloatArray]) -> list[str]:
    """Candidates by exact float MaxSim."""
    scores = {key: float((query.tokens @ floats[key].T).max(axis=1).sum()) for key in candidates}
    return sorted(candidates, key=lambda key: -scores[key])


def percentile(values: Sequence[float], share: float) -> float:
    """The value that ``share`` of the values do not exceed."""
    return float(np.percentile(np.asarray(values), share * 100))


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What a run gave: milliseconds of whole searches, and per query the orders that were compared."""

    ours_ms: list[float]
    theirs_ms: list[float]
    cold_ms: float
    warm_ms: float
    overlap_ours: float
    overlap_theirs: float
    ndcg_ours: float
    ndcg_float: float
    stages: dict[str, float]


def holding(chunks: Iterable[Chunk], file_name: str, spans: Iterable[tuple[int, int]]) -> frozenset[str]:
    """Ids of the chunks of a file that a span touches."""
    wanted = list(spans)
    return frozenset(
        chunk.chunk_id
        for chunk in chunks
        for own in [chunk.provenance.char_span]
        if chunk.provenance.file_name == file_name and any(s < own.end and own.start < e for s, e in wanted)
    )


def queries_of(
    app: Services, coder: TokenCoder, chunks: list[Chunk], questions: Iterable[Any]
) -> tuple[list[Query], float]:
    """Questions with their gold chunks, and the mean milliseconds of encoding one."""
    out, took = [], []
    encoder = app.encoder()
    for text, file_name, spans in questions:
        gold = holding(chunks, file_name, spans)
        if not gold:
            continue
        began = time.perf_counter()
        encoded = encoder.encode_query(text)
        took.append((time.perf_counter() - began) * 1e3)
        out.append(Query(text=text, pooled=encoded.pooled, tokens=coder.query(encoded.tokens), gold=gold))
    return out, statistics.mean(took)


def measure(app: Services, stack: BenchStack, queries: list[Query], floats: Mapping[str, FloatArray]) -> Measured:
    """Time both sides in turn, and compare their orders with float MaxSim."""
    cluster, alias, pipeline = app.cluster, app.indices.alias("chunks"), app.indices.pipeline

    def ours(query: Query) -> Any:
        return cluster.request(
            "POST", f"/{alias}/_search", ours_body(query), params={"search_pipeline": pipeline}, timeout_s=60
        )

    def theirs(query: Query) -> Any:
        return cluster.request("POST", f"/{_ENGINE_INDEX}/_search", theirs_body(query), timeout_s=60)

    cold_ms, warm_ms = _cold(app, stack, queries[0])
    ours_ms: list[float] = []
    theirs_ms: list[float] = []
    overlaps: list[tuple[float, float]] = []
    ndcgs: list[tuple[float, float]] = []
    stages: dict[str, list[float]] = {}
    # MaxSim alone decides, so that the orders can be compared; a deadline that nothing here comes near.
    with stack.sidecar("li", PINCITE_RETRIEVAL__WEIGHT_MAXSIM="1.0"):
        for n, query in enumerate(queries):
            candidates = [
                hit["_id"]
                for hit in cluster.request(
                    "POST", f"/{alias}/_search", ours_body(query) | {"size": _WINDOW, "ext": {}}
                )["hits"]["hits"]
            ]
            exact = float_order(query, candidates, floats)
            _, found, reply = timed(ours, query)
            if reply["ext"]["pincite"]["status"] != "applied":
                raise RuntimeError(reply["ext"]["pincite"])
            ndcgs.append((ndcg10(found, query.gold), ndcg10(exact, query.gold)))
            ours_overlap = len(set(found) & set(exact[:_TOP])) / _TOP
            if n >= _N_TIMED:
                overlaps.append((ours_overlap, math.nan))
                continue
            for _ in range(_REPEATS_OURS):
                ms, _, reply = timed(ours, query)
                ours_ms.append(ms)
                for stage in reply["ext"]["pincite"]["stages"]:
                    stages.setdefault(stage["name"], []).append(stage["took_ms"])
            engine: list[str] = []
            for _ in range(_REPEATS_THEIRS):
                ms, engine, _ = timed(theirs, query)
                theirs_ms.append(ms)
            overlaps.append((ours_overlap, len(set(engine) & set(exact[:_TOP])) / _TOP))
            say(f"  {n + 1}/{_N_TIMED}: ours {ours_ms[-1]:.0f} ms, theirs {theirs_ms[-1]:.0f} ms")
    return Measured(
        ours_ms=ours_ms,
        theirs_ms=theirs_ms,
        cold_ms=cold_ms,
        warm_ms=warm_ms,
        overlap_ours=statistics.mean(o for o, _ in overlaps),
        overlap_theirs=statistics.mean(t for _, t in overlaps if not math.isnan(t)),
        ndcg_ours=statistics.mean(o for o, _ in ndcgs),
        ndcg_float=statistics.mean(f for _, f in ndcgs),
        stages={name: statistics.median(values) for name, values in stages.items()},
    )


def _cold(app: Services, stack: BenchStack, query: Query) -> tuple[float, float]:
    """Milliseconds of the sidecar's part with an empty cache and with a full one, in this process."""
    reply = app.cluster.request(
        "POST",
        f"/{app.indices.alias('chunks')}/_search",
        ours_body(query) | {"size": _WINDOW, "ext": {}, "seq_no_primary_term": True},
    )
    candidates = [
        {
            "id": hit["_id"],
            "seq_no": hit["_seq_no"],
            "primary_term": hit["_primary_term"],
            "bm25": hit["_score"],
            "knn": None,
        }
        for hit in reply["hits"]["hits"]
    ]
    request = {"query": query.text, "candidates": candidates}
    fresh = stack.services("li", home=stack.home / f"cold-{time.time_ns()}")
    fresh.hook_rerank(request | {"candidates": candidates[:1]})
    took = []
    for _ in range(2):
        began = time.perf_counter()
        fresh.hook_rerank(request)
        took.append((time.perf_counter() - began) * 1e3)
    fresh.close()
    return took[0], took[1]


def report(got: Measured, sizes: Mapping[str, int], n_chunks: int, queries: list[Query], encode_ms: float) -> None:
    """Print the table and the line of JSON."""
    full, bare, engine, engine_bare = sizes.values()
    ours_bytes, theirs_bytes = (full - bare) / n_chunks, (engine - engine_bare) / n_chunks
    p50 = percentile(got.ours_ms, 0.5), percentile(got.theirs_ms, 0.5)
    p95 = percentile(got.ours_ms, 0.95), percentile(got.theirs_ms, 0.95)
    n_tokens = statistics.mean(len(q.tokens) for q in queries)
    print(
        f"{n_chunks} chunks of {_CHUNK_TOKENS} tokens, {len(queries)} questions of {n_tokens:.0f} tokens (mean),"
    )
    print(f"window {_WINDOW}; {len(got.ours_ms)} searches of ours, {len(got.theirs_ms)} of the engine's timed")
    print(f"{'':<28}{'pincite':>12}{'engine':>12}{'ratio':>10}")
    print(f"{'_search p50, ms':<28}{p50[0]:>12.1f}{p50[1]:>12.1f}{p50[1] / p50[0]:>10.1f}")
    print(f"{'_search p95, ms':<28}{p95[0]:>12.1f}{p95[1]:>12.1f}{p95[1] / p95[0]:>10.1f}")
    print(f"{'bytes a chunk':<28}{ours_bytes:>12.0f}{theirs_bytes:>12.0f}{theirs_bytes / ours_bytes:>10.1f}")
    print(f"{'top 10 kept of float':<28}{got.overlap_ours:>12.3f}{got.overlap_theirs:>12.3f}")
    print(f"{'nDCG@10 (float ' + format(got.ndcg_float, '.3f') + ')':<28}{got.ndcg_ours:>12.3f}{'':>12}")
    stages = ", ".join(f"{name} {ms:.1f}" for name, ms in got.stages.items())
    print(f"sidecar's stages, ms: {stages}; encoding a query (not in the times): {encode_ms:.1f} ms")
    print(f"sidecar with an empty cache: {got.cold_ms:.0f} ms, then {got.warm_ms:.0f} ms (in this process)")
    print(
        json.dumps(
            {
                "ratio_p50": round(p50[1] / p50[0], 2),
                "ratio_p95": round(p95[1] / p95[0], 2),
                "bytes_ratio": round(theirs_bytes / ours_bytes, 2),
                "overlap10": round(got.overlap_ours, 4),
                "ndcg_change": round(got.ndcg_ours / got.ndcg_float - 1, 4) if got.ndcg_float else None,
            }
        )
    )


def run() -> int:
    """The benchmark; its exit code."""
    settings = load_settings()
    chunks, questions = contracts()
    with bench_stack(settings.home, "late-interaction", heap_mb=2048) as stack:
        app = stack.services("li")
        for index in ("li-*", "libare-*", _ENGINE_INDEX, _ENGINE_BARE):
            app.cluster.request("DELETE", f"/{index}", params={"ignore_unavailable": "true"})
        app.init()
        model = app.indices.installed_model()
        assert model is not None  # noqa: S101  # just made
        coder = coder_of(model, app.indices)
        floats, pooled = index_ours(app, stack, chunks, coder)
        say("indexing the engine's float vectors (hundreds of MB of JSON)")
        index_theirs(app.cluster, chunks, floats, pooled)
        sizes = {
            name: stored_bytes(app.cluster, name)
            for name in (app.indices.alias("chunks"), "libare-chunks", _ENGINE_INDEX, _ENGINE_BARE)
        }
        queries, encode_ms = queries_of(app, coder, chunks, questions)
        report(measure(app, stack, queries, floats), sizes, len(chunks), queries, encode_ms)
        app.close()
    return 0


if __name__ == "__main__":
    run_as_command(run)
