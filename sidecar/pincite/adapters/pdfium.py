"""PDF text by physical page, with pdfium.

The canonical text of a PDF is what this module says it is, so it carries a version of its own beside
pdfium's: offsets are only valid for both. It is made of the pages' texts in order, with ``PAGE_BREAK``
between them. A page's text is what pdfium gives, in pdfium's order, with these replacements:

- CRLF and CR become LF;
- a hyphen at a line's end, which pdfium joins with the next line, becomes the hyphen and the line break
  again: what is printed. Whether the hyphen belongs to the word is not decided here;
- what is no text, or cannot be written as UTF-8, becomes U+FFFD, one for one: control characters (a form
  feed would look like a page break), glyphs without a character, lone surrogates, U+FFFE and U+FFFF.

pdfium is not thread-safe: one lock covers every call into it.
"""

from __future__ import annotations

import re
import threading
from importlib import metadata
from typing import TYPE_CHECKING

from pincite.domain.errors import SourceError
from pincite.domain.protocols import Extracted
from pincite.domain.types import Page, Span, Versioned

if TYPE_CHECKING:
    import pypdfium2 as pdfium

# WordPiece drops control characters without a trace: with a bare form feed the last word of a page and the
# first of the next would become one token across both pages.
PAGE_BREAK = "\n\f"
_EXTRACTION = "1"

_LOCK = threading.Lock()
_NO_TEXT = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufffe\uffff]")
_HAS_TEXT = re.compile("[^\\s\ufffd]")
_ERR_PASSWORD = 4
_ERR_SECURITY = 5
# How pdfium writes a hyphen that ends a line.
_LINE_END_HYPHEN = 0x02
# A damaged page count may claim a million pages. From here on a file with more unreadable pages than
# readable ones is given up.
_MAX_BROKEN = 100

# Titles that a program left behind instead of an author.
_PROGRAM_TITLE = re.compile(r"^(microsoft word|untitled|document\d*$)|\.\w{2,5}$", re.IGNORECASE)
_MAX_TITLE_CHARS = 200


class PdfiumExtractor:
    """``.pdf``, as text with physical pages and printed labels."""

    @property
    def extractor(self) -> Versioned:
        """``pdfium@<pypdfium2>-<extraction>``; pypdfium2's release fixes the build of pdfium it carries."""
        from pypdfium2.version import PDFIUM_INFO

        version = f"{metadata.version('pypdfium2')}-{PDFIUM_INFO.build}-{_EXTRACTION}"
        return Versioned(id="pdfium", version=version)

    @property
    def suffixes(self) -> frozenset[str]:
        """``.pdf``."""
        return frozenset({".pdf"})

    @property
    def media_type(self) -> str:
        """``application/pdf``."""
        return "application/pdf"

    def extract(self, raw: bytes, *, file_name: str) -> Extracted:
        """Extract the text layer of every page; there is no limit on pages.

        Pages without text, and pages that cannot be read while others can, are named in the warnings; a
        page that cannot be read has an empty span.

        Raises:
            SourceError: ``source_empty`` (zero bytes), ``source_encrypted`` (a password is needed),
                ``source_broken`` (not a PDF that pdfium can open, or no page, or of many pages most,
                cannot be read),
                ``source_has_no_text`` (scanned, or blank).
        """
        if not raw:
            raise SourceError(
                "source_empty",
                f"{file_name} is empty: it has zero bytes.",
                mend="Fetch the file again.",
                subject=file_name,
            )
        with _LOCK:
            texts, labels, broken, title = _read(raw, file_name)
        if len(broken) == len(texts):
            raise _broken(file_name, "none of its pages can be read")
        if not any(_HAS_TEXT.search(text) for text in texts):
            raise SourceError(
                "source_has_no_text",
                f"{file_name} has no text layer on any of its {len(texts)} page(s): a scan, or blank.",
                mend="Run text recognition (OCR) on it and ingest the result.",
                subject=file_name,
                detail={"n_pages": len(texts)},
            )
        pages = []
        at = 0
        for number, (text, label) in enumerate(zip(texts, labels, strict=True), start=1):
            pages.append(Page(number=number, span=Span(start=at, end=at + len(text)), label=label))
            at += len(text) + len(PAGE_BREAK)
        blank = [p.number for p, text in zip(pages, texts, strict=True) if not _HAS_TEXT.search(text)]
        unread = set(broken)
        warnings = _warning(broken, "cannot be read")
        warnings += _warning([n for n in blank if n not in unread], "without text")
        return Extracted(
            text=PAGE_BREAK.join(texts), pages=tuple(pages), title=_title(title), warnings=tuple(warnings)
        )


