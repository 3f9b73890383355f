"""A node and a sidecar of a benchmark's own, beside whatever else runs on this machine."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pincite.domain.errors import UpstreamError
from pincite.wiring.services import Services
from pincite.wiring.settings import OpenSearchSettings, Settings

_READY_S = 180.0
TOKEN = "benchmark-token"  # noqa: S105  # a loopback sidecar that lives for minutes


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchStack:
    """A running node, and how to start a sidecar that its plugin calls.

    Attributes:
        url: The node.
        home: Its home; a sidecar's cache is there too.
        sidecar_port: Where the plugin expects the sidecar.
    """

    url: str
    home: Path
    sidecar_port: int

    def services(self, prefix: str, *, home: Path | None = None) -> Services:
        """Services in this process; another ``home`` has another cache."""
        return Services(
            Settings(home=home or self.home, index_prefix=prefix, opensearch=OpenSearchSettings(url=self.url))
        )

    @contextmanager
    def sidecar(self, prefix: str, **environment: str) -> Iterator[str]:
        """A sidecar process while the block runs; its URL.

        Raises:
            UpstreamError: ``sidecar_not_ready``.
        """
        env = {k: v for k, v in os.environ.items() if not k.startswith("PINCITE_")} | {
            "PINCITE_HOME": str(self.home),
            "PINCITE_OPENSEARCH__URL": self.url,
            "PINCITE_INDEX_PREFIX": prefix,
            "PINCITE_SIDECAR__PORT": str(self.sidecar_port),
            "PINCITE_SIDECAR__TOKEN": TOKEN,
            **environment,
        }
        log = self.home / "sidecar.log"
        with log.open("wb") as out:
            process = subprocess.Popen(  # our own module
                [sys.executable, "-m", "pincite.serve"], env=env, stdout=out, stderr=out, start_new_session=True
            )
        url = f"http://127.0.0.1:{self.sidecar_port}"
        try:
            deadline = time.monotonic() + _READY_S
            while not _ready(url):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise UpstreamError(
                        "sidecar_not_ready", f"The benchmark's sidecar did not start; its log is {log}."
                    )
                time.sleep(0.2)
            yield url
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(timeout=40)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(timeout=20)


@contextmanager
def bench_stack(base: Path, name: str, *, heap_mb: int = 1024) -> Iterator[BenchStack]:
    """A node in a home of its own below ``base``, stopped at the end. The assembly is shared with ``base``."""
    from pincite.adapters.embedded.cluster import EmbeddedCluster

    home = base / "bench" / name
    assembly = base / "cluster" / "assembly"
    for folder in (base, base / "bench", home, base / "cluster", assembly, home / "cluster"):
        folder.mkdir(parents=True, exist_ok=True, mode=0o755)
    link = home / "cluster" / "assembly"
    if not link.exists():
        link.symlink_to(assembly)
    port = _free_port()
    cluster = EmbeddedCluster(
        home=home,
        http_port=9370,
        port_fixed=False,
        heap_mb=heap_mb,
        sidecar_urls=(f"http://127.0.0.1:{port}",),
        sidecar_token=TOKEN,
        progress=lambda line: print(line, file=sys.stderr),
    )
    try:
        yield BenchStack(url=cluster.ensure_running(), home=home, sidecar_port=port)
    finally:
        cluster.down()


def _ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/readyz", timeout=10) as reply:  # noqa: S310  # our own URL
            return bool(reply.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
