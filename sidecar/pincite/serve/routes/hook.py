"""``POST /v1/hook/legs`` and ``/v1/hook/rerank``: called by the search-pipeline plugin."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

from flask import Blueprint, Response, g, request

from pincite.domain.errors import ContractError, UserError
from pincite.serve import bodies
from pincite.serve.problems import ContractMismatch

if TYPE_CHECKING:
    from pincite.serve.app import Sidecar

CONTRACT = "1"
CONTRACT_HEADER = "Pincite-Contract"
_FIELDS = frozenset({"query", "deadline_ms", "candidates"})
_CANDIDATE_FIELDS = frozenset({"id", "seq_no", "primary_term", "bm25", "knn"})
_ALL_CANDIDATE_FIELDS = _CANDIDATE_FIELDS | {"centroids"}
_SCORE_TYPES = frozenset({int, float, type(None)})


def blueprint(sidecar: Sidecar) -> Blueprint:
    """The route."""
    routes = Blueprint("hook", __name__)

    @routes.post("/v1/hook/legs")
    def hook_legs() -> Response:
        arrived: float = g.arrived
        sidecar.guard.require_bearer()
        _check_contract()
        with sidecar.gate.admitted():
            body = bodies.read("hook_legs_request", text_field="query")
            deadline_ms = body.get("deadline_ms")
            with sidecar.gate.working(None if deadline_ms is None else arrived + deadline_ms / 1000):
                result = sidecar.services.hook_legs(body)
        response = bodies.reply(result)
        response.headers[CONTRACT_HEADER] = CONTRACT
        return response

    @routes.post("/v1/hook/rerank")
    def hook_rerank() -> Response:
        arrived: float = g.arrived
        sidecar.guard.require_bearer()
        _check_contract()
        with sidecar.gate.admitted():
            body = bodies.read("hook_rerank_request", text_field="query", plainly_valid=plainly_valid)
            for candidate in body["candidates"]:
                # JSON Schema takes 14.0 for an integer; versions are compared as Python's.
                candidate["seq_no"] = int(candidate["seq_no"])
                candidate["primary_term"] = int(candidate["primary_term"])
            _check_unique(body["candidates"])
            sidecar.metrics.candidates.labels("/v1/hook/rerank").observe(len(body["candidates"]))
            deadline_ms = body.get("deadline_ms")
            deadline = None if deadline_ms is None else arrived + deadline_ms / 1000
            with sidecar.gate.working(deadline):
                if deadline is not None:
                    # What is left now, not what was left when the plugin sent it.
                    body["deadline_ms"] = max(1, int((deadline - time.monotonic()) * 1000))
                result = sidecar.services.hook_rerank(body)
        _check_permutation(body["candidates"], result)
        response = bodies.reply(result)
        response.headers[CONTRACT_HEADER] = CONTRACT
        return response

    return routes


def plainly_valid(body: object) -> bool:
    """Whether a body is a hook request as the plugin writes it: a fast answer for the path of every search.

    The JSON Schema takes some 20 ms for 200 candidates, this 0.1 ms. What is not plainly valid is left to
    the schema, which may still find it valid, and otherwise says what is wrong.
    """
    if not isinstance(body, dict) or not body.keys() <= _FIELDS:
        return False
    query, candidates, deadline_ms = body.get("query"), body.get("candidates"), body.get("deadline_ms", 1)
    return (
        type(query) is str
        and 0 < len(query) <= bodies.MAX_TEXT_CHARS
        and type(deadline_ms) is int
        and 1 <= deadline_ms <= 60_000
        and isinstance(candidates, list)
        and 0 < len(candidates) <= 1000
        and all(_plain_candidate(candidate) for candidate in candidates)
    )


def _plain_candidate(candidate: object) -> bool:
    if not isinstance(candidate, dict) or not _CANDIDATE_FIELDS <= candidate.keys() <= _ALL_CANDIDATE_FIELDS:
        return False
    name, seq_no, term = candidate["id"], candidate["seq_no"], candidate["primary_term"]
    return (
        type(name) is str
        and 0 < len(name) <= 512
        and type(seq_no) is int
        and seq_no >= 0
        and type(term) is int
        and term >= 1
        and type(candidate["bm25"]) in _SCORE_TYPES
        and type(candidate["knn"]) in _SCORE_TYPES
        and type(candidate.get("centroids")) in _SCORE_TYPES
    )


def _check_contract() -> None:
    spoken = request.headers.get(CONTRACT_HEADER)
    if spoken != CONTRACT:
        shown = "none" if spoken is None else repr(spoken[:16])
        raise ContractMismatch(
            "contract_mismatch",
            f"The sidecar speaks contract {CONTRACT} of the hook; the request names {shown}.",
            mend="Install the plugin and the sidecar of one release.",
            subject=CONTRACT_HEADER,
        )


def _check_unique(candidates: list[dict[str, Any]]) -> None:
    if len({candidate["id"] for candidate in candidates}) != len(candidates):
        raise UserError("body_invalid", "candidates must not name an id twice.", subject="candidates")


def _check_permutation(candidates: list[dict[str, Any]], result: dict[str, Any]) -> None:
    """Nothing leaves that the plugin would have to reject."""
    results = result["results"]
    same = sorted(entry["id"] for entry in results) == sorted(entry["id"] for entry in candidates)
    if not same or not all(math.isfinite(entry["score"]) for entry in results):
        raise ContractError("rerank_incomplete", "The reranker did not give every candidate a finite score.")
