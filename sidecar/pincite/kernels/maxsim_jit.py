"""The compiled inner loop of ``maxsim_codes``; imported only where numba is installed."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numba import types

_TILE = 32
_F2 = types.Array(types.float32, 2, "C", readonly=True)
_I1 = types.Array(types.int64, 1, "C", readonly=True)
# A memory map is read-only, and a store may hand over a view with strides.
_ROWS = types.Array(types.uint8, 2, "A", readonly=True)


def _score(  # noqa: PLR0912, PLR0915, PLR0917 - one loop: calls would cost registers
    query: Any, n_query: int, rows: Any, starts: Any, lengths: Any, first: int, last: int,
    centroids: Any, table: Any, out: Any,
) -> Any:  # fmt: skip
    """Scores documents first..last into ``out``; -1, or the centroid number that does not exist.

    ``query`` has a multiple of 4 rows (zeros at the end). The caller has checked starts and lengths.
    """
    dim = centroids.shape[1]
    per = table.shape[1]
    n_bytes = dim // per
    tile = np.empty((_TILE, dim), dtype=np.float32)
    best = np.empty(query.shape[0], dtype=np.float32)
    for doc in range(first, last):
        n = lengths[doc]
        if n == 0 or n_query == 0:
            out[doc] = 0.0
            continue
        best[:] = -np.inf
        for at in range(0, n, _TILE):
            size = min(_TILE, n - at)
            for t in range(size):
                r = starts[doc] + at + t
                number = (
                    np.int64(rows[r, 0]) | np.int64(rows[r, 1]) << 8
                    | np.int64(rows[r, 2]) << 16 | np.int64(rows[r, 3]) << 24
                )  # fmt: skip
                if number >= centroids.shape[0]:
                    return number
                if per == 4:
                    for b in range(n_bytes):
                        code = rows[r, 4 + b]
                        j = 4 * b
                        tile[t, j] = centroids[number, j] + table[code, 0]
                        tile[t, j + 1] = centroids[number, j + 1] + table[code, 1]
                        tile[t, j + 2] = centroids[number, j + 2] + table[code, 2]
                        tile[t, j + 3] = centroids[number, j + 3] + table[code, 3]
                elif per == 2:
                    for b in range(n_bytes):
                        code = rows[r, 4 + b]
                        j = 2 * b
                        tile[t, j] = centroids[number, j] + table[code, 0]
                        tile[t, j + 1] = centroids[number, j + 1] + table[code, 1]
                else:
                    for b in range(n_bytes):
                        code = rows[r, 4 + b]
                        for k in range(8):
                            tile[t, 8 * b + k] = centroids[number, 8 * b + k] + table[code, k]
                square = np.float32(0.0)
                for j in range(dim):
                    square += tile[t, j] * tile[t, j]
                if np.float32(1e-20) < square < np.float32(1e30):
                    inverse = np.float32(1.0) / np.sqrt(square)
                    for j in range(dim):
                        tile[t, j] *= inverse
                else:  # squares that float32 cannot hold
                    wide = 0.0
                    for j in range(dim):
                        wide += np.float64(tile[t, j]) * np.float64(tile[t, j])
                    length = np.sqrt(wide)
                    for j in range(dim):
                        tile[t, j] = np.float32(tile[t, j] / length) if length > 0.0 else np.float32(0.0)
            padded = (size + 3) // 4 * 4
            for t in range(size, padded):  # a copy changes no maximum
                tile[t, :] = tile[size - 1, :]
            for q in range(0, query.shape[0], 4):
                b0, b1, b2, b3 = best[q], best[q + 1], best[q + 2], best[q + 3]
                for t in range(0, padded, 4):
                    a00 = a01 = a02 = a03 = np.float32(0.0)
                    a10 = a11 = a12 = a13 = np.float32(0.0)
                    a20 = a21 = a22 = a23 = np.float32(0.0)
                    a30 = a31 = a32 = a33 = np.float32(0.0)
                    for j in range(dim):
                        q0, q1, q2, q3 = query[q, j], query[q + 1, j], query[q + 2, j], query[q + 3, j]
                        d = tile[t, j]
                        a00 += q0 * d
                        a10 += q1 * d
                        a20 += q2 * d
                        a30 += q3 * d
                        d = tile[t + 1, j]
                        a01 += q0 * d
                        a11 += q1 * d
                        a21 += q2 * d
                        a31 += q3 * d
                        d = tile[t + 2, j]
                        a02 += q0 * d
                        a12 += q1 * d
                        a22 += q2 * d
                        a32 += q3 * d
                        d = tile[t + 3, j]
                        a03 += q0 * d
                        a13 += q1 * d
                        a23 += q2 * d
                        a33 += q3 * d
                    b0 = max(b0, a00, a01, a02, a03)
                    b1 = max(b1, a10, a11, a12, a13)
                    b2 = max(b2, a20, a21, a22, a23)
                    b3 = max(b3, a30, a31, a32, a33)
                best[q], best[q + 1], best[q + 2], best[q + 3] = b0, b1, b2, b3
        total = np.float32(0.0)
        for q in range(n_query):
            total += best[q]
        out[doc] = total
    return -1


def compiled() -> Any:
    """``_score`` as machine code that holds no GIL: seconds of compiling once a machine, where it can be kept."""
    signature = types.int64(
        _F2, types.int64, _ROWS, _I1, _I1, types.int64, types.int64, _F2, _F2,
        types.Array(types.float32, 1, "C"),
    )  # fmt: skip
    # Not nnan and ninf: the maximum starts at minus infinity.
    flags = {"reassoc", "contract", "nsz", "arcp"}
    try:
        # Kept beside this file or in the user's cache folder, keyed by this file and the processor.
        return numba.njit(signature, nogil=True, fastmath=flags, cache=True)(_score)
    except RuntimeError:
        # Neither can be written: compiled in each process.
        return numba.njit(signature, nogil=True, fastmath=flags)(_score)
