"""A running installation for the tests: a real node with the plugin and the Java agent, and a sidecar."""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pincite.adapters.embedded import EmbeddedCluster
from pincite.wiring.services import Services
from pincite.wiring.settings import Settings

TOKEN = "integration-test-token"


def free_port() -> int:
    """A port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def eventually(check: Callable[[], Any], *, within: float = 120.0) -> Any:
    """The first true value of ``check``, asked again and again."""
    deadline = time.monotonic() + within
    while True:
        value = check()
        if value:
            return value
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.1)


def http(
    method: str, url: str, body: Any = None, headers: dict[str, str] | None = None, timeout: float = 60
) -> tuple[int, Any]:
    """A plain HTTP client: status and parsed JSON."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(
        url, data=data, method=method, headers={"Content-Type": "application/json", **(headers or {})}
    )
    try:
        with urllib.request.urlopen(request, timeout=timeout) as reply:
            raw, status = reply.read(), reply.status
    except urllib.error.HTTPError as exc:
        with exc:
            raw, status = exc.read(), exc.code
    return status, json.loads(raw) if raw else None


@dataclass
class Node:
    """The node: its URL, and the port where its plugin expects the sidecar."""

    url: str
    home: Path
    sidecar_port: int
    services: list[Services] = field(default_factory=list)

    def environment(self, prefix: str, **extra: str) -> dict[str, str]:
        """The environment of a command against this node."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith("PINCITE_") or k == "PINCITE_TEST_DATA"}
        return kept | {
            "PINCITE_HOME": str(self.home),
            "PINCITE_OPENSEARCH__URL": self.url,
            "PINCITE_INDEX_PREFIX": prefix,
            "PINCITE_SIDECAR__PORT": str(self.sidecar_port),
            "PINCITE_SIDECAR__TOKEN": TOKEN,
            "PINCITE_ENCODER": "hash",
            **extra,
        }

    def app(self, prefix: str, **extra: Any) -> Services:
        """Services in this process against this node."""
        settings = Settings(
            home=self.home, index_prefix=prefix, opensearch={"url": self.url}, **{"encoder": "hash", **extra}
        )
        made = Services(settings)
        self.services.append(made)
        return made

    def cli(
        self, prefix: str, *args: str, env: dict[str, str] | None = None, timeout: float = 240
    ) -> subprocess.CompletedProcess[str]:
        """Run the ``pincite`` command."""
        return subprocess.run(
            [sys.executable, "-m", "pincite.cli.main", *args],
            env=self.environment(prefix, **(env or {})),
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def cli_json(self, prefix: str, *args: str, env: dict[str, str] | None = None, code: int = 0) -> Any:
        """Run it with ``--json``; its document."""
        done = self.cli(prefix, *args, "--json", env=env)
        assert done.returncode == code, done.stderr[-2000:] + done.stdout[-2000:]
        assert "Traceback" not in done.stderr
        return json.loads(done.stdout)

    def scroll(self, alias: str) -> list[dict[str, Any]]:
        """All documents of an alias, with a plain client."""
        http("POST", f"{self.url}/{alias}/_refresh")
        _, page = http("POST", f"{self.url}/{alias}/_search?scroll=1m", {"size": 500, "seq_no_primary_term": True})
        hits: list[dict[str, Any]] = []
        while page["hits"]["hits"]:
            hits += page["hits"]["hits"]
            _, page = http("POST", f"{self.url}/_search/scroll", {"scroll": "1m", "scroll_id": page["_scroll_id"]})
        http("DELETE", f"{self.url}/_search/scroll", {"scroll_id": page["_scroll_id"]})
        return hits


@dataclass
class Sidecar:
    """A running sidecar process."""

    url: str
    process: subprocess.Popen[bytes]

    def kill(self) -> None:
        """Kill it and all it started, at once."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(timeout=20)


@pytest.fixture(scope="session")
def node(new_embedded_home: Callable[[], Path], free_cluster_port: Callable[..., int]) -> Iterator[Node]:
    """One node with k-NN, our plugin and the Java agent, for the whole session."""
    home = new_embedded_home()
    port = free_port()
    cluster = EmbeddedCluster(
        home=home,
        http_port=free_cluster_port(),
        heap_mb=768,
        agent=True,
        jvm_options=("-XX:TieredStopAtLevel=1",),
        sidecar_urls=(f"http://127.0.0.1:{port}",),
        sidecar_token=TOKEN,
        progress=lambda _: None,
    )
    url = cluster.up().url
    assert url is not None
    made = Node(url=url, home=home, sidecar_port=port)
    yield made
    for services in made.services:
        services.close()
    cluster.down()


@pytest.fixture
def prefix() -> str:
    """An index prefix of its own."""
    return f"t{secrets.token_hex(4)}"


@pytest.fixture(scope="module")
def module_prefix() -> str:
    """An index prefix for a whole module."""
    return f"m{secrets.token_hex(4)}"


def start_sidecar(node: Node, prefix: str, log: Path, **extra: str) -> Sidecar:
    """Start ``pincite serve`` and wait until it is ready."""
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "pincite.cli.main", "serve"],
            env=node.environment(prefix, **extra),
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    sidecar = Sidecar(url=f"http://127.0.0.1:{node.sidecar_port}", process=process)
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise AssertionError(f"the sidecar ended: {log.read_text()[-3000:]}")
        try:
            status, _ = http("GET", f"{sidecar.url}/readyz", timeout=30)
            if status == 200:
                return sidecar
        except OSError:
            pass
        time.sleep(0.2)
    sidecar.kill()
    raise AssertionError(f"the sidecar did not get ready: {log.read_text()[-3000:]}")


def data_folder() -> Path:
    """The test data; the test is skipped when it is absent, as for an outside contributor."""
    root = Path(
        os.environ.get("PINCITE_TEST_DATA", Path(__file__).resolve().parents[2].parent / "shared" / "data")
    )
    if not root.is_dir():
        pytest.skip("PINCITE_TEST_DATA is absent")
    return root
