"""The worker against a real RabbitMQ: nothing is lost, nothing blocks, nothing is made twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from live import eventually
from rabbitmq import RabbitMQServer, running

from pincite.adapters import broker
from pincite.domain.errors import ConfigError, UpstreamError
from pincite.domain.ids import new_answer_id
from pincite.wiring.settings import load_settings
from pincite.worker.run import probe

_SUPPORT = Path(__file__).parents[1] / "support"


@pytest.fixture(scope="module")
def rabbit() -> Iterator[RabbitMQServer]:
    with running() as server:
        yield server


class Bench:
    """A queue of its own, a folder of answers, and workers."""

    def __init__(self, server: RabbitMQServer, folder: Path, queue: str) -> None:
        self.server, self.folder, self.queue = server, folder, queue
        self.workers: list[subprocess.Popen[bytes]] = []
        broker.declare(server.url, queue)

    def start_worker(self) -> subprocess.Popen[bytes]:
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
            "PINCITE_BROKER__URL": self.server.url,
            "PINCITE_BROKER__QUEUE": self.queue,
        }
        with (self.folder / "worker.log").open("ab") as log:
            worker = subprocess.Popen(
                [sys.executable, str(_SUPPORT / "worker_over_files.py"), str(self.folder)],
                env=environment,
                stderr=log,
                stdout=log,
                start_new_session=True,
            )
        self.workers.append(worker)
        eventually(lambda: broker.queue_state(self.server.url, self.queue)[1] > 0)
        return worker

    def stop_worker(self, worker: subprocess.Popen[bytes], how: signal.Signals = signal.SIGTERM) -> None:
        """SIGTERM to the master, anything else to the whole process group."""
        if how is signal.SIGTERM:
            worker.terminate()
        else:
            os.killpg(worker.pid, how)
        worker.wait(30)
        self.workers.remove(worker)

    def answer(self, *script: str) -> str:
        answer_id = new_answer_id()
        document = {"answer_id": answer_id, "state": "queued", "n_attempts": 0, "script": script or ("ok",)}
        (self.folder / f"{answer_id}.json").write_text(json.dumps(document))
        return answer_id

    def publish(self, answer_id: str) -> str:
        broker.publish_answer(self.server.url, self.queue, answer_id)
        return answer_id

    def document(self, answer_id: str) -> dict[str, Any]:
        document: dict[str, Any] = json.loads((self.folder / f"{answer_id}.json").read_text())
        return document

    def done(self, answer_id: str) -> dict[str, Any]:
        return dict(eventually(lambda: d if (d := self.document(answer_id))["state"] == "done" else None))

    def made(self) -> list[str]:
        log = self.folder / "made.log"
        return log.read_text().split() if log.exists() else []

    def waiting(self) -> int:
        return broker.queue_state(self.server.url, self.queue)[0]

    def dead(self) -> int:
        return broker.queue_state(self.server.url, broker.dead_queue_name(self.queue))[0]

    def log(self) -> str:
        return (self.folder / "worker.log").read_text()


@pytest.fixture
def bench(rabbit: RabbitMQServer, tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(rabbit, tmp_path, f"test.{tmp_path.name}")
    yield bench
    for worker in list(bench.workers):
        bench.stop_worker(worker, signal.SIGKILL)


def test_an_answer_is_made_once_and_its_message_acknowledged(bench: Bench) -> None:
    answer_id = bench.publish(bench.answer())
    bench.publish(answer_id)
    worker = bench.start_worker()
    bench.done(answer_id)
    second = bench.publish(bench.answer())
    bench.done(second)
    bench.stop_worker(worker)
    assert worker.returncode == 0
    assert bench.made() == [answer_id, second]
    assert (bench.waiting(), bench.dead()) == (0, 0)
    assert '"event": "answer_done"' in bench.log()
    assert "Traceback" not in bench.log()


def test_a_worker_killed_in_the_middle_loses_nothing(bench: Bench) -> None:
    answer_id = bench.answer("hold", "hold")
    worker = bench.start_worker()
    bench.publish(answer_id)
    eventually((bench.folder / f"{answer_id}.held").exists)
    bench.stop_worker(worker, signal.SIGKILL)
    assert bench.document(answer_id)["state"] == "queued"
    eventually(lambda: bench.waiting() == 1)
    (bench.folder / "release").touch()
    bench.start_worker()
    assert bench.done(answer_id)["n_attempts"] == 2
    eventually(lambda: bench.waiting() == 0)
    assert bench.made() == [answer_id]
    assert bench.dead() == 0


def test_sigterm_finishes_the_answer_in_hand(bench: Bench) -> None:
    answer_id = bench.answer("hold")
    worker = bench.start_worker()
    bench.publish(answer_id)
    eventually((bench.folder / f"{answer_id}.held").exists)
    worker.terminate()
    time.sleep(0.5)
    (bench.folder / "release").touch()
    assert worker.wait(30) == 0
    bench.workers.remove(worker)
    assert bench.document(answer_id)["state"] == "done"
    assert bench.waiting() == 0


def test_a_pool_process_that_dies_gives_its_message_back(bench: Bench) -> None:
    answer_id = bench.publish(bench.answer("die", "ok"))
    bench.start_worker()
    assert bench.done(answer_id)["n_attempts"] == 2
    assert bench.dead() == 0


def test_a_peer_that_failed_for_now_is_tried_again(bench: Bench) -> None:
    answer_id = bench.publish(bench.answer("retry", "retry", "ok"))
    bench.start_worker()
    assert bench.done(answer_id)["n_attempts"] == 3
    assert bench.dead() == 0


def test_what_overruns_its_time_is_tried_again(bench: Bench) -> None:
    answer_id = bench.publish(bench.answer("overrun", "ok"))
    bench.start_worker()
    assert bench.done(answer_id)["n_attempts"] == 2
    assert bench.dead() == 0


def test_what_cannot_be_made_is_dead_and_does_not_block(bench: Bench) -> None:
    crashed, failed = bench.publish(bench.answer("crash")), bench.publish(bench.answer("fail"))
    good = bench.publish(bench.answer())
    bench.start_worker()
    bench.done(good)
    eventually(lambda: bench.dead() == 2)
    assert bench.document(crashed)["n_attempts"] == bench.document(failed)["n_attempts"] == 1
    assert bench.waiting() == 0


_HEADERS = {"lang": "py", "task": broker.TASK, "id": "1", "root_id": "1", "parent_id": None}
_EMBED = {"callbacks": None, "errbacks": None, "chain": None, "chord": None}


@pytest.mark.parametrize(
    ("body", "content_type", "headers"),
    [
        (b"{not json", "application/json", _HEADERS),
        (b"", "application/json", _HEADERS),
        (b"\xff\xfe\x00", "application/json", _HEADERS),
        (b'{"a": 1}', "application/json", _HEADERS),
        (b"7", "application/json", _HEADERS),
        (b"[[]]", "application/json", _HEADERS),
        (b"cos\nsystem\n(S'true'\ntR.", "application/x-python-serialize", _HEADERS),
        (b"hello", "text/plain", _HEADERS),
        (json.dumps([["x" * 32], {}, _EMBED]).encode(), "application/json", _HEADERS),
        (json.dumps([[], {"answer_id": "0" * 32}, _EMBED]).encode(), "application/json", _HEADERS),
        (json.dumps([[7, 8], {}, _EMBED]).encode(), "application/json", _HEADERS),
        (json.dumps([["0" * 32], {}, _EMBED]).encode(), "application/json", {**_HEADERS, "task": "os.system"}),
        (json.dumps([["0" * 32], {}, _EMBED]).encode(), "application/json", {}),
        (json.dumps([["0" * 32], {}, _EMBED]).encode(), "application/json", {"task": broker.TASK}),
        (json.dumps([["0" * 32], {}, _EMBED]).encode(), "application/json", {**_HEADERS, "eta": "soon"}),
        (b"[" * 100_000, "application/json", _HEADERS),
    ],
    ids=[
        "not_json",
        "empty",
        "not_utf8",
        "object",
        "number",
        "short",
        "pickle",
        "text",
        "bad_id",
        "keyword",
        "numbers",
        "unknown_task",
        "no_headers",
        "no_id",
        "bad_eta",
        "deep",
    ],
)
def test_a_poisonous_message_is_dead_and_does_not_block(
    poisoned: Bench, body: bytes, content_type: str, headers: dict[str, Any]
) -> None:
    import kombu

    dead = poisoned.dead()
    with kombu.Connection(poisoned.server.url) as connection:
        connection.Producer().publish(
            body,
            exchange=poisoned.queue,
            routing_key=poisoned.queue,
            content_type=content_type,
            content_encoding="utf-8" if content_type == "application/json" else "binary",
            headers=headers,
        )
    good = poisoned.publish(poisoned.answer())
    poisoned.done(good)
    eventually(lambda: poisoned.dead() == dead + 1)
    assert poisoned.workers[0].poll() is None


@pytest.fixture(scope="module")
def poisoned(rabbit: RabbitMQServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """One worker for all the poison: it must outlive every dose."""
    bench = Bench(rabbit, tmp_path_factory.mktemp("poison"), "test.poison")
    bench.start_worker()
    yield bench
    for worker in list(bench.workers):
        bench.stop_worker(worker, signal.SIGKILL)


def test_a_worker_outlives_its_broker(bench: Bench) -> None:
    worker = bench.start_worker()
    first = bench.publish(bench.answer())
    bench.done(first)
    waiting = bench.answer()
    bench.server.stop_server(signal.SIGKILL)
    with pytest.raises(UpstreamError) as caught:
        bench.publish(waiting)
    assert caught.value.code == "broker_unreachable"
    assert caught.value.retryable
    assert "guest:guest" not in str(caught.value.as_dict())
    bench.server.start()
    bench.publish(waiting)
    bench.done(waiting)
    assert worker.poll() is None


def test_queued_messages_survive_the_brokers_restart(bench: Bench) -> None:
    answer_id = bench.publish(bench.answer())
    bench.server.stop_server(signal.SIGKILL)
    bench.server.start()
    bench.start_worker()
    bench.done(answer_id)


def test_the_probe_needs_no_remote_control(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PINCITE_BROKER__URL", bench.server.url)
    monkeypatch.setenv("PINCITE_BROKER__QUEUE", bench.queue)
    with pytest.raises(UpstreamError) as caught:
        probe(load_settings())
    assert caught.value.code == "worker_absent"
    worker = bench.start_worker()
    probe(load_settings())
    bench.stop_worker(worker)
    monkeypatch.delenv("PINCITE_BROKER__URL")
    with pytest.raises(ConfigError) as caught_config:
        probe(load_settings())
    assert caught_config.value.code == "broker_not_configured"


def test_a_queue_of_other_properties_is_named(bench: Bench) -> None:
    import kombu

    name = bench.queue + ".other"
    with kombu.Connection(bench.server.url) as connection:
        kombu.Queue(name, durable=True)(connection.channel()).declare()
    with pytest.raises(ConfigError) as caught:
        broker.publish_answer(bench.server.url, name, new_answer_id())
    assert caught.value.code == "broker_queue_mismatch"


def test_a_broker_that_is_not_there_is_an_error_in_time() -> None:
    began = time.monotonic()
    with pytest.raises(UpstreamError) as caught:
        broker.publish_answer("amqp://u:secret@127.0.0.1:1//", "q", new_answer_id(), timeout_s=2)
    assert caught.value.code == "broker_unreachable"
    assert "secret" not in str(caught.value.as_dict())
    assert time.monotonic() - began < 10
