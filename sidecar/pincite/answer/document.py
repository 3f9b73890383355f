"""The answer document: from the stages' types to contracts/schemas/answer.schema.json, and back."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pincite.domain import ids
from pincite.domain.codes import AnswerState
from pincite.domain.errors import ContractError, NotFound
from pincite.domain.types import (
    AnswerDraft,
    Citation,
    Evidence,
    Passage,
    Question,
    SearchFilter,
    Sentence,
    StageScore,
    StageTime,
    TermStat,
    Verdict,
)

CONTRACT = 1
_LIST_FILTERS = ("case_ids", "file_names", "source_ids")
_TEXT_FILTERS = ("date_from", "date_to", "ingested_from", "ingested_to")


def queued_document(
    *,
    answer_id: str,
    question: Question,
    evidence: Sequence[Evidence],
    stages: Sequence[StageTime],
    models: Mapping[str, str],
    degraded: Sequence[str],
    created_at: str,
    acl: Sequence[str] = (),
    state: AnswerState = AnswerState.QUEUED,
    n_attempts: int = 0,
) -> dict[str, Any]:
    """The document of an answer that waits (``queued``) or is being made (``running``).

    Args:
        answer_id: 32 hex digits.
        question: As asked, with the terms' counts.
        evidence: What the caller's search found, with minted citation ids.
        stages: Times of the retrieval stages.
        models: Ids of what made the evidence, by role.
        degraded: Retrieval stages that failed open.
        created_at: ISO 8601, UTC.
        acl: Who may read the answer.
        state: Not ``done``.
        n_attempts: How often a worker took it up.
    """
    if state is AnswerState.DONE:
        raise ValueError("a done answer has an outcome; use to_document")
    return {
        "contract": CONTRACT,
        "answer_id": answer_id,
        "state": state.value,
        "question": question_to_json(question),
        "outcome": None,
        "text": "",
        "sentences": [],
        "refusal": None,
        "dropped": [],
        "evidence": [_evidence(item) for item in evidence],
        "stages": [_stage(stage) for stage in stages],
        "models": dict(models),
        "prompt": None,
        "answerability": None,
        "degraded": list(degraded),
        "n_generations": 0,
        "n_attempts": n_attempts,
        "created_at": created_at,
        "finished_at": None,
        "acl": list(acl),
    }


def to_document(
    *,
    answer_id: str,
    question: Question,
    evidence: Sequence[Evidence],
    draft: AnswerDraft,
    stages: Sequence[StageTime],
    models: Mapping[str, str],
    degraded: Sequence[str],
    created_at: str,
    finished_at: str,
    n_attempts: int = 1,
    acl: Sequence[str] = (),
) -> dict[str, Any]:
    """The finished document. ``stages`` are the retrieval's; the draft's own follow them.

    The generation's model is added to ``models`` as ``generation``.
    """
    document = queued_document(
        answer_id=answer_id,
        question=question,
        evidence=evidence,
        stages=[*stages, *draft.stages],
        models=models,
        degraded=degraded,
        created_at=created_at,
        acl=acl,
        n_attempts=n_attempts,
    )
    generation = draft.generation
    prompt = generation.prompt if generation else None
    document.update(
        state=AnswerState.DONE.value,
        outcome=draft.outcome.value,
        text=draft.text,
        sentences=[_sentence(sentence) for sentence in draft.sentences],
        refusal=None
        if draft.refusal is None
        else {
            "reason": draft.refusal.reason.value,
            "message": draft.refusal.message,
            "detail": draft.refusal.detail,
        },
        dropped=[
            {
                "text": item.text,
                "attempt": item.attempt,
                "markers": list(item.markers),
                "verdicts": [_verdict(verdict) for verdict in item.verdicts],
            }
            for item in draft.dropped
        ],
        prompt=None if prompt is None else {"id": prompt.id, "version": prompt.version, "sha256": prompt.sha256},
        answerability=None
        if generation is None
        else {
            "score": _finite(generation.answerability),
            "threshold": _finite(generation.threshold),
            "features": {k: float(v) for k, v in generation.features.items() if math.isfinite(v)},
        },
        n_generations=draft.n_generations,
        finished_at=finished_at,
    )
    if generation is not None:
        document["models"]["generation"] = generation.model
    return document


def question_to_json(question: Question) -> dict[str, Any]:
    """The document's ``question``."""
    filters: dict[str, Any] = {name: list(getattr(question.filters, name)) for name in _LIST_FILTERS}
    filters |= {name: getattr(question.filters, name) for name in _TEXT_FILTERS}
    return {
        "text": question.text,
        "filters": filters,
        "terms": [{"term": t.term, "n_chunks": t.n_chunks} for t in question.terms],
        "n_chunks": question.n_chunks,
    }


