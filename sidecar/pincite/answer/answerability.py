"""Answerability: how likely the evidence answers the question, in [0, 1].

A verbatim sentence always overlaps with the passage that it stands in, so the validators cannot tell a
quote that answers from one that does not. This score can refuse. It is a logistic function of a few
features; the weights are fixed, fitted by ``benchmarks/refusal/fit.py``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from pincite.domain.types import Evidence, Question, TermStat
from pincite.text.overlap import tokens
from pincite.text.stems import StemSet
from pincite.text.words import STOP_WORDS, content_words, words


def question_terms(question: Question) -> tuple[TermStat, ...]:
    """The question's content words with their counts; those of its text when it comes without.

    Empty for a question of function words alone: it asks for nothing that could be looked up.
    """
    terms = question.terms or tuple(TermStat(term=t, n_chunks=0) for t in content_words(question.text))
    return tuple(term for term in terms if term.term not in STOP_WORDS)


def idf(term: TermStat, n_chunks: int) -> float:
    """Weight of a term: log(1 + (N − n + ½) / (n + ½)), as BM25 has it; 1.0 without corpus counts."""
    if n_chunks <= 0:
        return 1.0
    n = min(term.n_chunks, n_chunks)
    return math.log1p((n_chunks - n + 0.5) / (n + 0.5))


def coverage(terms: Sequence[TermStat], there: StemSet, n_chunks: int) -> float:
    """IDF-weighted share of the terms among the words, in [0, 1]; 0.0 without terms."""
    total = sum(idf(t, n_chunks) for t in terms)
    if total <= 0:
        return 0.0
    return sum(idf(t, n_chunks) for t in terms if stands_in(t.term, there)) / total


def evidence_words(evidence: Evidence) -> set[str]:
    """The words of a passage, its title and its file name."""
    chunk = evidence.passage.chunk
    return word_set(f"{chunk.text}\n{chunk.title}\n{chunk.provenance.file_name}")


def word_set(text: str) -> set[str]:
    """Distinct words, and the parts of compounds beside them (``gpl-3.0`` is also ``gpl``)."""
    return set(words(text)) | set(tokens(text))


def stands_in(term: str, there: StemSet) -> bool:
    """Whether a question's word, or every part of a compound, is among the words."""
    if term in there:
        return True
    parts = tokens(term)
    return len(parts) > 1 and all(part in there for part in parts)


def coverage_features(question: Question, evidence: Sequence[Evidence]) -> dict[str, float]:
    """How much of what is asked about stands in the evidence.

    ``coverage_all`` over all passages, ``coverage_best`` of the best single passage, ``absent`` the share
    (by weight) of words that no chunk of the corpus has and no passage's title or text either.
    """
    terms = question_terms(question)
    every = [evidence_words(e) for e in evidence]
    together = StemSet(word for found in every for word in found)
    n = question.n_chunks
    total = sum(idf(t, n) for t in terms)
    absent = sum(idf(t, n) for t in terms if n > 0 and t.n_chunks == 0 and not stands_in(t.term, together))
    return {
        "coverage_all": coverage(terms, together, n),
        "coverage_best": max((coverage(terms, StemSet(found), n) for found in every), default=0.0),
        "absent": absent / total if total > 0 else 0.0,
    }


def probability(features: Mapping[str, float], weights: Mapping[str, float]) -> float:
    """The logistic function of the weighted features; ``bias`` is the constant term.

    0.0 when a feature is not finite, because what cannot be measured is not answered, and when no word of
    the question stands in the evidence.
    """
    if features.get("coverage_all") == 0.0:
        return 0.0
    z = weights["bias"] + sum(w * features[name] for name, w in weights.items() if name != "bias")
    if not math.isfinite(z):
        return 0.0
    return 1.0 / (1.0 + math.exp(-min(60.0, max(-60.0, z))))
