"""Results as the JSON that contracts/schemas/search_response.schema.json describes."""

from __future__ import annotations

from typing import Any

from pincite.adapters.chunk_documents import to_source
from pincite.domain.types import SearchResult


def result_document(result: SearchResult, *, size: int | None = None, from_: int = 0) -> dict[str, Any]:
    """A search result as JSON."""
    return {
        "query": result.query,
        "total": result.total,
        "size": size if size is not None else max(len(result.passages), 1),
        "from": from_,
        "passages": [
            {
                "rank": from_ + n,
                "chunk_id": p.chunk.chunk_id,
                "seq_no": p.version.seq_no,
                "primary_term": p.version.primary_term,
                "title": p.chunk.title,
                "text": p.chunk.text,
                "media_type": p.chunk.media_type,
                "lang": p.chunk.lang,
                "date": p.chunk.date,
                "n_tokens": p.chunk.n_tokens,
                "provenance": to_source(p.chunk, encoder_id="", codec_id="", ingested_at="")["provenance"],
                "scores": [{"stage": s.stage, "score": s.score, "rank": s.rank} for s in p.scores],
            }
            for n, p in enumerate(result.passages, start=1)
        ],
        "stages": [{"name": s.name, "took_ms": s.took_ms} for s in result.stages],
        "models": dict(result.models),
        "degraded": list(result.degraded),
    }
