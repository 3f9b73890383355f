"""The composed answer: retrieve as the caller → store the question → generate and validate → store the outcome.

The stored document carries the work: a task holds only its id. Every write is a compare-and-set on the
version that was read, so however often a task runs, its answer appears once.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from pincite.adapters.opensearch import VersionConflict
from pincite.adapters.opensearch_answers import AnswerIndex
from pincite.adapters.opensearch_chunks import ChunkIndex
from pincite.adapters.opensearch_indices import Indices
from pincite.answer.compose import Answerer, refuse
from pincite.answer.document import (
    evidence_from_document,
    question_from_document,
    queued_document,
    to_document,
)
from pincite.answer.mint import mint
from pincite.domain import ids
from pincite.domain.codes import AnswerState, RefusalReason
from pincite.domain.errors import NotFound, UpstreamError
from pincite.domain.types import (
    AnswerDraft,
    AnswerRecord,
    ChunkVersion,
    Question,
    SearchFilter,
    StageTime,
)
from pincite.wiring.clock import now
from pincite.wiring.search_flow import SearchFlow

MAX_ATTEMPTS = 5
#: In the process that asks somebody waits.
MAX_ATTEMPTS_HERE = 2
_PAUSE_S = 1.0
_POLL_S = 0.2


class AnswerFlow:
    """Asks and answers.

    Args:
        indices: The installation.
        search: Retrieval.
        answerer: Built at first use: it may need a model.
        k2: Passages that the generator sees.
        publish: Hands an answer id to a worker; None: answers are made in this process.
    """

    def __init__(
        self,
        indices: Indices,
        *,
        search: SearchFlow,
        answerer: Callable[[], Answerer],
        k2: int,
        publish: Callable[[str], None] | None,
    ) -> None:
        self._indices, self._search, self._answerer = indices, search, answerer
        self._k2, self._publish = k2, publish

    def ask(self, question: str, *, filters: SearchFilter, caller: str | None) -> dict[str, Any]:
        """The answer document: done when it is made here, queued when a worker makes it.

        Raises:
            UserError: the question or a filter is not valid.
            UpstreamError: the cluster or the broker failed. After ``broker_unreachable`` the question is
                stored, and ``requeue`` hands it to a worker later.
        """
        found = self._search.search(question, size=self._k2, filters=filters, caller=caller, with_terms=True)
        answer_id = ids.new_answer_id()
        document = queued_document(
            answer_id=answer_id,
            question=Question(
                text=found.result.query, filters=filters, terms=found.terms, n_chunks=found.n_chunks
            ),
            evidence=mint(answer_id, found.result.passages),
            stages=found.result.stages,
            models=found.result.models,
            degraded=found.result.degraded,
            created_at=now(),
        )
        if self._publish is None:
            # What cannot be built is an error now, not a stored question that nobody answers.
            self._answerer()
        AnswerIndex(self._indices).create(document)
        if self._publish is None:
            return self._run_here(answer_id)
        self._publish(answer_id)
        return document

    def run(self, answer_id: str, *, max_attempts: int = MAX_ATTEMPTS) -> dict[str, Any]:
        """Make the answer of a stored question. Running it again changes nothing once it is done.

        Args:
            answer_id: The stored question.
            max_attempts: When the model's server fails for the last of so many times, that is a refusal.

        Raises:
            NotFound: ``answer_unknown``.
            UpstreamError: retryable; the document is as it was, but for its count of attempts.
        """
        answers = AnswerIndex(self._indices)
        record = answers.get(answer_id)
        if record.state is AnswerState.DONE:
            return dict(record.document)
        attempt = int(record.document["n_attempts"]) + 1
        try:
            record = answers.replace(
                record,
                {**record.document, "state": AnswerState.RUNNING.value, "n_attempts": attempt},
            )
            draft, models = self._draft(record, attempt, max_attempts)
            return dict(answers.replace(record, self._finished(record, draft, models)).document)
        except VersionConflict as exc:
            # Another worker took it up meanwhile. Its answer stands; ours is dropped.
            record = answers.get(answer_id)
            if record.state is AnswerState.DONE:
                return dict(record.document)
            raise UpstreamError(
                "answer_taken", f"Another worker is at answer {answer_id}.", subject=answer_id, retryable=True
            ) from exc

    def wait(self, answer_id: str, *, caller: str | None, wait_s: float) -> dict[str, Any]:
        """The document when it is done, or as it is after ``wait_s`` seconds."""
        deadline = time.monotonic() + wait_s
        answers = AnswerIndex(self._indices, caller)
        while True:
            record = answers.get(answer_id)
            if record.state is AnswerState.DONE or time.monotonic() >= deadline:
                return dict(record.document)
            time.sleep(_POLL_S)

    def requeue(self, *, older_than_s: float) -> list[str]:
        """Hand unfinished answers that are older to a worker again; returns their ids."""
        if self._publish is None:
            return []
        before = now(minus_s=older_than_s)
        stale = AnswerIndex(self._indices).unfinished(before)
        for answer_id in stale:
            self._publish(answer_id)
        return stale

    def _run_here(self, answer_id: str) -> dict[str, Any]:
        for _ in range(MAX_ATTEMPTS_HERE):
            try:
                return self.run(answer_id, max_attempts=MAX_ATTEMPTS_HERE)
            except UpstreamError as exc:
                if not exc.retryable or exc.code.startswith("cluster_"):
                    raise
                time.sleep(_PAUSE_S)
        return self.run(answer_id, max_attempts=0)

    def _draft(self, record: AnswerRecord, attempt: int, max_attempts: int) -> tuple[AnswerDraft, dict[str, str]]:
        """The outcome, and the ids of what made it (none when nothing had to be built for it)."""
        document = record.document
        if attempt > max_attempts:
            return refuse(RefusalReason.TOO_MANY_ATTEMPTS, detail=f"attempts: {attempt - 1}"), {}
        start = time.perf_counter()
        versions = {
            item["chunk_id"]: ChunkVersion(seq_no=item["seq_no"], primary_term=item["primary_term"])
            for item in document["evidence"]
        }
        passages = ChunkIndex(self._indices).get_passages(dict(versions)) if versions else {}
        read = StageTime(name="read_evidence", took_ms=(time.perf_counter() - start) * 1e3)
        try:
            evidence = evidence_from_document(document, passages)
        except NotFound as exc:
            return refuse(RefusalReason.EVIDENCE_CHANGED, detail=exc.subject, stages=(read,)), {}
        answerer = self._answerer()
        models = answerer_models(answerer)
        try:
            return answerer.answer(question_from_document(document), evidence), models
        except UpstreamError as exc:
            if not exc.retryable or exc.code.startswith("cluster_") or attempt < max_attempts:
                raise
            return refuse(RefusalReason.GENERATOR_FAILED, detail=exc.code, stages=(read,)), models

    def _finished(self, record: AnswerRecord, draft: AnswerDraft, models: dict[str, str]) -> dict[str, Any]:
        document = record.document
        finished = to_document(
            answer_id=record.answer_id,
            question=question_from_document(document),
            evidence=(),
            draft=draft,
            stages=[StageTime(**stage) for stage in document["stages"]],
            models={**document["models"], **models},
            degraded=document["degraded"],
            created_at=document["created_at"],
            finished_at=now(),
            n_attempts=document["n_attempts"],
            acl=document["acl"],
        )
        # The evidence as it was found, also when it cannot be read any more.
        return finished | {"evidence": document["evidence"]}


def answerer_models(answerer: Answerer) -> dict[str, str]:
    """Ids of what makes and checks answers."""
    return {"generator": answerer.generator_id, "validators": ",".join(answerer.validator_ids)}
