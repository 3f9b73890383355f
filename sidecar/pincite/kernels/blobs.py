"""The token blob: token vectors as the bytes that a chunk's ``tokens`` field holds (design.md §5).

Format ``f16-<dim>``: n_tokens × dim IEEE 754 half-precision numbers, little-endian, row by row, nothing
else. The format's name is in the index's ``_meta``; the number of tokens follows from the length.
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING

import numpy as np

from pincite.domain.errors import ContractError

if TYPE_CHECKING:
    from pincite.domain.protocols import FloatArray

_LE_HALF = np.dtype("<f2")
_EXPONENT = np.uint16(0x7C00)


def format_id(token_dim: int) -> str:
    """Name of the float16 format for vectors of ``token_dim`` dimensions."""
    return f"f16-{token_dim}"


def pack(tokens: FloatArray) -> str:
    """Base64 of the blob of (n_tokens, dim) float32 vectors.

    Raises:
        ValueError: a value is not finite.
    """
    if not np.isfinite(tokens).all():
        raise ValueError("token vectors hold a value that is not finite")
    return base64.b64encode(np.ascontiguousarray(tokens, dtype=_LE_HALF).tobytes()).decode("ascii")


def unpack(blob: str, token_dim: int) -> FloatArray:
    """(n_tokens, token_dim) float32 vectors from a blob.

    Raises:
        ContractError: ``tokens_malformed``: not base64, not whole rows, or not finite.
    """
    try:
        # OpenSearch returns doc values without the padding that they were sent with.
        raw = binascii.a2b_base64(blob + "=" * (-len(blob) % 4), strict_mode=True)
    except ValueError as exc:
        raise ContractError("tokens_malformed", "A token blob is not base64.") from exc
    if len(raw) % (2 * token_dim):
        raise ContractError(
            "tokens_malformed", f"A token blob of {len(raw)} bytes is not whole rows of {token_dim} float16."
        )
    # An exponent of all ones is infinity or NaN; on the bits this costs a tenth of asking the floats.
    if ((np.frombuffer(raw, dtype="<u2") & _EXPONENT) == _EXPONENT).any():
        raise ContractError("tokens_malformed", "A token blob holds a value that is not finite.")
    return np.frombuffer(raw, dtype=_LE_HALF).reshape(-1, token_dim).astype(np.float32)
