"""Prometheus metrics; a registry for each app."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from pincite import __version__
from pincite.serve.gate import Gate

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0)
_CANDIDATES = (1, 5, 10, 20, 50, 100, 200, 500, 1000)


class Metrics:
    """What the sidecar counts.

    Args:
        gate: The gate whose depth is shown.
    """

    def __init__(self, gate: Gate) -> None:
        self._registry = CollectorRegistry()
        self.requests = Counter(
            "pincite_requests", "Requests by route and status.", ["route", "status"], registry=self._registry
        )
        self.latency = Histogram(
            "pincite_request_seconds",
            "Seconds from the request's arrival to its reply.",
            ["route"],
            buckets=_SECONDS,
            registry=self._registry,
        )
        self.rejected = Counter(
            "pincite_rejected", "Requests turned away, by reason.", ["reason"], registry=self._registry
        )
        self.candidates = Histogram(
            "pincite_rerank_candidates",
            "Candidates of a rerank request.",
            ["route"],
            buckets=_CANDIDATES,
            registry=self._registry,
        )
        depth = Gauge("pincite_queue_depth", "Requests waiting or working.", registry=self._registry)
        depth.set_function(lambda: float(gate.depth))
        limit = Gauge("pincite_queue_limit", "Requests that may wait or work.", registry=self._registry)
        limit.set(gate.max_queue)
        build = Gauge("pincite_build_info", "Version.", ["version"], registry=self._registry)
        build.labels(__version__).set(1)

    def exposition(self) -> bytes:
        """The text exposition format."""
        return generate_latest(self._registry)
