"""MaxSim over rows of half-precision numbers, with numpy. Parity with ``reference.py``: 1e-5 relative."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pincite.kernels.maxsim import maxsim_many
from pincite.kernels.maxsim_codes import check_ranges

if TYPE_CHECKING:
    from pincite.domain.protocols import ByteArray, FloatArray, IntArray


class HalfScorer:
    """``MaxSimScorer`` for ``f16-<dim>`` rows. Safe for concurrent callers.

    Args:
        dim: Dimensions of a token vector.
    """

    def __init__(self, dim: int) -> None:
        self._dim = dim

    def score(self, query: FloatArray, rows: ByteArray, starts: IntArray, lengths: IntArray) -> FloatArray:
        """(n_documents,) float32 scores; see ``MaxSimScorer``. One document at a time becomes float32.

        Raises:
            ValueError: dimensions differ, a document lies outside of the rows, or a value is not finite.
        """
        rows = np.asarray(rows)
        first, count = check_ranges(query, rows, starts, lengths, dim=self._dim, row_bytes=2 * self._dim)
        documents = (self._decoded(rows[s : s + n]) for s, n in zip(first, count, strict=True))
        return np.array(maxsim_many(np.asarray(query, dtype=np.float32), documents), dtype=np.float32)

    def _decoded(self, rows: ByteArray) -> FloatArray:
        # A copy of one document: rows may have strides that no view as halves allows.
        document = np.ascontiguousarray(rows).view("<f2").astype(np.float32)
        if not np.isfinite(document).all():
            raise ValueError("a token row holds a value that is not finite")
        return document
