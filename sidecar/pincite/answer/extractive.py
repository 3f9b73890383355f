"""The extractive generator: no model writes; the evidence's best sentences answer, word for word.

Each sentence is an exact slice of its passage, line breaks included, followed by its citation id. The
output goes through the same split, parse and validation as any model's; a sentence that would not come
out of that as it went in is not chosen.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pincite.answer import answerability
from pincite.answer.parse import parse
from pincite.domain.protocols import Encoder, SentenceSplitter
from pincite.domain.types import Evidence, Generation, Question, Span
from pincite.text.overlap import tokens
from pincite.text.stems import StemSet
from pincite.text.words import STOP_WORDS, content_words, words

if TYPE_CHECKING:
    from pincite.domain.protocols import FloatArray

GENERATOR_ID = "extractive@1"
MAX_SENTENCES = 3
_MIN_WORDS = 5
_MIN_HAN_CHARS = 8
_MIN_SMALL = 3
_MIN_CAPITAL_WORDS = 12
#: A further sentence is shown only if it is nearly as good as the best one.
_MIN_SHARE_OF_BEST = 0.8
_PARTS = re.compile(r"[;；\r\n]|(?<=[.?!。？！])\s+")
_ENDS = frozenset(".!?;。！？；")
_ITEM_END = re.compile(r"[;,]\s+(?:and|or)$")
_CLOSERS = "\"'”’)]）】》」*_ "
_OPENERS = "\"'“‘([（【《「*_ "

#: Weights of the answerability, fitted for all-MiniLM-L6-v2; benchmarks/refusal/README.md says how and on
#: what. Another encoder has other cosines: fit again.
WEIGHTS: Mapping[str, float] = {
    "bias": -10.1,
    "coverage_all": 2.0,
    "coverage_best": 3.1,
    "passage_cosine": 6.4,
    "passage_maxsim": 8.7,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A sentence that may be quoted. ``span`` lies in the passage's text."""

    evidence: Evidence
    span: Span
    text: str
    whole: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """A candidate with its measures.

    Attributes:
        candidate: The sentence.
        cosine: Of the question's focus and the sentence, in [-1, 1].
        maxsim: Of the same two, mean over the focus's tokens, in [-1, 1].
        coverage: Share of the focus's content words in the sentence, in [0, 1].
        passage: Share of the whole question's content words in the passage and its title, in [0, 1]: the
            sentence of the contract that was named goes before a like one of another contract.
    """

    candidate: Candidate
    cosine: float
    maxsim: float
    coverage: float
    passage: float

    @property
    def score(self) -> float:
        """What sentences are ordered by."""
        return 0.25 * self.cosine + 0.25 * self.maxsim + 0.15 * self.coverage + 0.35 * self.passage


