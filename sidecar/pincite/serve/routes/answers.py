"""``POST /v1/ask`` and ``GET /v1/answers/{answer_id}``."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any

from flask import Blueprint, Response

from pincite.domain.codes import AnswerState
from pincite.domain.errors import NotFound
from pincite.serve import bodies
from pincite.serve.filters import search_filter

if TYPE_CHECKING:
    from pincite.serve.app import Sidecar

_ANSWER_ID = re.compile(r"[0-9a-f]{32}")
_POLL_S = (0.05, 0.1, 0.2, 0.4, 0.5)


def blueprint(sidecar: Sidecar) -> Blueprint:
    """The routes."""
    routes = Blueprint("answers", __name__)

    @routes.post("/v1/ask")
    def ask() -> Response:
        caller = sidecar.guard.cluster_caller()
        with sidecar.slow_gate.admitted():
            body = bodies.read("ask_request", text_field="question")
            deadline = time.monotonic() + float(body.get("wait_s", 0))
            with sidecar.slow_gate.working():
                document = sidecar.services.ask(
                    body["question"], filters=search_filter(body.get("filters")), caller=caller
                )
            document = _wait(document, deadline, caller)
        if document["state"] == AnswerState.DONE:
            return bodies.reply(document)
        accepted = {"answer_id": document["answer_id"], "state": document["state"]}
        response = bodies.reply(accepted, status=202)
        response.headers["Location"] = f"/v1/answers/{document['answer_id']}"
        response.headers["Retry-After"] = "1"
        return response

    @routes.get("/v1/answers/<answer_id>")
    def get_answer(answer_id: str) -> Response:
        caller = sidecar.guard.cluster_caller()
        if not _ANSWER_ID.fullmatch(answer_id):
            raise NotFound("answer_unknown", "There is no answer of that id.", subject="answer_id")
        with sidecar.gate.admitted(), sidecar.gate.working():
            document = sidecar.services.get_answer(answer_id, caller=caller)
        return bodies.reply(document)

    def _wait(document: dict[str, Any], deadline: float, caller: str | None) -> dict[str, Any]:
        """Poll until the answer is done or the deadline passes; a working place is held for the reads only."""
        n_polls = 0
        while document["state"] != AnswerState.DONE:
            pause = _POLL_S[min(n_polls, len(_POLL_S) - 1)]
            left = deadline - time.monotonic()
            if left <= 0:
                break
            time.sleep(min(pause, left))
            n_polls += 1
            with sidecar.gate.working():
                document = sidecar.services.get_answer(document["answer_id"], caller=caller)
        return document

    return routes
