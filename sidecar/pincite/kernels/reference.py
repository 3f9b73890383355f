"""MaxSim, defined slowly. Every fast path is tested against this file.

The contract (ColBERT, Khattab and Zaharia 2020, eq. 3):

* ``score(q, d) = sum over query tokens i of max over document tokens j of <q_i, d_j>``.
* Vectors are L2-normalised by whoever made them; the kernel does not normalise.
* A masked document token is minus infinity before the max; a masked query token adds nothing.
* A document without (unmasked) tokens scores 0.0, as does a query without tokens.
* Products and sums are float32. A negative maximum counts as it is: it is not clipped at 0.
* A non-finite input is a ``ValueError``, never a score.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pincite.domain.protocols import FloatArray


def maxsim(
    query: FloatArray,
    document: FloatArray,
    *,
    query_mask: NDArray[np.bool_] | None = None,
    document_mask: NDArray[np.bool_] | None = None,
) -> float:
    """MaxSim of one query and one document.

    Args:
        query: (n_query_tokens, dim) float32.
        document: (n_document_tokens, dim) float32.
        query_mask: (n_query_tokens,) bool, True for tokens that count; None: all count.
        document_mask: (n_document_tokens,) bool, likewise.

    Returns:
        The score, in [-n_query_tokens, n_query_tokens] for normalised vectors.

    Raises:
        ValueError: dimensions differ, or a value is not finite.
    """
    if query.ndim != 2 or document.ndim != 2 or query.shape[1] != document.shape[1]:
        raise ValueError(f"query {query.shape} and document {document.shape} do not go together")
    if not (np.isfinite(query).all() and np.isfinite(document).all()):
        raise ValueError("token vectors hold a value that is not finite")
    total = np.float32(0.0)
    for i in range(query.shape[0]):
        if query_mask is not None and not query_mask[i]:
            continue
        best = -np.inf
        for j in range(document.shape[0]):
            if document_mask is not None and not document_mask[j]:
                continue
            product = np.dot(query[i].astype(np.float32), document[j].astype(np.float32))
            best = max(best, float(product))
        if best > -np.inf:
            total += np.float32(best)
    return float(total)
