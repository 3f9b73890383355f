"""``make demo``: real licences into a real cluster, three cited answers, one refusal, all verified.

The demo fails (exit 1) when a known question does not cite its known licence, when the question that the
corpus cannot answer is answered, or when ``verify`` finds anything wrong.
"""

from __future__ import annotations

import fnmatch
import json
import sys
import time
from pathlib import Path
from typing import Any

import click

from pincite.answer.verify import verify
from pincite.domain.errors import PinciteError
from pincite.domain.types import SearchFilter
from pincite.evals.licences import LicenceCorpus, export_licences
from pincite.ingest.walk import walk
from pincite.wiring.console import fail, print_answer, say
from pincite.wiring.ingest_flow import IngestOptions
from pincite.wiring.services import Services
from pincite.wiring.settings import load_settings
from pincite.wiring.sources import directory_reader, extractor_set

#: Question, and the licences of which at least one must be cited (patterns of file names).
KNOWN = (
    ("Does the Apache License 2.0 grant a trademark licence?", ("apache-2.0*",)),
    ("What must I offer users who interact with modified AGPL software over a network?", ("agpl-3.0*",)),
    ("Can I combine LGPL library code with a proprietary application?", ("lgpl-*", "*lgpl*")),
)
UNANSWERABLE = "How many days of paid parental leave may an employee take in Sweden?"
#: The demo's own sources, apart from whatever else is in the index.
CASE_ID = "demo-licences"
ONLY_LICENCES = SearchFilter(case_ids=(CASE_ID,))
_PROGRESS_EVERY_S = 5.0


def ingest_licences(app: Services, corpus: LicenceCorpus) -> dict[str, Any]:
    """Take the corpus in; the totals of the run."""
    last = 0.0

    def progress(name: str, n: int, total: int) -> None:
        nonlocal last
        if time.monotonic() - last > _PROGRESS_EVERY_S or n == total:
            last = time.monotonic()
            say(f"  ingest {n}/{total} {name}")

    report = app.ingest(
        walk([corpus.folder], extractor_set()),
        IngestOptions(collection="licences", case_id=CASE_ID, titles=corpus.titles),
        progress,
    )
    for source in report.sources:
        if source.error is not None:
            say(f"  failed {source.file_name}: {source.error['message']}")
    totals: dict[str, Any] = report.as_dict()["totals"]
    return totals


def cites(document: dict[str, Any], patterns: tuple[str, ...]) -> bool:
    """Whether an answer cites a file that matches one of the patterns."""
    return any(
        fnmatch.fnmatch(citation["file_name"].removesuffix(".txt"), pattern)
        for sentence in document["sentences"]
        for citation in sentence["citations"]
        for pattern in patterns
    )


def run() -> int:
    """The demo; its exit code."""
    started = time.monotonic()
    settings = load_settings()
    corpus = export_licences(settings.home)
    print(f"{len(corpus.licences)} licences in {corpus.folder} ({corpus.n_written} written)")
    if corpus.empty:
        print(f"source_empty ({len(corpus.empty)} without a text): {', '.join(corpus.empty)}")
    app = Services(settings, progress=say)
    try:
        init = app.init()
        for warning in init.warnings:
            say(f"note: {warning}")
        totals = ingest_licences(app, corpus)
        print(
            f"{totals['sources']} sources, {totals['chunks']} chunks in the index; "
            f"{totals['chunks_written']} written now, {totals['unchanged']} sources unchanged"
        )
        problems = [f"{totals['failed']} sources failed"] if totals["failed"] else []
        problems += _questions(app, corpus.folder, settings.home / "demo" / "answers")
    finally:
        app.close()
    for problem in problems:
        print(f"FAILED: {problem}")
    print(
        f"demo {'failed' if problems else 'passed'} in {time.monotonic() - started:.0f} s; the cluster stays up,"
    )
    print(
        "`pincite cluster down` stops it. Try: .venv/bin/pincite ask 'Does the MIT licence disclaim warranties?'"
    )
    return 1 if problems else 0


def _questions(app: Services, sources: Path, out: Path) -> list[str]:
    problems = []
    out.mkdir(parents=True, exist_ok=True)
    reader = directory_reader(sources)
    for n, (question, patterns) in enumerate(KNOWN, start=1):
        document = app.ask_and_wait(question, filters=ONLY_LICENCES, caller=None, wait_s=60)
        print(f"\n{n}. {question}")
        print_answer(document)
        path = out / f"answer-{n}.json"
        path.write_text(json.dumps(document, ensure_ascii=False, indent=2), encoding="utf-8")
        if not cites(document, patterns):
            problems.append(f"question {n} does not cite {' or '.join(patterns)}")
        report = verify(document, reader)
        print(f"   verify: {'passed' if report.ok else 'FAILED'}, {len(report.checks)} checks, {path}")
        problems += [f"verify of question {n}: {check.name} {check.detail}" for check in report.failures]
    document = app.ask_and_wait(UNANSWERABLE, filters=ONLY_LICENCES, caller=None, wait_s=60)
    print(f"\n4. {UNANSWERABLE}")
    print_answer(document)
    if document["outcome"] != "refusal":
        problems.append("the question that the corpus cannot answer was answered")
    print()
    return problems


def main() -> None:
    """Run the demo; an error of ours ends as one clear message."""
    try:
        sys.exit(run())
    except PinciteError as exc:
        sys.exit(fail(exc, as_json=False))
    except KeyboardInterrupt:
        click.echo("stopped; run `make demo` again to go on", err=True)
        sys.exit(130)


if __name__ == "__main__":
    main()
