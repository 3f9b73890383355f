"""``pincite ask``."""

from __future__ import annotations

from typing import Any

import click

from pincite.cli.common import (
    citation_line,
    emit_json,
    filter_options,
    json_option,
    make_filter,
    say,
    services,
)


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
