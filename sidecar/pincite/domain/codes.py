"""Closed lists of codes that cross a border. contracts/schemas hold the same lists; a test compares them."""

from __future__ import annotations

from enum import StrEnum


class Outcome(StrEnum):
    """How an answer ended. There is no third way."""

    ANSWER = "answer"
    REFUSAL = "refusal"


class AnswerState(StrEnum):
    """How far an answer is."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"


class Support(StrEnum):
    """What a validator says of one sentence. Only ``SUPPORTED`` is a pass."""

    SUPPORTED = "supported"
    PARTIAL = "partial"
    UNSUPPORTED = "unsupported"
    CONTRADICTED = "contradicted"
    UNCHECKED = "unchecked"


class RefusalReason(StrEnum):
    """Why there is no answer."""

    NO_EVIDENCE = "no_evidence"
    NOT_ANSWERABLE = "not_answerable"
    UNSUPPORTED = "unsupported"
    GENERATOR_DECLINED = "generator_declined"
    GENERATOR_FAILED = "generator_failed"
    EVIDENCE_CHANGED = "evidence_changed"
    TOO_MANY_ATTEMPTS = "too_many_attempts"


class SourceStatus(StrEnum):
    """How far a source is on its way into the index."""

    PENDING = "pending"
    INDEXING = "indexing"
    INDEXED = "indexed"
    FAILED = "failed"
    DELETED = "deleted"
