"""``make bench-first-stage``: what the first stage finds of exact MaxSim's top 10, and how long it takes.

Real chunks (PDPA, contracts, policies, licences, the ``rules`` texts of licensedcode-data, Chinese laws:
near-duplicates and all) in one shard of an embedded node; public questions, none used to train the codec.
For centroids, BM25, k-NN and their fusion: recall@200 of the top 10 of exact MaxSim over the same 2-bit codes,
and over floats; p50 and p95 of whole searches as this process sees them. Encoding is cached and resumed.

``CHUNKS`` (20,000 by default; 100000 is the full run) and ``QUESTIONS`` (a set's, 100) change the size. The last
line is JSON.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from pincite import resources
from pincite.adapters.models_sbert import load_minilm
from pincite.domain.errors import UpstreamError
from pincite.encode.batches import centroid_terms
from pincite.encode.token_rows import CodecCoder
from pincite.evals.bench_stack import bench_stack
from pincite.evals.command import run_as_command
from pincite.evals.first_stage_corpus import EncodedCorpus, Text, encoded, query_vectors, questions, texts
from pincite.kernels.maxsim_codes import CodesScorer
from pincite.rank import fusion
from pincite.rank.fusion import FusionConfig
from pincite.retrieve import legs
from pincite.retrieve.centroids import NPROBE, centroid_body
from pincite.wiring.console import say
from pincite.wiring.settings import load_settings

if TYPE_CHECKING:
    from pincite.adapters.opensearch import Cluster
    from pincite.domain.protocols import FloatArray

_INDEX = "first-stage"
_TOP, _DEPTH = 10, 200
_NPROBES = (1, 2, 4, 8)
_BULK = 250
_FLOAT_BLOCK = 2_000
Leg = Callable[[str, "FloatArray", "FloatArray"], dict[str, Any]]


@dataclass(slots=True)
class Found:
    """What one way of searching gave: recall per question, and milliseconds."""

    codes: list[float] = field(default_factory=list)
    floats: list[float] = field(default_factory=list)
    ms: list[float] = field(default_factory=list)


def index(cluster: Cluster, items: Sequence[Text], corpus: EncodedCorpus) -> None:
    """Write the chunks to an index of one shard, with the product's mapping of the fields that are searched."""
    product = resources.load_json("mappings/chunks.json")["template"]["mappings"]["properties"]
    fields = {name: product[name] for name in ("text", "title", "centroids")}
    vector = {
        "type": "knn_vector",
        "dimension": corpus.pooled.shape[1],
        "method": {"name": "hnsw", "engine": "lucene", "space_type": "cosinesimil"},
    }
    cluster.request("DELETE", f"/{_INDEX}", params={"ignore_unavailable": "true"})
    cluster.request(
        "PUT",
        f"/{_INDEX}",
        {
            "settings": {
                "number_of_shards": 1,
                "number_of_replicas": 0,
                "index.knn": True,
                "refresh_interval": -1,
            },
            "mappings": {"_source": {"enabled": False}, "properties": fields | {"vector": vector}},
        },
    )
    coder = CodecCoder(corpus.codec)
    for at in range(0, len(items), _BULK):
        lines: list[Mapping[str, Any]] = []
        for i in range(at, min(at + _BULK, len(items))):
            start = int(corpus.starts[i])
            rows = corpus.rows[start : start + int(corpus.lengths[i])]
            lines.append({"index": {"_index": _INDEX, "_id": str(i)}})
            lines.append(
                {
                    "text": items[i].text,
                    "title": items[i].title,
                    "centroids": centroid_terms(rows, coder),
                    "vector": [round(float(x), 6) for x in corpus.pooled[i]],
                }
            )
        bad = [item for item in cluster.bulk(lines) if item["status"] >= 300]
        if bad:
            raise UpstreamError("index_failed", f"{len(bad)} chunks were refused: {bad[0].get('error')}.")
    cluster.request("POST", f"/{_INDEX}/_forcemerge", params={"max_num_segments": "1"}, timeout_s=600)
    cluster.request("POST", f"/{_INDEX}/_refresh")


def exact(corpus: EncodedCorpus, queries: Sequence[FloatArray]) -> tuple[list[list[str]], list[list[str]]]:
    """For each query the top 10 by MaxSim over all codes, and over all floats."""
    scorer = CodesScorer(corpus.codec)
    codes = [_best(scorer.score(q, corpus.rows, corpus.starts, corpus.lengths)) for q in queries]
    scores = np.zeros((len(queries), len(corpus.lengths)), dtype=np.float32)
    for at in range(0, len(corpus.lengths), _FLOAT_BLOCK):
        lengths = corpus.lengths[at : at + _FLOAT_BLOCK]
        first = int(corpus.starts[at])
        block = corpus.floats[first : first + int(lengths.sum())].astype(np.float32)
        held = np.flatnonzero(lengths)
        starts = (corpus.starts[at : at + _FLOAT_BLOCK] - first)[held]
        for i, query in enumerate(queries):
            scores[i, at + held] = np.maximum.reduceat(query @ block.T, starts, axis=1).sum(axis=0)
    return codes, [_best(row) for row in scores]


def _best(scores: FloatArray) -> list[str]:
    return [str(i) for i in np.argsort(-scores, kind="stable")[:_TOP]]


