"""``pincite search``."""

from __future__ import annotations

from typing import Any

import click

from pincite.cli.common import emit_json, filter_options, json_option, make_filter, services


@click.command()
@click.argument("query")
@click.option("--size", default=10, show_default=True, type=click.IntRange(1, 100), help="Passages to return.")
@click.option("--from", "from_", default=0, show_default=True, type=click.IntRange(0, 1000), help="Skip so many.")
@filter_options
@json_option
def search(query: str, size: int, from_: int, as_json: bool, **filters: Any) -> None:
    """Search passages: BM25 and k-NN, fused, reranked by late interaction."""
    from pincite.wiring.documents import result_document

    with services() as app:
        result = app.search(query, size=size, from_=from_, filters=make_filter(**filters), caller=None)
    if as_json:
        emit_json(result_document(result))
        return
    for n, passage in enumerate(result.passages, start=from_ + 1):
        p = passage.chunk.provenance
        page = f", p. {p.page_start}" if p.page_start is not None else ""
        click.echo(f"{n}. {p.file_name}{page}, characters {p.char_span.start:,}–{p.char_span.end:,}")
        click.echo("   " + " ".join(passage.chunk.text.split())[:240])
        click.echo("   " + "  ".join(f"{s.stage} {s.score:.3f}" for s in passage.scores))
    if not result.passages:
        click.echo("nothing found")
    for reason in result.degraded:
        click.echo(f"note: {reason}", err=True)
