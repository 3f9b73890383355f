"""``pincite init``."""

from __future__ import annotations

import click

from pincite.cli.common import emit_json, json_option, services


@click.command()
@json_option
def init(as_json: bool) -> None:
    """Install index templates, indices and the search pipeline. Running it twice changes nothing."""
    with services() as app:
        report = app.init()
    if as_json:
        emit_json(
            {
                "created": list(report.created),
                "existed": list(report.existed),
                "pipelines": list(report.pipelines),
                "warnings": list(report.warnings),
            }
        )
        return
    for name in report.created:
        click.echo(f"created  {name}")
    for name in report.existed:
        click.echo(f"existed  {name}")
    for name in report.pipelines:
        click.echo(f"pipeline {name}")
    for warning in report.warnings:
        click.echo(f"note: {warning}")
