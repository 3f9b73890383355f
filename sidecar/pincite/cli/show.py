"""``pincite show``."""

from __future__ import annotations

import click

from pincite.cli.common import emit_json, interactive, json_option, services


@click.command()
@click.argument("citation")
@click.option("--context", "context_chars", default=400, show_default=True, type=click.IntRange(0, 10_000))
@json_option
def show(citation: str, context_chars: int, as_json: bool) -> None:
    """Print a cited passage in its context.

    CITATION is a citation id of an answer, a chunk id, or FILE:START-END in characters.
    """
    with services() as app:
        views = app.show(citation, context_chars=context_chars, caller=None)
    if as_json:
        emit_json({"citation": citation, "passages": views})
        return
    for view in views:
        page = f", p. {view['page_start']}" if view["page_start"] is not None else ""
        click.echo(f"{view['file_name']}{page}, characters {view['char_start']:,}–{view['char_end']:,}")
        quote = click.style(view["quote"], bold=True) if interactive() else f">>>{view['quote']}<<<"
        click.echo(view["before"] + quote + view["after"])
