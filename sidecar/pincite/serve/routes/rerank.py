"""``POST /v1/rerank``: the shape that stock rerank connectors call."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from flask import Blueprint, Response

from pincite.domain.errors import ContractError
from pincite.serve import bodies, problems

if TYPE_CHECKING:
    from pincite.serve.app import Sidecar


def blueprint(sidecar: Sidecar) -> Blueprint:
    """The route."""
    routes = Blueprint("rerank", __name__)

    @routes.post("/v1/rerank")
    def rerank() -> Response:
        sidecar.guard.require_bearer()
        with sidecar.gate.admitted():
            body = bodies.read("rerank_request", text_field="query")
            documents = [d if isinstance(d, str) else str(d["text"]) for d in body["documents"]]
            sidecar.metrics.candidates.labels("/v1/rerank").observe(len(documents))
            with sidecar.gate.working():
                scores = sidecar.services.rerank(body["query"], documents)
        if len(scores) != len(documents) or not all(math.isfinite(score) for score in scores):
            raise ContractError("rerank_incomplete", "The reranker did not give every document a finite score.")
        # Stable: ties keep the caller's order.
        order = sorted(range(len(scores)), key=lambda i: -scores[i])
        top_n = body.get("top_n")
        results: list[dict[str, Any]] = []
        for i in order[: int(top_n) if top_n is not None else None]:
            entry: dict[str, Any] = {"index": i, "relevance_score": float(scores[i])}
            if body.get("return_documents"):
                entry["document"] = {"text": documents[i]}
            results.append(entry)
        return bodies.reply({"id": problems.request_id(), "model": sidecar.rerank_model, "results": results})

    return routes
