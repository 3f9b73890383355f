"""Rows of the residual codec, with numpy. Parity with ``reference.py``: equal bytes, vectors to 1e-6."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pincite.domain.codec import Codec
    from pincite.domain.protocols import ByteArray, FloatArray

_BLOCK = 256


def assign(centroids: FloatArray, vectors: FloatArray) -> NDArray[np.int64]:
    """(n,) numbers of the nearest centroids (largest inner product, the first of equals).

    Raises:
        ValueError: shapes do not go together, or a value is not finite.
    """
    if vectors.ndim != 2 or vectors.shape[1] != centroids.shape[1]:
        raise ValueError(f"centroids {centroids.shape} and vectors {vectors.shape} do not go together")
    if not np.isfinite(vectors).all():
        raise ValueError("token vectors hold a value that is not finite")
    out = np.empty(len(vectors), dtype=np.int64)
    for start in range(0, len(vectors), _BLOCK):
        out[start : start + _BLOCK] = (vectors[start : start + _BLOCK] @ centroids.T).argmax(axis=1)
    return out


def pack(codes: NDArray[np.uint8], nbits: int) -> ByteArray:
    """(n, dim) codes to (n, dim * nbits / 8) bytes."""
    bits = (codes[:, :, None] >> np.arange(nbits, dtype=np.uint8)) & 1
    return np.packbits(bits.reshape(len(codes), codes.shape[1] * nbits), axis=1)


def unpack(packed: ByteArray, nbits: int) -> NDArray[np.uint8]:
    """The inverse of ``pack``."""
    bits = np.unpackbits(packed, axis=1).reshape(len(packed), packed.shape[1] * 8 // nbits, nbits)
    codes: NDArray[np.uint8] = (bits << np.arange(nbits, dtype=np.uint8)).sum(axis=2, dtype=np.uint8)
    return codes


def byte_weights(codec: Codec) -> FloatArray:
    """(256, 8 / nbits) float32: the weights of the codes that each value of a byte holds."""
    codes = unpack(np.arange(256, dtype=np.uint8)[:, None], codec.nbits)
    return np.ascontiguousarray(codec.bucket_weights[codes], dtype=np.float32)


def encode_rows(codec: Codec, vectors: FloatArray) -> ByteArray:
    """(n, dim) projected, L2-normalised float32 vectors to (n, row_bytes) rows; ValueError as ``assign``."""
    nearest = assign(codec.centroids, vectors)
    residual = vectors - codec.centroids[nearest]
    codes = np.searchsorted(codec.bucket_cutoffs, residual, side="left").astype(np.uint8)
    numbers = nearest.astype("<u4").view(np.uint8).reshape(-1, 4)
    return np.concatenate([numbers, pack(codes, codec.nbits)], axis=1)


def decode_rows(codec: Codec, rows: ByteArray) -> FloatArray:
    """(n, row_bytes) rows to (n, dim) float32, L2-normalised; ValueError for a centroid out of range."""
    if rows.ndim != 2 or rows.shape[1] != codec.format.row_bytes:
        raise ValueError(f"rows {rows.shape} are not of {codec.format.name}")
    numbers = np.ascontiguousarray(rows[:, :4]).view("<u4")[:, 0]
    if len(rows) and int(numbers.max()) >= len(codec.centroids):
        raise ValueError(f"a row names centroid {numbers.max()} of {len(codec.centroids)}")
    out = codec.centroids[numbers] + byte_weights(codec)[rows[:, 4:]].reshape(len(rows), codec.dim)
    length = np.linalg.norm(out.astype(np.float64), axis=1, keepdims=True)
    decoded: FloatArray = (out / np.where(length > 0, length, 1.0)).astype(np.float32)
    return decoded
