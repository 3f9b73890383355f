"""MaxSim over half-precision rows (format ``f16-<dim>``), with numpy. Parity with ``reference.py`` to 1e-4."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pincite.kernels.maxsim import maxsim_many
from pincite.kernels.maxsim_codes import check_call

if TYPE_CHECKING:
    from pincite.domain.protocols import ByteArray, FloatArray, IntArray


class HalfScorer:
    """Scores rows that are vectors already.

    Args:
        dim: Dimensions of a row.
    """

    def __init__(self, dim: int) -> None:
        self._dim = dim

    def score(self, query: FloatArray, rows: ByteArray, starts: IntArray, lengths: IntArray) -> FloatArray:
        """(n_documents,) float32; see ``MaxSimScorer``."""
        check_call(query, rows, starts, lengths, dim=self._dim, row_bytes=2 * self._dim)
        documents = [
            np.ascontiguousarray(rows[start : start + length]).view("<f2").reshape(-1, self._dim)
            for start, length in zip(starts, lengths, strict=True)
        ]
        return np.array(maxsim_many(query, documents), dtype=np.float32)
