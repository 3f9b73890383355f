"""Choose the words of a passage that a sentence rests on."""

from __future__ import annotations

from collections import Counter

from rapidfuzz import fuzz

from pincite.domain.protocols import SentenceSplitter
from pincite.domain.types import Citation, Evidence, Span
from pincite.text.overlap import content_tokens

#: A quote is at most so many adjacent sentences of the passage.
_MAX_SENTENCES = 3


def choose_quote(sentence: str, passage: str, splitter: SentenceSplitter) -> Span:
    """The span in the passage that supports the sentence best.

    A run of one to three adjacent sentences of the passage: the one equal to the sentence if there is
    one, else the one with the best F1 of content tokens; ties go to the closer text, then the shorter,
    then the earlier. Always a slice: nothing is searched for.

    Raises:
        ValueError: the passage holds no text.
    """
    spans = splitter.split(passage)
    if not spans:
        raise ValueError("a passage without text cannot be quoted")
    runs = [
        Span(start=spans[i].start, end=spans[i + n - 1].end)
        for n in range(1, _MAX_SENTENCES + 1)
        for i in range(len(spans) - n + 1)
    ]
    for run in runs:
        if run.slice(passage) == sentence:
            return run
    wanted = Counter(content_tokens(sentence))

    def closeness(run: Span) -> tuple[float, float, int, int]:
        text = run.slice(passage)
        return (_f1(wanted, Counter(content_tokens(text))), fuzz.ratio(sentence, text), -len(run), -run.start)

    return max(runs, key=closeness)


def _f1(left: Counter[str], right: Counter[str]) -> float:
    common = sum((left & right).values())
    return 2 * common / max(1, sum(left.values()) + sum(right.values()))


def cite(sentence: str, evidence: Evidence, splitter: SentenceSplitter) -> Citation:
    """The citation of one sentence to one piece of evidence, with its quote.

    Pages are the quote's own: the canonical text of a format with pages has one form feed between two
    pages. The printed label is given where the chunk knows it: on its first and its last page.
    """
    chunk = evidence.passage.chunk
    where = chunk.provenance
    local = choose_quote(sentence, chunk.text, splitter)
    first, last, label = where.page_start, where.page_end, where.page_label_start
    if where.page_start is not None:
        first = where.page_start + chunk.text.count("\f", 0, local.start)
        last = where.page_start + chunk.text.count("\f", 0, local.end)
        if first != where.page_start:
            label = where.page_label_end if first == where.page_end else None
    return Citation(
        citation_id=evidence.citation_id,
        chunk_id=chunk.chunk_id,
        source_id=where.source_id,
        content_hash=where.content_hash,
        extractor=where.extractor,
        file_name=where.file_name,
        page_start=first,
        page_end=last,
        page_label=label,
        quote_span=local.shifted(where.char_span.start),
        quote=local.slice(chunk.text),
    )
