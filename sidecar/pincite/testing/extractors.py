"""What every extractor must keep. For third-party extractors as for Pincite's own::

def test_mine():
    check_extractor(MyExtractor(), {"a.xyz": raw}, broken={"b.xyz": b""})
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from pincite.domain.errors import SourceError
from pincite.domain.protocols import Extracted, Extractor


def check_extractor(
    extractor: Extractor, samples: Mapping[str, bytes], *, broken: Mapping[str, bytes] | None = None
) -> None:
    """Check an extractor.

    Args:
        extractor: The extractor.
        samples: Files, by name, that it must extract.
        broken: Files, by name, that it must refuse with a ``SourceError`` that names them.

    Raises:
        AssertionError: the first promise that is broken, in words.
    """
    _check_identity(extractor)
    for name, raw in samples.items():
        first = extractor.extract(raw, file_name=name)
        check_extracted(first, name=name)
        _require(extractor.extract(raw, file_name=name) == first, f"{name}: two runs differ")
    for name, raw in {"empty" + min(extractor.suffixes): b"", **(broken or {})}.items():
        try:
            extractor.extract(raw, file_name=name)
        except SourceError as error:
            _require(error.subject == name, f"{name}: the error names {error.subject!r} as its subject")
            _require(bool(error.code and error.message and error.mend), f"{name}: the error says too little")
        else:
            raise AssertionError(f"{name}: extracted without an error")


def check_extracted(extracted: Extracted, *, name: str = "") -> None:
    """Check one result: its text can be stored, its pages are spans of it.

    Raises:
        AssertionError: the first promise that is broken.
    """
    text = extracted.text
    _require(bool(text.strip()), f"{name}: no text, and no error")
    _require("\0" not in text, f"{name}: the text holds a NUL")
    try:
        stored = json.dumps(text, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError as error:
        raise AssertionError(f"{name}: the text cannot be written as UTF-8: {error}") from error
    _require(json.loads(stored) == text, f"{name}: the text does not survive JSON")
    _require(extracted.title is None or bool(extracted.title.strip()), f"{name}: a blank title")
    end = 0
    for number, page in enumerate(extracted.pages, start=1):
        _require(page.number == number, f"{name}: page {page.number} where {number} is expected")
        _require(page.span.start >= end, f"{name}: page {number} begins within the page before")
        end = page.span.end
        _require(end <= len(text), f"{name}: page {number} ends beyond the text")
        _require(page.label is None or bool(page.label.strip()), f"{name}: page {number} has a blank label")
    if extracted.pages:
        outside = text[: extracted.pages[0].span.start] + text[end:]
        for one, two in zip(extracted.pages, extracted.pages[1:], strict=False):
            outside += text[one.span.end : two.span.start]
        _require(not outside.strip(), f"{name}: text that is on no page")


def _check_identity(extractor: Extractor) -> None:
    identity = extractor.extractor
    _require(bool(identity.id and identity.version), "an extractor has an id and a version")
    _require(extractor.extractor == identity, "id and version stay the same")
    _require(bool(extractor.suffixes), "an extractor takes at least one suffix")
    for suffix in extractor.suffixes:
        _require(suffix.startswith(".") and suffix == suffix.lower(), f"{suffix!r}: lower case, with the dot")
    _require("/" in extractor.media_type, f"{extractor.media_type!r} is no media type")


def _require(promise: bool, otherwise: str) -> None:
    # Not an assert statement: these checks must also hold under ``python -O``.
    if not promise:
        raise AssertionError(otherwise)
