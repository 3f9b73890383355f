"""The centroid leg: PLAID's centroid interaction as an ordinary query (Santhanam et al. 2022; design.md §3).

A chunk's distinct centroid numbers are terms of its keyword field ``centroids`` (encode/batches.py). For each
query token a ``dis_max`` takes the best of the token's nearest centroids that the chunk holds, each worth its
product with the token; the ``bool`` sums over the tokens. That is MaxSim with every document token replaced by
its centroid, computed by the cluster itself, shard by shard.

A token none of whose probed centroids a chunk holds is still worth something there: at most its product with the
first centroid that was not probed. As XTR does (Lee et al. 2023, §3), a share of that product is imputed to every
chunk, by taking it off the others: what all chunks have alike changes no order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pincite.retrieve.legs import filtered_body

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pincite.domain.protocols import FloatArray

FIELD = "centroids"
NPROBE = 4
#: Share of the first unprobed centroid's product that is imputed. On 3,732 chunks of licences, PDPA and contracts
#: (4,096 centroids, 4 probed, 60 questions each) recall@100 of the exact 2-bit top 10 was .77 and .84 for PDPA and
#: LegalBench-RAG at 0, .82 and .92 at .75 to .9, .78 and .88 at 1.
IMPUTED = 0.8
#: Lucene takes 1,024 clauses a query; what is left over is for filters.
MAX_CLAUSES = 1_000


def centroid_body(
    query: FloatArray,
    centroids: FloatArray,
    filter_clauses: Sequence[Mapping[str, Any]],
    size: int,
    *,
    nprobe: int = NPROBE,
) -> dict[str, Any]:
    """The centroid leg as a search body; the filter is inside it.

    Args:
        query: (n_query_tokens, dim) float32, projected and L2-normalised.
        centroids: (n_centroids, dim) float32, rows L2-normalised: the codec's.
        filter_clauses: All must hold.
        size: Hits.
        nprobe: Centroids a query token, at most.

    Raises:
        ValueError: as ``centroid_query``.
    """
    return filtered_body(centroid_query(query, centroids, nprobe=nprobe), filter_clauses, size)


def centroid_query(query: FloatArray, centroids: FloatArray, *, nprobe: int = NPROBE) -> dict[str, Any]:
    """The centroid leg as a bare query.

    A chunk's score is the sum over query tokens of the largest product among the token's ``nprobe`` nearest
    centroids that the chunk holds, less what is imputed: ``IMPUTED`` of the token's product with the next
    centroid, if that is above 0. A token none of whose centroids the chunk holds adds nothing, and products
    that are not above 0 are left out. Equal query tokens become one whose boosts count as often. The score
    plus ``imputed_sum`` is the approximate MaxSim.

    The query has at most ``MAX_CLAUSES`` term clauses. When there would be more, ``nprobe`` is lowered for all
    tokens alike; when one centroid a token is still too many, the query tokens that tell chunks apart least are
    dropped: those whose products with all centroids have the least standard deviation. Cost: one
    (n_query_tokens, n_centroids) matrix product.

    Args:
        query: (n_query_tokens, dim) float32, projected and L2-normalised.
        centroids: (n_centroids, dim) float32, rows L2-normalised.
        nprobe: Centroids a query token, at most.

    Returns:
        A ``bool`` of ``dis_max`` clauses; ``match_none`` when there is nothing to search.

    Raises:
        ValueError: dimensions differ, a value is not finite, or ``nprobe`` is below 1.
    """
    should = [
        {"dis_max": {"tie_breaker": 0.0, "queries": [_term(number, boost) for number, boost in probes]}}
        for probes, _ in _probes(query, centroids, nprobe)
    ]
    if not should:
        return {"match_none": {}}
    # In a filter context, or beside a filter, should clauses are optional unless this says otherwise.
    return {"bool": {"should": should, "minimum_should_match": 1}}


def imputed_sum(query: FloatArray, centroids: FloatArray, *, nprobe: int = NPROBE) -> float:
    """What ``centroid_query`` takes off all scores alike: added to a score it gives the approximate MaxSim.

    Raises:
        ValueError: as ``centroid_query``.
    """
    return sum(imputed for _, imputed in _probes(query, centroids, nprobe))


def _probes(query: FloatArray, centroids: FloatArray, nprobe: int) -> list[tuple[list[tuple[int, float]], float]]:
    """For each distinct query token its centroids with their boosts, best first, and what is imputed to it.

    Tokens without centroids are left out.
    """
    if nprobe < 1:
        raise ValueError(f"nprobe is {nprobe}; it must be at least 1")
    if query.ndim != 2 or centroids.ndim != 2 or query.shape[1] != centroids.shape[1]:
        raise ValueError(f"query {query.shape} and centroids {centroids.shape} do not go together")
    if not np.isfinite(query).all():
        raise ValueError("query vectors hold a value that is not finite")
    if not len(query) or not len(centroids):
        return []
    tokens, counts = _distinct(query)
    products = tokens @ centroids.T
    if len(tokens) > MAX_CLAUSES:
        kept = np.sort(np.argsort(-products.std(axis=1), kind="stable")[:MAX_CLAUSES])
        products, counts = products[kept], counts[kept]
    width = min(nprobe, MAX_CLAUSES // len(products), len(centroids))
    # One more than is probed: the first that is not. Where there is none, nothing is imputed.
    seen = min(width + 1, len(centroids))
    nearest = np.argpartition(-products, seen - 1, axis=1)[:, :seen]
    found = []
    for row, numbers, count in zip(products, nearest, counts, strict=True):
        ordered = sorted(map(int, numbers), key=lambda i: (-row[i], i))
        imputed = IMPUTED * max(float(row[ordered[width]]), 0.0) if seen > width else 0.0
        probes = [(i, (float(row[i]) - imputed) * int(count)) for i in ordered[:width] if row[i] > 0]
        if probes:
            found.append((probes, imputed * int(count)))
    return found


def _distinct(query: FloatArray) -> tuple[FloatArray, NDArray[np.int64]]:
    """The distinct rows in the order of their first occurrence, and how often each occurs."""
    _, first, counts = np.unique(query, axis=0, return_index=True, return_counts=True)
    order = np.argsort(first)
    return query[first[order]], counts[order]


def _term(number: int, boost: float) -> dict[str, Any]:
    return {"constant_score": {"filter": {"term": {FIELD: str(number)}}, "boost": boost}}