def question_from_document(document: Mapping[str, Any]) -> Question:
    """The question of a stored answer.

    Raises:
        ContractError: ``answer_document_invalid``.
    """
    try:
        stored = document["question"]
        filters = stored["filters"]
        lists: dict[str, tuple[str, ...]] = {name: tuple(filters.get(name) or ()) for name in _LIST_FILTERS}
        texts: dict[str, str | None] = {name: filters.get(name) for name in _TEXT_FILTERS}
        return Question(
            text=stored["text"],
            filters=SearchFilter(**lists, **texts),  # type: ignore[arg-type]
            terms=tuple(TermStat(term=t["term"], n_chunks=t["n_chunks"]) for t in stored["terms"]),
            n_chunks=stored["n_chunks"],
        )
    except (KeyError, TypeError, AttributeError) as exc:
        raise _invalid(document, exc) from None


def evidence_from_document(document: Mapping[str, Any], passages: Mapping[str, Passage]) -> tuple[Evidence, ...]:
    """The evidence that the caller's search found, with the passages read again.

    Args:
        document: A stored answer.
        passages: The chunks by id, as read now; scores come from the document.

    Raises:
        NotFound: ``evidence_changed``: a chunk is gone or is not the version that was found.
        ContractError: ``answer_document_invalid``.
    """
    try:
        stored: list[Mapping[str, Any]] = sorted(document["evidence"], key=lambda item: item["rank"])
        answer_id = str(document["answer_id"])
        out: list[Evidence] = []
        for item in stored:
            passage = passages.get(item["chunk_id"])
            if passage is None or not _same(passage, item):
                raise NotFound(
                    "evidence_changed",
                    f"chunk {item['chunk_id']} is no longer what the search found",
                    mend="Ask again.",
                    subject=item["chunk_id"],
                )
            if item["citation_id"] != ids.citation_id(answer_id, item["chunk_id"]):
                raise ValueError("citation id")
            scored = replace(passage, scores=_scores(item, stored))
            out.append(Evidence(citation_id=item["citation_id"], rank=item["rank"], passage=scored))
        return tuple(out)
    except (KeyError, TypeError, AttributeError, ValueError) as exc:
        raise _invalid(document, exc) from None


def _same(passage: Passage, item: Mapping[str, Any]) -> bool:
    chunk, version = passage.chunk, passage.version
    return bool(
        chunk.chunk_id == item["chunk_id"]
        and version.seq_no == item["seq_no"]
        and version.primary_term == item["primary_term"]
        and chunk.provenance.content_hash == item["content_hash"]
        and chunk.text == item["text"]
    )


def _scores(item: Mapping[str, Any], every: Sequence[Mapping[str, Any]]) -> tuple[StageScore, ...]:
    """Stored scores; the rank is that within the evidence, all that the document knows."""
    return tuple(
        StageScore(
            stage=stage,
            score=score,
            rank=1 + sum(1 for other in every if other["scores"].get(stage, -math.inf) > score),
        )
        for stage, score in item["scores"].items()
    )


def _invalid(document: Mapping[str, Any], exc: Exception) -> ContractError:
    subject = str(document.get("answer_id")) if isinstance(document, Mapping) else None
    return ContractError(
        "answer_document_invalid",
        f"the stored answer does not follow its schema ({type(exc).__name__}: {exc})",
        mend="Ask again; the stored answer was written by something else or damaged.",
        subject=subject,
    )


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _stage(stage: StageTime) -> dict[str, Any]:
    return {"name": stage.name, "took_ms": round(stage.took_ms, 3)}


def _verdict(verdict: Verdict) -> dict[str, Any]:
    return {
        "validator": verdict.validator.as_dict(),
        "support": verdict.support.value,
        "score": verdict.score,
        "reason": verdict.reason,
    }


def _citation(citation: Citation) -> dict[str, Any]:
    return {
        "citation_id": citation.citation_id,
        "chunk_id": citation.chunk_id,
        "source_id": citation.source_id,
        "content_hash": citation.content_hash,
        "extractor": citation.extractor.as_dict(),
        "file_name": citation.file_name,
        "page_start": citation.page_start,
        "page_end": citation.page_end,
        "page_label": citation.page_label,
        "char_start": citation.quote_span.start,
        "char_end": citation.quote_span.end,
        "quote": citation.quote,
    }


def _sentence(sentence: Sentence) -> dict[str, Any]:
    return {
        "text": sentence.text,
        "start": sentence.span.start,
        "end": sentence.span.end,
        "citations": [_citation(citation) for citation in sentence.citations],
        "verdicts": [_verdict(verdict) for verdict in sentence.verdicts],
    }


def _evidence(item: Evidence) -> dict[str, Any]:
    chunk, where = item.passage.chunk, item.passage.chunk.provenance
    return {
        "citation_id": item.citation_id,
        "rank": item.rank,
        "chunk_id": chunk.chunk_id,
        "seq_no": item.passage.version.seq_no,
        "primary_term": item.passage.version.primary_term,
        "source_id": where.source_id,
        "content_hash": where.content_hash,
        "extractor": where.extractor.as_dict(),
        "file_name": where.file_name,
        "case_id": where.case_id,
        "page_start": where.page_start,
        "page_end": where.page_end,
        "page_label_start": where.page_label_start,
        "page_label_end": where.page_label_end,
        "char_start": where.char_span.start,
        "char_end": where.char_span.end,
        "title": chunk.title,
        "text": chunk.text,
        "scores": {s.stage: float(s.score) for s in item.passage.scores if math.isfinite(s.score)},
    }
