"""The cluster's state file and the lock that guards it."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pincite.adapters.embedded.processes import ProcessId
from pincite.domain.errors import ConfigError, UpstreamError

STATE_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeState:
    """One node as it was started.

    Args:
        name: Node name, ``pincite-1`` and so on.
        http_port: Its HTTP port on loopback.
        transport_port: Its transport port on loopback.
        process: Its process.
    """

    name: str
    http_port: int
    transport_port: int
    process: ProcessId


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterState:
    """A started cluster.

    Args:
        opensearch: Version of OpenSearch.
        assembly: Folder of the assembled node that all nodes run from.
        java_home: The JDK they run on.
        plugin: Key of the installed build of our plugin, None without it.
        agent: Whether they run with OpenSearch's Java agent.
        heap_mb: Heap of each, in MiB.
        jvm_options: Further options of the JVM.
        nodes: The nodes.
    """

    opensearch: str
    assembly: str
    java_home: str
    plugin: str | None
    agent: bool
    heap_mb: int
    jvm_options: tuple[str, ...]
    nodes: tuple[NodeState, ...]

    @property
    def url(self) -> str:
        """The first node's address."""
        return f"http://127.0.0.1:{self.nodes[0].http_port}"


def read_state(path: Path) -> ClusterState | None:
    """The state as last written. None when there is none or it cannot be understood."""
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        if raw.pop("state_version") != STATE_VERSION:
            return None
        nodes = tuple(NodeState(**{**node, "process": ProcessId(**node["process"])}) for node in raw.pop("nodes"))
        options = tuple(raw.pop("jvm_options"))
        return ClusterState(nodes=nodes, jvm_options=options, **raw) if nodes else None
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def write_state(path: Path, state: ClusterState) -> None:
    """Writes the state; a reader sees the old or the new one, never half of it."""
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    temporary.write_text(
        json.dumps({"state_version": STATE_VERSION, **dataclasses.asdict(state)}, indent=2), encoding="utf-8"
    )
    temporary.replace(path)


@contextlib.contextmanager
def locked(path: Path, *, waiting: Callable[[], None], timeout_s: float) -> Iterator[None]:
    """Holds an exclusive lock between processes; the kernel frees it when the holder dies.

    Args:
        path: The lock file; made when missing, never removed.
        waiting: Called once when somebody else holds it.
        timeout_s: How long to wait.

    Raises:
        UpstreamError: ``cluster_busy`` after ``timeout_s``.
        ConfigError: ``home_unwritable`` when the lock file belongs to another user.
    """
    try:
        handle = path.open("a")
    except OSError as exc:
        raise ConfigError(
            "home_unwritable",
            f"{path} cannot be written: {exc.strerror or exc}.",
            mend="Run the command as the user that started the embedded cluster, or set PINCITE_HOME to "
            "a folder of your own.",
            subject=str(path),
        ) from None
    with handle:
        deadline = time.monotonic() + timeout_s
        told = False
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise UpstreamError(
                        "cluster_busy",
                        f"Another pincite process has been starting or stopping the embedded cluster "
                        f"for {timeout_s:.0f} s.",
                        mend="Wait for it or end it, then run the command again.",
                        subject=str(path),
                        retryable=True,
                    ) from None
                if not told:
                    waiting()
                    told = True
                time.sleep(0.2)
        yield
