"""Plain text and Markdown.

The canonical text is the decoded file unchanged, so its offsets are the file's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from pincite.domain.protocols import Extracted
from pincite.domain.types import Versioned
from pincite.text.decode import decode_text


class PlainTextExtractor:
    """``.txt`` and ``.text``."""

    @property
    def extractor(self) -> Versioned:
        """``text@1``."""
        return Versioned(id="text", version="1")

    @property
    def suffixes(self) -> frozenset[str]:
        """Suffixes of plain text."""
        return frozenset({".txt", ".text"})

    @property
    def media_type(self) -> str:
        """``text/plain``."""
        return "text/plain"

    def extract(self, raw: bytes, *, file_name: str) -> Extracted:
        """Decode; see ``pincite.text.decode.decode_text`` for the errors."""
        return Extracted(text=decode_text(raw, file_name=file_name), pages=())


class MarkdownExtractor:
    """``.md`` and ``.markdown``. The text stays as it is, mark-up and all; only the title is read from it."""

    @property
    def extractor(self) -> Versioned:
        """``markdown@1``."""
        return Versioned(id="markdown", version="1")

    @property
    def suffixes(self) -> frozenset[str]:
        """Suffixes of Markdown."""
        return frozenset({".md", ".markdown"})

    @property
    def media_type(self) -> str:
        """``text/markdown``."""
        return "text/markdown"

    def extract(self, raw: bytes, *, file_name: str) -> Extracted:
        """Decode; the title is the first heading. See ``decode_text`` for the errors."""
        text = decode_text(raw, file_name=file_name)
        return Extracted(text=text, pages=(), title=first_heading(text))


_LINE_END = re.compile(r"\r\n|\r|\n")
_ATX = re.compile(r" {0,3}#{1,6}(?:[ \t]+(.*))?$")
_ATX_CLOSER = re.compile(r"(?:^|[ \t]+)#+[ \t]*$")
_SETEXT = re.compile(r" {0,3}(?:=+|-+)[ \t]*$")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
# A line that opens another kind of block cannot be the text of an underlined heading.
_OTHER_BLOCK = re.compile(r"(?: {4}|\t| {0,3}(?:[-*+>|<]|\d+[.)][ \t]))")
_MAX_TITLE_CHARS = 200


def first_heading(text: str) -> str | None:
    """The text of the first ATX or setext heading (CommonMark 4.2, 4.3), outside code and front matter.

    Setext headings of one line are read; an empty heading, or one over 200 characters, is passed over.
    """
    fence: str | None = None
    previous = ""
    for line in _body_lines(text):
        if fence is not None:
            closing = line.strip()
            if closing and set(closing) == {fence[0]} and len(closing) >= len(fence):
                fence = None
            continue
        heading: str | None = None
        if opening := _FENCE.match(line):
            fence, previous = opening[1], ""
            continue
        if atx := _ATX.match(line):
            heading = _ATX_CLOSER.sub("", (atx[1] or "").strip())
        elif previous and _SETEXT.match(line):
            heading = previous
        if heading and len(title := " ".join(heading.split())) <= _MAX_TITLE_CHARS:
            return title
        previous = "" if _OTHER_BLOCK.match(line) or heading is not None else line.strip()
    return None


def _body_lines(text: str) -> Iterator[str]:
    """Lines without YAML front matter, whose closing ``---`` would read as an underline."""
    lines = _LINE_END.split(text)
    if lines[0].rstrip() == "---":
        for i, line in enumerate(lines[1:], start=1):
            if line.rstrip() in {"---", "..."}:
                return iter(lines[i + 1 :])
    return iter(lines)
