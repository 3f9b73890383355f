"""Token blobs of the format without a codec, as vectors and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from pincite.encode.token_rows import HalfCoder
from pincite.kernels import blobs


def to_blob(tokens: Any) -> str:
    """The blob of (n, dim) float32 vectors."""
    return blobs.to_base64(HalfCoder(tokens.shape[1]).rows(tokens))


def from_blob(blob: str, dim: int) -> Any:
    """(n, dim) float32 vectors of a blob."""
    rows = blobs.from_base64(blob, HalfCoder(dim).format)
    return np.ascontiguousarray(rows).view("<f2").reshape(-1, dim).astype(np.float32)
