"""The centroid leg on a real node with two shards: the cluster computes what numpy does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from live import Node, http

from pincite.domain.codec import CENTROID_BYTES, Codec
from pincite.encode.batches import centroid_terms
from pincite.encode.token_rows import CodecCoder
from pincite.retrieve.centroids import IMPUTED, centroid_body

DIM, N_CENTROIDS, N_CHUNKS = 16, 96, 400
CASE_A = [{"term": {"provenance.case_id": "a"}}]
MAPPING = Path(__file__).parents[2] / "mappings" / "chunks.json"


def unit(rng: np.random.Generator, n: int) -> np.ndarray:
    rows = rng.normal(size=(n, DIM)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.fixture(scope="module")
def coder() -> CodecCoder:
    cutoffs = np.array([-0.1, 0.0, 0.1], dtype=np.float32)
    weights = np.array([-0.15, -0.05, 0.05, 0.15], dtype=np.float32)
    return CodecCoder(
        Codec(
            codec_id="t@0", encoder_id="t", token_dim=DIM, dim=DIM, nbits=2, facts={},
            centroids=unit(np.random.default_rng(1), N_CENTROIDS),
            bucket_cutoffs=cutoffs, bucket_weights=weights,
        )
    )  # fmt: skip


@pytest.fixture(scope="module")
def held(coder: CodecCoder) -> np.ndarray:
    """(N_CHUNKS, N_CENTROIDS): which centroids the rows of each chunk name. The last chunk has no tokens."""
    rng = np.random.default_rng(2)
    out = np.zeros((N_CHUNKS, N_CENTROIDS), dtype=bool)
    for chunk in out[:-1]:
        rows = coder.rows(unit(rng, int(rng.integers(1, 25))))
        chunk[np.ascontiguousarray(rows[:, :CENTROID_BYTES]).view("<u4")[:, 0]] = True
    return out


@pytest.fixture(scope="module")
def index(node: Node, module_prefix: str, coder: CodecCoder, held: np.ndarray) -> str:
    """An index of two shards with the field as the product maps it."""
    properties = json.loads(MAPPING.read_text(encoding="utf-8"))["template"]["mappings"]["properties"]
    name = f"{module_prefix}-centroid-leg"
    status, reply = http(
        "PUT",
        f"{node.url}/{name}",
        {
            "settings": {"number_of_shards": 2, "number_of_replicas": 0},
            "mappings": {
                "dynamic": "strict",
                "_source": {"excludes": ["centroids"]},
                "properties": {
                    "centroids": properties["centroids"],
                    "provenance": {"properties": {"case_id": properties["provenance"]["properties"]["case_id"]}},
                },
            },
        },
    )
    assert status == 200, reply
    for number, chunk in enumerate(held):
        rows = np.zeros((int(chunk.sum()), coder.format.row_bytes), dtype=np.uint8)
        rows[:, :CENTROID_BYTES] = np.flatnonzero(chunk).astype("<u4").view(np.uint8).reshape(-1, CENTROID_BYTES)
        body = {"centroids": centroid_terms(rows, coder), "provenance": {"case_id": "ab"[number % 2]}}
        status, reply = http("PUT", f"{node.url}/{name}/_doc/{number}", body)
        assert status == 201, reply
    http("POST", f"{node.url}/{name}/_refresh")
    return name


def search(node: Node, index: str, body: dict[str, Any]) -> dict[int, float]:
    status, reply = http("POST", f"{node.url}/{index}/_search", body)
    assert status == 200, reply
    assert reply["_shards"]["failed"] == 0
    assert all("_source" not in hit and "_seq_no" in hit for hit in reply["hits"]["hits"])
    return {int(hit["_id"]): hit["_score"] for hit in reply["hits"]["hits"]}


def expected(query: np.ndarray, centroids: np.ndarray, held: np.ndarray, nprobe: int) -> dict[int, float]:
    """Scores above 0, from the definition: token by token, chunk by chunk."""
    found: dict[int, float] = {}
    for number, chunk in enumerate(held):
        total = 0.0
        for token in query:
            products = centroids @ token
            nearest = np.argsort(-products)
            imputed = IMPUTED * max(float(products[nearest[nprobe]]), 0.0)
            total += max([0.0, *(float(products[c]) - imputed for c in nearest[:nprobe] if chunk[c])])
        if total > 0:
            found[number] = total
    return found


def same(found: dict[int, float], wanted: dict[int, float]) -> None:
    assert found.keys() == wanted.keys()
    assert list(found.values()) == sorted(found.values(), reverse=True)
    for number, score in found.items():
        assert score == pytest.approx(wanted[number], rel=1e-5)


def test_both_shards_hold_chunks(node: Node, index: str) -> None:
    _, reply = http("GET", f"{node.url}/_cat/shards/{index}?format=json")
    counts = [int(shard["docs"]) for shard in reply]
    assert len(counts) == 2
    assert min(counts) > 100


@pytest.mark.parametrize("nprobe", [1, 4, 16])
def test_scores_are_numpys(node: Node, index: str, coder: CodecCoder, held: np.ndarray, nprobe: int) -> None:
    assert coder.codec is not None
    query = unit(np.random.default_rng(nprobe), 20)
    query[5:8] = query[2]
    found = search(node, index, centroid_body(query, coder.codec.centroids, [], 1000, nprobe=nprobe))
    wanted = expected(query, coder.codec.centroids, held, nprobe)
    assert len(wanted) > 100
    assert N_CHUNKS - 1 not in found
    same(found, wanted)


def test_the_filter_keeps_and_scores_alike(node: Node, index: str, coder: CodecCoder, held: np.ndarray) -> None:
    assert coder.codec is not None
    query = unit(np.random.default_rng(9), 3)
    wanted = expected(query, coder.codec.centroids, held, 2)
    assert 0 < len(wanted) < N_CHUNKS
    # A chunk that passes the filter and holds no probed centroid is not found.
    found = search(node, index, centroid_body(query, coder.codec.centroids, CASE_A, 1000, nprobe=2))
    same(found, {number: score for number, score in wanted.items() if number % 2 == 0})


def test_the_first_hits_are_the_best(node: Node, index: str, coder: CodecCoder, held: np.ndarray) -> None:
    assert coder.codec is not None
    query = unit(np.random.default_rng(10), 12)
    found = search(node, index, centroid_body(query, coder.codec.centroids, CASE_A, 10))
    wanted = expected(query, coder.codec.centroids, held[::2], 4)
    assert list(found.values()) == pytest.approx(sorted(wanted.values(), reverse=True)[:10], rel=1e-5)


def test_as_many_clauses_as_the_budget_allows_are_taken(
    node: Node, index: str, coder: CodecCoder, held: np.ndarray
) -> None:
    assert coder.codec is not None
    query = unit(np.random.default_rng(11), 1200)
    filters = [*CASE_A, {"terms": {"centroids": [str(n) for n in range(N_CENTROIDS)]}}]
    assert len(search(node, index, centroid_body(query, coder.codec.centroids, filters, 1000))) > 100


def test_nothing_to_search_finds_nothing(node: Node, index: str, coder: CodecCoder) -> None:
    assert coder.codec is not None
    empty = np.zeros((0, DIM), dtype=np.float32)
    assert search(node, index, centroid_body(empty, coder.codec.centroids, CASE_A, 10)) == {}
    nowhere = [{"term": {"provenance.case_id": "nowhere"}}]
    query = unit(np.random.default_rng(12), 5)
    assert search(node, index, centroid_body(query, coder.codec.centroids, nowhere, 10)) == {}
