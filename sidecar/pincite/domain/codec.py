"""Token formats and the residual codec: what the bytes of a chunk's ``tokens`` field mean (design.md §5).

A token blob is rows of equal size, one a token, in the order of the chunk's text:

* ``f16-<dim>``: dim IEEE 754 half-precision numbers, little-endian;
* ``rc<nbits>-<dim>``: the centroid's number as uint32, little-endian, then dim × nbits / 8 bytes of
  residual codes in colbert-ai's order (kernels/reference.py). ``rc2-128`` is 36 bytes a token.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from pincite.domain.protocols import FloatArray

#: Bytes of the centroid's number in a row.
CENTROID_BYTES = 4
#: How residual codes are laid out in a byte; the manifest of a codec names it.
BIT_ORDER = "packbits-msb-first, low bit of a code first"

_NAME = re.compile(r"f16-(?P<half>[1-9]\d{0,4})|rc(?P<nbits>[124])-(?P<dim>[1-9]\d{0,4})")


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenFormat:
    """The layout of one row of a token blob."""

    kind: Literal["f16", "rc"]
    dim: int
    nbits: int = 16

    def __post_init__(self) -> None:
        if self.kind == "rc" and (self.nbits not in (1, 2, 4) or self.dim * self.nbits % 8):
            raise ValueError(f"no residual format has {self.dim} dimensions of {self.nbits} bits")

    @property
    def name(self) -> str:
        """As it stands in the index's ``_meta``."""
        return f"f16-{self.dim}" if self.kind == "f16" else f"rc{self.nbits}-{self.dim}"

    @property
    def row_bytes(self) -> int:
        """Bytes a token."""
        return 2 * self.dim if self.kind == "f16" else CENTROID_BYTES + self.dim * self.nbits // 8

    @classmethod
    def parse(cls, name: str) -> TokenFormat:
        """The format of a name.

        Raises:
            ValueError: no such format.
        """
        found = _NAME.fullmatch(name)
        if found is None:
            raise ValueError(f"{name!r} is not a token format")
        if found["half"]:
            return cls(kind="f16", dim=int(found["half"]))
        return cls(kind="rc", dim=int(found["dim"]), nbits=int(found["nbits"]))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Codec:
    """ColBERTv2's residual compression (Santhanam et al. 2022, §3.3), with a projection before it.

    A token vector ``x`` of the encoder (L2-normalised) becomes ``y = normalise(x @ projection)``; the codec
    stores the number of its nearest centroid (largest inner product) and, per dimension, the bucket of the
    residual. Decoding adds the bucket's weight to the centroid and normalises.

    Attributes:
        codec_id: ``name@`` and 12 hex digits of the sha256 of what the codec is made of.
        encoder_id: Whose token vectors it takes.
        token_dim: Dimensions of the encoder's token vectors.
        dim: Dimensions of the codes.
        nbits: 1, 2 or 4.
        centroids: (n_centroids, dim) float32, rows L2-normalised.
        bucket_cutoffs: (2**nbits - 1,) float32, ascending. A residual r is in bucket i when
            cutoffs[i-1] < r <= cutoffs[i].
        bucket_weights: (2**nbits,) float32, ascending: what a bucket decodes to.
        document_projection: (token_dim, dim) float32, or None where the encoder's dimensions are the codes'.
        query_projection: (token_dim, dim) float32 for query tokens; None: the document's.
        facts: What the manifest says beside: what it was trained on, when, with what seed and results.
    """

    codec_id: str
    encoder_id: str
    token_dim: int
    dim: int
    nbits: int
    centroids: FloatArray
    bucket_cutoffs: FloatArray
    bucket_weights: FloatArray
    document_projection: FloatArray | None = None
    query_projection: FloatArray | None = None
    facts: Mapping[str, Any]

    @property
    def format(self) -> TokenFormat:
        """Layout of a row that this codec writes."""
        return TokenFormat(kind="rc", dim=self.dim, nbits=self.nbits)
