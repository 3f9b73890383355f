"""Chunk documents: ``Chunk`` to JSON and back (contracts/schemas/chunk.schema.json)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pincite.domain.types import Chunk, Provenance, Span, Versioned


def to_source(chunk: Chunk, *, encoder_id: str, codec_id: str, ingested_at: str) -> dict[str, Any]:
    """The document as ``_source`` returns it; vector and tokens are added by the writer."""
    p = chunk.provenance
    return {
        "chunk_id": chunk.chunk_id,
        "text": chunk.text,
        "title": chunk.title,
        "lang": chunk.lang,
        "n_tokens": chunk.n_tokens,
        "media_type": chunk.media_type,
        "context_summary": chunk.context_summary,
        "date": chunk.date,
        "acl": list(chunk.acl),
        "ingested_at": ingested_at,
        "encoder_id": encoder_id,
        "codec_id": codec_id,
        "provenance": {
            "source_id": p.source_id,
            "content_hash": p.content_hash,
            "file_name": p.file_name,
            "case_id": p.case_id,
            "passage_id": p.passage_id,
            "ordinal": p.ordinal,
            "token_start": p.token_span.start,
            "token_end": p.token_span.end,
            "char_start": p.char_span.start,
            "char_end": p.char_span.end,
            "page_start": p.page_start,
            "page_end": p.page_end,
            "page_label_start": p.page_label_start,
            "page_label_end": p.page_label_end,
            "section_path": list(p.section_path),
            "extractor": p.extractor.as_dict(),
            "chunker": p.chunker.as_dict(),
            "ingest_run": p.ingest_run,
        },
    }


def from_source(source: Mapping[str, Any]) -> Chunk:
    """The chunk of a document.

    Raises:
        KeyError: the document is not a chunk; the caller names it.
    """
    p = source["provenance"]
    return Chunk(
        chunk_id=source["chunk_id"],
        text=source["text"],
        title=source["title"],
        lang=source.get("lang"),
        n_tokens=source["n_tokens"],
        media_type=source["media_type"],
        context_summary=source.get("context_summary"),
        date=source.get("date"),
        acl=tuple(source.get("acl") or ()),
        provenance=Provenance(
            source_id=p["source_id"],
            content_hash=p["content_hash"],
            file_name=p["file_name"],
            case_id=p.get("case_id"),
            passage_id=p["passage_id"],
            ordinal=p["ordinal"],
            token_span=Span(start=p["token_start"], end=p["token_end"]),
            char_span=Span(start=p["char_start"], end=p["char_end"]),
            page_start=p.get("page_start"),
            page_end=p.get("page_end"),
            page_label_start=p.get("page_label_start"),
            page_label_end=p.get("page_label_end"),
            section_path=tuple(p.get("section_path") or ()),
            extractor=Versioned(**p["extractor"]),
            chunker=Versioned(**p["chunker"]),
            ingest_run=p["ingest_run"],
        ),
    )