def measure(
    cluster: Cluster,
    corpus: EncodedCorpus,
    asked: Sequence[str],
    vectors: Sequence[tuple[FloatArray, FloatArray]],
) -> dict[str, Found]:
    """Search every question in every way, in turn; each way is warmed by the first questions."""
    codes, floats = exact(corpus, [tokens for _, tokens in vectors])
    ways: dict[str, Leg] = {
        "BM25": lambda text, pooled, tokens: legs.bm25_body(legs.lexical_text(text)[0], [], _DEPTH),
        "k-NN": lambda text, pooled, tokens: legs.knn_body(pooled, [], _DEPTH),
    }
    for nprobe in _NPROBES:
        ways[_centroids(nprobe)] = _centroid_leg(corpus, nprobe)
    out: dict[str, Found] = {}
    for place in [*range(min(20, len(asked))), *range(len(asked))]:
        text, (pooled, tokens) = asked[place], vectors[place]
        out_of: dict[str, dict[str, float]] = {}
        took: dict[str, float] = {}
        for name, body in ways.items():
            began = time.perf_counter()
            reply = cluster.request("POST", f"/{_INDEX}/_search", body(text, pooled, tokens), timeout_s=60)
            took[name] = (time.perf_counter() - began) * 1e3
            out_of[name] = legs.scored(reply)[0]
        lexical, semantic, late = out_of["BM25"], out_of["k-NN"], out_of[_centroids(NPROBE)]
        order = list(lexical | semantic | late)
        two = fusion.first_stage(lexical, semantic, list(lexical | semantic), FusionConfig())
        three = fusion.first_stage(lexical, semantic, order, FusionConfig(method="rrf"), centroids=late)
        orders = {name: list(scores) for name, scores in out_of.items()}
        orders["BM25 + k-NN"] = fusion.ranked(two)[:_DEPTH]
        orders["BM25 + k-NN + centroids (RRF)"] = fusion.ranked(three)[:_DEPTH]
        orders["all three legs, 200 each"] = order
        for name, found in orders.items():
            kept = out.setdefault(name, Found())
            kept.codes.append(len(set(found) & set(codes[place])) / len(codes[place]))
            kept.floats.append(len(set(found) & set(floats[place])) / len(floats[place]))
            if name in took:
                kept.ms.append(took[name])
    # The first round was to warm up.
    n = len(asked)
    return {k: Found(codes=v.codes[-n:], floats=v.floats[-n:], ms=v.ms[-n:]) for k, v in out.items()}


def _centroids(nprobe: int) -> str:
    return f"centroids, nprobe {nprobe}"


def _centroid_leg(corpus: EncodedCorpus, nprobe: int) -> Leg:
    return lambda text, pooled, tokens: centroid_body(tokens, corpus.codec.centroids, [], _DEPTH, nprobe=nprobe)


def report(found: Mapping[str, Found], corpus: EncodedCorpus, n_questions: int) -> None:
    """Print the table and the line of JSON."""
    print(
        f"{len(corpus.lengths)} chunks, {len(corpus.rows)} tokens, {len(corpus.codec.centroids)} centroids "
        f"({corpus.codec.codec_id}), {n_questions} questions; one shard, one segment, {os.cpu_count()} cores"
    )
    print(f"recall@{_DEPTH} of exact MaxSim's top {_TOP}")
    print(f"{'':<32}{'2-bit':>8}{'float':>8}{'p50 ms':>9}{'p95 ms':>9}")
    for name, way in found.items():
        times = [f"{np.percentile(way.ms, share):.1f}" for share in (50, 95)] if way.ms else ["", ""]
        print(f"{name:<32}{np.mean(way.codes):>8.3f}{np.mean(way.floats):>8.3f}{times[0]:>9}{times[1]:>9}")
    ours = found[_centroids(NPROBE)]
    print(
        json.dumps(
            {
                "chunks": len(corpus.lengths),
                "nprobe": NPROBE,
                "recall_centroids": round(float(np.mean(ours.codes)), 4),
                "recall_centroids_float": round(float(np.mean(ours.floats)), 4),
                "recall_bm25": round(float(np.mean(found["BM25"].codes)), 4),
                "recall_knn": round(float(np.mean(found["k-NN"].codes)), 4),
                "recall_fusion": round(float(np.mean(found["BM25 + k-NN + centroids (RRF)"].codes)), 4),
                "p50_ms": round(float(np.percentile(ours.ms, 50)), 2),
                "p95_ms": round(float(np.percentile(ours.ms, 95)), 2),
            }
        )
    )


def run() -> int:
    """The benchmark; its exit code."""
    limit = int(os.environ.get("CHUNKS", "20000"))
    asked = questions(int(os.environ.get("QUESTIONS", "100")))
    settings = load_settings()
    items, encoder = texts(limit), load_minilm()
    corpus = encoded(items, encoder, settings.home / "bench" / "first-stage-encoded")
    vectors = query_vectors(encoder, corpus.codec, asked)
    with bench_stack(settings.home, "first-stage", heap_mb=1024) as stack:
        app = stack.services("fs")
        say(f"indexing {len(items)} chunks")
        index(app.cluster, items, corpus)
        report(measure(app.cluster, corpus, asked, vectors), corpus, len(asked))
        app.close()
    return 0


if __name__ == "__main__":
    run_as_command(run)
