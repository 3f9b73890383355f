"""MaxSim of one query and many documents, with numpy. Parity with ``reference.py`` to 1e-4 relative."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from pincite.domain.protocols import FloatArray


def maxsim_many(query: FloatArray, documents: Iterable[FloatArray]) -> list[float]:
    """Scores of all documents, in their order.

    One small matrix product a document: no copy of the token vectors, which are most of the memory. Cost:
    n_query_tokens × total document tokens × dim multiply-adds.

    Args:
        query: (n_query_tokens, dim) float32.
        documents: arrays (n_tokens, dim), float32 or float16; empty ones score 0.0.

    Raises:
        ValueError: dimensions differ, or a score is not finite.
    """
    scores = []
    for document in documents:
        if document.ndim != 2 or document.shape[1] != query.shape[1]:
            raise ValueError(f"query {query.shape} and document {document.shape} do not go together")
        if not len(document) or not len(query):
            scores.append(0.0)
            continue
        products = query @ document.astype(np.float32, copy=False).T
        scores.append(float(products.max(axis=1).sum(dtype=np.float32)))
    if not np.isfinite(scores).all():
        raise ValueError("token vectors hold a value that is not finite")
    return scores
