"""What the commands share: output, progress, errors, filter options."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from pincite.domain.types import SearchFilter
from pincite.wiring.console import emit_json, fail, say

if TYPE_CHECKING:
    from pincite.wiring.services import Services

F = TypeVar("F", bound=Callable[..., Any])

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


@contextmanager
def services() -> Iterator[Services]:
    """The composed services, from the environment's settings; closed at the end."""
    from pincite.wiring.services import Services
    from pincite.wiring.settings import load_settings

    opened = Services(load_settings(), progress=say)
    try:
        yield opened
    finally:
        opened.close()


def filter_options(command: F) -> F:
    """Adds the filter options; the command receives ``filters``."""
    options = [
        click.option("--case", "case_ids", multiple=True, metavar="ID", help="Only sources of this case."),
        click.option(
            "--file", "file_names", multiple=True, metavar="NAME", help="Only this file; * matches anything."
        ),
        click.option("--since", "date_from", metavar="DATE", help="Only sources dated on or after (YYYY-MM-DD)."),
        click.option("--until", "date_to", metavar="DATE", help="Only sources dated on or before (YYYY-MM-DD)."),
        click.option("--ingested-since", "ingested_from", metavar="DATE", help="Only chunks taken in since."),
        click.option("--ingested-until", "ingested_to", metavar="DATE", help="Only chunks taken in until."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def make_filter(**values: Any) -> SearchFilter:
    """The filter of the filter options' values."""
    return SearchFilter(**{key: value for key, value in values.items() if value not in (None, ())})


def show_progress(what: str, n: int, total: int) -> None:
    """Tell how far long work is: one changing line for a person, some lines for a log."""
    if interactive():
        click.echo(f"\r\x1b[K[{n}/{total}] {what}", err=True, nl=n == total)
    elif n == total or n % 50 == 1:
        say(f"[{n}/{total}] {what}")


def interactive() -> bool:
    """Whether stderr is a terminal."""
    return sys.stderr.isatty()


__all__ = [
    "emit_json",
    "fail",
    "filter_options",
    "interactive",
    "json_option",
    "make_filter",
    "say",
    "services",
    "show_progress",
]
