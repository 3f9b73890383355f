"""Cited passages in their context, rebuilt from the chunks that the reader may see."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pincite.adapters.chunk_documents import from_source
from pincite.adapters.opensearch_answers import AnswerIndex
from pincite.adapters.opensearch_chunks import ChunkIndex
from pincite.adapters.opensearch_sources import SourceIndex
from pincite.domain.errors import NotFound, UserError
from pincite.domain.types import Chunk, Span

_CITATION = re.compile(r"c[0-9a-f]{8}")
_CHUNK = re.compile(r"[0-9a-f]{32}")
_PLACE = re.compile(r"(?P<file>.+):(?P<start>\d[\d,]*)[-–](?P<end>\d[\d,]*)")


class PassageViews:
    """Finds and shows passages as one caller."""

    def __init__(self, chunks: ChunkIndex, answers: AnswerIndex, sources: SourceIndex) -> None:
        self._chunks, self._answers, self._sources = chunks, answers, sources

    def show(self, citation: str, *, context_chars: int) -> list[dict[str, Any]]:
        """One view for each quote of a citation id, or one for a chunk or a place.

        Raises:
            NotFound: ``citation_unknown``, or ``citation_stale``: the source has changed since.
            UserError: ``citation_malformed``.
        """
        if _CITATION.fullmatch(citation):
            return [self._at(*place, context_chars) for place in self._places(citation)]
        if _CHUNK.fullmatch(citation):
            passage = self._chunks.get_passages({citation: None}).get(citation)
            if passage is None:
                raise _unknown(citation)
            p = passage.chunk.provenance
            return [self._at(p.source_id, p.content_hash, p.char_span, context_chars)]
        place = _PLACE.fullmatch(citation)
        if place is None:
            raise UserError(
                "citation_malformed",
                f"{citation!r} is neither a citation id, a chunk id nor FILE:START-END.",
                mend="Citation ids stand at the end of each line that `pincite ask` prints.",
                subject=citation,
            )
        start, end = (int(place[name].replace(",", "")) for name in ("start", "end"))
        if start >= end:
            raise UserError(
                "citation_malformed",
                f"{citation!r} ends before it starts.",
                mend="Give START before END, in characters.",
                subject=citation,
            )
        records = [r for r in self._sources.records_named(place["file"]) if r.get("content_hash")]
        if not records:
            raise _unknown(citation)
        return [
            self._at(r["source_id"], r["content_hash"], Span(start=start, end=end), context_chars) for r in records
        ]

    def _places(self, citation: str) -> list[tuple[str, str, Span]]:
        found = self._answers.by_citation(citation)
        places = {
            (c["source_id"], c["content_hash"], c["char_start"], c["char_end"]): None
            for document in found
            for sentence in document["sentences"]
            for c in sentence["citations"]
            if c["citation_id"] == citation
        }
        if not places:
            # Evidence that no sentence cites is a passage all the same.
            places = {
                (e["source_id"], e["content_hash"], e["char_start"], e["char_end"]): None
                for document in found
                for e in document["evidence"]
                if e["citation_id"] == citation
            }
        if not places:
            raise _unknown(citation)
        return [(source, content, Span(start=start, end=end)) for source, content, start, end in places]

    def _at(self, source_id: str, content_hash: str, span: Span, context_chars: int) -> dict[str, Any]:
        low, high = max(0, span.start - context_chars), span.end + context_chars
        chunks = self._overlapping(source_id, content_hash, low, high)
        if (
            not chunks
            or chunks[0].provenance.char_span.start > span.start
            or max(c.provenance.char_span.end for c in chunks) <= span.start
        ):
            raise NotFound(
                "citation_stale",
                f"The passage at characters {span.start}–{span.end} is not in the index any more.",
                mend="The source has changed or gone since; `pincite verify` checks against the file.",
                subject=source_id,
            )
        start, text = _joined(chunks)
        if start + len(text) < span.end:
            raise NotFound(
                "span_outside_source",
                f"{chunks[0].provenance.file_name} has no character {span.end} in the index; "
                f"what is there ends at {start + len(text)}, or the span is too long to show at once.",
                mend=f"Give a span that ends at {start + len(text)} or before.",
                subject=source_id,
            )
        whole = {"before": text[max(0, low - start) : span.start - start], "after": ""}
        quote = text[span.start - start : span.end - start]
        whole["after"] = text[span.end - start : high - start]
        first = next(c for c in chunks if c.provenance.char_span.end > span.start)
        p = first.provenance
        return {
            "file_name": p.file_name,
            "source_id": p.source_id,
            "content_hash": p.content_hash,
            "page_start": p.page_start,
            "page_end": p.page_end,
            "page_label": p.page_label_start,
            "char_start": span.start,
            "char_end": span.end,
            "quote": quote,
            **whole,
        }

    def _overlapping(self, source_id: str, content_hash: str, low: int, high: int) -> list[Chunk]:
        reply = self._chunks.search(
            {
                "size": 200,
                "query": {
                    "bool": {
                        "filter": [
                            {"term": {"provenance.source_id": source_id}},
                            {"term": {"provenance.content_hash": content_hash}},
                            {"range": {"provenance.char_end": {"gt": low}}},
                            {"range": {"provenance.char_start": {"lt": high}}},
                        ]
                    }
                },
                "sort": [{"provenance.char_start": "asc"}],
            }
        )
        hits: list[Mapping[str, Any]] = reply["hits"]["hits"]
        return [from_source(hit["_source"]) for hit in hits]


def _joined(chunks: list[Chunk]) -> tuple[int, str]:
    """The text that overlapping chunks cover, and where it starts. Between chunks there is only white space."""
    start = chunks[0].provenance.char_span.start
    text = ""
    for chunk in chunks:
        span = chunk.provenance.char_span
        at = span.start - start
        text = text[:at].ljust(at) + chunk.text if len(text) < at + len(span) else text
    return start, text


def _unknown(citation: str) -> NotFound:
    return NotFound(
        "citation_unknown",
        f"There is no passage {citation!r}, or you may not see it.",
        mend="Citation ids stand at the end of each line that `pincite ask` prints.",
        subject=citation,
    )
