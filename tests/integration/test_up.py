"""``pincite up``: the parts together, and how they end."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from live import TOKEN, Node, eventually, http
from rabbitmq import RabbitMQServer, running

from pincite.adapters import broker


class Up:
    """A running ``pincite up``."""

    def __init__(self, environment: dict[str, str], folder: Path) -> None:
        self._log = folder / "up.log"
        self.url = f"http://127.0.0.1:{environment['PINCITE_SIDECAR__PORT']}"
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "pincite.cli.main", "up"],
                env=environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def log(self) -> str:
        return self._log.read_text()

    def started(self) -> Up:
        eventually(lambda: "Ctrl-C stops it." in self.log() or self.process.poll() is not None)
        assert self.process.poll() is None, self.log()
        return self

    def children(self) -> list[int]:
        listed = subprocess.run(
            ["ps", "-o", "pid=", "--ppid", str(self.process.pid)], capture_output=True, text=True, check=False
        )
        return [int(pid) for pid in listed.stdout.split()]

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(60)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[dict[str, str]], Up]]:
    started: list[Up] = []

    def make(environment: dict[str, str]) -> Up:
        started.append(Up(environment, tmp_path))
        return started[-1]

    yield make
    for up in started:
        up.stop()


@pytest.fixture(scope="module")
def rabbit() -> Iterator[RabbitMQServer]:
    with running() as server:
        yield server


def embedded(node: Node, prefix: str, **extra: str) -> dict[str, str]:
    """The environment of somebody who configured no cluster: the embedded one of the home is used."""
    environment = node.environment(prefix, **extra)
    del environment["PINCITE_OPENSEARCH__URL"]
    return environment


def gone(pids: list[int]) -> bool:
    return not any(Path(f"/proc/{pid}").exists() for pid in pids)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_without_a_broker(
    node: Node, prefix: str, start: Callable[[dict[str, str]], Up], how: signal.Signals
) -> None:
    up = start(embedded(node, prefix)).started()
    log = up.log()
    assert node.url in log
    assert up.url in log
    assert "no worker was started" in log
    assert TOKEN not in log
    # The example that it prints is a call that works.
    assert re.search(rf"curl -s {re.escape(up.url)}/v1/ask ", log)
    status, document = http("POST", f"{up.url}/v1/ask", {"question": "q?", "wait_s": 1}, {"Pincite-Token": TOKEN})
    assert status == 200
    assert document["outcome"] == "refusal"
    children = up.children()
    assert len(children) == 1
    up.process.send_signal(how)
    assert up.process.wait(60) == 0
    assert gone(children)
    assert "cluster down" in up.log()
    assert http("GET", node.url)[0] == 200


def test_with_a_broker_a_worker_answers(
    node: Node, prefix: str, rabbit: RabbitMQServer, start: Callable[[dict[str, str]], Up]
) -> None:
    queue = f"{prefix}.answers"
    broker_settings = {"PINCITE_BROKER__URL": rabbit.url, "PINCITE_BROKER__QUEUE": queue}
    up = start(embedded(node, prefix, **broker_settings)).started()
    assert queue in up.log()
    body = {"question": "Who pays the rent?", "wait_s": 60}
    status, document = http("POST", f"{up.url}/v1/ask", body, {"Pincite-Token": TOKEN}, timeout=90)
    assert status == 200
    assert document["outcome"] == "refusal"
    assert document["n_attempts"] == 1
    children = up.children()
    assert len(children) == 2
    up.process.terminate()
    assert up.process.wait(60) == 0
    assert gone(children)
    assert eventually(lambda: broker.queue_state(rabbit.url, queue)[1] == 0)


def test_a_part_that_ends_takes_the_rest_with_it(
    node: Node, prefix: str, start: Callable[[dict[str, str]], Up]
) -> None:
    up = start(embedded(node, prefix)).started()
    children = up.children()
    os.kill(children[0], signal.SIGKILL)
    assert up.process.wait(60) == 1
    assert "the sidecar was killed by signal 9" in up.log()
    assert "Traceback" not in up.log()
    assert gone(children)


def test_a_port_that_is_taken_ends_it_with_a_message(
    node: Node, prefix: str, start: Callable[[dict[str, str]], Up]
) -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        up = start(embedded(node, prefix, PINCITE_SIDECAR__PORT=port))
        assert up.process.wait(90) == 1
    assert "[port_taken]" in up.log()
    assert "Traceback" not in up.log()
