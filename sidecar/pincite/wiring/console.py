"""What people and scripts see on a console: progress and errors on stderr, results on stdout."""

from __future__ import annotations

import json
from typing import Any

import click

from pincite.domain.errors import PinciteError


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


def print_answer(document: dict[str, Any]) -> None:
    """An answer document for people."""
    if document["outcome"] == "refusal":
        click.echo(f"No answer: {document['text']} [{document['refusal']['reason']}]")
        for item in document["evidence"][:3]:
            click.echo(f"  looked at {citation_line(item | {'page_label': item['page_label_start']})}")
    elif document["outcome"] is None:
        click.echo(f"Not answered yet; the answer's id is {document['answer_id']}.")
    else:
        numbers: dict[str, int] = {}
        for sentence in document["sentences"]:
            marks = [numbers.setdefault(c["citation_id"], len(numbers) + 1) for c in sentence["citations"]]
            click.echo(" ".join(sentence["text"].split()) + " " + "".join(f"[{n}]" for n in marks))
        click.echo("")
        for sentence in document["sentences"]:
            for citation in sentence["citations"]:
                click.echo(
                    f"[{numbers[citation['citation_id']]}] {citation_line(citation)}  {citation['citation_id']}"
                )
    for reason in document["degraded"]:
        say(f"note: {reason}")
