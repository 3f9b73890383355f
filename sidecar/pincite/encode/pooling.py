"""Token pooling: fewer token vectors a text, each the mean of similar ones (Clavié, Chaffin & Adams 2024).

With pooling a row is no longer one token, so it is an option of an index, recorded with its format.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pincite.kernels.vectors import normalize

if TYPE_CHECKING:
    from pincite.domain.protocols import FloatArray

#: Written where the pooling of an index is recorded; another algorithm is another name.
POOLING_ID = "ward@1"


def pool_tokens(tokens: FloatArray, factor: int) -> FloatArray:
    """Merge the token vectors of one text into a ``factor``-th of them.

    Ward's hierarchical clustering: on vectors of unit length its squared distance is 2 − 2 cos, so it merges
    by cosine. Cost is O(n² · dim) time and O(n²) memory: about 1 ms for 200 tokens; of a long text pool its
    chunks.

    Args:
        tokens: (n, dim) float32, rows L2-normalised.
        factor: 1 leaves them as they are; 2 halves them.

    Returns:
        (⌈n / factor⌉, dim) float32, rows L2-normalised, in the order of each cluster's first token. Where the
        tree has ties there may be fewer rows, never more.

    Raises:
        ValueError: the factor is below 1, or tokens is not a matrix.
    """
    if factor < 1:
        raise ValueError(f"a pooling factor is at least 1, not {factor}")
    if tokens.ndim != 2:
        raise ValueError(f"token vectors are a matrix, not {tokens.shape}")
    wanted = -(-len(tokens) // factor)
    if wanted == len(tokens):
        return np.asarray(tokens, dtype=np.float32)
    from scipy.cluster.hierarchy import fcluster, linkage  # type: ignore[import-untyped]

    labels = fcluster(linkage(tokens.astype(np.float64), method="ward"), wanted, criterion="maxclust")
    _, first, members = np.unique(labels, return_index=True, return_inverse=True)
    # unique() orders by label; the text's order is that of first members.
    position = np.argsort(np.argsort(first))[members]
    sums = np.zeros((len(first), tokens.shape[1]), dtype=np.float64)
    np.add.at(sums, position, tokens)
    return normalize(sums)
