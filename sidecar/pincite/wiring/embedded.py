"""Settings to the embedded cluster."""

from __future__ import annotations

from collections.abc import Callable

from pincite.adapters.embedded.cluster import EmbeddedCluster
from pincite.wiring.settings import Settings


def sidecar_url(settings: Settings) -> str:
    """Where the sidecar is, or will be, reached."""
    host = f"[{settings.sidecar.host}]" if ":" in settings.sidecar.host else settings.sidecar.host
    return settings.sidecar.url or f"http://{host}:{settings.sidecar.port}"


def embedded_cluster(settings: Settings, progress: Callable[[str], None]) -> EmbeddedCluster:
    """The embedded cluster of this home; nothing is started yet."""
    given = settings.cluster
    token = settings.sidecar.token
    return EmbeddedCluster(
        home=settings.home,
        http_port=given.port or 9270,
        port_fixed=given.port is not None,
        nodes=given.nodes,
        heap_mb=given.heap_mb,
        java_home=settings.java_home,
        plugin_zip=given.plugin_zip,
        agent=given.agent,
        jvm_options=tuple(given.jvm_options.split()),
        sidecar_urls=(sidecar_url(settings),),
        sidecar_token=token.get_secret_value() if token else None,
        progress=progress,
    )
