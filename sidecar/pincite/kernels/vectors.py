"""What is done to vectors everywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pincite.domain.protocols import FloatArray


def normalize(rows: NDArray[Any]) -> FloatArray:
    """(..., dim) float32 of unit length; a vector of zeros stays one."""
    norms = np.linalg.norm(rows, axis=-1, keepdims=True)
    return np.asarray(rows / np.maximum(norms, 1e-12), dtype=np.float32)
