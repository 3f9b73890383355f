"""The first stage by centroids: PLAID's centroid interaction as plain queries that any cluster runs.

A chunk's centroid numbers are terms. Each query token asks for its nearest centroids, each worth the product of
token and centroid; the best of a token that the chunk has counts, and the tokens' sum is the approximate MaxSim
of PLAID (Santhanam et al. 2022, §4.2). Lucene computes it, sharded and filtered like any query.

A query token none of whose probed centroids a chunk has is not worth nothing: it is worth at most the product of
the first centroid that was not probed. As in XTR (Lee et al. 2023, §4), that product is imputed, by taking it off
the others: what is added to every chunk alike changes no order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pincite.domain.protocols import FloatArray

FIELD = "centroids"
#: Lucene takes 1,024 clauses a query; some are left for filters.
MAX_CLAUSES = 960


def centroid_query(query: FloatArray, centroids: FloatArray, *, nprobe: int) -> dict[str, Any]:
    """The leg's query, without filters.

    Args:
        query: (n_query_tokens, dim) float32, projected and L2-normalised.
        centroids: (n_centroids, dim) float32.
        nprobe: Centroids a query token; fewer for a query so long that Lucene would refuse it, and of one
            that is longer still the tokens with the most to tell apart are kept.
    """
    if not len(query):
        return {"match_none": {}}
    products = query @ centroids.T
    n = max(1, min(nprobe, MAX_CLAUSES // len(query), centroids.shape[0] - 1))
    probed, worth = _probe(products, n)
    # Equal tokens ask the same; their worth adds up.
    clauses: dict[tuple[int, ...], NDArray[np.float32]] = {}
    for numbers, values in zip(probed, worth, strict=True):
        key = tuple(int(number) for number in numbers)
        clauses[key] = clauses.get(key, np.zeros(n, dtype=np.float32)) + values
    best = sorted(clauses.items(), key=lambda item: -float(item[1].max()))[: MAX_CLAUSES // n]
    should = [
        {
            "dis_max": {
                "tie_breaker": 0.0,
                "queries": [
                    {"constant_score": {"filter": {"term": {FIELD: str(number)}}, "boost": round(float(value), 6)}}
                    for number, value in zip(numbers, values, strict=True)
                    if value > 0
                ],
            }
        }
        for numbers, values in best
        if float(values.max()) > 0
    ]
    return {"bool": {"should": should, "minimum_should_match": 1}} if should else {"match_none": {}}


def _probe(products: FloatArray, n: int) -> tuple[NDArray[np.int64], FloatArray]:
    """(n_query_tokens, n) nearest centroids, best first, and their products over the first one left out."""
    rows = np.arange(len(products))[:, None]
    first = np.argpartition(-products, n, axis=1)[:, : n + 1] if products.shape[1] > n + 1 else None
    nearest = np.argsort(-products, axis=1, kind="stable")[:, : n + 1] if first is None else first
    nearest = nearest[rows, np.argsort(-products[rows, nearest], axis=1, kind="stable")]
    values = products[rows, nearest]
    floor = values[:, n : n + 1] if values.shape[1] > n else np.zeros((len(products), 1), dtype=np.float32)
    # A product that equals the one left out is still found before it.
    return nearest[:, :n], np.maximum(values[:, :n] - floor, 1e-6).astype(np.float32)
