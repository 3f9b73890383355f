"""The app factory."""

from __future__ import annotations

import re
import secrets
import time
from dataclasses import dataclass

import structlog
from flask import Flask, Response, g, request

from pincite.serve import problems
from pincite.serve.auth import Guard
from pincite.serve.bodies import StrictJSON
from pincite.serve.gate import Gate
from pincite.serve.metrics import Metrics
from pincite.serve.services import SidecarServices

_log = structlog.stdlib.get_logger(__name__)
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_REJECTIONS = frozenset({"queue_full", "deadline_passed"})
_PROBES = frozenset({"/healthz", "/readyz", "/metrics"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Sidecar:
    """What the routes share.

    Attributes:
        services: The composed flows.
        guard: Checks the token.
        gate: The queue of all work.
        slow_gate: The part of it that answers may take.
        metrics: What is counted.
        rerank_model: What ``/v1/rerank`` names as its model.
    """

    services: SidecarServices
    guard: Guard
    gate: Gate
    slow_gate: Gate
    metrics: Metrics
    rerank_model: str


def create_app(
    services: SidecarServices,
    *,
    token: str | None = None,
    max_queue: int = 32,
    threads: int = 8,
    rerank_model: str = "identity",
    max_body_bytes: int = 16 * 1024 * 1024,
) -> Flask:
    """Build the sidecar's Flask app.

    Args:
        services: The composed flows; thread-safe.
        token: The sidecar's own token, or None.
        max_queue: Requests that may wait or work; one more is 429.
        threads: Requests that may work at once.
        rerank_model: What ``/v1/rerank`` names as its model.
        max_body_bytes: Larger bodies are 413.
    """
    from pincite.serve.routes import answers, embed, hook, operations, rerank, search

    app = Flask("pincite.serve", static_folder=None)
    app.json = StrictJSON(app)
    app.config["MAX_CONTENT_LENGTH"] = max_body_bytes
    app.url_map.strict_slashes = False
    gate = Gate(max_queue=max_queue, max_working=threads)
    sidecar = Sidecar(
        services=services,
        guard=Guard(token),
        gate=gate,
        # Answers may take a minute each; at most half of the house is theirs, the hook keeps the rest.
        slow_gate=Gate(max_queue=max(1, max_queue // 2), max_working=max(1, threads // 2), outer=gate),
        metrics=Metrics(gate),
        rerank_model=rerank_model,
    )
    problems.install(app)
    _observe(app, sidecar.metrics)
    for routes in (hook, rerank, embed, search, answers, operations):
        app.register_blueprint(routes.blueprint(sidecar))
    return app


def _observe(app: Flask, metrics: Metrics) -> None:
    @app.before_request
    def arrive() -> None:
        g.arrived = time.monotonic()
        given = request.headers.get("X-Request-Id", "")
        g.request_id = given if _REQUEST_ID.fullmatch(given) else secrets.token_hex(8)

    @app.after_request
    def leave(response: Response) -> Response:
        took = time.monotonic() - g.get("arrived", time.monotonic())
        # The rule, not the path: paths hold ids and are without end.
        route = request.url_rule.rule if request.url_rule is not None else "unknown"
        metrics.requests.labels(route, str(response.status_code)).inc()
        metrics.latency.labels(route).observe(took)
        code = g.get("problem_code")
        if code in _REJECTIONS:
            metrics.rejected.labels(code).inc()
        response.headers["X-Request-Id"] = problems.request_id()
        response.headers["Cache-Control"] = "no-store"
        response.headers["X-Content-Type-Options"] = "nosniff"
        log = _log.debug if route in _PROBES else _log.info
        log(
            "request",
            method=request.method,
            route=route,
            status=response.status_code,
            took_ms=round(took * 1000, 1),
            code=code,
            request_id=problems.request_id(),
        )
        return response
