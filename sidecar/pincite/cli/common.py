"""What the commands share: output, progress, errors, filter options."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from pincite.domain.errors import PinciteError
from pincite.domain.types import SearchFilter

if TYPE_CHECKING:
    from pincite.wiring.services import Services

F = TypeVar("F", bound=Callable[..., Any])

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


def say(message: str) -> None:
    """A line of progress, on stderr, so that stdout holds the result alone."""
    click.echo(message, err=True)


def emit_json(document: Any) -> None:
    """Print a JSON document on stdout."""
    click.echo(json.dumps(document, ensure_ascii=False, indent=2, allow_nan=False))


def fail(error: PinciteError, *, as_json: bool) -> int:
    """Print an error; returns the exit code."""
    if as_json:
        emit_json({"error": error.as_dict()})
    click.echo(f"error: {error.message} [{error.code}]", err=True)
    if error.mend:
        click.echo(f"       {error.mend}", err=True)
    return error.exit_code


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


def citation_line(citation: dict[str, Any]) -> str:
    """``lease.pdf, p. 7, characters 10,412–10,530``."""
    page = ""
    if citation["page_start"] is not None:
        page = f", p. {citation['page_start']}"
        if citation["page_end"] not in (None, citation["page_start"]):
            page = f", pp. {citation['page_start']}–{citation['page_end']}"
        if citation.get("page_label"):
            page += f" (printed {citation['page_label']})"
    return f"{citation['file_name']}{page}, characters {citation['char_start']:,}–{citation['char_end']:,}"


def interactive() -> bool:
    """Whether stderr is a terminal."""
    return sys.stderr.isatty()
