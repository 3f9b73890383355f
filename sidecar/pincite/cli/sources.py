"""``pincite sources`` and ``pincite delete``."""

from __future__ import annotations

import click

from pincite.cli.common import emit_json, json_option, services


@click.command()
@json_option
def sources(as_json: bool) -> None:
    """List the sources that are in, and those that could not be taken in."""
    with services() as app:
        records = app.sources()
    if as_json:
        emit_json({"sources": records})
        return
    for record in records:
        size = f"{record['n_chunks'] or 0} chunks" if record.get("content_hash") else "not in"
        click.echo(f"{record['status']:<9} {record['source_id']}  {record['file_name']}  ({size})")
        if record.get("error"):
            click.echo(f"          {record['error']['message']} [{record['error']['code']}]")
    click.echo(f"{len(records)} sources")


@click.command()
@click.argument("source")
@json_option
def delete(source: str, as_json: bool) -> None:
    """Take SOURCE (its file name or source id) out, with all its chunks."""
    with services() as app:
        n_chunks = app.delete_source(source)
    if as_json:
        emit_json({"deleted": source, "chunks": n_chunks})
    else:
        click.echo(f"deleted {source}: {n_chunks} chunks")
