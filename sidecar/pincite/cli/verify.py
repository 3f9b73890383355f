"""``pincite verify``: re-check printed answers against the source files."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from pincite.cli.common import emit_json, json_option
from pincite.domain.errors import UserError


@click.command()
@click.argument("answer", type=click.Path(dir_okay=False, allow_dash=True))
@click.option(
    "--sources",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="The folder that was ingested; file names in the answer are relative to it.",
)
@json_option
def verify(answer: str, sources: Path, as_json: bool) -> None:
    """Re-read the source files and re-check every quote and offset of ANSWER.

    ANSWER is a file that `pincite ask --json` printed, or `-` for standard input: one document, a JSON
    list of them, or one a line. Exits 0 if all pass, 1 if a check fails, 2 if the input is no answer.
    """
    from pincite.answer.verify import verify as verify_document
    from pincite.wiring.sources import directory_reader

    documents = parse_documents(_read(answer), answer)
    if not sources.is_dir():
        raise UserError(
            "sources_not_found",
            f"there is no folder {str(sources)!r}",
            mend="Give the folder that was ingested with --sources.",
            subject=str(sources),
        )
    reader = directory_reader(sources)
    reports = [verify_document(document, reader) for document in documents]
    passed = all(report.ok for report in reports)
    if as_json:
        emit_json({"ok": passed, "answers": [report.as_dict() for report in reports]})
    else:
        for report in reports:
            for check in report.failures:
                click.echo(f"FAIL {report.answer_id} {check.name} at {check.subject}: {check.detail}")
            state = "verified" if report.ok else "NOT verified"
            click.echo(f"{report.answer_id}: {state}, {len(report.checks)} checks")
    raise SystemExit(0 if passed else 1)


def _read(answer: str) -> str:
    try:
        raw = sys.stdin.buffer.read() if answer == "-" else Path(answer).read_bytes()
        return raw.decode("utf-8-sig")
    except OSError as exc:
        raise UserError(
            "answer_unreadable",
            f"{answer!r} cannot be read: {exc.strerror}",
            mend="Give a file that `pincite ask --json` printed.",
            subject=answer,
        ) from None
    except UnicodeDecodeError:
        raise UserError(
            "answer_unreadable", f"{answer!r} is not UTF-8", mend="Give a JSON file.", subject=answer
        ) from None


def parse_documents(text: str, name: str) -> list[dict[str, Any]]:
    """One document, a JSON list, or one document a line.

    Raises:
        UserError: ``answer_not_json`` or ``not_an_answer``.
    """
    try:
        try:
            parsed = json.loads(text)
        except json.JSONDecodeError:  # Not every ValueError: a number that is too long is no list of lines.
            parsed = [json.loads(line) for line in text.splitlines() if line.strip()]
    # A ValueError that is no JSONDecodeError: an integer of more digits than Python reads.
    except (ValueError, RecursionError) as exc:
        raise UserError(
            "answer_not_json",
            f"{name!r} is not JSON: {exc}",
            mend="Give a file that `pincite ask --json` printed.",
            subject=name,
        ) from None
    documents = parsed if isinstance(parsed, list) else [parsed]
    for document in documents:
        if not isinstance(document, Mapping) or "answer_id" not in document or "contract" not in document:
            documents = []
            break
    if not documents:
        raise UserError(
            "not_an_answer",
            f"{name!r} holds no answer document",
            mend="Give what `pincite ask --json` printed.",
            subject=name,
        )
    return documents
