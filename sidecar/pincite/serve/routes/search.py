"""``POST /v1/search``: the gateway's search, as the caller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flask import Blueprint, Response

from pincite.serve import bodies
from pincite.serve.filters import search_filter
from pincite.wiring.documents import result_document

if TYPE_CHECKING:
    from pincite.serve.app import Sidecar


def blueprint(sidecar: Sidecar) -> Blueprint:
    """The route."""
    routes = Blueprint("search", __name__)

    @routes.post("/v1/search")
    def search() -> Response:
        caller = sidecar.guard.cluster_caller()
        with sidecar.gate.admitted():
            body = bodies.read("search_request", text_field="query")
            size, from_ = int(body.get("size", 10)), int(body.get("from", 0))
            with sidecar.gate.working():
                result = sidecar.services.search(
                    body["query"],
                    size=size,
                    from_=from_,
                    filters=search_filter(body.get("filters")),
                    caller=caller,
                )
        return bodies.reply(result_document(result, size=size, from_=from_))

    return routes
