"""Settings to a cluster: the configured one, else the embedded one, started when it is not running."""

from __future__ import annotations

from collections.abc import Callable

from pincite.adapters.opensearch import Cluster, ClusterAddress
from pincite.wiring.settings import Settings


def configured_address(settings: Settings) -> ClusterAddress | None:
    """The address that the settings name, or None for the embedded cluster."""
    given = settings.opensearch
    if given.url is None:
        return None
    return ClusterAddress(
        url=given.url,
        user=given.user,
        password=given.password.get_secret_value() if given.password else None,
        api_token=given.api_token.get_secret_value() if given.api_token else None,
        ca=given.ca,
        timeout_s=given.timeout_s,
    )


def open_cluster(settings: Settings, progress: Callable[[str], None]) -> Cluster:
    """A client of the cluster to use.

    Raises:
        ConfigError: the embedded cluster cannot be started.
        UpstreamError: ``cluster_unreachable``.
    """
    address = configured_address(settings)
    if address is None:
        from pincite.wiring.embedded import embedded_cluster

        address = ClusterAddress(
            url=embedded_cluster(settings, progress).ensure_running(), timeout_s=settings.opensearch.timeout_s
        )
    cluster = Cluster(address)
    cluster.info(timeout_s=min(10.0, address.timeout_s))
    return cluster
