"""``POST /v1/embed``: pooled vectors of texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flask import Blueprint, Response

from pincite.serve import bodies

if TYPE_CHECKING:
    from pincite.serve.app import Sidecar


def blueprint(sidecar: Sidecar) -> Blueprint:
    """The route."""
    routes = Blueprint("embed", __name__)

    @routes.post("/v1/embed")
    def embed() -> Response:
        sidecar.guard.require_bearer()
        with sidecar.gate.admitted():
            body = bodies.read("embed_request")
            with sidecar.gate.working():
                result = sidecar.services.embed(body["texts"], kind=body.get("kind", "passage"))
        return bodies.reply(result)

    return routes
