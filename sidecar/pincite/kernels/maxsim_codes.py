"""MaxSim over residual codes: decoding fused with scoring. Parity with ``reference.py`` to 1e-3 relative.

A block of tokens is decoded through a table of a byte's weights into a tile that fits the first-level cache,
multiplied with the query, and reduced to the running maxima; decoded vectors never reach main memory. Compiled
by numba at first use (no compiler on the user's machine); without numba, numpy does the same by blocks.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, cast

import numpy as np

from pincite.domain.codec import Codec
from pincite.kernels.residual import decode_rows, unpack

if TYPE_CHECKING:
    from pincite.domain.protocols import ByteArray, FloatArray, IntArray

_SMALL_ROWS = 2_000

Kernel = Callable[..., int]


class CodesScorer:
    """Scores rows of one residual codec; thread-safe.

    Args:
        codec: The codec.
        n_threads: None: as many as this process may use.
    """

    def __init__(self, codec: Codec, *, n_threads: int | None = None) -> None:
        self._codec = codec
        self._n_threads = n_threads or len(os.sched_getaffinity(0))
        self._pool = ThreadPoolExecutor(self._n_threads, thread_name_prefix="maxsim")
        self._table = byte_weights(codec)
        self._centroids = np.ascontiguousarray(codec.centroids, dtype=np.float32)
        self._kernel = compiled()
        if self._kernel is not None:
            self._warm_up()

    def score(self, query: FloatArray, rows: ByteArray, starts: IntArray, lengths: IntArray) -> FloatArray:
        """(n_documents,) float32; see ``MaxSimScorer``.

        Cost: n_query_tokens × total tokens × dim multiply-adds, and one decoding of each token.
        """
        form = self._codec.format
        check_call(query, rows, starts, lengths, dim=form.dim, row_bytes=form.row_bytes)
        # One type of array for the compiled kernel: read-only or not, contiguous.
        rows = np.ascontiguousarray(rows).view()
        rows.flags.writeable = False
        out = np.zeros(len(starts), dtype=np.float32)
        if not len(query) or not len(starts):
            return out
        total = int(lengths.sum())
        n_parts = 1 if total < _SMALL_ROWS else self._n_threads
        if self._kernel is None:
            bad = self._by_numpy(query, rows, starts, lengths, out)
        else:
            bounds = _parts(lengths, n_parts)
            arguments = (packed_query(query), len(query), rows, starts, lengths, self._centroids, self._table, out)
            if len(bounds) == 2:
                bad = self._kernel(*arguments, 0, len(starts))
            else:
                kernel = self._kernel
                bad = max(
                    self._pool.map(
                        lambda part: kernel(*arguments, part[0], part[1]),
                        itertools.pairwise(bounds),
                    )
                )
        if bad:
            raise ValueError(f"a row names a centroid that the codec's {len(self._centroids)} lack")
        if not np.isfinite(out).all():
            raise ValueError("a score is not finite")
        return out

    def _by_numpy(
        self, query: FloatArray, rows: ByteArray, starts: IntArray, lengths: IntArray, out: FloatArray
    ) -> int:
        for i, (start, length) in enumerate(zip(starts, lengths, strict=True)):
            if length:
                decoded = decode_rows(self._codec, np.asarray(rows[start : start + length]))
                out[i] = (query @ decoded.T).max(axis=1).sum(dtype=np.float32)
        return 0

    def _warm_up(self) -> None:
        rows = np.zeros((1, self._codec.format.row_bytes), dtype=np.uint8)
        query = np.zeros((1, self._codec.dim), dtype=np.float32)
        self.score(query, rows, np.zeros(1, dtype=np.int64), np.ones(1, dtype=np.int64))


def check_call(
    query: FloatArray, rows: ByteArray, starts: IntArray, lengths: IntArray, *, dim: int, row_bytes: int
) -> None:
    """What every scorer refuses.

    Raises:
        ValueError: shapes do not go together, a range leaves the rows, or the query is not finite.
    """
    if query.ndim != 2 or query.shape[1] != dim:
        raise ValueError(f"query {query.shape} has not {dim} dimensions")
    if rows.ndim != 2 or rows.shape[1] != row_bytes or rows.dtype != np.uint8:
        raise ValueError(f"rows {rows.shape} of {rows.dtype} are not {row_bytes} bytes each")
    if starts.shape != lengths.shape or starts.ndim != 1:
        raise ValueError(f"starts {starts.shape} and lengths {lengths.shape} do not go together")
    if len(starts) and (
        int(starts.min()) < 0 or int(lengths.min()) < 0 or int((starts + lengths).max()) > len(rows)
    ):
        raise ValueError(f"a document's rows are outside the {len(rows)} there are")
    if not np.isfinite(query).all():
        raise ValueError("token vectors hold a value that is not finite")


def packed_query(query: FloatArray) -> FloatArray:
    """(⌈n/4⌉, dim, 4) float32: four query tokens side by side, the last ones padded with zeros."""
    n_query, dim = query.shape
    padded = np.zeros(((n_query + 3) // 4 * 4, dim), dtype=np.float32)
    padded[:n_query] = query
    return np.ascontiguousarray(padded.reshape(-1, 4, dim).transpose(0, 2, 1))


def byte_weights(codec: Codec) -> FloatArray:
    """(256, 8 / nbits) float32: the weights of the codes in each value of a byte."""
    codes = unpack(np.arange(256, dtype=np.uint8)[:, None], codec.nbits)
    return np.ascontiguousarray(codec.bucket_weights[codes], dtype=np.float32)


def _parts(lengths: IntArray, n: int) -> list[int]:
    """Bounds of ``n`` ranges of documents with about as many rows each."""
    ends = np.cumsum(lengths)
    inner = np.searchsorted(ends, ends[-1] * np.arange(1, n) / n, side="left") + 1 if n > 1 else []
    return sorted({0, *(min(int(i), len(lengths)) for i in inner), len(lengths)})


_COMPILED: list[Kernel | None] = []


def compiled() -> Kernel | None:
    """The kernel, compiled once a process; None without numba."""
    if not _COMPILED:
        _COMPILED.append(_compile())
    return _COMPILED[0]


def _compile() -> Kernel | None:
    try:
        from pincite.kernels.maxsim_numba import kernel
    except ImportError:
        return None
    return cast("Kernel", kernel)