def _read(raw: bytes, file_name: str) -> tuple[list[str], list[str | None], list[int], str]:
    """Texts and labels of all pages, the numbers of those that cannot be read, and the /Title."""
    import pypdfium2 as pdfium

    try:
        document = pdfium.PdfDocument(raw)
    except pdfium.PdfiumError as error:
        if getattr(error, "err_code", None) in (_ERR_PASSWORD, _ERR_SECURITY):
            raise SourceError(
                "source_encrypted",
                f"{file_name} is encrypted and does not open without a password.",
                mend="Save an unprotected copy and ingest that.",
                subject=file_name,
            ) from error
        raise _broken(file_name, "pdfium cannot open it as a PDF") from error
    try:
        n_pages = len(document)
        if n_pages <= 0:
            raise _broken(file_name, "it has no pages")
        texts: list[str] = []
        labels: list[str | None] = []
        broken: list[int] = []
        for index in range(n_pages):
            try:
                text = _clean(_page_text(document, index))
            except pdfium.PdfiumError:
                text = ""
                broken.append(index + 1)
                if len(broken) > max(_MAX_BROKEN, index / 2):
                    raise _broken(file_name, "most of its pages cannot be read") from None
            texts.append(text)
            labels.append(_label(document, index))
        try:
            title = str(document.get_metadata_value("Title"))
        except UnicodeDecodeError:
            title = ""
    finally:
        document.close()
    return texts, labels, broken, title


def _page_text(document: pdfium.PdfDocument, index: int) -> str:
    """A page's characters, one by one.

    pdfium's call for a whole range writes U+FFFE for line-end hyphens and for glyphs without a character
    alike, and leaves some characters out.
    """
    import pypdfium2.raw as c

    page = document[index]
    try:
        text_page = page.get_textpage()
        try:
            units = [c.FPDFText_GetUnicode(text_page, i) for i in range(text_page.count_chars())]
            return "".join(
                "-\n" if unit == _LINE_END_HYPHEN and c.FPDFText_IsHyphen(text_page, i) == 1 else chr(unit)
                for i, unit in enumerate(units)
            )
        finally:
            text_page.close()
    finally:
        page.close()


def _label(document: pdfium.PdfDocument, index: int) -> str | None:
    try:
        label = str(document.get_page_label(index))
    except UnicodeDecodeError:
        return None
    return _NO_TEXT.sub("", label).strip() or None


def _clean(text: str) -> str:
    # Characters outside the basic plane come as two halves.
    text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return _NO_TEXT.sub("\ufffd", text.replace("\r\n", "\n").replace("\r", "\n"))


def _warning(numbers: list[int], what: str) -> list[str]:
    """At most one warning, with the page numbers as ranges."""
    if not numbers:
        return []
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    listed = ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in ranges)
    return [f"{len(numbers)} page(s) {what}: {listed}"]


def _title(raw: str) -> str | None:
    """The document's /Title if an author seems to have written it, else None."""
    title = " ".join(_NO_TEXT.sub(" ", raw).split())
    if not 4 <= len(title) <= _MAX_TITLE_CHARS or _PROGRAM_TITLE.search(title):
        return None
    # One ASCII word is a file's name more often than a title.
    return None if title.isascii() and " " not in title else title


def _broken(file_name: str, why: str) -> SourceError:
    return SourceError(
        "source_broken",
        f"{file_name} is damaged: {why}.",
        mend="Open it in a PDF viewer and save it again, or fetch it again.",
        subject=file_name,
    )
