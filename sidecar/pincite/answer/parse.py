"""Parse citation markers out of generated text: ``[c1a2b3c4d]`` and what models make of it.

A marker is a bracket group whose content is a list of ids. Only ids of the closed set resolve; an id
that is not in it, and a bracket that is plainly meant as a citation (``[1]``, ``[source]``), is an error
that costs its sentence the support. Every other bracket is text. One pass, linear time: no expression
here can backtrack over more than a bounded number of characters.

Markers leave the text. So do the targets of Markdown links: what a reader can click on is made from
resolved citations only. What was taken out of a sentence by mistake, because the sentence is a
verbatim quote that has such brackets or links in it, is put back by ``ParsedText.raw``.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from pincite.domain.types import Span

_ID = re.compile(r"c[0-9a-f]{8}")
_BARE_ID = r"(?<![0-9A-Za-z_])[cC][0-9a-fA-F]{8}(?![0-9A-Za-z_])"
_TOKEN = re.compile(
    rf"""(?P<fence>^[ ]{{0,3}}(?:```|~~~))
      | (?P<code>`[^`\n]{{1,200}}`)
      | !?[\[【［](?P<square>[^\[\]【】［］\n]{{1,200}})[\]】］]
        (?:\((?P<target>[^()\s]{{0,500}})(?:\s"[^"\n]{{0,100}}")?\))?
      | [(（](?P<round>[^()（）\n]{{1,100}})[)）]
      | <(?P<auto>(?:https?|ftp|mailto|javascript|data):[^<>\s]{{1,500}})>
      | (?P<bare>{_BARE_ID})
    """,
    re.VERBOSE | re.MULTILINE | re.IGNORECASE,
)
_SEPARATOR = re.compile(r"[\s,;，；、|/&]+")
_ATTEMPT = re.compile(
    r"""\^?\#?\d{1,9}(?:[-–]\d{1,9})?
      | \d{1,4}†.*
      | \^.{1,40}
      | c(?=[0-9a-z_-]*\d)[0-9a-z_-]{1,20}
      | c?[xn?.…]{2,9}
      | (?:source|src|doc|document|ref|reference|citation|cite|evidence|passage|chunk|context|footnote|note|
           citation[ _-]?id|id)s?(?:[\s:\#._-]{0,3}[\w.-]{0,20})?
    """,
    re.VERBOSE | re.IGNORECASE,
)
_BLANK_LINE = re.compile(r"(?:\r\n|[\r\n])[ \t]*(?:\r\n|[\r\n])")
_NEWLINE = re.compile(r"[\r\n]")
_CLOSERS = frozenset(".,;:!?)]}»”’。，；：！？）】」』")


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkerError:
    """Something that was meant as a citation and is none. ``raw`` is as the generator wrote it."""

    raw: str
    code: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """One bracket group that was taken out of the text.

    Attributes:
        at: Where it stood in the text without markers.
        span: Where it stood in the generated text.
        cut: Where the cut begins there: the blanks before a marker go with it.
        ids: The ids that resolve, in order.
        errors: What does not.
    """

    at: int
    span: Span
    cut: int
    ids: tuple[str, ...]
    errors: tuple[MarkerError, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedText:
    """Generated text without markers, and the markers.

    Attributes:
        text: What can be shown.
        markers: In order.
        links: Spans in the generated text of links whose targets were taken out.
        origin: For each character of ``text`` its place in the generated text.
        generated: The text as generated.
    """

    text: str
    markers: tuple[Marker, ...]
    links: tuple[Span, ...]
    origin: tuple[int, ...]
    generated: str

    def assign(self, spans: Sequence[Span]) -> list[tuple[Marker, ...]]:
        """The markers of each sentence.

        A marker belongs to the sentence in which it stands or after which it stands; markers before the
        first sentence, and one that begins a paragraph on the line of its sentence, belong to the one
        that follows. Each marker belongs to exactly one sentence.
        """
        starts = [span.start for span in spans]
        out: list[list[Marker]] = [[] for _ in spans]
        if not spans:
            return []
        for marker in self.markers:
            index = bisect_left(starts, marker.at) - 1  # the last sentence that begins before it
            if index < 0:
                index = 0
            elif index + 1 < len(spans) and marker.at >= spans[index].end:
                before = self.text[spans[index].end : marker.at]
                after = self.text[marker.at : starts[index + 1]]
                if _BLANK_LINE.search(before) and not _NEWLINE.search(after):
                    index += 1
            out[index].append(marker)
        return [tuple(markers) for markers in out]

    def raw(self, span: Span, markers: Sequence[Marker]) -> str:
        """The sentence as generated, less its markers that resolved: brackets and links are back."""
        if not len(span):
            return ""
        start, end = self.origin[span.start], self.origin[span.end - 1] + 1
        kept = [marker for marker in markers if marker.errors]
        start = min([start, *(marker.span.start for marker in kept)])
        end = max([end, *(marker.span.end for marker in kept)])
        low = bisect_left(self.links, start, key=lambda link: link.end)
        for link in self.links[low:]:
            if link.start >= end:
                break
            start, end = min(start, link.start), max(end, link.end)
        parts: list[str] = []
        for marker in markers:
            if not marker.errors and start <= marker.cut < end:
                parts.append(self.generated[start : marker.cut])
                start = marker.span.end
        parts.append(self.generated[start:end])
        return "".join(parts).strip()


def parse(generated: str, known: Collection[str]) -> ParsedText:
    """Take the markers out of a generated text.

    Args:
        generated: Text with markers.
        known: The citation ids of this answer's evidence; nothing else resolves.
    """
    known = frozenset(known)
    builder = _Builder(generated)
    fences = _fences(generated)
    position = 0
    for match in _TOKEN.finditer(generated):
        if match.start() < position:
            continue
        in_code = match["code"] is not None or _inside(fences, match.start())
        position = _take(match, known, in_code, builder)
    return builder.finish()


def _take(match: re.Match[str], known: frozenset[str], in_code: bool, builder: _Builder) -> int:
    """Handle one token; returns where reading goes on."""
    if match["code"] is not None:
        inner = match["code"].strip("`").strip()
        group = _read_group(inner.strip("[]【】［］"), known)
        if group is not None and group[0] and not group[1]:
            builder.drop(match.start(), match.end(), group)  # `[c…]`: an id in code dress
        return match.end()
    if match["fence"] is not None:
        return match.end()
    if match["auto"] is not None:
        if not in_code:
            builder.unlink(match.start(), match.start("auto"), match.end("auto"), match.end())
        return match.end()
    content = match["square"] or match["round"] or match["bare"]
    group = _read_group(content, known, only_ids=match["square"] is None)
    if group is not None and (not in_code or (group[0] and not group[1])):
        builder.drop(match.start(), match.end(), group)
        return match.end()
    if match["square"] is not None and match["target"] is not None and not in_code:
        builder.unlink(match.start(), match.start("square"), match.end("square"), match.end())
        return match.end()
    # A bracket that is text: ids inside it are still read ("(see c1a2b3c4d)").
    return match.start() + 1 if match["bare"] is None else match.end()


def _read_group(
    content: str, known: frozenset[str], *, only_ids: bool = False
) -> tuple[tuple[str, ...], tuple[MarkerError, ...]] | None:
    """(ids that resolve, errors) of a bracket's content, or None when it is text."""
    plain = unicodedata.normalize("NFKC", content).strip().casefold()
    parts = [part for part in _SEPARATOR.split(plain) if part]
    n_ids = sum(1 for part in parts if _ID.fullmatch(part))
    if not parts or (only_ids and n_ids != len(parts)):
        return None
    if not n_ids and not _ATTEMPT.fullmatch(plain) and not all(_ATTEMPT.fullmatch(part) for part in parts):
        return None
    ids: list[str] = []
    errors: list[MarkerError] = []
    for part in parts:
        if part in known:
            if part not in ids:
                ids.append(part)
        elif _ID.fullmatch(part):
            errors.append(MarkerError(raw=part, code="citation_unknown"))
        elif n_ids or not errors:
            errors.append(MarkerError(raw=part if n_ids else content, code="citation_malformed"))
    return tuple(ids), tuple(errors)


def _fences(text: str) -> list[tuple[int, int]]:
    """Spans of closed code fences, in order. An open fence is no fence: nothing hides behind it."""
    marks = [match.start() for match in re.finditer(r"^[ ]{0,3}(?:```|~~~)", text, re.MULTILINE)]
    return [(marks[i], marks[i + 1]) for i in range(0, len(marks) - 1, 2)]


def _inside(fences: list[tuple[int, int]], position: int) -> bool:
    index = bisect_left(fences, (position + 1, 0)) - 1
    return index >= 0 and fences[index][0] <= position < fences[index][1]


class _Builder:
    """Collects what stays, with its origin."""

    def __init__(self, generated: str) -> None:
        self._generated = generated
        self._read = 0
        self._parts: list[str] = []
        self._origin: list[int] = []
        self._length = 0
        self._markers: list[Marker] = []
        self._links: list[Span] = []

    def _keep(self, start: int, end: int) -> None:
        if end > start:
            self._parts.append(self._generated[start:end])
            self._origin.extend(range(start, end))
            self._length += end - start

    def drop(self, start: int, end: int, group: tuple[tuple[str, ...], tuple[MarkerError, ...]]) -> None:
        """Take a marker out, and the blanks before it where they would hang loose."""
        text = self._generated
        begin = start
        while begin > self._read and text[begin - 1] in " \t\u3000":
            begin -= 1
        after = text[end : end + 1]
        loose = not after or after.isspace() or after in _CLOSERS or after in "[【［(（"
        if not loose:
            begin = start
        self._keep(self._read, begin)
        ids, errors = group
        span = Span(start=start, end=end)
        self._markers.append(Marker(at=self._length, span=span, cut=begin, ids=ids, errors=errors))
        self._read = end

    def unlink(self, start: int, label_start: int, label_end: int, end: int) -> None:
        """Keep a link's label, not its target."""
        self._keep(self._read, start)
        self._keep(label_start, label_end)
        self._links.append(Span(start=start, end=end))
        self._read = end

    def finish(self) -> ParsedText:
        self._keep(self._read, len(self._generated))
        return ParsedText(
            text="".join(self._parts),
            markers=tuple(self._markers),
            links=tuple(self._links),
            origin=tuple(self._origin),
            generated=self._generated,
        )
