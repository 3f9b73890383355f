"""The data model. Frozen, slotted, keyword-only; each stage adds, none removes.

Spans are half-open ``[start, end)`` in Unicode code points of a named text. Ranks start at 1 and higher
scores are better. The table in docs/data-model.md says where each type is made and stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pincite.domain.codes import AnswerState, Outcome, RefusalReason, Support


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Half-open range in code points of a named text."""

    start: int
    end: int

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.end:
            raise ValueError(f"not a span: [{self.start}, {self.end})")

    def slice(self, text: str) -> str:
        """The text that the span covers."""
        return text[self.start : self.end]

    def shifted(self, by: int) -> Span:
        """The same span in a text that begins ``by`` code points earlier."""
        return Span(start=self.start + by, end=self.end + by)

    def __len__(self) -> int:
        return self.end - self.start


@dataclass(frozen=True, slots=True, kw_only=True)
class Versioned:
    """A part that made an output, with its version (``forensic``, ``1``)."""

    id: str
    version: str

    def __str__(self) -> str:
        return f"{self.id}@{self.version}"

    def as_dict(self) -> dict[str, str]:
        """JSON form: ``id`` and ``version``."""
        return {"id": self.id, "version": self.version}


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One physical page. ``number`` is 1-based; ``label`` is the printed one, or None when not known."""

    number: int
    span: Span
    label: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceDocument:
    """A source with its canonical text. ``pages`` is empty for formats without pages."""

    source_id: str
    content_hash: str
    uri: str
    file_name: str
    media_type: str
    title: str
    text: str
    pages: tuple[Page, ...]
    extractor: Versioned
    case_id: str | None = None
    date: str | None = None
    acl: tuple[str, ...] = ()
    n_bytes: int = 0
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Where a chunk comes from, to the character (LawRAG §3.1's tuple, and more).

    ``token_span`` counts WordPiece tokens of the source's canonical text; ``char_span`` its code points.
    Pages are 1-based physical numbers, both ends inclusive; None for formats without pages.
    """

    source_id: str
    content_hash: str
    file_name: str
    case_id: str | None
    passage_id: str
    ordinal: int
    token_span: Span
    char_span: Span
    page_start: int | None
    page_end: int | None
    page_label_start: str | None
    page_label_end: str | None
    section_path: tuple[str, ...]
    extractor: Versioned
    chunker: Versioned
    ingest_run: str

    @property
    def version(self) -> tuple[str, str, str]:
        """(content_hash, extractor, chunker): what a source's record names of the version in force."""
        return self.content_hash, str(self.extractor), str(self.chunker)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A citable piece of a source: ``source_text[provenance.char_span] == text``, always."""

    chunk_id: str
    text: str
    title: str
    n_tokens: int
    provenance: Provenance
    media_type: str
    lang: str | None = None
    date: str | None = None
    context_summary: str | None = None
    acl: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkVersion:
    """OpenSearch's version of a chunk document: the key of every cache."""

    seq_no: int
    primary_term: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StageScore:
    """What one stage said of a passage. ``rank`` is 1-based within that stage."""

    stage: str
    score: float
    rank: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A chunk in a result list."""

    chunk: Chunk
    version: ChunkVersion
    scores: tuple[StageScore, ...] = ()

    def score(self, stage: str) -> float | None:
        """The score that a stage gave, or None when the stage did not see the passage."""
        return next((s.score for s in self.scores if s.stage == stage), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class StageTime:
    """How long a stage took, in milliseconds of wall time."""

    name: str
    took_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchFilter:
    """Restricts a search. Dates are ISO ``YYYY-MM-DD``, both ends inclusive; None means no bound.

    ``file_names`` are exact names or patterns with ``*``; several values of one field are alternatives.
    """

    case_ids: tuple[str, ...] = ()
    file_names: tuple[str, ...] = ()
    source_ids: tuple[str, ...] = ()
    date_from: str | None = None
    date_to: str | None = None
    ingested_from: str | None = None
    ingested_to: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """Passages, best first, with what was done to get them."""

    query: str
    passages: tuple[Passage, ...]
    total: int
    stages: tuple[StageTime, ...]
    models: Mapping[str, str]
    degraded: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TermStat:
    """A content word of the question: in how many of the chunks it occurs."""

    term: str
    n_chunks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """A passage exactly as the generator sees it, under a citation id minted for this answer."""

    citation_id: str
    rank: int
    passage: Passage

    @property
    def text(self) -> str:
        """The chunk's text."""
        return self.passage.chunk.text


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What one validator says of one sentence. ``score`` is in [0, 1] or None when it has none."""

    validator: Versioned
    support: Support
    score: float | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Citation:
    """Sentence to source. ``quote_span`` lies in the source's canonical text; ``quote`` is its slice."""

    citation_id: str
    chunk_id: str
    source_id: str
    content_hash: str
    extractor: Versioned
    file_name: str
    page_start: int | None
    page_end: int | None
    page_label: str | None
    quote_span: Span
    quote: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """A sentence of the answer; ``span`` lies in the answer's text."""

    text: str
    span: Span
    citations: tuple[Citation, ...]
    verdicts: tuple[Verdict, ...]

    @property
    def supported(self) -> bool:
        """Every validator passed it, and at least one looked."""
        return bool(self.verdicts) and all(v.support is Support.SUPPORTED for v in self.verdicts)


@dataclass(frozen=True, slots=True, kw_only=True)
class DroppedSentence:
    """A sentence that was generated and not shown, with the reason. Kept for audit."""

    text: str
    attempt: int
    markers: tuple[str, ...]
    verdicts: tuple[Verdict, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why there is no answer; ``message`` is for the person who asked."""

    reason: RefusalReason
    message: str
    detail: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What was asked, by which search it was prepared. ``terms`` are the question's content words."""

    text: str
    filters: SearchFilter = field(default_factory=SearchFilter)
    terms: tuple[TermStat, ...] = ()
    n_chunks: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptRef:
    """Which prompt was rendered: id, version and sha256 of its template; None fields for no prompt."""

    id: str
    version: str
    sha256: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """What a generator returned: text with ``[citation_id]`` markers, or a decline.

    ``answerability`` is in [0, 1]: how likely the evidence answers the question, by the generator's own
    measure; None when it has none. ``threshold`` is what it was compared with.
    """

    text: str
    declined: bool
    answerability: float | None
    threshold: float | None
    model: str
    prompt: PromptRef | None
    features: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerDraft:
    """The outcome of the answer stages, before it is stored: an answer or a refusal, nothing else."""

    outcome: Outcome
    text: str
    sentences: tuple[Sentence, ...]
    refusal: Refusal | None
    dropped: tuple[DroppedSentence, ...]
    n_generations: int
    generation: Generation | None
    stages: tuple[StageTime, ...]

    def __post_init__(self) -> None:
        if self.outcome is Outcome.ANSWER:
            if self.refusal is not None or not self.sentences:
                raise ValueError("an answer has sentences and no refusal")
            if not all(s.supported and s.citations for s in self.sentences):
                raise ValueError("an answer shows only supported, cited sentences")
        elif self.refusal is None or self.sentences:
            raise ValueError("a refusal has a reason and shows no sentence")


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerRecord:
    """The answer document as stored in ``answers`` (contracts/schemas/answer.schema.json)."""

    answer_id: str
    state: AnswerState
    document: Mapping[str, Any]
    seq_no: int
    primary_term: int
