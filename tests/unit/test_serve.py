"""The sidecar's own behaviour: admission, tokens, bodies, problems, metrics."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from flask.testing import FlaskClient
from tiny_services import TinyServices

from pincite.domain.errors import ConfigError, NotFound, Overloaded, UpstreamError
from pincite.domain.types import SearchFilter
from pincite.serve.app import create_app
from pincite.serve.gate import Gate
from pincite.serve.routes.hook import plainly_valid
from pincite.serve.run import check_bind, is_loopback
from pincite.serve.sweep import Sweep
from pincite.wiring import contracts
from pincite.wiring.logs import configure_logs

HOOK: dict[str, Any] = {
    "query": "may the tenant sublet",
    "candidates": [
        {"id": "a", "seq_no": 0, "primary_term": 1, "bm25": 7.25, "knn": None},
        {"id": "bb", "seq_no": 4, "primary_term": 1, "bm25": 3.5, "knn": 0.71},
    ],
}
CONTRACT = {"Pincite-Contract": "1"}


@pytest.fixture
def services() -> TinyServices:
    return TinyServices()


@pytest.fixture
def client(services: TinyServices) -> FlaskClient:
    return create_app(services).test_client()


def check_problem(response: Any, status: int, code: str) -> dict[str, Any]:
    assert response.status_code == status, response.get_data(as_text=True)
    assert response.mimetype == "application/problem+json"
    body: dict[str, Any] = response.get_json()
    assert contracts.violation("problem", body) is None
    assert body["code"] == code
    assert body["request_id"] == response.headers["X-Request-Id"]
    return body


# --- bodies


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b'{"query": NaN}',
        b'{"query": Infinity}',
        b'{"query": -Infinity}',
        b'{"query": 1e999}',
        b"[" * 100_000,
        b'{"query": ' + b"9" * 5000 + b"}",
        rb'{"query": "\ud800"}',
        b'\xef\xbb\xbf{"query": "a"}',
    ],
    ids=["empty", "cut", "not_utf8", "nan", "inf", "minus_inf", "huge", "deep", "digits", "surrogate", "bom"],
)
def test_what_is_not_json_is_said_to_be_so(client: FlaskClient, raw: bytes) -> None:
    response = client.post("/v1/search", data=raw, content_type="application/json")
    check_problem(response, 400, "body_not_json")


def test_a_whole_surrogate_pair_is_fine(client: FlaskClient) -> None:
    raw = rb'{"query": "\ud83c\udfe0"}'
    response = client.post("/v1/search", data=raw, content_type="application/json")
    assert response.status_code == 200
    assert response.get_json()["query"] == "🏠"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"query": "q", "size": 101}, "size"),
        ({"query": "q", "size": 0}, "size"),
        ({"query": "q", "size": True}, "size"),
        ({"query": "q", "from": -1}, "from"),
        ({"query": "q", "limit": 3}, "body"),
        ({"query": 7}, "query"),
        ({}, "body"),
        ([], "body"),
        ("query", "body"),
        ({"query": "q", "filters": {"file_names": ["a", 7]}}, "filters.file_names[1]"),
        ({"query": "q", "filters": {"date_from": "2024-02-31"}}, "filters.date_from"),
    ],
)
def test_a_body_that_breaks_its_schema_names_the_field(client: FlaskClient, body: Any, field: str) -> None:
    problem = check_problem(client.post("/v1/search", json=body), 400, "body_invalid")
    assert problem["subject"] == field
    assert problem["detail"].startswith(field)


@pytest.mark.parametrize(
    ("question", "code"),
    [("", "question_empty"), (" \n\t\u3000", "question_empty"), ("x" * 100_000, "question_too_long")],
)
def test_a_question_that_is_none(client: FlaskClient, question: str, code: str) -> None:
    problem = check_problem(client.post("/v1/ask", json={"question": question}), 400, code)
    assert len(json.dumps(problem)) < 1000


def test_8192_characters_are_a_question_and_8193_are_not(client: FlaskClient) -> None:
    assert client.post("/v1/ask", json={"question": "租" * 8192}).status_code == 200
    check_problem(client.post("/v1/ask", json={"question": "租" * 8193}), 400, "question_too_long")


def test_http_errors_are_problems_too(services: TinyServices) -> None:
    client = create_app(services, max_body_bytes=1000).test_client()
    check_problem(client.get("/v1/nothing"), 404, "route_unknown")
    response = client.get("/v1/search")
    check_problem(response, 405, "method_not_allowed")
    assert "POST" in response.headers["Allow"]
    check_problem(client.post("/v1/search", data="query=q"), 415, "media_type_unsupported")
    check_problem(client.post("/v1/search", json={"query": "x" * 2000}), 413, "body_too_large")


def test_an_unknown_error_is_a_plain_500_without_its_text(
    services: TinyServices, capsys: pytest.CaptureFixture[str]
) -> None:
    class Broken(TinyServices):
        def search(self, query: str, **_: Any) -> Any:
            raise RuntimeError(f"no idea what to do with {query}")

    configure_logs()
    try:
        response = create_app(Broken()).test_client().post("/v1/search", json={"query": "very secret"})
        check_problem(response, 500, "internal_error")
    finally:
        logging.getLogger().handlers[:] = []
    assert "secret" not in response.get_data(as_text=True)
    logged = capsys.readouterr().err
    assert "secret" not in logged
    events = [json.loads(line) for line in logged.splitlines()]
    assert any(e["event"] == "internal_error" and "test_serve.py" in e["where"][-1] for e in events)


def test_a_number_that_is_not_finite_never_leaves(services: TinyServices) -> None:
    class Broken(TinyServices):
        def embed(self, texts: list[str], **_: Any) -> dict[str, Any]:
            return {"model": "m", "dim": 1, "vectors": [[float("nan")]]}

        def rerank(self, query: str, documents: list[str]) -> list[float]:
            return [float("inf")] * len(documents)

    client = create_app(Broken()).test_client()
    check_problem(client.post("/v1/embed", json={"texts": ["a"]}), 500, "internal_error")
    check_problem(client.post("/v1/rerank", json={"query": "q", "documents": ["a"]}), 502, "rerank_incomplete")


def test_a_request_id_is_kept_when_it_is_one(client: FlaskClient) -> None:
    kept = client.get("/healthz", headers={"X-Request-Id": "trace-7"}).headers["X-Request-Id"]
    assert kept == "trace-7"
    made = client.get("/healthz", headers={"X-Request-Id": "a b;c"}).headers["X-Request-Id"]
    assert made != "a b;c"
    assert len(made) == 16


# --- the hook


def test_the_hook_reranks_and_speaks_its_contract(client: FlaskClient) -> None:
    response = client.post("/v1/hook/rerank", json=HOOK, headers=CONTRACT)
    assert response.status_code == 200
    assert response.headers["Pincite-Contract"] == "1"
    body = response.get_json()
    assert contracts.violation("hook_rerank_response", body) is None
    assert [r["id"] for r in body["results"]] == ["bb", "a"]


def test_the_hook_is_told_its_legs(client: FlaskClient) -> None:
    response = client.post("/v1/hook/legs", json={"query": "sublet", "k": 7}, headers=CONTRACT)
    assert response.headers["Pincite-Contract"] == "1"
    body = response.get_json()
    assert contracts.violation("hook_legs_response", body) is None
    assert body["knn"]["k"] == 7
    check_problem(client.post("/v1/hook/legs", json={"query": "sublet"}, headers=CONTRACT), 400, "body_invalid")
    check_problem(client.post("/v1/hook/legs", json={"query": "x", "k": 7}), 409, "contract_mismatch")


@pytest.mark.parametrize("headers", [{}, {"Pincite-Contract": "2"}, {"Pincite-Contract": ""}])
def test_another_contract_is_a_conflict(client: FlaskClient, headers: dict[str, str]) -> None:
    check_problem(client.post("/v1/hook/rerank", json=HOOK, headers=headers), 409, "contract_mismatch")


def test_an_id_named_twice_is_refused(client: FlaskClient) -> None:
    body = {**HOOK, "candidates": [HOOK["candidates"][0], HOOK["candidates"][0]]}
    check_problem(client.post("/v1/hook/rerank", json=body, headers=CONTRACT), 400, "body_invalid")


@pytest.mark.parametrize("fault", ["lost", "doubled", "nan", "foreign"])
def test_a_reranker_that_miscounts_is_not_passed_on(fault: str) -> None:
    class Broken(TinyServices):
        def hook_rerank(self, request: dict[str, Any]) -> dict[str, Any]:
            reply = super().hook_rerank(request)
            results = reply["results"]
            match fault:
                case "lost":
                    results.pop()
                case "doubled":
                    results.append(results[0])
                case "nan":
                    results[0]["score"] = float("nan")
                case "foreign":
                    results[0]["id"] = "zz"
            return reply

    client = create_app(Broken()).test_client()
    check_problem(client.post("/v1/hook/rerank", json=HOOK, headers=CONTRACT), 502, "rerank_incomplete")


def test_integral_floats_are_integers_for_the_services() -> None:
    class Strict(TinyServices):
        def hook_rerank(self, request: dict[str, Any]) -> dict[str, Any]:
            assert all(type(c["seq_no"]) is int and type(c["primary_term"]) is int for c in request["candidates"])
            return super().hook_rerank(request)

    body = json.loads(json.dumps(HOOK).replace('"seq_no": 4', '"seq_no": 4.0'))
    assert (
        create_app(Strict()).test_client().post("/v1/hook/rerank", json=body, headers=CONTRACT).status_code == 200
    )


def test_what_is_plainly_valid_is_valid() -> None:
    assert plainly_valid(HOOK)
    assert plainly_valid({**HOOK, "deadline_ms": 900})
    values = [None, True, 0, 1, -1, 1.0, 1.5, "", "a", "x" * 513, [], {}, 60_000, 60_001]
    bodies = [
        {**HOOK, field: value} for field in ("query", "deadline_ms", "candidates", "other") for value in values
    ]
    for field in ("id", "seq_no", "primary_term", "bm25", "knn", "other"):
        bodies += [{**HOOK, "candidates": [{**HOOK["candidates"][0], field: value}]} for value in values]
    for missing in ("query", "candidates"):
        bodies.append({k: v for k, v in HOOK.items() if k != missing})
    for missing in HOOK["candidates"][0]:
        bodies.append({**HOOK, "candidates": [{k: v for k, v in HOOK["candidates"][0].items() if k != missing}]})
    bodies += [{**HOOK, "candidates": HOOK["candidates"] * 501}, {**HOOK, "query": "x" * 8193}]
    verdicts = [(plainly_valid(body), contracts.violation("hook_rerank_request", body) is None) for body in bodies]
    assert (True, False) not in verdicts
    # Only whole numbers written as 1.0 are valid and not plainly so.
    assert verdicts.count((False, True)) <= 4
    assert verdicts.count((True, True)) >= 10


# --- rerank, embed, search, ask


def test_rerank_in_the_shape_of_stock_connectors(client: FlaskClient) -> None:
    documents = ["nothing of it", {"text": "may the tenant sublet"}, "the tenant"]
    response = client.post(
        "/v1/rerank",
        json={"query": "may the tenant sublet", "documents": documents, "top_n": 2, "return_documents": True},
    )
    body = response.get_json()
    assert contracts.violation("rerank_response", body) is None
    assert [r["index"] for r in body["results"]] == [1, 2]
    assert body["results"][0]["document"] == {"text": "may the tenant sublet"}
    assert body["results"][0]["relevance_score"] == pytest.approx(1.0)


def test_ties_of_a_rerank_keep_the_callers_order(client: FlaskClient) -> None:
    body = client.post("/v1/rerank", json={"query": "q", "documents": ["a", "b", "c"]}).get_json()
    assert [r["index"] for r in body["results"]] == [0, 1, 2]


def test_embed(client: FlaskClient) -> None:
    body = client.post("/v1/embed", json={"texts": ["a", "bb"], "kind": "query"}).get_json()
    assert contracts.violation("embed_response", body) is None
    assert len(body["vectors"]) == 2


def test_search_pages_keep_their_ranks(client: FlaskClient) -> None:
    whole = client.post("/v1/search", json={"query": "the tenant"}).get_json()
    assert contracts.violation("search_response", whole) is None
    assert [p["rank"] for p in whole["passages"]] == [1, 2, 3]
    page = client.post("/v1/search", json={"query": "the tenant", "size": 1, "from": 1}).get_json()
    assert page["passages"] == whole["passages"][1:2]
    assert page["total"] == 3
    past = client.post("/v1/search", json={"query": "the tenant", "from": 50}).get_json()
    assert past["passages"] == []
    filtered = client.post("/v1/search", json={"query": "q", "filters": {"file_names": ["loan.txt"]}}).get_json()
    assert [p["provenance"]["file_name"] for p in filtered["passages"]] == ["loan.txt"]


def test_an_answer_made_here_is_200(client: FlaskClient) -> None:
    response = client.post("/v1/ask", json={"question": "May the tenant sublet?"})
    assert response.status_code == 200
    document = response.get_json()
    assert contracts.violation("answer", document) is None
    assert client.get(f"/v1/answers/{document['answer_id']}").get_json() == document


def test_a_queued_answer_is_202_and_followed_by_its_location() -> None:
    services = TinyServices(queued=True)
    client = create_app(services).test_client()
    response = client.post("/v1/ask", json={"question": "May the tenant sublet?"})
    assert response.status_code == 202
    accepted = response.get_json()
    assert contracts.violation("ask_accepted", accepted) is None
    assert response.headers["Location"] == f"/v1/answers/{accepted['answer_id']}"
    queued = client.get(response.headers["Location"])
    assert queued.status_code == 200
    assert queued.get_json()["state"] == "queued"
    services.run_answer(accepted["answer_id"])
    assert client.get(response.headers["Location"]).get_json()["outcome"] == "refusal"


def test_waiting_for_a_queued_answer() -> None:
    class Worked(TinyServices):
        def ask(self, question: str, **kwargs: Any) -> dict[str, Any]:
            document = super().ask(question, **kwargs)
            threading.Timer(0.3, self.run_answer, [document["answer_id"]]).start()
            return document

    response = create_app(Worked(queued=True)).test_client().post("/v1/ask", json={"question": "q", "wait_s": 20})
    assert response.status_code == 200
    assert response.get_json()["state"] == "done"


def test_waiting_ends_when_it_was_said_to() -> None:
    began = time.monotonic()
    response = (
        create_app(TinyServices(queued=True)).test_client().post("/v1/ask", json={"question": "q", "wait_s": 0.3})
    )
    assert response.status_code == 202
    assert 0.3 <= time.monotonic() - began < 5


@pytest.mark.parametrize("answer_id", ["0" * 32, "0" * 31, "..%2F..%2Fx", "0" * 5000, "%00"])
def test_an_answer_that_is_not_there(client: FlaskClient, answer_id: str) -> None:
    response = client.get(f"/v1/answers/{answer_id}")
    assert response.status_code == 404
    assert response.get_json()["code"] in {"answer_unknown", "route_unknown"}


def test_errors_of_the_flows_keep_their_codes() -> None:
    class Down(TinyServices):
        def search(self, query: str, **_: Any) -> Any:
            raise UpstreamError("cluster_unreachable", "No connection.", retryable=True, subject="http://x:1")

        def ask(self, question: str, **_: Any) -> Any:
            raise NotFound("index_missing", "There is no index.", mend="Run pincite init.")

        def rerank(self, query: str, documents: list[str]) -> list[float]:
            raise ConfigError("encoder_unknown", "No such encoder.")

    client = create_app(Down()).test_client()
    response = client.post("/v1/search", json={"query": "q"})
    assert check_problem(response, 503, "cluster_unreachable")["subject"] == "http://x:1"
    assert response.headers["Retry-After"] == "1"
    assert check_problem(client.post("/v1/ask", json={"question": "q"}), 404, "index_missing")["mend"]
    check_problem(client.post("/v1/rerank", json={"query": "q", "documents": ["a"]}), 500, "encoder_unknown")


# --- tokens


@pytest.mark.parametrize(
    ("path", "body", "headers"),
    [
        ("/v1/hook/rerank", HOOK, CONTRACT),
        ("/v1/rerank", {"query": "q", "documents": ["a"]}, {}),
        ("/v1/embed", {"texts": ["a"]}, {}),
    ],
)
def test_the_hooks_routes_take_the_token_as_bearer(
    services: TinyServices, path: str, body: Any, headers: dict[str, str]
) -> None:
    client = create_app(services, token="s3cret").test_client()
    response = client.post(path, json=body, headers=headers)
    check_problem(response, 401, "token_missing")
    assert response.headers["WWW-Authenticate"].startswith("Bearer")
    for wrong in ("Bearer s3cre", "Bearer s3crett", "Basic s3cret", "s3cret", "Bearer é"):
        check_problem(
            client.post(path, json=body, headers={**headers, "Authorization": wrong}), 401, "token_wrong"
        )
    # Here the header of the gateway's routes does not count.
    check_problem(
        client.post(path, json=body, headers={**headers, "Pincite-Token": "s3cret"}), 401, "token_missing"
    )
    assert client.post(path, json=body, headers={**headers, "Authorization": "Bearer s3cret"}).status_code == 200


def test_the_gateway_passes_the_callers_credentials_on(services: TinyServices) -> None:
    client = create_app(services, token="s3cret").test_client()
    body = {"query": "q"}
    check_problem(client.post("/v1/search", json=body), 401, "token_missing")
    check_problem(
        client.post("/v1/search", json=body, headers={"Authorization": "Basic dTpw"}), 401, "token_missing"
    )
    check_problem(client.post("/v1/search", json=body, headers={"Pincite-Token": "no"}), 401, "token_wrong")
    assert services.callers == []
    own = {"Authorization": "Bearer s3cret"}
    named = {"Authorization": "Basic dTpw", "Pincite-Token": "s3cret"}
    for headers, caller in ((own, None), ({"Pincite-Token": "s3cret"}, None), (named, "Basic dTpw")):
        assert client.post("/v1/search", json=body, headers=headers).status_code == 200
        assert services.callers[-1] == caller
        assert client.post("/v1/ask", json={"question": "q"}, headers=headers).status_code == 200
        assert services.callers[-1] == caller
        assert client.get("/v1/answers/" + "0" * 32, headers=headers).status_code == 404
        assert services.callers[-1] == caller


def test_without_a_token_authorization_is_the_callers(services: TinyServices) -> None:
    client = create_app(services).test_client()
    assert (
        client.post("/v1/search", json={"query": "q"}, headers={"Authorization": "Basic dTpw"}).status_code == 200
    )
    assert services.callers == ["Basic dTpw"]


def test_probes_are_open_and_metrics_are_not(services: TinyServices) -> None:
    client = create_app(services, token="s3cret").test_client()
    bearer = {"Authorization": "Bearer s3cret"}
    assert client.get("/healthz").status_code == 200
    assert client.get("/readyz").get_json()["checks"] == [{"name": "memory", "ok": True, "detail": None}]
    assert client.get("/readyz", headers=bearer).get_json()["checks"][0]["detail"] == "three passages"
    check_problem(client.get("/metrics"), 401, "token_missing")
    assert client.get("/metrics", headers=bearer).status_code == 200
    services.close()
    response = client.get("/readyz")
    assert response.status_code == 503
    assert response.get_json()["ready"] is False


# --- the gate


@pytest.fixture
def held() -> Iterator[tuple[TinyServices, threading.Event, threading.Semaphore]]:
    """Services whose rerank waits until it is let go."""
    release, started = threading.Event(), threading.Semaphore(0)

    class Slow(TinyServices):
        def rerank(self, query: str, documents: list[str]) -> list[float]:
            started.release()
            assert release.wait(30)
            return super().rerank(query, documents)

    yield Slow(), release, started
    release.set()


def test_one_request_too_many_is_429_and_probes_still_pass(
    held: tuple[TinyServices, threading.Event, threading.Semaphore],
) -> None:
    services, release, started = held
    app = create_app(services, max_queue=3, threads=1)
    statuses: list[int] = []
    body = {"query": "q", "documents": ["a"]}

    def call() -> None:
        statuses.append(app.test_client().post("/v1/rerank", json=body).status_code)

    threads = [threading.Thread(target=call) for _ in range(3)]
    for thread in threads:
        thread.start()
    assert started.acquire(timeout=10)
    client = app.test_client()
    deadline = time.monotonic() + 10
    while "pincite_queue_depth 3.0" not in client.get("/metrics").get_data(as_text=True):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    response = client.post("/v1/rerank", json=body)
    check_problem(response, 429, "queue_full")
    assert int(response.headers["Retry-After"]) >= 1
    assert client.get("/healthz").status_code == 200
    # Work that waits in vain is dropped when its deadline passes, not done late.
    release.set()
    for thread in threads:
        thread.join(10)
    assert statuses == [200, 200, 200]
    metrics = client.get("/metrics").get_data(as_text=True)
    assert 'pincite_requests_total{route="/v1/rerank",status="429"} 1.0' in metrics
    assert 'pincite_rejected_total{reason="queue_full"} 1.0' in metrics
    assert "pincite_queue_depth 0.0" in metrics


def test_work_whose_deadline_passed_in_the_queue_is_dropped(
    held: tuple[TinyServices, threading.Event, threading.Semaphore],
) -> None:
    services, release, started = held
    app = create_app(services, max_queue=4, threads=1)
    thread = threading.Thread(
        target=lambda: app.test_client().post("/v1/rerank", json={"query": "q", "documents": ["a"]})
    )
    thread.start()
    assert started.acquire(timeout=10)
    began = time.monotonic()
    response = app.test_client().post("/v1/hook/rerank", json={**HOOK, "deadline_ms": 100}, headers=CONTRACT)
    check_problem(response, 503, "deadline_passed")
    assert time.monotonic() - began < 5
    release.set()
    thread.join(10)
    late = app.test_client().post("/v1/hook/rerank", json={**HOOK, "deadline_ms": 60000}, headers=CONTRACT)
    assert late.status_code == 200


def test_answers_leave_room_for_the_hook() -> None:
    release, started = threading.Event(), threading.Semaphore(0)

    class Slow(TinyServices):
        def ask(self, question: str, **kwargs: Any) -> dict[str, Any]:
            started.release()
            assert release.wait(30)
            return super().ask(question, **kwargs)

    app = create_app(Slow(), max_queue=4, threads=2)
    threads = [
        threading.Thread(target=lambda: app.test_client().post("/v1/ask", json={"question": "q"}))
        for _ in range(2)
    ]
    try:
        for thread in threads:
            thread.start()
        assert started.acquire(timeout=10)
        time.sleep(0.2)
        client = app.test_client()
        check_problem(client.post("/v1/ask", json={"question": "q"}), 429, "queue_full")
        body = {**HOOK, "deadline_ms": 5000}
        assert client.post("/v1/hook/rerank", json=body, headers=CONTRACT).status_code == 200
    finally:
        release.set()
        for thread in threads:
            thread.join(10)


def test_a_failure_gives_its_place_back() -> None:
    gate = Gate(max_queue=1, max_working=1)
    for _ in range(3):
        with pytest.raises(RuntimeError), gate.admitted(), gate.working():
            raise RuntimeError
    assert gate.depth == 0
    with gate.admitted(), pytest.raises(Overloaded), gate.admitted():
        pass
    with gate.admitted(), gate.working():
        pass


# --- the sweep


def test_the_sweep_publishes_what_is_in_no_queue() -> None:
    services = TinyServices(queued=True)
    answer_id = services.ask("q", filters=SearchFilter(), caller=None)["answer_id"]
    waiting = [1]
    sweep = Sweep(n_waiting=lambda: waiting[0], requeue=lambda age_s: services.requeue(older_than_s=age_s))
    assert sweep.once() == []
    waiting[0] = 0
    assert sweep.once() == [answer_id]
    services.run_answer(answer_id)
    assert sweep.once() == []


def test_the_sweep_outlives_a_peer_that_fails() -> None:
    calls: list[str] = []
    swept = threading.Event()

    def n_waiting() -> int:
        calls.append("n")
        if len(calls) == 1:
            raise UpstreamError("broker_unreachable", "No connection.", retryable=True)
        swept.set()
        return 1

    sweep = Sweep(n_waiting=n_waiting, requeue=lambda _: [], every_s=0.01)
    sweep.start()
    assert swept.wait(10)
    sweep.stop()


# --- where it listens


@pytest.mark.parametrize(
    ("host", "loopback"), [("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False)]
)
def test_is_loopback(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback


def test_an_open_address_needs_a_token() -> None:
    with pytest.raises(ConfigError) as caught:
        check_bind("0.0.0.0", 0, None)
    assert caught.value.code == "token_required"
    check_bind("0.0.0.0", 0, "s3cret")
    check_bind("127.0.0.1", 0, None)
    with pytest.raises(ConfigError) as caught:
        check_bind("host.invalid", 0, None)
    assert caught.value.code == "host_unknown"
