"""Domain types as they go over the wire, for every entry point alike (contracts/schemas)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pincite.domain.types import Passage, Provenance, SearchFilter, SearchResult, StageTime


def provenance(value: Provenance) -> dict[str, Any]:
    """``provenance.schema.json``."""
    return {
        "source_id": value.source_id,
        "content_hash": value.content_hash,
        "file_name": value.file_name,
        "case_id": value.case_id,
        "passage_id": value.passage_id,
        "ordinal": value.ordinal,
        "token_start": value.token_span.start,
        "token_end": value.token_span.end,
        "char_start": value.char_span.start,
        "char_end": value.char_span.end,
        "page_start": value.page_start,
        "page_end": value.page_end,
        "page_label_start": value.page_label_start,
        "page_label_end": value.page_label_end,
        "section_path": list(value.section_path),
        "extractor": {"id": value.extractor.id, "version": value.extractor.version},
        "chunker": {"id": value.chunker.id, "version": value.chunker.version},
        "ingest_run": value.ingest_run,
    }


def passage(value: Passage, *, rank: int) -> dict[str, Any]:
    """One passage of ``search_response.schema.json``. The ACL is left out: it names principals."""
    chunk = value.chunk
    return {
        "rank": rank,
        "chunk_id": chunk.chunk_id,
        "seq_no": value.version.seq_no,
        "primary_term": value.version.primary_term,
        "title": chunk.title,
        "text": chunk.text,
        "media_type": chunk.media_type,
        "lang": chunk.lang,
        "date": chunk.date,
        "n_tokens": chunk.n_tokens,
        "provenance": provenance(chunk.provenance),
        "scores": [{"stage": s.stage, "score": s.score, "rank": s.rank} for s in value.scores],
    }


def stages(values: tuple[StageTime, ...]) -> list[dict[str, Any]]:
    """Stage times."""
    return [{"name": stage.name, "took_ms": round(stage.took_ms, 3)} for stage in values]


def search_response(result: SearchResult, *, size: int, from_: int) -> dict[str, Any]:
    """``search_response.schema.json``."""
    return {
        "query": result.query,
        "total": result.total,
        "size": size,
        "from": from_,
        "passages": [passage(p, rank=from_ + i) for i, p in enumerate(result.passages, start=1)],
        "stages": stages(result.stages),
        "models": dict(result.models),
        "degraded": list(result.degraded),
    }


def search_filter(value: Mapping[str, Any] | None) -> SearchFilter:
    """A filter from a checked ``search_filter.schema.json`` document."""
    value = value or {}
    return SearchFilter(
        case_ids=tuple(value.get("case_ids", ())),
        file_names=tuple(value.get("file_names", ())),
        source_ids=tuple(value.get("source_ids", ())),
        date_from=value.get("date_from"),
        date_to=value.get("date_to"),
        ingested_from=value.get("ingested_from"),
        ingested_to=value.get("ingested_to"),
    )
