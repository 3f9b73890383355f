"""Token vectors to the rows of a token blob, and queries to what the scorer multiplies them with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pincite.domain.codec import Codec, TokenFormat
from pincite.kernels.residual import encode_rows
from pincite.kernels.vectors import normalize

if TYPE_CHECKING:
    from pincite.domain.protocols import ByteArray, FloatArray


class HalfCoder:
    """No codec: half-precision vectors as they are. For encoders for which none has been trained yet.

    Args:
        token_dim: Dimensions of the encoder's token vectors.
    """

    def __init__(self, token_dim: int) -> None:
        self.format = TokenFormat(kind="f16", dim=token_dim)
        self.codec_id = self.format.name
        self.codec: Codec | None = None

    def rows(self, tokens: FloatArray) -> ByteArray:
        """(n, dim) float32 to (n, 2 dim) uint8.

        Raises:
            ValueError: a value is not finite.
        """
        if not np.isfinite(tokens).all():
            raise ValueError("token vectors hold a value that is not finite")
        half = np.ascontiguousarray(tokens, dtype="<f2")
        return half.view(np.uint8).reshape(len(tokens), self.format.row_bytes)

    def query(self, tokens: FloatArray) -> FloatArray:
        """The query's token vectors as they are."""
        return tokens


class CodecCoder:
    """Residual codes of projected vectors.

    Args:
        codec: The index's codec.
    """

    def __init__(self, codec: Codec) -> None:
        self.codec: Codec | None = codec
        self._codec = codec
        self.format = codec.format
        self.codec_id = codec.codec_id

    def rows(self, tokens: FloatArray) -> ByteArray:
        """(n, token_dim) float32 to (n, row_bytes) uint8: project, normalise, encode.

        Raises:
            ValueError: a value is not finite.
        """
        return encode_rows(self._codec, project(tokens, self._codec.document_projection))

    def query(self, tokens: FloatArray) -> FloatArray:
        """(n, token_dim) float32 to (n, dim) float32, L2-normalised."""
        projection = self._codec.query_projection
        return project(tokens, self._codec.document_projection if projection is None else projection)


def project(tokens: FloatArray, projection: FloatArray | None) -> FloatArray:
    """Project and normalise; a vector of length 0 stays 0. Without a projection nothing is changed."""
    if projection is None:
        return tokens
    return normalize(tokens @ projection)
