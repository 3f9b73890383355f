"""What the embedded cluster looks like from outside."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStatus:
    """One node: name, pid, ports, and whether its process runs."""

    name: str
    pid: int
    http_port: int
    transport_port: int
    alive: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStatus:
    """The embedded cluster.

    Args:
        running: Whether at least one node's process runs.
        already_running: Whether ``up`` found it running; False from ``status``.
        url: Its address when it runs.
        health: ``green``, ``yellow`` or ``red``; None when it does not answer.
        version: OpenSearch's version when it answers.
        plugins: Installed plugins as ``name version``.
        nodes: Its nodes.
        data_bytes: Size of the data on disk; None when the caller may not read it.
        n_data_nodes: Number of nodes that the data was written by.
        home: Pincite's home.
        java_home: JDK that it runs on.
        agent: Whether the Java agent is on.
    """

    running: bool
    already_running: bool = False
    url: str | None = None
    health: str | None = None
    version: str | None = None
    plugins: tuple[str, ...] = ()
    nodes: tuple[NodeStatus, ...] = ()
    data_bytes: int | None = None
    n_data_nodes: int = 0
    home: Path
    java_home: str | None = None
    agent: bool = False

    def as_dict(self) -> dict[str, Any]:
        """The status as a JSON-compatible mapping."""
        return {**dataclasses.asdict(self), "home": str(self.home)}
