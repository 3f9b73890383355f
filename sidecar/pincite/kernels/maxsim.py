"""MaxSim of one query and many documents, with numpy. Parity with ``reference.py`` to 1e-4 relative."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from pincite.domain.protocols import FloatArray


def maxsim_many(query: FloatArray, documents: Sequence[FloatArray]) -> list[float]:
    """Scores of all documents, in their order.

    One flat matrix product over the concatenated tokens, then a segmented max. Cost:
    n_query_tokens × total document tokens × dim multiply-adds; no copy of single documents.

    Args:
        query: (n_query_tokens, dim) float32.
        documents: arrays (n_tokens, dim), float32 or float16; empty ones score 0.0.

    Raises:
        ValueError: dimensions differ, or a score is not finite.
    """
    scores = np.zeros(len(documents), dtype=np.float32)
    filled = [i for i, document in enumerate(documents) if len(document)]
    if query.shape[0] and filled:
        flat = np.concatenate([documents[i] for i in filled]).astype(np.float32, copy=False)
        if flat.ndim != 2 or flat.shape[1] != query.shape[1]:
            raise ValueError(f"query {query.shape} and documents {flat.shape} do not go together")
        lengths = [len(documents[i]) for i in filled]
        starts = np.concatenate(([0], np.cumsum(lengths[:-1]))).astype(np.intp)
        best = np.maximum.reduceat(query @ flat.T, starts, axis=1)
        scores[filled] = best.sum(axis=0, dtype=np.float32)
    if not np.isfinite(scores).all():
        raise ValueError("token vectors hold a value that is not finite")
    return [float(score) for score in scores]
