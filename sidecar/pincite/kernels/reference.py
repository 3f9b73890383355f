"""MaxSim and the residual codec, defined slowly. Every fast path is tested against this file.

MaxSim (ColBERT, Khattab and Zaharia 2020, eq. 3):

* ``score(q, d) = sum over query tokens i of max over document tokens j of <q_i, d_j>``.
* Vectors are L2-normalised by whoever made them; the kernel does not normalise.
* A masked document token is minus infinity before the max; a masked query token adds nothing.
* A document without (unmasked) tokens scores 0.0, as does a query without tokens.
* Products and sums are float32. A negative maximum counts as it is: it is not clipped at 0.
* A non-finite input is a ``ValueError``, never a score.

The residual codec (ColBERTv2, Santhanam et al. 2022, §3.3; bytes as colbert-ai 0.2.22 writes them):

* the centroid of a vector is the one with the largest inner product, the first of equals;
* the code of a residual r is the number of cutoffs that are < r;
* codes are packed dimension after dimension, each code's low bit first, the first bit of a byte being its
  most significant one (numpy's ``packbits``);
* a decoded vector is the centroid plus the buckets' weights, L2-normalised; one of length 0 stays 0;
* a row of a token blob is the centroid's number (uint32, little-endian) and then the packed codes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pincite.domain.codec import Codec
    from pincite.domain.protocols import ByteArray, FloatArray


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


def pack_codes(codes: NDArray[np.uint8], nbits: int) -> ByteArray:
    """(n, dim) codes in [0, 2**nbits) to (n, dim * nbits / 8) bytes."""
    n, dim = codes.shape
    packed = np.zeros((n, dim * nbits // 8), dtype=np.uint8)
    for row in range(n):
        place = 0
        for code in codes[row]:
            for bit in range(nbits):
                packed[row, place // 8] |= ((int(code) >> bit) & 1) << (7 - place % 8)
                place += 1
    return packed


def unpack_codes(packed: ByteArray, nbits: int) -> NDArray[np.uint8]:
    """The inverse of ``pack_codes``."""
    n, n_bytes = packed.shape
    codes = np.zeros((n, n_bytes * 8 // nbits), dtype=np.uint8)
    for row in range(n):
        for place in range(n_bytes * 8):
            bit = (int(packed[row, place // 8]) >> (7 - place % 8)) & 1
            codes[row, place // nbits] |= bit << (place % nbits)
    return codes


def encode_rows(codec: Codec, vectors: FloatArray) -> ByteArray:
    """(n, dim) projected, L2-normalised vectors to (n, row_bytes) rows of a token blob."""
    n = len(vectors)
    rows = np.zeros((n, codec.format.row_bytes), dtype=np.uint8)
    codes = np.zeros((n, codec.dim), dtype=np.uint8)
    for i in range(n):
        products = [float(np.dot(centroid, vectors[i])) for centroid in codec.centroids]
        nearest = products.index(max(products))
        residual = vectors[i] - codec.centroids[nearest]
        for j in range(codec.dim):
            codes[i, j] = sum(1 for cutoff in codec.bucket_cutoffs if cutoff < residual[j])
        rows[i, :4] = np.frombuffer(np.array([nearest], dtype="<u4").tobytes(), dtype=np.uint8)
    rows[:, 4:] = pack_codes(codes, codec.nbits)
    return rows


def decode_rows(codec: Codec, rows: ByteArray) -> FloatArray:
    """(n, row_bytes) rows to (n, dim) float32 vectors, L2-normalised."""
    codes = unpack_codes(rows[:, 4:], codec.nbits)
    out = np.zeros((len(rows), codec.dim), dtype=np.float32)
    for i, row in enumerate(rows):
        centroid = int.from_bytes(row[:4].tobytes(), "little")
        if centroid >= len(codec.centroids):
            raise ValueError(f"a row names centroid {centroid} of {len(codec.centroids)}")
        vector = codec.centroids[centroid] + codec.bucket_weights[codes[i]]
        length = float(np.sqrt(np.sum(vector.astype(np.float64) ** 2)))
        out[i] = vector / length if length > 0 else 0.0
    return out
