"""What doctor finds, against real sockets."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from pincite.cli.main import main
from pincite.wiring.doctor import Check, as_json, run_checks
from pincite.wiring.settings import Settings


@contextmanager
def server(status: int, body: Any) -> Iterator[str]:
    """Answers every GET alike, or by path where the body is a mapping of paths."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.split("?")[0]
            content = json.dumps(body[path] if "/" in body else body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *args: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{made.server_address[1]}"
        finally:
            made.shutdown()
            thread.join()


def closed_url() -> str:
    with server(200, {}) as url:
        pass
    return url


def findings(tmp_path: Path, **values: Any) -> dict[str, Check]:
    settings = Settings(home=tmp_path / "home", **values)
    return {check.name: check for check in run_checks(settings)}


def test_every_check_is_there_and_nothing_is_made(tmp_path):
    found = findings(tmp_path)
    assert {"jdk", "maven", "cluster", "models", "broker", "rabbitmq-server", "sidecar", "demo data"} <= set(found)
    assert "home" in found
    assert "does not run" in found["cluster"].found
    assert all(check.todo for check in found.values() if check.status != "ok")
    assert not (tmp_path / "home").exists()


def test_unfit_java_home_fails_and_names_it(tmp_path):
    found = findings(tmp_path, java_home=tmp_path / "nothing")["jdk"]
    assert found.status == "fail"
    assert str(tmp_path / "nothing") in found.found
    assert "Temurin 21+" in found.todo
    # With another cluster configured the embedded one's needs are no fault.
    other = findings(tmp_path, java_home=tmp_path / "nothing", opensearch={"url": closed_url()})
    assert other["jdk"].status == "warn"


def test_cluster_that_is_down(tmp_path):
    url = closed_url()
    found = findings(tmp_path, opensearch={"url": url})["cluster"]
    assert found.status == "fail"
    assert url in found.found


def test_cluster_that_refuses_the_account_is_told_from_one_that_is_down(tmp_path):
    with server(401, {"error": "Unauthorized", "status": 401}) as url:
        found = findings(tmp_path, opensearch={"url": url, "user": "a", "password": "geheim"})["cluster"]
    assert found.status == "fail"
    assert "refused" in found.found
    assert "PINCITE_OPENSEARCH__USER" in found.todo
    assert "geheim" not in found.found + found.todo


@pytest.mark.parametrize(
    ("component", "knn", "pincite"),
    [("opensearch-knn", "ok", "warn"), ("pincite", "fail", "ok")],
)
def test_plugins_of_the_cluster(tmp_path, component, knn, pincite):
    replies = {"/": {"version": {"number": "3.6.0"}}, "/_cat/plugins": [{"component": component, "version": "1"}]}
    with server(200, replies) as url:
        found = findings(tmp_path, opensearch={"url": url})
    assert "3.6.0" in found["cluster"].found
    assert (found["plugin knn"].status, found["plugin pincite"].status) == (knn, pincite)


def test_broker(tmp_path):
    with server(200, {}) as url:
        port = url.rsplit(":", 1)[1]
        assert findings(tmp_path, broker={"url": f"amqp://u:geheim@127.0.0.1:{port}//"})["broker"].status == "ok"
    found = findings(tmp_path, broker={"url": f"amqp://u:geheim@127.0.0.1:{port}//"})["broker"]
    assert found.status == "fail"
    assert "geheim" not in found.found + found.todo
    assert findings(tmp_path, broker={"url": "amqp://host:port"})["broker"].status == "fail"


def test_sidecar(tmp_path):
    with server(200, {}) as url:
        assert findings(tmp_path, sidecar={"url": url})["sidecar"].status == "ok"
    assert findings(tmp_path, sidecar={"url": url})["sidecar"].status == "fail"
    with server(503, {}) as url:
        found = findings(tmp_path, sidecar={"url": url})["sidecar"]
    assert (found.status, "503" in found.found) == ("fail", True)


def test_json_has_the_worst_status():
    checks = [Check(name="a", status="ok", found="x"), Check(name="b", status="warn", found="y", todo="z")]
    assert as_json(checks) == {
        "status": "warn",
        "checks": [
            {"name": "a", "status": "ok", "found": "x", "todo": None},
            {"name": "b", "status": "warn", "found": "y", "todo": "z"},
        ],
    }


def test_command_exits_3_on_a_fault(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PINCITE_HOME", str(tmp_path))
    monkeypatch.setenv("PINCITE_JAVA_HOME", str(tmp_path / "nothing"))
    with pytest.raises(SystemExit) as ended:
        main(["doctor", "--json"])
    assert ended.value.code == 3
    assert json.loads(capsys.readouterr().out)["status"] == "fail"
    with pytest.raises(SystemExit) as ended:
        main(["doctor"])
    assert ended.value.code == 3
    assert "fail" in capsys.readouterr().out
