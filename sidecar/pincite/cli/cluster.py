"""``pincite cluster up|down|status``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pincite.cli.common import emit_json, json_option, say

if TYPE_CHECKING:
    from pincite.adapters.embedded import ClusterStatus, EmbeddedCluster


def _cluster(nodes: int | None = None, port: int | None = None) -> EmbeddedCluster:
    from pincite.wiring.embedded import embedded_cluster
    from pincite.wiring.settings import load_settings

    settings = load_settings()
    named = {"nodes": nodes, "port": port}
    given = {key: value for key, value in named.items() if value is not None}
    settings = settings.model_copy(update={"cluster": settings.cluster.model_copy(update=given)})
    return embedded_cluster(settings, progress=lambda message: say(f"pincite: {message}"))


def _size(n_bytes: int | None) -> str:
    if n_bytes is None:
        return "not readable by this user"
    return f"{n_bytes / 1_000_000:.1f} MB"


def _print_status(status: ClusterStatus) -> None:
    if not status.running:
        click.echo("The embedded cluster does not run.")
    else:
        click.echo(f"URL      {status.url}")
        click.echo(f"health   {status.health or 'does not answer'}")
        click.echo(f"version  OpenSearch {status.version or '?'}, plugins: {', '.join(status.plugins) or 'none'}")
        for node in status.nodes:
            state = f"pid {node.pid}" if node.alive else "not running; `pincite cluster up` starts it again"
            click.echo(f"node     {node.name}, HTTP {node.http_port}, transport {node.transport_port}, {state}")
        click.echo(f"java     {status.java_home}")
    click.echo(f"home     {status.home}")
    click.echo(f"data     {_size(status.data_bytes)}, {status.n_data_nodes} node(s)")


@click.group()
def cluster() -> None:
    """The embedded cluster: a real OpenSearch on this machine."""


@cluster.command()
@click.option("--nodes", type=click.IntRange(1, 9), help="Number of nodes; default: as the data has, else one.")
@click.option("--port", type=click.IntRange(1024, 65000), help="HTTP port of the first node.")
@json_option
def up(nodes: int | None, port: int | None, as_json: bool) -> None:
    """Start it, or say that it runs. It stays up until `pincite cluster down`."""
    status = _cluster(nodes, port).up()
    if as_json:
        emit_json(status.as_dict())
        return
    click.echo("The embedded cluster already runs." if status.already_running else "The embedded cluster runs.")
    _print_status(status)


@cluster.command()
@json_option
def down(as_json: bool) -> None:
    """Stop it. Its data stays."""
    stopped = _cluster().down()
    if as_json:
        emit_json({"stopped": stopped})
    else:
        click.echo("The embedded cluster is stopped." if stopped else "The embedded cluster did not run.")


@cluster.command()
@json_option
def status(as_json: bool) -> None:
    """Say what runs, where, and how much data there is."""
    found = _cluster().status()
    if as_json:
        emit_json(found.as_dict())
    else:
        _print_status(found)
