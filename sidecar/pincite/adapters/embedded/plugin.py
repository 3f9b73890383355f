"""Finds or builds the zip of Pincite's own OpenSearch plugin."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from pincite.adapters.embedded.jdk import Jdk
from pincite.adapters.embedded.maven import run_maven
from pincite.domain.errors import ConfigError, UserError
from pincite.resources import path as resource

_ZIPS = "pincite-plugin-*.zip"
_NOT_SOURCES = frozenset({"target", "build"})


def plugin_sources() -> Path | None:
    """The folder of the plugin's Maven project as shipped, or None when it is not shipped."""
    try:
        return resource("plugin/pom.xml").parent
    except FileNotFoundError:
        return None


def _source_files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        if path.is_file() and parts[0] not in _NOT_SOURCES and not any(part.startswith(".") for part in parts):
            yield path


def sources_key(folder: Path) -> str:
    """A short hash of the names and contents of the plugin's sources."""
    digest = hashlib.sha256()
    for path in _source_files(folder):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(folder).as_posix()}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:12]


def plugin_zip(explicit: Path | None, root: Path, jdk: Jdk, progress: Callable[[str], None]) -> Path:
    """The plugin's zip: the explicit one, else one built from the shipped sources.

    Args:
        explicit: What the user named.
        root: Folder for builds, kept by a hash of the sources; the caller holds its lock.
        jdk: JDK for Maven and the compiler.
        progress: Told when something takes long.

    Raises:
        UserError: ``plugin_zip_missing``.
        ConfigError: ``plugin_missing``, ``plugin_build_empty``, ``maven_missing``.
        UpstreamError: ``maven_failed``.
    """
    if explicit is not None:
        if not os.access(explicit, os.R_OK) or not explicit.is_file():
            raise UserError(
                "plugin_zip_missing",
                f"The plugin's zip {explicit} is not there or cannot be read.",
                mend="Correct PINCITE_CLUSTER__PLUGIN_ZIP, or unset it to have the plugin built from its sources.",
                subject=str(explicit),
            )
        return explicit.absolute()
    sources = plugin_sources()
    if sources is None:
        raise ConfigError(
            "plugin_missing",
            "This installation does not hold the sources of Pincite's OpenSearch plugin.",
            mend="Set PINCITE_CLUSTER__PLUGIN_ZIP to a built zip, or install pincite from a checkout.",
            subject="plugin",
        )
    target = root / f"pincite-plugin-{sources_key(sources)}.zip"
    if target.is_file():
        return target
    progress("building Pincite's OpenSearch plugin with Maven")
    # Built from a copy, so that the checkout stays clean and may be read-only.
    work = root / ".making-plugin"
    shutil.rmtree(work, ignore_errors=True)
    for path in _source_files(sources):
        copy = work / path.relative_to(sources)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    run_maven(["-DskipTests", "-Dmaven.test.skip=true", "package"], folder=work, java_home=jdk.home)
    built = sorted((work / "target").glob(_ZIPS))
    if len(built) != 1:
        raise ConfigError(
            "plugin_build_empty",
            f"Maven made {len(built)} files target/{_ZIPS} from {sources}; exactly one is needed.",
            mend="Look at the plugin's pom.xml.",
            subject=str(sources),
        )
    for old in root.glob(_ZIPS):
        old.unlink()
    built[0].rename(target)
    shutil.rmtree(work, ignore_errors=True)
    return target
