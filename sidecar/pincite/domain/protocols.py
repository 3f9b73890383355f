"""What the stages ask of each other. Stages know these; only ``wiring`` knows who fulfils them.

Arrays are numpy's; the domain names the type without importing the library.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

from pincite.domain.codec import Codec, TokenFormat
from pincite.domain.types import (
    Chunk,
    ChunkVersion,
    Evidence,
    Generation,
    Page,
    Passage,
    Question,
    Span,
    Verdict,
    Versioned,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    FloatArray: TypeAlias = NDArray[np.float32]
    ByteArray: TypeAlias = NDArray[np.uint8]
    IntArray: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoded:
    """A text as vectors.

    Attributes:
        pooled: (dim,) float32, L2-normalised: for k-NN.
        tokens: (n_tokens, token_dim) float32, each row L2-normalised, one per WordPiece token of the
            text itself, in order; special tokens are not in it. A query of a ColBERT encoder is the
            exception: its markers and its padding take part in MaxSim.
        ordinals: (n_tokens,) int64, where the encoder leaves tokens out (punctuation): which WordPiece of
            the text each row is. None: row i is token i.
    """

    pooled: FloatArray
    tokens: FloatArray
    ordinals: IntArray | None = None


@runtime_checkable
class Encoder(Protocol):
    """Turns texts into vectors. Texts over the limit are encoded in windows, never truncated."""

    @property
    def encoder_id(self) -> str:
        """Stable id with version, stored with everything that the encoder made."""

    @property
    def dim(self) -> int:
        """Dimensions of the pooled vector."""

    @property
    def token_dim(self) -> int:
        """Dimensions of a token vector."""

    def encode_passages(self, texts: Sequence[str], *, contexts: Sequence[str] | None = None) -> list[Encoded]:
        """Encode passages; the order of the result is that of the input.

        Args:
            texts: The passages.
            contexts: For each text what the model reads before it (its document's title): it shapes the
                vectors, but ``tokens`` holds the text's own tokens alone.
        """

    def encode_query(self, text: str) -> Encoded:
        """Encode one query."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokenized:
    """WordPiece tokens of a text: ``spans[i]`` is the code-point span of token i. No special tokens."""

    spans: tuple[Span, ...]


class Tokenizer(Protocol):
    """WordPiece with offsets in code points; never truncates, never adds special tokens."""

    @property
    def tokenizer(self) -> Versioned:
        """Id and version (a hash of the vocabulary and rules)."""

    def tokenize(self, text: str) -> Tokenized:
        """All tokens of the text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extracted:
    """Canonical text of a source and its pages in it (empty for formats without pages)."""

    text: str
    pages: tuple[Page, ...]
    title: str | None = None
    warnings: tuple[str, ...] = ()


class Extractor(Protocol):
    """Raw bytes to canonical text."""

    @property
    def extractor(self) -> Versioned:
        """Id and version: offsets belong to them."""

    @property
    def suffixes(self) -> frozenset[str]:
        """Lower-case file suffixes it takes, with the dot."""

    @property
    def media_type(self) -> str:
        """The media type of what it takes."""

    def extract(self, raw: bytes, *, file_name: str) -> Extracted:
        """Extract.

        Raises:
            SourceError: with the code that says why (``source_empty``, ``source_encrypted`` …).
        """


class SentenceSplitter(Protocol):
    """Splits a text into sentences."""

    def split(self, text: str) -> list[Span]:
        """Spans of the sentences, in order, not overlapping, without surrounding white space."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocatedTokens:
    """Where the token rows of chunks stand; nothing is copied.

    Attributes:
        ids: Chunk ids that were found, in the order they were asked for.
        rows: (n_rows, row_bytes) uint8: blob rows (domain/codec.py), usually a memory map.
        starts: (len(ids),) int64: the first row of each chunk.
        lengths: (len(ids),) int64: its rows; 0 for a chunk without tokens.
        valid: Asked after scoring: False when the rows may have been overwritten meanwhile.
    """

    ids: tuple[str, ...]
    rows: ByteArray
    starts: IntArray
    lengths: IntArray
    valid: Callable[[], bool]


class TokenStore(Protocol):
    """Token rows of chunks, as stored with the chunk documents."""

    def locate(self, wanted: Mapping[str, ChunkVersion]) -> LocatedTokens:
        """Rows of exactly these versions; ids without that version are left out."""


class MaxSimScorer(Protocol):
    """MaxSim of one query over stored rows of one token format (kernels/reference.py is the contract)."""

    def score(self, query: FloatArray, rows: ByteArray, starts: IntArray, lengths: IntArray) -> FloatArray:
        """(n_documents,) float32 scores.

        Args:
            query: (n_query_tokens, dim) float32, projected and L2-normalised.
            rows: (n_rows, row_bytes) uint8.
            starts: (n_documents,) int64, first row of each document.
            lengths: (n_documents,) int64, its rows; 0 scores 0.0.

        Raises:
            ValueError: dimensions differ, a row names no centroid, or a value is not finite.
        """


class Reranker(Protocol):
    """A cross-encoder, or ``identity``."""

    @property
    def reranker_id(self) -> str:
        """Stable id with version."""

    def rerank(self, query: str, texts: Sequence[str]) -> list[float] | None:
        """One finite score a text, or None when it leaves the order as it is."""


class Generator(Protocol):
    """Writes a candidate answer from evidence."""

    @property
    def generator_id(self) -> str:
        """Stable id with version."""

    def generate(self, question: Question, evidence: Sequence[Evidence], *, strict: bool) -> Generation:
        """Generate.

        Args:
            question: What was asked.
            evidence: Passages, best first. Only their citation ids may be cited.
            strict: True for the one stricter pass after a failed validation.

        Raises:
            UpstreamError: the model's server failed; ``retryable`` says whether to try again later.
        """


class Validator(Protocol):
    """Judges one sentence against the passages that it cites."""

    @property
    def validator(self) -> Versioned:
        """Id and version."""

    def validate(self, sentence: str, cited: Sequence[Passage]) -> Verdict:
        """The verdict. ``cited`` are the resolved passages; it may be empty."""


class ChatModel(Protocol):
    """An OpenAI-compatible chat server."""

    @property
    def model(self) -> str:
        """The model's name, as the server knows it."""

    def complete(self, system: str, user: str) -> str:
        """One completion at temperature 0.

        Raises:
            UpstreamError: ``llm_timeout``, ``llm_unreachable``, ``llm_bad_reply``, ``llm_truncated`` …
        """


class TokenCoder(Protocol):
    """Token vectors to stored rows and to query vectors, for one token format."""

    format: TokenFormat
    codec_id: str
    codec: Codec | None

    def rows(self, tokens: FloatArray) -> ByteArray:
        """(n, token_dim) float32, L2-normalised, to (n, row_bytes) uint8."""

    def query(self, tokens: FloatArray) -> FloatArray:
        """(n, token_dim) float32 to (n, dim) float32, L2-normalised: what a scorer takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedChunk:
    """A chunk ready to be indexed.

    Attributes:
        pooled: (dim,) float32, L2-normalised.
        rows: (n_tokens, row_bytes) uint8: the token blob.
        centroids: Distinct centroid numbers of the rows, as terms; None where the format has none.
    """

    chunk: Chunk
    pooled: FloatArray
    rows: ByteArray
    centroids: tuple[str, ...] | None


class SourceReader(Protocol):
    """Re-reads a source file, for verification that does not trust the index."""

    def read(self, file_name: str) -> tuple[str, str, tuple[Page, ...]]:
        """(content_hash, canonical text, pages) of the file.

        Raises:
            SourceError: the file is missing or cannot be read.
        """

    def extractor_of(self, file_name: str) -> Versioned:
        """Id and version of the extractor that ``read`` uses for this name.

        Raises:
            SourceError: no extractor takes such a file.
        """
