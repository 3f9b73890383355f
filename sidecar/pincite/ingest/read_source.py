"""From a file's bytes to a source document, and back to the file for verification."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date as calendar_date
from pathlib import Path, PurePosixPath

from pincite.domain import ids
from pincite.domain.errors import SourceError, UserError
from pincite.domain.types import Page, SourceDocument, Versioned
from pincite.ingest.extractors import ExtractorSet
from pincite.ingest.walk import read_bytes
from pincite.text.titles import title_from_file_name

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


def load_document(
    raw: bytes,
    *,
    file_name: str,
    uri: str,
    extractors: ExtractorSet,
    collection: str,
    case_id: str | None = None,
    date: str | None = None,
    acl: Sequence[str] = (),
    source_id: str | None = None,
    title: str | None = None,
) -> SourceDocument:
    """Extract a source.

    Args:
        raw: The file's bytes; their sha256 is the content hash.
        file_name: The source's name; its suffix chooses the extractor.
        uri: Where the bytes came from.
        extractors: The known extractors.
        collection: With the name it makes the source id, when none is given.
        case_id: The case that the source belongs to.
        date: The source's date, ``YYYY-MM-DD``.
        acl: Principals that may see it.
        source_id: The caller's own id.
        title: The title; else the extractor's, else one made from the name.

    Raises:
        SourceError: the source cannot be taken in.
        UserError: ``date_invalid``.
    """
    if date is not None and not _is_date(date):
        raise UserError(
            "date_invalid",
            f"{date!r} is not a date.",
            mend="Write it as YYYY-MM-DD.",
            subject=file_name,
        )
    extractor = extractors.for_file(file_name)
    extracted = extractor.extract(raw, file_name=file_name)
    return SourceDocument(
        source_id=source_id or ids.source_id(collection, file_name),
        content_hash=ids.content_hash(raw),
        uri=uri,
        file_name=file_name,
        media_type=extractor.media_type,
        title=_first_title(title, extracted.title) or title_from_file_name(file_name),
        text=extracted.text,
        pages=extracted.pages,
        extractor=extractor.extractor,
        case_id=case_id,
        date=date,
        acl=tuple(acl),
        n_bytes=len(raw),
        warnings=extracted.warnings,
    )


class DirectoryReader:
    """Reads sources again from a folder: the ``SourceReader`` of ``verify``. It never leaves the folder.

    Args:
        root: The folder that the file names are relative to.
        extractors: The known extractors.
    """

    def __init__(self, root: Path, extractors: ExtractorSet) -> None:
        self._root = root
        self._extractors = extractors

    def read(self, file_name: str) -> tuple[str, str, tuple[Page, ...]]:
        """``(content_hash, canonical text, pages)`` of the file.

        Raises:
            SourceError: ``source_outside_root`` (the name, or a link, leads out of the folder),
                ``source_missing``, ``source_unreadable``, or what the extractor says.
        """
        path = self._resolve(file_name)
        raw = read_bytes(path, file_name=file_name)
        extracted = self._extractors.for_file(file_name).extract(raw, file_name=file_name)
        return ids.content_hash(raw), extracted.text, extracted.pages

    def extractor_of(self, file_name: str) -> Versioned:
        """Id and version of the extractor for this file name."""
        return self._extractors.for_file(file_name).extractor

    def _resolve(self, file_name: str) -> Path:
        name = PurePosixPath(file_name)
        if not name.parts or name.is_absolute() or ".." in name.parts or "\0" in file_name:
            raise self._outside(file_name)
        try:
            root = self._root.resolve(strict=True)
            path = (root / name).resolve(strict=True)
        except (OSError, RuntimeError, UnicodeError) as error:
            raise SourceError(
                "source_missing",
                f"There is no {file_name} in {self._root}.",
                mend="Name the folder that was ingested; file names are relative to it.",
                subject=file_name,
            ) from error
        if not path.is_relative_to(root):
            raise self._outside(file_name)
        return path

    def _outside(self, file_name: str) -> SourceError:
        return SourceError(
            "source_outside_root",
            f"{file_name!r} does not name a file inside {self._root}.",
            mend="Name the folder that was ingested; its files are read, no others.",
            subject=file_name,
        )


def _first_title(*candidates: str | None) -> str | None:
    return next((c.strip() for c in candidates if c and c.strip()), None)


def _is_date(value: str) -> bool:
    if not _DATE.fullmatch(value):
        return False
    try:
        calendar_date.fromisoformat(value)
    except ValueError:
        return False
    return True
