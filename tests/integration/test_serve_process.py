"""The sidecar as a process: gunicorn, its queue, its signals, its refusals to start."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from live import free_port, http

_SCRIPT = Path(__file__).parents[1] / "support" / "serve_tiny.py"
RERANK = {"query": "q", "documents": ["a"]}


class Process:
    """A sidecar and its log."""

    def __init__(self, folder: Path, mode: str = "ok", **environment: str) -> None:
        self.folder, self.port = folder, int(environment.get("PINCITE_SIDECAR__PORT", free_port()))
        self.url = f"http://127.0.0.1:{self.port}"
        kept = {k: v for k, v in os.environ.items() if not k.startswith("PINCITE_")}
        path = os.pathsep.join(p for p in sys.path if p)
        with (folder / "log").open("wb") as log:
            self.child = subprocess.Popen(
                [sys.executable, str(_SCRIPT), mode, str(folder)],
                env={**kept, "PYTHONPATH": path, "PINCITE_SIDECAR__PORT": str(self.port), **environment},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def ready(self) -> Process:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            assert self.child.poll() is None, self.log()
            try:
                if http("GET", f"{self.url}/healthz", timeout=5)[0] == 200:
                    return self
            except OSError:
                time.sleep(0.1)
        raise AssertionError(self.log())

    def log(self) -> str:
        return (self.folder / "log").read_text()

    def stop(self) -> None:
        if self.child.poll() is None:
            os.killpg(self.child.pid, signal.SIGKILL)
        self.child.wait(20)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Process]]:
    started: list[Process] = []

    def make(*args: str, **environment: str) -> Process:
        started.append(Process(tmp_path, *args, **environment))
        return started[-1]

    yield make
    for process in started:
        process.stop()


def eventually(check: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 30
    while not check():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


def test_sigterm_finishes_what_is_in_hand(start: Callable[..., Process], tmp_path: Path) -> None:
    sidecar = start().ready()
    with ThreadPoolExecutor() as pool:
        held = pool.submit(http, "POST", f"{sidecar.url}/v1/rerank", {**RERANK, "query": "hold"})
        eventually((tmp_path / "held").exists)
        sidecar.child.terminate()
        time.sleep(0.5)
        (tmp_path / "release").touch()
        assert held.result(30)[0] == 200
    assert sidecar.child.wait(30) == 0
    assert (tmp_path / "closed").exists()
    events = [json.loads(line) for line in sidecar.log().splitlines()]
    assert any(event["event"] == "request" and event["route"] == "/v1/rerank" for event in events)
    assert "hold" not in sidecar.log()


def test_a_full_house_turns_away_and_stays_alive(start: Callable[..., Process], tmp_path: Path) -> None:
    sidecar = start(PINCITE_SIDECAR__MAX_QUEUE="3", PINCITE_SIDECAR__THREADS="1").ready()
    with ThreadPoolExecutor(12) as pool:
        held = pool.submit(http, "POST", f"{sidecar.url}/v1/rerank", {**RERANK, "query": "hold"})
        eventually((tmp_path / "held").exists)
        others = [pool.submit(http, "POST", f"{sidecar.url}/v1/rerank", RERANK) for _ in range(10)]
        eventually(lambda: sum(f.done() for f in others) >= 8)
        assert http("GET", f"{sidecar.url}/healthz")[0] == 200
        turned_away = [f.result() for f in others if f.done()]
        assert {status for status, _ in turned_away} == {429}
        assert {body["code"] for _, body in turned_away} == {"queue_full"}
        (tmp_path / "release").touch()
        assert held.result(30)[0] == 200
        assert sorted(f.result(30)[0] for f in others) == [200] * 2 + [429] * 8


@pytest.mark.parametrize(
    ("environment", "code"),
    [
        ({"PINCITE_SIDECAR__HOST": "0.0.0.0"}, "token_required"),
        ({"PINCITE_SIDECAR__HOST": "host.invalid"}, "host_unknown"),
        ({"PINCITE_SIDECAR__THREADS": "none"}, "setting_invalid"),
    ],
)
def test_it_refuses_to_start(start: Callable[..., Process], environment: dict[str, str], code: str) -> None:
    sidecar = start(**environment)
    assert sidecar.child.wait(60) == 1
    assert f"[{code}]" in sidecar.log()
    assert "Traceback" not in sidecar.log()


def test_a_taken_port_is_named(start: Callable[..., Process]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        sidecar = start(PINCITE_SIDECAR__PORT=str(port))
        assert sidecar.child.wait(60) == 1
    assert "[port_taken]" in sidecar.log()
    assert str(port) in sidecar.log()
    assert "Traceback" not in sidecar.log()


def test_an_installation_that_is_at_fault_ends_the_sidecar(start: Callable[..., Process]) -> None:
    sidecar = start("broken")
    assert sidecar.child.wait(60) != 0
    assert "encoder_unknown" in sidecar.log()
    assert "Traceback" not in sidecar.log()


def test_an_unforeseen_error_at_the_start_ends_the_sidecar_too(start: Callable[..., Process]) -> None:
    assert start("unforeseen").child.wait(60) != 0


def test_an_open_address_with_a_token_is_served(start: Callable[..., Process]) -> None:
    sidecar = start(PINCITE_SIDECAR__HOST="0.0.0.0", PINCITE_SIDECAR__TOKEN="s3cret").ready()
    assert http("POST", f"{sidecar.url}/v1/rerank", RERANK)[0] == 401
    assert http("POST", f"{sidecar.url}/v1/rerank", RERANK, {"Authorization": "Bearer s3cret"})[0] == 200
    assert "s3cret" not in sidecar.log()
