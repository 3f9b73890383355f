"""The token blob as the cluster holds it: rows of one token format (domain/codec.py), in base64."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING

import numpy as np

from pincite.domain.codec import CENTROID_BYTES, TokenFormat
from pincite.domain.errors import ContractError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pincite.domain.protocols import ByteArray, IntArray

_EXPONENT = np.uint16(0x7C00)


def joined(pieces: Sequence[ByteArray], row_bytes: int) -> tuple[ByteArray, IntArray, IntArray]:
    """Rows of several documents in one array of their own, with the first row and the number of each."""
    lengths = np.array([len(piece) for piece in pieces], dtype=np.int64)
    rows = np.concatenate(pieces) if len(pieces) else np.zeros((0, row_bytes), dtype=np.uint8)
    return rows, np.cumsum(lengths) - lengths, lengths


def to_base64(rows: ByteArray) -> str:
    """Base64 of (n_tokens, row_bytes) uint8 rows."""
    return base64.b64encode(np.ascontiguousarray(rows).tobytes()).decode("ascii")


def from_base64(blob: str, form: TokenFormat, *, n_centroids: int | None = None) -> ByteArray:
    """(n_tokens, row_bytes) uint8 rows from a blob.

    Args:
        blob: As the cluster returns it.
        form: The index's token format.
        n_centroids: Of the index's codec, for residual formats.

    Raises:
        ContractError: ``tokens_malformed``: not base64, not whole rows, not finite, or a centroid that the
            codec does not have.
    """
    try:
        # OpenSearch returns doc values without the padding that they were sent with.
        raw = binascii.a2b_base64(blob + "=" * (-len(blob) % 4), strict_mode=True)
    except ValueError as exc:
        raise ContractError("tokens_malformed", "A token blob is not base64.") from exc
    if len(raw) % form.row_bytes:
        raise ContractError("tokens_malformed", f"A token blob of {len(raw)} bytes is not rows of {form.name}.")
    rows = np.frombuffer(raw, dtype=np.uint8).reshape(-1, form.row_bytes)
    if form.kind == "f16":
        # An exponent of all ones is infinity or NaN; on the bits this costs a tenth of asking the floats.
        if ((np.frombuffer(raw, dtype="<u2") & _EXPONENT) == _EXPONENT).any():
            raise ContractError("tokens_malformed", "A token blob holds a value that is not finite.")
    elif len(rows) and n_centroids is not None:
        highest = int(np.ascontiguousarray(rows[:, :CENTROID_BYTES]).view("<u4").max())
        if highest >= n_centroids:
            raise ContractError(
                "tokens_malformed", f"A token blob names centroid {highest}; the codec has {n_centroids}."
            )
    return rows
