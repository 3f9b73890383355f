"""The demo corpus: licence texts from the PyPI package ``licensedcode-data`` (data under CC-BY-4.0).

Each ``<key>.LICENSE`` of the package begins with YAML front matter between two ``---`` lines. The body is
every byte after the newline that ends the second of them; it is written unchanged to
``<home>/demo/licences/<key>.txt``, so a body begins, as in the package, with the blank line that follows
the front matter.

A licence is of a family when its key begins with the family's name (``gpl-2.0-plus``), or when the key
or the short name holds it as a word (``classpath-exception-2.0``, "Classpath exception to GPL 2.0"): so
versions, variants, exceptions, "BSD-style" licences and deprecated keys are all in. Near-duplicates are
what makes the corpus hard. "CC" as a bare word means other things too, so Creative Commons is told by
``cc-``/``cc0-`` keys and by "CC-BY". The package's category (Copyleft, Permissive) spans families and is
not used.
"""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pincite.domain.errors import ConfigError

FAMILIES: tuple[str, ...] = ("GPL", "LGPL", "AGPL", "Apache", "BSD", "MIT", "CC", "MPL", "EPL", "CDDL")
_FAMILY_WORD = re.compile(
    r"(?<![a-z0-9])(?:(gpl|lgpl|agpl|apache|bsd|mit|mpl|epl|cddl)(?![a-z0-9])|cc-by)", re.IGNORECASE
)
_CC_KEY = re.compile(r"cc0?-")
_FRONT_MATTER = re.compile(rb"---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_KEY = re.compile(r"[a-z0-9][a-z0-9._+-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Licence:
    """One licence; ``name`` is its full name and the title of its source."""

    key: str
    family: str
    name: str
    short_name: str
    spdx_id: str | None
    owner: str | None
    category: str | None
    homepage: str | None
    language: str
    deprecated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LicenceCorpus:
    """What was written.

    Attributes:
        folder: Where the ``<key>.txt`` files lie.
        licences: Metadata by file name (``<key>.txt``), for every file that was written.
        empty: Keys whose body is empty (``source_empty``); they have no file.
        n_written: Files that were new or differed; 0 on a second run.
    """

    folder: Path
    licences: Mapping[str, Licence]
    empty: tuple[str, ...]
    n_written: int

    @property
    def titles(self) -> dict[str, str]:
        """The title of each source by its file name."""
        return {file_name: licence.name for file_name, licence in self.licences.items()}


def export_licences(home: Path) -> LicenceCorpus:
    """Write the corpus below ``home/demo``, and ``home/demo/licences.json`` with its metadata.

    Files that are already there and equal are left alone; ``.txt`` files of the folder that are not part
    of the corpus are removed, so that the folder is the corpus.

    Raises:
        ConfigError: ``demo_data_missing``: the package is not installed; ``demo_data_broken``: a file of
            it cannot be parsed.
    """
    folder = home / "demo" / "licences"
    folder.mkdir(parents=True, exist_ok=True)
    licences: dict[str, Licence] = {}
    empty = []
    n_written = 0
    for licence, body in read_licences():
        if not body.strip():
            empty.append(licence.key)
            continue
        file_name = f"{licence.key}.txt"
        licences[file_name] = licence
        n_written += _write(folder / file_name, body)
    for stale in folder.glob("*.txt"):
        if stale.name not in licences:
            stale.unlink()
    listing = {
        "source": "licensedcode-data, CC-BY-4.0, nexB Inc. and others",
        "licences": {name: asdict(licence) for name, licence in licences.items()},
        "source_empty": empty,
    }
    _write(
        home / "demo" / "licences.json",
        (json.dumps(listing, ensure_ascii=False, indent=1) + "\n").encode("utf-8"),
    )
    return LicenceCorpus(folder=folder, licences=licences, empty=tuple(empty), n_written=n_written)


def read_licences() -> Iterator[tuple[Licence, bytes]]:
    """The licences of the families with their bodies as bytes, sorted by key.

    Raises:
        ConfigError: as ``export_licences``.
    """
    for path in sorted(data_folder().glob("*.LICENSE")):
        licence, body = _parse(path)
        if licence is not None:
            yield licence, body


def licence_bodies() -> Iterator[tuple[str, str]]:
    """Key and text of every licence of the package that has one, of all families, by key.

    Raises:
        ConfigError: ``demo_data_missing``.
    """
    for path in sorted(data_folder().glob("*.LICENSE")):
        text = body_of(path).strip()
        if text:
            yield path.stem, text


def body_of(path: Path) -> str:
    """What follows the front matter of a licence or rule of the package."""
    return _FRONT_MATTER.sub(b"", path.read_bytes(), count=1).decode("utf-8", errors="replace")


def family_of(key: str, short_name: str) -> str | None:
    """The family of a licence, or None for one of another family."""
    if _CC_KEY.match(key):
        return "CC"
    word = _FAMILY_WORD.search(key) or _FAMILY_WORD.search(short_name)
    if word is None:
        return None
    return next((f for f in FAMILIES if f.lower() == (word[1] or "").lower()), "CC")


def data_folder() -> Path:
    """Where the package keeps its ``.LICENSE`` files; none of its code is imported.

    Raises:
        ConfigError: ``demo_data_missing``.
    """
    spec = importlib.util.find_spec("licensedcode")
    for location in (spec.submodule_search_locations or ()) if spec else ():
        folder = Path(location) / "data" / "licenses"
        if folder.is_dir():
            return folder
    raise ConfigError(
        "demo_data_missing",
        "The Python package licensedcode-data with the licence texts is not installed.",
        mend="Install it: pip install 'pincite[demo]'.",
        subject="licensedcode-data",
    )


def _parse(path: Path) -> tuple[Licence | None, bytes]:
    try:
        import yaml
    except ImportError as error:
        raise ConfigError(
            "demo_data_missing",
            "The Python package PyYAML, which reads the licences' metadata, is not installed.",
            mend="Install it: pip install 'pincite[demo]'.",
            subject="pyyaml",
        ) from error
    raw = path.read_bytes()
    matter = _FRONT_MATTER.match(raw)
    if matter is None:
        raise _broken(path, "it has no front matter")
    try:
        # libyaml's loader, where it is built in, is ten times faster over 2,300 files.
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        fields: Any = yaml.load(matter[1].decode("utf-8"), Loader=loader)  # noqa: S506 - a safe loader
        raw[matter.end() :].decode("utf-8")
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise _broken(path, str(error)) from error
    if not isinstance(fields, dict) or fields.get("key") != path.stem or not _KEY.fullmatch(path.stem):
        raise _broken(path, "its key is not its file name")

    def text(name: str) -> str | None:
        value = fields.get(name)
        return None if value is None else str(value)

    body = raw[matter.end() :]
    family = family_of(path.stem, text("short_name") or "")
    if family is None:
        return None, body
    licence = Licence(
        key=path.stem,
        family=family,
        name=text("name") or path.stem,
        short_name=text("short_name") or path.stem,
        spdx_id=text("spdx_license_key"),
        owner=text("owner"),
        category=text("category"),
        homepage=text("homepage_url"),
        language=text("language") or "en",
        deprecated=bool(fields.get("is_deprecated")),
    )
    return licence, body


def _write(path: Path, content: bytes) -> bool:
    """Write a file unless it holds just that already; whole or not at all."""
    if path.is_file() and path.read_bytes() == content:
        return False
    partial = path.with_name(path.name + ".partial")
    partial.write_bytes(content)
    partial.replace(path)
    return True


def _broken(path: Path, why: str) -> ConfigError:
    return ConfigError(
        "demo_data_broken",
        f"{path.name} of licensedcode-data cannot be read: {why}.",
        mend="Install the pinned release again: pip install --force-reinstall 'pincite[demo]'.",
        subject=path.name,
    )
