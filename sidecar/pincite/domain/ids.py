"""Ids: the first 32 hex digits of sha256 over a canonical JSON array (design.md §5).

An id depends on nothing but what it names, so the same input gives the same id on every machine, and
writing it twice is writing it once.
"""

from __future__ import annotations

import hashlib
import json
import secrets

from pincite.domain.types import Span, Versioned

_HEX_DIGITS = 32


def digest(*parts: str | int | None) -> str:
    """32 hex digits of sha256 over the canonical JSON array of the parts."""
    canonical = json.dumps(list(parts), ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(canonical.encode("utf-8")).hexdigest()[:_HEX_DIGITS]


def content_hash(raw: bytes) -> str:
    """sha256 of a source's raw bytes, 64 hex digits."""
    return hashlib.sha256(raw).hexdigest()


def source_id(collection: str, file_name: str) -> str:
    """The id of a source that came without one: its name within its collection."""
    return digest("source", collection, file_name)


def chunk_id(source: str, content: str, extractor: Versioned, span: Span, chunker: Versioned) -> str:
    """The id of a chunk. Encoder, codec and summary are not in it: they are compared apart."""
    return digest("chunk", source, content, str(extractor), span.start, span.end, str(chunker))


def new_answer_id() -> str:
    """A fresh, unguessable answer id."""
    return secrets.token_hex(16)


def new_run_id() -> str:
    """A fresh id for one ingest run."""
    return secrets.token_hex(8)


def citation_id(answer_id: str, chunk: str) -> str:
    """The citation id of a chunk within one answer: ``c`` and 8 hex digits.

    Derived, so that a task that runs twice mints the same ids; opaque, so that a model cannot guess the
    next one; different in each answer, so that an id copied from elsewhere does not resolve.
    """
    return "c" + digest("citation", answer_id, chunk)[:8]
