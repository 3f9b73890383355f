"""Homes for embedded clusters of the tests.

OpenSearch is assembled once and kept in ``PINCITE_TEST_HOME`` (default ``/var/tmp/pincite-test-<uid>``,
which the node's unprivileged user can reach); each home of a test session is new and shares it.
"""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from live import module_prefix, node, prefix

from pincite.adapters.embedded import EmbeddedCluster, ports
from pincite.adapters.embedded.plugin import plugin_sources


def _root() -> Path:
    root = Path(os.environ.get("PINCITE_TEST_HOME", f"/var/tmp/pincite-test-{os.getuid()}"))
    (root / "assembly").mkdir(parents=True, exist_ok=True)
    for folder in (root, root / "assembly"):
        folder.chmod(0o755)
    return root


def _free_cluster_port(nodes: int = 1) -> int:
    """An HTTP port that is free now, as are its neighbours and the transport ports.

    ``PINCITE_TEST_PORT`` says where to begin; by default the kernel picks a place.
    """
    first = int(os.environ.get("PINCITE_TEST_PORT", "0"))
    if not first:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            first = min(probe.getsockname()[1], 60000)
    return ports.choose(first, nodes, fixed=False)


@pytest.fixture(scope="session")
def new_embedded_home() -> Iterator[Callable[[], Path]]:
    """Makes new homes for embedded clusters; at the end what runs there is stopped and removed."""
    root = _root()
    homes: list[Path] = []

    def make() -> Path:
        home = Path(tempfile.mkdtemp(prefix="home-", dir=root))
        home.chmod(0o755)
        (home / "cluster").mkdir(mode=0o755)
        (home / "cluster" / "assembly").symlink_to(root / "assembly")
        homes.append(home)
        return home

    yield make
    for home in homes:
        EmbeddedCluster(home=home, progress=lambda _: None).down()
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="session")
def embedded_home(new_embedded_home: Callable[[], Path]) -> Path:
    """A home whose OpenSearch is assembled already, or will be for all later sessions."""
    return new_embedded_home()


@pytest.fixture(scope="session")
def has_plugin() -> bool:
    """Whether this checkout holds the plugin's sources."""
    return plugin_sources() is not None


@pytest.fixture(scope="session")
def free_cluster_port() -> Callable[..., int]:
    """Finds a free HTTP port for a cluster of so many nodes (default one)."""
    return _free_cluster_port


__all__ = ["module_prefix", "node", "prefix"]
