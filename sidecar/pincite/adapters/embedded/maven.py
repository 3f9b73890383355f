"""Runs Maven, with errors a user can act on."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from pincite.domain.errors import ConfigError, UpstreamError

_TIMEOUT_S = 1800
_TAIL_LINES = 25


def find_maven() -> str:
    """The path of ``mvn``.

    Raises:
        ConfigError: ``maven_missing``.
    """
    found = shutil.which("mvn")
    if found is None:
        raise ConfigError(
            "maven_missing",
            "Maven (mvn) is not on PATH; the embedded cluster is assembled with it.",
            mend="Install Maven 3.8 or newer (Debian: apt install maven), or set PINCITE_OPENSEARCH__URL "
            "to use an existing cluster.",
            subject="mvn",
        )
    return found


def run_maven(arguments: Sequence[str], *, folder: Path, java_home: Path) -> None:
    """Runs ``mvn -q -B`` and waits for it.

    Args:
        arguments: Goals and options.
        folder: Working folder.
        java_home: The JDK that Maven and its compiler use.

    Raises:
        ConfigError: ``maven_missing``.
        UpstreamError: ``maven_failed``; the message ends with the last lines of Maven's output.
    """
    command = [find_maven(), "-q", "-B", "-ntp", "-Dstyle.color=never", *arguments]
    environ = {**os.environ, "JAVA_HOME": str(java_home)}
    try:
        done = subprocess.run(  # noqa: S603 - fixed program, no shell
            command,
            cwd=folder,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise UpstreamError(
            "maven_failed",
            f"Maven did not end within {_TIMEOUT_S // 60} minutes.",
            mend="Look at the network and Maven's settings (~/.m2/settings.xml), then run the command again.",
            subject="mvn",
            retryable=True,
        ) from None
    if done.returncode != 0:
        lines = [line for line in done.stdout.splitlines() if line.strip() and not line.startswith("WARNING: ")]
        tail = "\n".join(lines[-_TAIL_LINES:])
        raise UpstreamError(
            "maven_failed",
            f"Maven ended with exit status {done.returncode}:\n{tail}",
            mend="Look at the network and Maven's settings (~/.m2/settings.xml), then run the command again; "
            "what was downloaded is kept.",
            subject="mvn",
            retryable=True,
        )
