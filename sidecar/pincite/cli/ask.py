"""``pincite ask``."""

from __future__ import annotations

from typing import Any

import click

from pincite.cli.common import (
    emit_json,
    filter_options,
    json_option,
    make_filter,
    services,
)
from pincite.wiring.console import print_answer


@click.command()
@click.argument("question")
@click.option("--wait", "wait_s", default=120.0, show_default=True, help="Seconds to wait for a worker's answer.")
@filter_options
@json_option
def ask(question: str, wait_s: float, as_json: bool, **filters: Any) -> None:
    """Answer QUESTION with checked citations, or refuse. Exits 0 for both."""
    with services() as app:
        document = app.ask_and_wait(question, filters=make_filter(**filters), caller=None, wait_s=wait_s)
    if as_json:
        emit_json(document)
        return
    print_answer(document)
