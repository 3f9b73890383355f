"""``pincite version``."""

from __future__ import annotations

import platform

import click

from pincite import __version__
from pincite.cli.common import emit_json, json_option


@click.command()
@json_option
def version(as_json: bool) -> None:
    """Print versions."""
    facts = {"pincite": __version__, "contract": 1, "python": platform.python_version()}
    if as_json:
        emit_json(facts)
    else:
        click.echo(f"pincite {__version__} (contract 1, Python {facts['python']})")
