"""Processes that outlive the command that started them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from pincite.domain.errors import UserError

_PROC = Path("/proc")
_POLL_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessId:
    """A pid with the moment its process started, so that a reused pid is told apart.

    Args:
        pid: The process id.
        started: An opaque mark of the start: boot id and clock ticks on Linux, a date elsewhere.
    """

    pid: int
    started: str


def start_mark(pid: int) -> str | None:
    """The mark of the process that has this pid now; None when there is none or it is a zombie."""
    if (_PROC / "self" / "stat").exists():
        try:
            text = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None
        # The second field is the program's name in parentheses, which may hold anything.
        fields = text[text.rindex(")") + 2 :].split()
        if fields[0] in "ZX" and not _has_more_threads(pid):
            return None
        try:
            boot = (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        except OSError:
            boot = "-"
        return f"{boot}:{fields[19]}"
    try:
        done = subprocess.run(  # noqa: S603 - fixed program
            ["/bin/ps", "-o", "stat=,lstart=", "-p", str(pid)],
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    words = done.stdout.split()
    return " ".join(words[1:]) if words and not words[0].startswith("Z") else None


def _has_more_threads(pid: int) -> bool:
    """Whether threads outlive the first one, which alone shows as a zombie. They hold ports and locks."""
    try:
        return len(list((_PROC / str(pid) / "task").iterdir())) > 1
    except OSError:
        return False


def identify(pid: int) -> ProcessId | None:
    """The process that has this pid now, or None."""
    mark = start_mark(pid)
    return None if mark is None else ProcessId(pid=pid, started=mark)


def is_alive(process: ProcessId) -> bool:
    """Whether exactly this process still runs. Reaps it when it is our own dead child."""
    with contextlib.suppress(ChildProcessError, OSError):
        os.waitpid(process.pid, os.WNOHANG)
    return start_mark(process.pid) == process.started


def _check_permitted(process: ProcessId) -> None:
    try:
        os.kill(process.pid, 0)
    except ProcessLookupError:
        return
    except PermissionError:
        raise UserError(
            "not_permitted",
            f"Process {process.pid} belongs to another user.",
            mend="Run the command as the user that started the embedded cluster.",
            subject=str(process.pid),
        ) from None


def stop(processes: list[ProcessId], *, grace_s: float = 20.0) -> list[ProcessId]:
    """Stops processes: SIGTERM to all, after ``grace_s`` SIGKILL to those left, and waits for their end.

    Args:
        processes: Those to stop; dead ones and reused pids are passed over.
        grace_s: Time for an orderly end, in seconds.

    Returns:
        Those that are still alive after SIGKILL; normally none.

    Raises:
        UserError: ``not_permitted`` when a process belongs to another user; nothing was stopped then.
    """
    for process in processes:
        if is_alive(process):
            _check_permitted(process)
    left = processes
    for number, patience in ((signal.SIGTERM, grace_s), (signal.SIGKILL, 10.0)):
        left = [p for p in left if is_alive(p)]
        for process in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, number)
        deadline = time.monotonic() + patience
        while left and time.monotonic() < deadline:
            time.sleep(_POLL_S)
            left = [p for p in left if is_alive(p)]
    return left
