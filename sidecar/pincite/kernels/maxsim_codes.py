"""MaxSim straight from residual codes: rows are decoded a tile at a time, next to the products.

Parity with ``reference.py``: scores to 1e-5 relative. Without numba the same is done with numpy, slower.
"""

from __future__ import annotations

import functools
import itertools
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np

from pincite.kernels.maxsim import maxsim_many
from pincite.kernels.residual import byte_weights, decode_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pincite.domain.codec import Codec
    from pincite.domain.protocols import ByteArray, FloatArray, IntArray

# Below this many tokens a thread costs more than it saves.
_WORTH_A_THREAD = 1024
_compile_lock = threading.Lock()


@functools.cache
def _compiled() -> Any | None:
    """The compiled loop, or None where numba is not installed."""
    try:
        from pincite.kernels import maxsim_jit
    except ImportError:
        return None
    return maxsim_jit.compiled()


def check_ranges(
    query: FloatArray, rows: ByteArray, starts: IntArray, lengths: IntArray, *, dim: int, row_bytes: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Starts and lengths as contiguous int64, once the arguments of ``score`` are found to fit together.

    Raises:
        ValueError: dimensions differ, a document lies outside of the rows, or the query is not finite.
    """
    if query.ndim != 2 or query.shape[1] != dim:
        raise ValueError(f"query {query.shape} is not of {dim} dimensions")
    if rows.ndim != 2 or rows.shape[1] != row_bytes or rows.dtype != np.uint8:
        raise ValueError(f"rows {rows.shape} {rows.dtype} are not of {row_bytes} bytes")
    if not np.isfinite(query).all():
        raise ValueError("the query holds a value that is not finite")
    for name, value in (("starts", starts), ("lengths", lengths)):
        if np.ndim(value) != 1 or (len(value) and not np.issubdtype(np.asarray(value).dtype, np.integer)):
            raise ValueError(f"{name} is not a list of whole numbers")
    first, count = np.array(starts, dtype=np.int64), np.array(lengths, dtype=np.int64)
    if len(first) != len(count):
        raise ValueError(f"{len(first)} starts and {len(count)} lengths")
    # Written so that no sum can overflow.
    if (first < 0).any() or (count < 0).any() or (count > len(rows)).any() or (first > len(rows) - count).any():
        raise ValueError(f"a document lies outside of the {len(rows)} rows")
    return first, count


class CodesScorer:
    """``MaxSimScorer`` for ``rc`` rows of one codec. Safe for concurrent callers.

    Args:
        codec: Whose rows are scored.
        n_threads: Threads that one call may use; None: the processors that this process may use.
        use_numba: False: numpy even where numba is installed.

    Raises:
        ValueError: the codec's arrays do not fit its format or are not finite.
    """

    def __init__(self, codec: Codec, n_threads: int | None = None, *, use_numba: bool = True) -> None:
        centroids = np.ascontiguousarray(codec.centroids, dtype=np.float32)
        weights = np.ascontiguousarray(codec.bucket_weights, dtype=np.float32)
        if centroids.ndim != 2 or centroids.shape[1] != codec.dim or weights.shape != (2**codec.nbits,):
            raise ValueError(f"centroids {centroids.shape}, weights {weights.shape}: not of {codec.format.name}")
        if not (np.isfinite(centroids).all() and np.isfinite(weights).all()):
            raise ValueError("the codec holds a value that is not finite")
        if n_threads is not None and n_threads < 1:
            raise ValueError(f"{n_threads} threads")
        self._dim = codec.dim
        self._row_bytes = codec.format.row_bytes
        self._centroids = centroids
        self._codec = codec
        self._table = byte_weights(codec)
        self._n_threads = n_threads or len(os.sched_getaffinity(0))
        self._use_numba = use_numba
        self._pool = ThreadPoolExecutor(self._n_threads, thread_name_prefix="maxsim")
        self.warm_up()

    def warm_up(self) -> None:
        """Compile now rather than in the first query; later calls cost nothing."""
        if self._use_numba:
            with _compile_lock:
                self._use_numba = _compiled() is not None

    def score(self, query: FloatArray, rows: ByteArray, starts: IntArray, lengths: IntArray) -> FloatArray:
        """(n_documents,) float32 scores; see ``MaxSimScorer``. Nothing of ``rows`` is copied.

        Raises:
            ValueError: dimensions differ, a document lies outside of the rows, a row names no centroid, or
                the query is not finite.
        """
        rows = np.asarray(rows)
        first, count = check_ranges(query, rows, starts, lengths, dim=self._dim, row_bytes=self._row_bytes)
        out = np.zeros(len(first), dtype=np.float32)
        n_query = len(query)
        if n_query == 0 or len(first) == 0:
            return out
        run = _compiled() if self._use_numba else None
        if run is None:
            asked = np.asarray(query, dtype=np.float32)
            documents = (decode_rows(self._codec, rows[s : s + n]) for s, n in zip(first, count, strict=True))
            return np.array(maxsim_many(asked, documents), dtype=np.float32)
        padded = np.zeros(((n_query + 3) // 4 * 4, self._dim), dtype=np.float32)
        padded[:n_query] = query

        def part(begin: int, end: int) -> int:
            args = (padded, n_query, rows, first, count, begin, end, self._centroids, self._table, out)
            return int(run(*args))

        cuts = self._cuts(count)
        if len(cuts) == 2:
            bad = [part(cuts[0], cuts[1])]
        else:
            # The caller takes the first share itself: one hand-over less.
            waiting = [self._pool.submit(part, a, b) for a, b in itertools.pairwise(cuts[1:])]
            bad = [part(cuts[0], cuts[1]), *(w.result() for w in waiting)]
        if max(bad) >= 0:
            raise ValueError(f"a row names centroid {max(bad)} of {len(self._centroids)}")
        return out

    def _cuts(self, count: NDArray[np.int64]) -> list[int]:
        """Where to cut the documents so that every thread has about as many tokens."""
        ends = np.cumsum(count)
        total = int(ends[-1])
        shares = max(1, min(self._n_threads, total // _WORTH_A_THREAD))
        inner = np.searchsorted(ends, [total * i // shares for i in range(1, shares)], side="left") + 1
        return sorted({0, *(int(i) for i in inner if i < len(count)), len(count)})
