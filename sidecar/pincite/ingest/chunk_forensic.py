"""The forensic chunker: LawRAG §3.1's sliding window, with spans that lose no character.

Window k covers the WordPiece tokens ``[100k, min(100k + 200, n))`` of the whole text, tokenized without
special tokens; the last window is the first that reaches token n. (The paper counts from 1; ordinals here
start at 0.)

From tokens to characters the paper says nothing about the characters that are in no token: accents in
decomposed form, zero-width and control characters. Here:

- a character in no token belongs to the token before it, those ahead of the first token to the first;
- a span begins and ends at a grapheme cluster's boundary (it grows, never shrinks);
- white space at a span's ends is left out, unless it is part of a cluster with a character that counts.

So every character that is not white space lies in some chunk, and every chunk is a slice of the text. A
window whose span is that of the window before (all its new tokens lie within one cluster) adds nothing
and is left out.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

from pincite.domain import ids
from pincite.domain.errors import SourceError
from pincite.domain.protocols import Tokenizer
from pincite.domain.types import Chunk, Page, Provenance, SourceDocument, Span, Versioned
from pincite.text.graphemes import Graphemes

CHUNKER = Versioned(id="forensic", version="1")
WINDOW_TOKENS = 200
STRIDE_TOKENS = 100


def chunk(document: SourceDocument, tokenizer: Tokenizer, run_id: str) -> list[Chunk]:
    """All chunks of a source, in order. Time is linear in the text.

    Args:
        document: The source with its canonical text.
        tokenizer: The tokenizer whose tokens are counted: the encoder's own.
        run_id: The ingest run, kept in the provenance; it is not part of the chunk's id.

    Raises:
        SourceError: ``source_has_no_text``: the text has no token (white space, zero-width characters).
    """
    tokens = tokenizer.tokenize(document.text).spans
    if not tokens:
        raise SourceError(
            "source_has_no_text",
            f"{document.file_name} has characters but no word to search for.",
            mend="Nothing to ingest; look at the file in an editor that shows invisible characters.",
            subject=document.file_name,
        )
    pages = _PageIndex(document.pages)
    chunks: list[Chunk] = []
    for token_span, char_span in spans(document.text, tokens, window=WINDOW_TOKENS, stride=STRIDE_TOKENS):
        ordinal = len(chunks)
        first, last = pages.of(char_span)
        provenance = Provenance(
            source_id=document.source_id,
            content_hash=document.content_hash,
            file_name=document.file_name,
            case_id=document.case_id,
            passage_id=f"p{ordinal}",
            ordinal=ordinal,
            token_span=token_span,
            char_span=char_span,
            page_start=first.number if first else None,
            page_end=last.number if last else None,
            page_label_start=first.label if first else None,
            page_label_end=last.label if last else None,
            section_path=(),
            extractor=document.extractor,
            chunker=CHUNKER,
            ingest_run=run_id,
        )
        chunks.append(
            Chunk(
                chunk_id=ids.chunk_id(
                    document.source_id, document.content_hash, document.extractor, char_span, CHUNKER
                ),
                text=char_span.slice(document.text),
                title=document.title,
                n_tokens=len(token_span),
                provenance=provenance,
                media_type=document.media_type,
                date=document.date,
                acl=document.acl,
            )
        )
    return chunks


def windows(n_tokens: int, *, window: int, stride: int) -> Iterator[Span]:
    """Token windows; the last is the first that reaches ``n_tokens`` (LawRAG §3.1)."""
    if not 0 < stride <= window:
        raise ValueError("a stride beyond the window would lose tokens")
    start = 0
    while n_tokens:
        end = min(start + window, n_tokens)
        yield Span(start=start, end=end)
        if end == n_tokens:
            return
        start += stride


def spans(text: str, tokens: Sequence[Span], *, window: int, stride: int) -> Iterator[tuple[Span, Span]]:
    """``(token span, char span)`` of each chunk.

    Args:
        text: The canonical text.
        tokens: The tokens' spans in it; starts do not decrease. They may repeat and leave gaps.
        window: Tokens in a window.
        stride: Tokens from one window's start to the next.
    """
    graphemes = Graphemes(text)
    previous: Span | None = None
    for token_span in windows(len(tokens), window=window, stride=stride):
        start = tokens[token_span.start].start if token_span.start else 0
        if token_span.end < len(tokens):
            # Up to the next token: what lies between belongs to the token before. Tokens may share
            # characters, so the next may also start earlier than the last one ends.
            end = max(tokens[token_span.end].start, tokens[token_span.end - 1].end)
        else:
            end = len(text)
        while start < end and text[start].isspace():
            start += 1
        while end > start and text[end - 1].isspace():
            end -= 1
        span = Span(start=graphemes.start_at_or_before(start), end=graphemes.end_at_or_after(end))
        if span != previous:
            yield token_span, span
        previous = span


class _PageIndex:
    """Which pages a span touches. Page spans are in order and do not overlap; some may be empty."""

    def __init__(self, pages: Sequence[Page]) -> None:
        self._pages = pages
        self._starts = [p.span.start for p in self._pages]
        self._ends = [p.span.end for p in self._pages]

    def of(self, span: Span) -> tuple[Page | None, Page | None]:
        """The first and the last page that share a character with the span; None for no pages."""
        if not self._pages:
            return None, None
        first = bisect_right(self._ends, span.start)
        last = bisect_left(self._starts, span.end) - 1
        # Text behind the last page (an extractor's fault) counts to that page.
        first = min(first, len(self._pages) - 1)
        return self._pages[first], self._pages[max(first, last)]
