"""``/healthz``, ``/readyz``, ``/metrics``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flask import Blueprint, Response

from pincite import __version__
from pincite.serve import bodies

if TYPE_CHECKING:
    from pincite.serve.app import Sidecar


def blueprint(sidecar: Sidecar) -> Blueprint:
    """The routes. Probes pass the gate by: a full house is alive."""
    routes = Blueprint("operations", __name__)

    @routes.get("/healthz")
    def health() -> Response:
        return bodies.reply({"status": "ok", "version": __version__})

    @routes.get("/readyz")
    def ready() -> Response:
        # Details name hosts and indices; a probe without the token needs the verdict alone.
        shown = sidecar.guard.knows_caller()
        checks = [
            {
                "name": str(check["name"]),
                "ok": bool(check["ok"]),
                "detail": str(check["detail"]) if shown and check.get("detail") is not None else None,
            }
            for check in sidecar.services.readiness()
        ]
        is_ready = all(check["ok"] for check in checks)
        return bodies.reply({"ready": is_ready, "checks": checks}, status=200 if is_ready else 503)

    @routes.get("/metrics")
    def metrics() -> Response:
        sidecar.guard.require_bearer()
        return Response(sidecar.metrics.exposition(), content_type="text/plain; version=0.0.4; charset=utf-8")

    return routes
