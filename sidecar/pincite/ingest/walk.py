"""From paths on the command line to the list of files to ingest.

A file's name is its path relative to the ingested PATH, POSIX; for a PATH that is a file, its base name.
Hidden files and folders inside a PATH are passed over. Links are followed when they stay inside the PATH,
so that the same folder can be read again by ``verify``, which does not leave it either.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pincite.domain.errors import SourceError, UserError
from pincite.ingest.extractors import ExtractorSet, type_unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundFile:
    """A file to ingest under its name."""

    path: Path
    file_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """A file that is passed over, with the reason: type_unknown, link_outside, link_broken, not_a_file."""

    file_name: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Walked:
    """What was found.

    Attributes:
        files: To ingest, sorted by name.
        skipped: Passed over, sorted by name; no errors.
        errors: What should have been read and cannot be.
    """

    files: tuple[FoundFile, ...]
    skipped: tuple[Skipped, ...]
    errors: tuple[SourceError, ...]


@dataclass(slots=True)
class _Found:
    files: list[FoundFile] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    errors: list[SourceError] = field(default_factory=list)


def walk(paths: Sequence[Path], extractors: ExtractorSet) -> Walked:
    """Find the files to ingest.

    Args:
        paths: Files and folders. What is named explicitly must be of a known type.
        extractors: Which file types are taken.

    Raises:
        UserError: ``no_paths``, ``path_missing``, ``no_sources`` (a folder with nothing to ingest in it),
            ``file_name_clash`` (two files would have one name).
        SourceError: for a file named explicitly: ``source_type_unknown``, ``source_unreadable``,
            ``file_name_not_utf8``.
    """
    if not paths:
        raise UserError("no_paths", "No path was given.", mend="Name a file or a folder to ingest.")
    total = _Found()
    for path in paths:
        found = _walk_one(path, extractors)
        total.files += found.files
        total.skipped += found.skipped
        total.errors += found.errors
    return Walked(
        files=tuple(sorted(_without_clashes(total.files), key=lambda f: f.file_name)),
        skipped=tuple(sorted(set(total.skipped), key=lambda s: (s.file_name, s.reason))),
        errors=tuple(sorted(total.errors, key=lambda e: e.subject or "")),
    )


def read_bytes(path: Path, *, file_name: str) -> bytes:
    """The bytes of a regular file.

    Raises:
        SourceError: ``source_unreadable``, with the system's reason.
    """
    try:
        if not path.is_file():
            raise unreadable(file_name, "it is not there any more, or not a regular file")
        return path.read_bytes()
    except OSError as error:
        raise unreadable(file_name, error.strerror or str(error)) from error


def unreadable(file_name: str, why: str) -> SourceError:
    """The error for a file that cannot be read."""
    return SourceError(
        "source_unreadable",
        f"{file_name} cannot be read: {why}.",
        mend="Check that the file is there and that this user may read it.",
        subject=file_name,
    )


def _walk_one(path: Path, extractors: ExtractorSet) -> _Found:
    shown = _printable(os.fspath(path))
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError) as error:
        raise UserError(
            "path_missing",
            f"There is no file or folder {shown}.",
            mend="Check the path; relative paths start at the current folder.",
            subject=shown,
        ) from error
    except (OSError, ValueError) as error:
        raise unreadable(shown, getattr(error, "strerror", None) or str(error)) from error
    found = _Found()
    if not stat.S_ISDIR(mode):
        if not _is_utf8(path.name):
            raise _not_utf8(path.name)
        if not stat.S_ISREG(mode):
            raise unreadable(path.name, "it is not a regular file")
        if not extractors.takes(path.name):
            raise type_unknown(path.name, extractors.suffixes)
        if not os.access(path, os.R_OK):
            raise unreadable(path.name, "permission denied")
        found.files.append(FoundFile(path=path, file_name=path.name))
        return found
    _walk_folder(path, extractors, found)
    if not found.files and not found.errors:
        raise UserError(
            "no_sources",
            f"There is nothing to ingest in {shown}.",
            mend="Pincite reads files that end in " + ", ".join(sorted(extractors.suffixes)) + ".",
            subject=shown,
            detail={"n_skipped": len(found.skipped)},
        )
    return found


def _walk_folder(root: Path, extractors: ExtractorSet, found: _Found) -> None:
    real_root = root.resolve()
    seen: set[tuple[int, int]] = set()
    pending = [(root, "")]
    while pending:
        folder, prefix = pending.pop()
        try:
            status = folder.stat()
            # A folder that links reach twice, or from inside itself, is read once.
            if (status.st_dev, status.st_ino) in seen:
                continue
            seen.add((status.st_dev, status.st_ino))
            entries = sorted(os.scandir(folder), key=lambda e: e.name)
        except OSError as error:
            found.errors.append(unreadable(prefix or _printable(str(folder)), error.strerror or str(error)))
            continue
        # Real folders come before links to them, so that a file keeps the name of its own place.
        folders: list[tuple[Path, str]] = []
        links: list[tuple[Path, str]] = []
        for entry in entries:
            if entry.name.startswith("."):
                continue
            file_name = prefix + entry.name
            if not _is_utf8(entry.name):
                found.errors.append(_not_utf8(file_name))
                continue
            path = Path(entry.path)
            reason = _why_not(entry, file_name, real_root, extractors)
            if reason:
                found.skipped.append(Skipped(file_name=file_name, reason=reason))
            elif entry.is_dir():
                (links if entry.is_symlink() else folders).append((path, file_name + "/"))
            elif not os.access(path, os.R_OK):
                found.errors.append(unreadable(file_name, "permission denied"))
            else:
                found.files.append(FoundFile(path=path, file_name=file_name))
        pending = links[::-1] + pending + folders[::-1]


def _why_not(entry: os.DirEntry[str], file_name: str, real_root: Path, extractors: ExtractorSet) -> str | None:
    """Why an entry of a folder is passed over, or None when it is taken."""
    if entry.is_symlink():
        try:
            target = Path(entry.path).resolve(strict=True)
        except (OSError, RuntimeError):  # RuntimeError: a link to itself, before Python 3.13
            return "link_broken"
        if not target.is_relative_to(real_root):
            return "link_outside"
    if entry.is_dir():
        return None
    if not entry.is_file():
        return "not_a_file"
    return None if extractors.takes(file_name) else "type_unknown"


def _without_clashes(files: Iterable[FoundFile]) -> list[FoundFile]:
    by_name: dict[str, FoundFile] = {}
    for found in files:
        other = by_name.setdefault(found.file_name, found)
        if other is not found and other.path.resolve() != found.path.resolve():
            raise UserError(
                "file_name_clash",
                f"{other.path} and {found.path} would both be ingested as {found.file_name}.",
                mend="Ingest a folder that holds both, or one of them in another collection.",
                subject=found.file_name,
                detail={"paths": [str(other.path), str(found.path)]},
            )
    return list(by_name.values())


def _is_utf8(name: str) -> bool:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _printable(name: str) -> str:
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def _not_utf8(name: str) -> SourceError:
    shown = _printable(name)
    return SourceError(
        "file_name_not_utf8",
        f"The file name {shown} is not UTF-8.",
        mend="Rename the file; names are part of every citation.",
        subject=shown,
    )
