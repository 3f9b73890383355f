"""Finds a JDK that can run OpenSearch and build the plugin."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pincite.adapters.embedded.layout import MIN_JAVA
from pincite.domain.errors import ConfigError

# The vector module scores k-NN; locale data holds the Thai break iterator, without which no index
# opens; the compiler builds the plugin and runs the keystore program. A bare runtime lacks them.
NEEDED_MODULES = frozenset({"jdk.incubator.vector", "jdk.localedata", "jdk.compiler"})
_PROBE_TIMEOUT_S = 20
_MEND = (
    f"Install a full JDK {MIN_JAVA} or newer (Temurin {MIN_JAVA}+ or Debian's openjdk-{MIN_JAVA}-jdk), "
    "and set PINCITE_JAVA_HOME to its folder if it lies in an unusual place."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Jdk:
    """A JDK that was looked at and found fit.

    Args:
        home: Its folder; ``home/bin/java`` exists.
        version: Its version as it states it, for instance ``25.0.3``.
        found_by: Where it was named or found, for instance ``JAVA_HOME``.
    """

    home: Path
    version: str
    found_by: str

    @property
    def java(self) -> Path:
        """The launcher."""
        return self.home / "bin" / "java"


def standard_folders(root: Path = Path("/"), user_home: Path | None = None) -> Iterator[Path]:
    """The usual JVM folders that exist, newest name first within each place.

    Args:
        root: The file system's root; tests pass another.
        user_home: The user's home folder; default: the caller's.
    """
    user_home = Path.home() if user_home is None else user_home
    places = (
        (root / "usr/lib/jvm", "*"),
        (root / "opt", "java*"),
        (root / "opt/java", "*"),
        (user_home / ".sdkman/candidates/java", "*"),
        (root / "Library/Java/JavaVirtualMachines", "*/Contents/Home"),
    )
    for folder, pattern in places:
        yield from sorted(folder.glob(pattern), reverse=True)


def probe(home: Path) -> tuple[str, str]:
    """Looks at one folder.

    Args:
        home: A folder that may be a JDK's.

    Returns:
        ``(version, "")`` when it is fit, ``(version or "", reason)`` when it is not.
    """
    java = home / "bin" / "java"
    try:
        if not (java.is_file() and os.access(java, os.X_OK)):
            return "", "it has no bin/java"
    except OSError as exc:
        return "", f"it cannot be read ({exc.strerror})"
    version, modules = _release(home)
    if not version or not modules:
        version, modules = _ask(java)
    major = re.match(r"(?:1\.)?(\d+)", version)
    if major is None:
        return "", "its bin/java does not tell its version"
    if int(major.group(1)) < MIN_JAVA:
        return version, f"it is Java {version}, older than {MIN_JAVA}"
    missing = sorted(NEEDED_MODULES - modules)
    if missing:
        return version, f"it is not a full JDK: it lacks {', '.join(missing)}"
    if not (home / "bin" / "javac").is_file():
        return version, "it is not a full JDK: it has no bin/javac"
    return version, ""


def _release(home: Path) -> tuple[str, frozenset[str]]:
    """Version and modules as the ``release`` file of every modern JDK states them; starts nothing."""
    try:
        text = (home / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "", frozenset()
    values = dict(re.findall(r'^([A-Z_]+)="(.*)"\s*$', text, flags=re.MULTILINE))
    return values.get("JAVA_VERSION", ""), frozenset(values.get("MODULES", "").split())


def _ask(java: Path) -> tuple[str, frozenset[str]]:
    """Version and modules as the launcher tells them, for a JDK without a ``release`` file."""
    try:
        version = subprocess.run(  # noqa: S603 - the path was named by the user or by the system
            [java, "-version"], capture_output=True, text=True, timeout=_PROBE_TIMEOUT_S, check=False
        )
        modules = subprocess.run(  # noqa: S603
            [java, "--list-modules"], capture_output=True, text=True, timeout=_PROBE_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return "", frozenset()
    found = re.search(r'version "([^"]+)"', version.stderr)
    names = frozenset(line.split("@")[0].strip() for line in modules.stdout.splitlines())
    return (found.group(1) if found else ""), names


def find_jdk(
    explicit: Path | None,
    *,
    environ: Mapping[str, str] | None = None,
    folders: Callable[[], Iterator[Path]] = standard_folders,
    usable: Callable[[Path], bool] = lambda home: True,
) -> Jdk:
    """The first fit JDK of: the explicit one, ``JAVA_HOME``, the one on ``PATH``, the usual folders.

    Args:
        explicit: What ``PINCITE_JAVA_HOME`` names. If it is unfit that is an error, never passed over.
        environ: The environment; default: the process's own.
        folders: The usual JVM folders.
        usable: Whether the node's user can reach a JDK; those it cannot reach are passed over.

    Raises:
        ConfigError: ``jdk_missing``; ``detail.looked_at`` lists each folder and why it was passed over.
    """
    environ = os.environ if environ is None else environ
    if explicit is not None:
        home = explicit.expanduser().absolute()
        version, reason = probe(home)
        if not reason and not usable(home):
            reason = "the unprivileged user that runs the node cannot reach it"
        if reason:
            raise ConfigError(
                "jdk_missing",
                f"PINCITE_JAVA_HOME names {explicit}, which does not serve: {reason}.",
                mend=_MEND,
                subject=str(explicit),
            )
        return Jdk(home=home, version=version, found_by="PINCITE_JAVA_HOME")
    looked_at: dict[str, str] = {}
    for home, found_by in _candidates(environ, folders):
        if str(home) in looked_at:
            continue
        version, reason = probe(home)
        if not reason and not usable(home):
            reason = "the unprivileged user that runs the node cannot reach it"
        if not reason:
            return Jdk(home=home, version=version, found_by=found_by)
        looked_at[str(home)] = reason
    seen = "; ".join(f"{home}: {why}" for home, why in looked_at.items() if "no bin/java" not in why)
    raise ConfigError(
        "jdk_missing",
        f"No full JDK {MIN_JAVA} or newer was found" + (f" ({seen})." if seen else "."),
        mend=_MEND,
        subject="PINCITE_JAVA_HOME",
        detail={"looked_at": looked_at},
    )


def _candidates(environ: Mapping[str, str], folders: Callable[[], Iterator[Path]]) -> Iterator[tuple[Path, str]]:
    if environ.get("JAVA_HOME"):
        yield Path(environ["JAVA_HOME"]).absolute(), "JAVA_HOME"
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    if on_path:
        # /usr/bin/java is a chain of links on Debian; the JDK is where it ends.
        yield Path(on_path).resolve().parents[1], "PATH"
    for folder in folders():
        yield folder.resolve(), str(folder.parent)
