"""The OpenAI-compatible adapter against a real HTTP server: every failure has its code."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from pincite.adapters.openai_chat import OpenAIChat
from pincite.domain.errors import ConfigError, UpstreamError


def completion(content: Any = "Rent is due.", finish: Any = "stop") -> dict[str, Any]:
    return {
        "id": "x",
        "object": "chat.completion",
        "created": 0,
        "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": finish}],
    }


class Server:
    """Answers every request with the same status and body, after a delay."""

    def __init__(self) -> None:
        self.status, self.body, self.delay_s = 200, b"", 0.0
        self.requests: list[dict[str, Any]] = []
        self.auth: list[str | None] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                outer.requests.append(json.loads(self.rfile.read(length)))
                outer.auth.append(self.headers.get("Authorization"))
                time.sleep(outer.delay_s)
                self.send_response(outer.status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(outer.body)))
                self.end_headers()
                self.wfile.write(outer.body)

            def log_message(self, *_: Any) -> None:
                pass

        self.httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.httpd.daemon_threads = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.httpd.server_address[1]}/v1"

    def reply(self, body: Any, status: int = 200) -> None:
        self.body = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.status = status


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server()
    thread = threading.Thread(target=running.httpd.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    yield running
    running.httpd.shutdown()
    running.httpd.server_close()
    thread.join()


def chat(server: Server, **settings: Any) -> OpenAIChat:
    return OpenAIChat(base_url=server.url, model="m", timeout_s=settings.pop("timeout_s", 10.0), **settings)


def test_one_request_at_temperature_zero(server: Server) -> None:
    server.reply(completion())
    assert chat(server, api_key="k", max_tokens=77, seed=5).complete("S", "U") == "Rent is due."
    (request,) = server.requests
    assert request["temperature"] == 0 and request["max_tokens"] == 77 and request["seed"] == 5
    assert request["messages"] == [{"role": "system", "content": "S"}, {"role": "user", "content": "U"}]
    assert server.auth == ["Bearer k"]


@pytest.mark.parametrize(
    ("body", "status", "code", "retryable"),
    [
        (completion(finish="length"), 200, "llm_truncated", False),
        (completion(finish="content_filter"), 200, "llm_bad_reply", False),
        (completion(content=None), 200, "llm_bad_reply", False),
        (completion(content=[1]), 200, "llm_bad_reply", False),
        (completion(content="x" * 50_000), 200, "llm_bad_reply", False),
        ({"choices": []}, 200, "llm_bad_reply", False),
        ({}, 200, "llm_bad_reply", False),
        ([], 200, "llm_bad_reply", False),
        ("text", 200, "llm_bad_reply", False),
        (b"<html>no</html>", 200, "llm_bad_reply", False),
        (b"", 200, "llm_bad_reply", False),
        ({"error": {"message": "no"}}, 400, "llm_bad_reply", False),
        ({"error": {"message": "no"}}, 401, "llm_auth", False),
        ({"error": {"message": "no"}}, 403, "llm_auth", False),
        ({"error": {"message": "no"}}, 404, "llm_bad_reply", False),
        ({"error": {"message": "no"}}, 429, "llm_rate_limited", True),
        ({"error": {"message": "no"}}, 500, "llm_unreachable", True),
        (b"bad gateway", 502, "llm_unreachable", True),
    ],
)
def test_failures_have_codes(server: Server, body: Any, status: int, code: str, retryable: bool) -> None:
    server.reply(body, status)
    with pytest.raises(UpstreamError) as caught:
        chat(server).complete("S", "U")
    assert (caught.value.code, caught.value.retryable) == (code, retryable)
    assert caught.value.subject == server.url and caught.value.mend
    assert len(server.requests) == 1  # nothing is retried behind our back


def test_timeout(server: Server) -> None:
    server.reply(completion())
    server.delay_s = 2.0
    with pytest.raises(UpstreamError) as caught:
        chat(server, timeout_s=0.2).complete("S", "U")
    assert (caught.value.code, caught.value.retryable) == ("llm_timeout", True)


@pytest.mark.parametrize("in_headers", [True, False])
def test_a_trickle_does_not_stretch_the_timeout(in_headers: bool) -> None:
    """Each byte comes well within the timeout; the whole does not, and the connection is ended."""
    ended = threading.Event()
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
    head += b"X-Slow: " if in_headers else b"Content-Length: 5000\r\n\r\n"

    def trickle(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(head)
            try:
                for _ in range(300):
                    connection.sendall(b"1")
                    time.sleep(0.05)
            except OSError:
                ended.set()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=trickle, args=(listener,), daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        begin = time.monotonic()
        with pytest.raises(UpstreamError) as caught:
            OpenAIChat(base_url=url, model="m", timeout_s=0.8).complete("S", "U")
        took = time.monotonic() - begin
        assert (caught.value.code, caught.value.retryable) == ("llm_timeout", True)
        assert took < 4.0
        assert ended.wait(5.0)
        thread.join(5.0)


def test_unreachable() -> None:
    with pytest.raises(UpstreamError) as caught:
        OpenAIChat(base_url="http://127.0.0.1:9/v1", model="m").complete("S", "U")
    assert (caught.value.code, caught.value.retryable) == ("llm_unreachable", True)


@pytest.mark.parametrize(("url", "model"), [(None, "m"), ("http://x/v1", None), ("", "")])
def test_not_configured(url: str | None, model: str | None) -> None:
    with pytest.raises(ConfigError) as caught:
        OpenAIChat(base_url=url, model=model)
    assert caught.value.code == "llm_not_configured"
    assert "PINCITE_OPENAI__" in caught.value.message
