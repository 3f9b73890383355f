"""The whole path with a broker: sidecar → RabbitMQ → worker → a language model's server → the answers index."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from live import TOKEN, Node, Sidecar, eventually, http, start_sidecar
from rabbitmq import RabbitMQServer, running

from pincite.adapters import broker
from pincite.ingest.walk import walk
from pincite.wiring import contracts
from pincite.wiring.ingest_flow import IngestOptions
from pincite.wiring.sources import extractor_set

LEASE = "The tenant shall not sublet the premises without the written consent of the landlord. " * 3
QUESTION = "May the tenant sublet the premises?"
OWN = {"Authorization": f"Bearer {TOKEN}"}


class HeldModel:
    """A chat server that quotes the first passage, but holds each reply until it is let go."""

    def __init__(self) -> None:
        self.asked = 0
        self.release = threading.Event()
        held = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                messages = json.loads(self.rfile.read(length))["messages"]
                held.asked += 1
                held.release.wait(120)
                passage = re.search(r'<passage id="(c[0-9a-f]{8})"[^>]*>\s*([^.]+\.)', messages[-1]["content"])
                assert passage
                message = {"role": "assistant", "content": f"{passage[2]} [{passage[1]}]"}
                choice = {"index": 0, "finish_reason": "stop", "message": message}
                reply = {
                    "id": "1",
                    "object": "chat.completion",
                    "created": 0,
                    "model": "held",
                    "choices": [choice],
                }
                raw = json.dumps(reply).encode()
                try:
                    self.send_response(200)
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(raw)))
                    self.end_headers()
                    self.wfile.write(raw)
                except OSError:
                    # Whoever asked was killed meanwhile; that is what the test is about.
                    return

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self.release.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)


@pytest.fixture(scope="module")
def rabbit() -> Iterator[RabbitMQServer]:
    with running() as server:
        yield server


@pytest.fixture
def model() -> Iterator[HeldModel]:
    server = HeldModel()
    yield server
    server.close()


@pytest.fixture
def environment(rabbit: RabbitMQServer, model: HeldModel, prefix: str) -> dict[str, str]:
    return {
        "PINCITE_BROKER__URL": rabbit.url,
        "PINCITE_BROKER__QUEUE": f"{prefix}.answers",
        "PINCITE_GENERATOR": "openai",
        "PINCITE_OPENAI__BASE_URL": model.url,
        "PINCITE_OPENAI__MODEL": "held",
    }


@pytest.fixture
def sidecar(node: Node, prefix: str, environment: dict[str, str], tmp_path: Path) -> Iterator[Sidecar]:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "lease.txt").write_text(LEASE)
    report = node.app(prefix).ingest(walk([tmp_path / "docs"], extractor_set()), IngestOptions())
    assert report.count("indexed") == 1
    started = start_sidecar(node, prefix, tmp_path / "sidecar.log", **environment)
    yield started
    started.kill()


@pytest.fixture
def start_worker(
    node: Node, prefix: str, environment: dict[str, str], tmp_path: Path
) -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    workers: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        with (tmp_path / "worker.log").open("ab") as log:
            worker = subprocess.Popen(
                [sys.executable, "-m", "pincite.cli.main", "worker"],
                env=node.environment(prefix, **environment),
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        workers.append(worker)
        return worker

    yield start
    for worker in workers:
        if worker.poll() is None:
            os.killpg(worker.pid, signal.SIGKILL)
            worker.wait(20)


def test_an_answer_survives_kill_9_of_its_worker_and_appears_once(  # noqa: PLR0917
    node: Node,
    prefix: str,
    rabbit: RabbitMQServer,
    environment: dict[str, str],
    model: HeldModel,
    sidecar: Sidecar,
    start_worker: Callable[[], subprocess.Popen[bytes]],
    tmp_path: Path,
) -> None:
    queue = environment["PINCITE_BROKER__QUEUE"]
    status, accepted = http("POST", f"{sidecar.url}/v1/ask", {"question": QUESTION}, OWN)
    assert status == 202, accepted
    assert contracts.violation("ask_accepted", accepted) is None
    answer_url = f"{sidecar.url}/v1/answers/{accepted['answer_id']}"

    worker = start_worker()
    eventually(lambda: model.asked == 1)
    assert http("GET", answer_url, headers=OWN)[1]["state"] == "running"
    os.killpg(worker.pid, signal.SIGKILL)
    worker.wait(20)
    eventually(lambda: broker.queue_state(rabbit.url, queue) == (1, 0))
    model.release.set()
    time.sleep(1)
    # The reply came to nobody: no answer yet.
    status, document = http("GET", answer_url, headers=OWN)
    assert (document["state"], document["outcome"], document["n_attempts"]) == ("running", None, 1)

    second = start_worker()
    document = eventually(lambda: d if (d := http("GET", answer_url, headers=OWN)[1])["state"] == "done" else None)
    assert contracts.violation("answer", document) is None
    assert document["outcome"] == "answer", document["refusal"]
    assert document["n_attempts"] == 2
    assert document["sentences"][0]["citations"][0]["file_name"] == "lease.txt"
    eventually(lambda: broker.queue_state(rabbit.url, queue) == (0, 1))

    # Once: one document, one version of it that is done, whatever else the broker delivers.
    stored = node.scroll(f"{prefix}-answers")
    assert [hit["_id"] for hit in stored] == [accepted["answer_id"]]
    broker.publish_answer(rabbit.url, queue, accepted["answer_id"])
    log = tmp_path / "worker.log"
    eventually(lambda: log.read_text().count('"event": "answer_done"') == 2)
    again = node.scroll(f"{prefix}-answers")
    assert [(hit["_seq_no"], hit["_source"]) for hit in again] == [(h["_seq_no"], h["_source"]) for h in stored]
    assert model.asked == 2

    second.terminate()
    assert second.wait(30) == 0
    assert broker.queue_state(rabbit.url, broker.dead_queue_name(queue))[0] == 0
    assert "Traceback" not in log.read_text()
    # No question and no passage in the logs or in what travels.
    assert "sublet" not in log.read_text() + (tmp_path / "sidecar.log").read_text()


def test_ask_waits_for_the_worker(
    sidecar: Sidecar, model: HeldModel, start_worker: Callable[[], subprocess.Popen[bytes]]
) -> None:
    model.release.set()
    start_worker()
    body = {"question": QUESTION, "wait_s": 60}
    status, document = http("POST", f"{sidecar.url}/v1/ask", body, OWN, timeout=90)
    assert status == 200
    assert document["outcome"] == "answer", document["refusal"]