class ExtractiveGenerator:
    """Fulfils ``Generator``.

    Args:
        encoder: Measures how close a sentence is to the question.
        splitter: The splitter that the answer is split with again.
        threshold: Below this answerability the composer refuses.
        max_sentences: How many sentences an answer has at most.
        weights: Of the answerability's features.
    """

    def __init__(
        self,
        encoder: Encoder,
        splitter: SentenceSplitter,
        *,
        threshold: float = 0.6,
        max_sentences: int = MAX_SENTENCES,
        weights: Mapping[str, float] = WEIGHTS,
    ) -> None:
        self._encoder = encoder
        self._splitter = splitter
        self._threshold = threshold
        self._max_sentences = max_sentences
        self._weights = weights

    @property
    def generator_id(self) -> str:
        """Stable id with version."""
        return GENERATOR_ID

    def generate(self, question: Question, evidence: Sequence[Evidence], *, strict: bool) -> Generation:
        """Quote the best sentences. ``strict`` quotes the single best one.

        Costs two encoder passes over the evidence: its sentences and its passages.
        """
        scored = self.score(question, evidence)
        if not scored:
            return self._generation("", declined=True, features={}, answerability=0.0)
        features = self.features(question, evidence, scored)
        chosen = self._choose(scored, 1 if strict else self._max_sentences)
        text = "\n\n".join(f"{s.candidate.text} [{s.candidate.evidence.citation_id}]" for s in chosen)
        score = answerability.probability(features, self._weights)
        return self._generation(text, declined=False, features=features, answerability=score)

    def _generation(
        self, text: str, *, declined: bool, features: Mapping[str, float], answerability: float
    ) -> Generation:
        return Generation(
            text=text,
            declined=declined,
            answerability=answerability,
            threshold=self._threshold,
            model=self._encoder.encoder_id,
            prompt=None,
            features=dict(features),
        )

    def score(self, question: Question, evidence: Sequence[Evidence]) -> list[Scored]:
        """All candidates with their measures, best first; ties keep evidence order, then source order."""
        candidates = self.candidates(evidence)
        if not candidates:
            return []
        asked = focus(question.text)
        query = self._encoder.encode_query(asked)
        encoded = self._encoder.encode_passages([c.text for c in candidates])
        terms = answerability.question_terms(question)
        wanted = set(content_words(asked))
        of_focus = [t for t in terms if t.term in wanted] or terms
        passages = {
            item.citation_id: answerability.coverage(
                terms, StemSet(answerability.evidence_words(item)), question.n_chunks
            )
            for item in evidence
        }
        scored = [
            Scored(
                candidate=candidate,
                cosine=float(query.pooled @ vectors.pooled),
                maxsim=mean_max_similarity(query.tokens, vectors.tokens),
                coverage=answerability.coverage(
                    of_focus, StemSet(answerability.word_set(candidate.text)), question.n_chunks
                ),
                passage=passages[candidate.evidence.citation_id],
            )
            for candidate, vectors in zip(candidates, encoded, strict=True)
        ]
        return sorted(scored, key=lambda s: -s.score)

    def features(
        self, question: Question, evidence: Sequence[Evidence], scored: Sequence[Scored]
    ) -> dict[str, float]:
        """The features of the answerability; ``sentence_…`` ones are for the reader, without weight.

        Measures of whole passages separate better than those of single sentences: an answer often stands
        in words that share little with the question, next to words that share much.
        """
        query = self._encoder.encode_query(question.text)
        encoded = self._encoder.encode_passages([item.text for item in evidence])
        measured = {
            "passage_cosine": max(float(query.pooled @ passage.pooled) for passage in encoded),
            "passage_maxsim": max(mean_max_similarity(query.tokens, p.tokens) for p in encoded),
            "sentence_cosine": max(s.cosine for s in scored),
            "sentence_maxsim": max(s.maxsim for s in scored),
            "sentence_coverage": max(s.coverage for s in scored),
        }
        return measured | answerability.coverage_features(question, evidence)

    def candidates(self, evidence: Sequence[Evidence]) -> list[Candidate]:
        """Sentences that can be quoted: whole ones first choice, cut ones only where there is no other."""
        every = [c for item in evidence for c in self._candidates_of(item)]
        whole = [c for c in every if c.whole]
        seen: set[str] = set()
        unique: list[Candidate] = []
        for candidate in whole or every:
            key = " ".join(tokens(candidate.text))
            if key not in seen:
                seen.add(key)
                unique.append(candidate)
        return unique

    def _candidates_of(self, item: Evidence) -> list[Candidate]:
        text = item.text
        spans = self._splitter.split(text)
        out: list[Candidate] = []
        for number, span in enumerate(spans):
            sentence = span.slice(text)
            if not _worth_quoting(sentence) or not self._survives(sentence, item.citation_id):
                continue
            cut_before = number == 0 and item.passage.chunk.provenance.ordinal > 0
            cut_after = number == len(spans) - 1 and not _ends(sentence)
            out.append(Candidate(evidence=item, span=span, text=sentence, whole=not cut_before and not cut_after))
        return out

    def _survives(self, sentence: str, citation_id: str) -> bool:
        """Whether split and parse give the sentence back as it is."""
        parsed = parse(f"{sentence} [{citation_id}]", {citation_id})
        spans = self._splitter.split(parsed.text)
        if len(spans) != 1:
            return False
        return parsed.raw(spans[0], parsed.assign(spans)[0]) == sentence

    def _choose(self, scored: Sequence[Scored], limit: int) -> list[Scored]:
        floor = scored[0].score * _MIN_SHARE_OF_BEST
        chosen: list[Scored] = []
        for item in scored:
            if len(chosen) == limit or item.score < floor:
                break
            if not any(_near_duplicates(item.candidate.text, other.candidate.text) for other in chosen):
                chosen.append(item)
        order: dict[str, int] = {}
        for item in chosen:
            order.setdefault(item.candidate.evidence.citation_id, len(order))
        return sorted(chosen, key=lambda s: (order[s.candidate.evidence.citation_id], s.candidate.span.start))


def focus(question: str) -> str:
    """The part of a question that asks.

    "Consider the lease of 2015; who pays for the roof?" names a document and then asks: sentences are
    compared with the second part, passages with the whole. The last part with a question mark, else the
    last part, if it has a content word; else the whole.
    """
    parts = [part.strip() for part in _PARTS.split(question) if part.strip()]
    asking = [part for part in parts if part.endswith(("?", "？"))] or parts[-1:]
    if asking and any(word not in STOP_WORDS for word in words(asking[-1])):
        return asking[-1]
    return question


def mean_max_similarity(query: FloatArray, passage: FloatArray) -> float:
    """MaxSim over the number of query tokens, so that questions of different length compare.

    Args:
        query: (n, d) float32, rows L2-normalised.
        passage: (m, d) float32, rows L2-normalised.
    """
    if not len(query) or not len(passage):
        return 0.0
    return float((query @ passage.T).max(axis=1).mean())


def _worth_quoting(sentence: str) -> bool:
    """Not a heading, not a scrap."""
    pieces = sentence.split()
    han = sum(1 for char in sentence if "\u3400" <= char <= "\u9fff")
    if len(pieces) < _MIN_WORDS and han < _MIN_HAN_CHARS:
        return False
    letters = sum(1 for char in sentence if char.isalpha())
    if letters * 2 < len("".join(pieces)):
        return False
    numbered = sum(1 for piece in pieces if any(char.isdigit() for char in piece))
    if len(pieces) >= _MIN_CAPITAL_WORDS and numbered * 4 >= len(pieces):
        return False  # a table of contents, or figures
    # A title has few words that begin small; a sentence in capitals is long.
    small = sum(1 for piece in pieces if piece[0].islower())
    return han >= _MIN_HAN_CHARS or small >= _MIN_SMALL or len(pieces) >= _MIN_CAPITAL_WORDS


def _ends(sentence: str) -> bool:
    return sentence.rstrip(_CLOSERS)[-1:] in _ENDS or _ITEM_END.search(sentence[-8:]) is not None


def _near_duplicates(left: str, right: str) -> bool:
    """Whether two sentences say the same but for a word or two, as versions of one licence do."""
    a, b = set(tokens(left)), set(tokens(right))
    return len(a & b) >= 0.85 * max(1, min(len(a), len(b)))
