"""``pincite ingest``."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from pincite.cli.common import emit_json, json_option, services, show_progress


@click.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--case", "case_id", metavar="ID", help="The case that these sources belong to.")
@click.option("--date", metavar="DATE", help="The sources' date (YYYY-MM-DD), for --since and --until.")
@click.option("--collection", default="default", show_default=True, help="Names are unique within a collection.")
@click.option("--acl", multiple=True, metavar="PRINCIPAL", help="Who may see them (filter mode).")
@json_option
def ingest(
    paths: tuple[Path, ...],
    case_id: str | None,
    date: str | None,
    collection: str,
    acl: tuple[str, ...],
    as_json: bool,
) -> None:
    """Take files in: .txt, .md and .pdf, or folders of them.

    Taking the same file in twice writes nothing; a changed file replaces its old version; a run that was
    interrupted goes on where it stopped. Exits 1 when a file could not be taken in.
    """
    from pincite.ingest.walk import walk
    from pincite.retrieve.filters import day
    from pincite.wiring.ingest_flow import IngestOptions
    from pincite.wiring.sources import extractor_set

    options = IngestOptions(
        collection=collection, case_id=case_id, date=day(date) if date else None, acl=tuple(acl)
    )

    # Which files there are is checked first: a wrong path should not have to wait for a cluster.
    found = walk(paths, extractor_set())
    with services() as app:
        report = app.ingest(found, options, show_progress)
    skipped = [{"file_name": item.file_name, "reason": item.reason} for item in found.skipped]
    if as_json:
        emit_json(report.as_dict() | {"skipped": skipped})
    else:
        for source in report.sources:
            if source.error is not None:
                click.echo(f"failed     {source.file_name}: {source.error['message']} [{source.error['code']}]")
                if source.error["mend"]:
                    click.echo(f"           {source.error['mend']}")
            else:
                click.echo(f"{source.status:<10} {source.file_name}: {source.chunks} chunks")
            for warning in source.warnings:
                click.echo(f"           note: {warning}")
        for item in skipped:
            click.echo(f"skipped    {item['file_name']}: {item['reason']}")
        totals = report.as_dict()["totals"]
        click.echo(
            f"{totals['sources']} sources: {totals['indexed']} indexed, {totals['unchanged']} unchanged, "
            f"{totals['failed']} failed; {totals['chunks_written']} chunks written"
        )
    if report.count("failed"):
        sys.exit(1)
