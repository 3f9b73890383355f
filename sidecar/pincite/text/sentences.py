"""Sentence boundaries: ``sentencex`` inside blocks that the layout of legal texts gives.

The library knows abbreviations and quotes in many languages; it knows neither numbered clauses nor
headings, and a hard-wrapped line looks to it like any other. So the text is first cut into blocks at
blank lines, list items and headings, and each block is then split by the library. Spans come from its
boundaries; no sentence is ever searched for.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from itertools import pairwise

from pincite.domain.types import Span

#: No block that is handed to the library is longer: bounds its cost on text without a single boundary.
_MAX_BLOCK_CHARS = 20_000

_LINE = re.compile(r"[^\r\n\u2028\u2029]*(?:\r\n|[\r\n\u2028\u2029]|$)")
_MARKER_ID = r"(?:c[0-9a-z]{1,15}|\d{1,9})"
_MARKER = re.compile(rf"[\[【]{_MARKER_ID}(?:[,;，、 ]{{1,3}}{_MARKER_ID}){{0,15}}[\]】]", re.IGNORECASE)
_LIST_ITEM = re.compile(
    r"""[ \t\u3000]*(?:
        [-*+•‣·▪◦–—]\ +(?=\S)
      | \((?:\d{1,3}|[a-zA-Z]{1,2}|[ivxIVX]{1,5})\)(?=\s|[A-Za-z"“])
      | (?:\d{1,3}(?:\.\d{1,3}){0,4}|[ivxIVX]{1,5}|[a-zA-Z])[.)](?=\s)
      | \d{1,3}(?:\.\d{1,3}){1,4}\ +(?=[A-Z"“])
      | (?:Section|SECTION|Article|ARTICLE|Clause|CLAUSE)\ \d{1,3}(?:\.\d{1,3}){0,4}[.:]\s
      | 第[一二三四五六七八九十百千零〇两\d]{1,8}[编章节条款项]
      | [一二三四五六七八九十]{1,3}、
      | [（(][一二三四五六七八九十\d]{1,3}[）)]
    )""",
    re.VERBOSE,
)
_MARKDOWN_HEADING = re.compile(r"[ ]{0,3}#{1,6}[ \t]")
_RULE = re.compile(r"[ \t]*(?:([-=*_~#+])\1{2,}[ \t]*|```.*|~~~.*)$")
#: After these a line that looks like a list item goes on with the sentence: "as set out in Section / 2. …".
_GOES_ON = re.compile(
    r"(?:\b(?:sections?|articles?|clauses?|paragraphs?|subsections?|versions?|parts?|rules?|schedules?|"
    r"exhibits?|appendix|annex|items?|no|nos|of|in|under|with|the|an?|to|by|from|than|least|most|"
    r"through|between|per|for)|§{1,2})\.?\s*$",
    re.IGNORECASE,
)
_ENUMERATOR = re.compile(r"\(?(?:\d{1,3}(?:\.\d{1,3}){0,4}|[A-Za-z]|[ivxIVX]{1,5})[.)]{1,2}$|[-*+•‣·▪◦–—]$")
_TERMINAL = re.compile(r"[.!?:;。！？：；][\"'”’)\]]{0,3}\s*$")
#: After a full stop with no space these go on with a name, an address or a number: "mozilla.org".
_INSIDE_WORD = frozenset("abcdefghijklmnopqrstuvwxyz0123456789/_-@")
_BLANK_LINE = re.compile(r"(?:\r\n|[\r\n])[ \t]*(?:\r\n|[\r\n])")
_NEWLINE = re.compile(r"[\r\n]")
_SPACE_RUN = re.compile(r"[\t\r\n\x0b\x0c\x1c-\x1f\x85\u2028\u2029]")


class LegalSentenceSplitter:
    """Fulfils ``SentenceSplitter``. Stateless; linear time; English, Chinese and what sentencex knows.

    Rules beside the library's: blank lines split; so do the line breaks before a list item and around a
    heading; any other line break does not. A citation marker after a full stop belongs to the sentence
    before it; one that begins a paragraph belongs to that paragraph. An enumerator (``2.``,
    ``(a)``) stays with its sentence.
    """

    def __init__(self, language: str = "en") -> None:
        self._language = language

    def split(self, text: str) -> list[Span]:
        """Spans of the sentences: ordered, disjoint, trimmed, covering every non-space character."""
        clean, marks = _without_markers(text)
        spans = [piece for start, end in _blocks(clean) for piece in self._split_block(clean[start:end], start)]
        if not spans:
            return [trimmed] if (trimmed := _trim(text, 0, len(text))) else []
        return _restore(text, spans, marks)

    def _split_block(self, block: str, base: int) -> list[tuple[int, int]]:
        cuts = [0, *self._boundaries(block)]
        if cuts[-1] != len(block):
            cuts.append(len(block))
        pieces: list[tuple[int, int]] = []
        held: int | None = None
        for start, end in pairwise(cuts):
            trimmed = _trim(block, start, end)
            if trimmed is None:
                continue
            first = trimmed.start if held is None else held
            if not pieces and _ENUMERATOR.fullmatch(block[first : trimmed.end]):
                held = first
                continue
            pieces.append((base + first, base + trimmed.end))
            held = None
        if held is not None:
            trimmed = _trim(block, held, len(block))
            if trimmed is not None:
                pieces.append((base + trimmed.start, base + trimmed.end))
        return pieces

    def _boundaries(self, block: str) -> list[int]:
        """Ends of sentences inside a block, increasing. Line breaks are spaces to the library."""
        import sentencex

        body = block.strip()
        if body.isascii() and not any(mark in body[:-1] for mark in ".!?"):
            return []  # as most lines of a list: nothing for the library to find
        flat = _SPACE_RUN.sub(" ", block)
        ends: list[int] = []
        last = 0
        for boundary in sentencex.get_sentence_boundaries(self._language, flat):
            end = int(boundary["end_index"])
            # A boundary that does not advance, or a piece that is not the slice that it claims to be,
            # would tear the text: then the block stays whole from there on.
            if not last < end <= len(flat) or boundary["text"] != flat[last:end]:
                break
            last = end
            if not (flat[end - 1] == "." and flat[end : end + 1] and flat[end] in _INSIDE_WORD):
                ends.append(end)
        return ends


def _without_markers(text: str) -> tuple[str, list[tuple[int, int]]]:
    """The text without citation markers, and the markers' spans in the original."""
    marks = [match.span() for match in _MARKER.finditer(text)]
    if not marks:
        return text, marks
    parts: list[str] = []
    position = 0
    for start, end in marks:
        parts.append(text[position:start])
        position = end
    parts.append(text[position:])
    return "".join(parts), marks


def _restore(text: str, spans: list[tuple[int, int]], marks: list[tuple[int, int]]) -> list[Span]:
    """Map spans of the text without markers back, giving each marker to the sentence before it."""
    if not marks:
        return [Span(start=start, end=end) for start, end in spans]
    removed = 0
    at: list[int] = []  # where each marker stood in the clean text
    shift: list[int] = []  # how much was removed up to and including it
    for start, end in marks:
        at.append(start - removed)
        removed += end - start
        shift.append(removed)

    def original(position: int) -> int:
        # A marker exactly at a character's position stood before that character.
        index = bisect_right(at, position)
        return position + (shift[index - 1] if index else 0)

    starts = [original(start) for start, _ in spans]
    ends = [original(end - 1) + 1 for _, end in spans]
    for marker_start, marker_end in marks:
        index = bisect_right(starts, marker_start) - 1
        if index < 0:
            starts[0] = min(starts[0], marker_start)
        elif marker_start >= ends[index]:
            following = index + 1
            leads = (
                following < len(starts)
                and _BLANK_LINE.search(text, ends[index], marker_start)
                and not _NEWLINE.search(text, marker_end, starts[following])
            )
            if leads:
                starts[following] = min(starts[following], marker_start)
            else:
                ends[index] = marker_end
    return [Span(start=start, end=end) for start, end in zip(starts, ends, strict=True)]


def _trim(text: str, start: int, end: int) -> Span | None:
    """The span without surrounding white space; None when nothing is left."""
    piece = text[start:end]
    stripped = piece.lstrip()
    if not stripped:
        return None
    return Span(start=start + len(piece) - len(stripped), end=start + len(piece.rstrip()))


def _blocks(text: str) -> list[tuple[int, int]]:
    """Spans of the blocks: what no sentence crosses."""
    lines = [match.span() for match in _LINE.finditer(text) if match.end() > match.start()]
    if not lines:
        return []
    bodies = [text[start:end].strip() for start, end in lines]
    capital = [_is_capital(body) for body in bodies]
    blocks: list[tuple[int, int]] = []
    begin = lines[0][0]
    closed = True  # True: the line before ended its block
    for number, (start, end) in enumerate(lines):
        raw = text[start:end]
        before = bodies[number - 1] if number else ""
        alone = _stands_alone(raw, number, bodies, capital)
        item = bool(bodies[number]) and bool(_LIST_ITEM.match(raw)) and not _GOES_ON.search(before[-40:])
        if number and (closed or alone or item or not bodies[number]):
            blocks.append((begin, start))
            begin = start
        heading_item = item and capital[number] and not _next_is(capital, bodies, number)
        closed = not bodies[number] or alone or heading_item
    blocks.append((begin, lines[-1][1]))
    return [
        (low, min(low + _MAX_BLOCK_CHARS, end))
        for start, end in blocks
        for low in range(start, end, _MAX_BLOCK_CHARS)
    ]


def _is_capital(body: str) -> bool:
    letters = sum(1 for char in body if char.isalpha())
    return letters >= 4 and len(body) <= 120 and body.upper() == body and body.lower() != body


def _next_is(capital: list[bool], bodies: list[str], number: int) -> bool:
    return number + 1 < len(bodies) and capital[number + 1]


def _stands_alone(raw: str, number: int, bodies: list[str], capital: list[bool]) -> bool:
    """Whether a line is a block of its own: a heading or a rule."""
    if _MARKDOWN_HEADING.match(raw) or _RULE.match(raw.rstrip("\r\n")):
        return True
    if not capital[number]:
        return False
    body, before = bodies[number], bodies[number - 1] if number else ""
    # Two capital lines in a row are a warranty clause in capitals, hard-wrapped, not two headings.
    neighbours = (number > 0 and capital[number - 1]) or _next_is(capital, bodies, number)
    fresh = not before or bool(_TERMINAL.search(before[-8:]))
    return not neighbours and fresh and not body.endswith((",", "-", "–"))
