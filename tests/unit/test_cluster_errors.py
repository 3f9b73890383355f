"""What the cluster adapter makes of servers that do not answer as OpenSearch does."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from pincite.adapters.opensearch import Cluster, ClusterAddress, VersionConflict
from pincite.domain.errors import ConfigError, NotFound, PinciteError, UpstreamError


class _Server(HTTPServer):
    status = 200
    body = b"{}"
    seen: list[str]


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        # get_all: a header that is sent twice must not hide behind a dict.
        self.server.seen = self.headers.get_all("authorization") or []
        self.send_response(self.server.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(self.server.body)))
        self.end_headers()
        self.wfile.write(self.server.body)

    def log_message(self, *args: Any) -> None:
        return


@pytest.fixture
def server() -> Iterator[_Server]:
    made = _Server(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=made.serve_forever)
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


def address(server: _Server, **more: Any) -> ClusterAddress:
    return ClusterAddress(url=f"http://127.0.0.1:{server.server_address[1]}", timeout_s=5, **more)


def error(kind: str, reason: str = "why") -> bytes:
    return json.dumps(
        {"error": {"type": kind, "reason": reason, "root_cause": [{"type": kind, "reason": reason}]}}
    ).encode()


@pytest.mark.parametrize(
    ("status", "body", "kind", "code"),
    [
        (404, error("index_not_found_exception"), NotFound, "index_missing"),
        (404, b'{"found": false}', NotFound, "document_missing"),
        (401, b"{}", ConfigError, "cluster_unauthorized"),
        (403, error("security_exception"), ConfigError, "cluster_forbidden"),
        (403, error("cluster_block_exception"), UpstreamError, "cluster_read_only"),
        (429, error("cluster_block_exception"), UpstreamError, "cluster_read_only"),
        (429, error("rejected_execution_exception"), UpstreamError, "cluster_busy"),
        (
            503,
            error("cluster_block_exception", "blocked by: [SERVICE_UNAVAILABLE/1/x];"),
            UpstreamError,
            "cluster_busy",
        ),
        (503, b"", UpstreamError, "cluster_busy"),
        (400, error("parsing_exception"), UpstreamError, "cluster_error"),
        (500, b'"oops"', UpstreamError, "cluster_bad_reply"),
        (500, b"<html>proxy</html>", UpstreamError, "cluster_error"),
        (500, b"[1, 2]", UpstreamError, "cluster_bad_reply"),
        (200, b"<html>not a cluster</html>", UpstreamError, "cluster_bad_reply"),
    ],
)
def test_every_reply_becomes_an_error_of_ours(
    server: _Server, status: int, body: bytes, kind: type[PinciteError], code: str
) -> None:
    server.status, server.body = status, body
    with pytest.raises(PinciteError) as caught:
        Cluster(address(server)).request("GET", "/x")
    assert isinstance(caught.value, kind)
    assert caught.value.code == code


def test_a_conflict_is_told_apart(server: _Server) -> None:
    server.status, server.body = 409, error("version_conflict_engine_exception")
    with pytest.raises(VersionConflict):
        Cluster(address(server)).request("GET", "/x")


def test_the_caller_is_passed_on_in_place_of_the_account(server: _Server) -> None:
    cluster = Cluster(address(server, user="u", password="p"))
    cluster.request("GET", "/x")
    assert server.seen == ["Basic dTpw"]
    cluster.request("GET", "/x", caller="Bearer theirs")
    assert server.seen == ["Bearer theirs"]


def test_the_caller_is_passed_on_in_place_of_the_token(server: _Server) -> None:
    Cluster(address(server, api_token="t0k")).request("GET", "/x", caller="Basic theirs")
    assert server.seen == ["Basic theirs"]


def test_an_api_token_is_a_bearer_token(server: _Server) -> None:
    Cluster(address(server, api_token="t0k")).request("GET", "/x")
    assert server.seen == ["Bearer t0k"]


def test_nothing_listens() -> None:
    with pytest.raises(UpstreamError) as caught:
        Cluster(ClusterAddress(url="http://127.0.0.1:9", timeout_s=2)).info()
    assert (caught.value.code, caught.value.retryable) == ("cluster_unreachable", True)
    assert "PINCITE_OPENSEARCH__URL" in caught.value.mend


def test_a_password_in_the_url_is_used_but_never_shown() -> None:
    with pytest.raises(UpstreamError) as caught:
        Cluster(ClusterAddress(url="http://admin:s3cret@127.0.0.1:9/x", timeout_s=2)).info()
    assert "http://127.0.0.1:9/x" in caught.value.message
    assert "s3cret" not in str(caught.value.as_dict())


@pytest.mark.parametrize(
    "url", ["localhost:9200", "ftp://x", "", "http://", "http://host:abc", "http://u:p@host:abc"]
)
def test_a_url_that_is_none(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Cluster(ClusterAddress(url=url))
    assert caught.value.code == "cluster_url_invalid"


def test_a_certificate_authority_that_is_not_there(tmp_path: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        Cluster(ClusterAddress(url="https://127.0.0.1:9", ca=tmp_path / "none.pem"))
    assert caught.value.code == "cluster_ca_unreadable"
