"""``make bench-refusal``: refusals on questions that the licence corpus can and cannot answer.

Twenty questions on Singapore's PDPA, spread over the data set, are asked of the licences: each should be
refused. Twenty questions on licences should be answered, and cite a licence that is expected. None of them
was used to fit the answerability (benchmarks/refusal/README.md). The last line is JSON.
"""

from __future__ import annotations

import json
import os
import platform
import time
from pathlib import Path
from typing import Any

from pincite import resources
from pincite.domain.errors import ConfigError
from pincite.evals.command import run_as_command
from pincite.evals.demo import ONLY_LICENCES, cites, ingest_licences
from pincite.evals.licences import export_licences
from pincite.wiring.console import say
from pincite.wiring.services import Services
from pincite.wiring.settings import load_settings

N_QUESTIONS = 20


def data_file(name: str) -> Path:
    """A file of the data sets.

    Raises:
        ConfigError: ``test_data_missing``.
    """
    path = Path(os.environ.get("PINCITE_TEST_DATA", "../shared/data")) / name
    if not path.is_file():
        raise ConfigError(
            "test_data_missing",
            f"{path} is not there.",
            mend="Set PINCITE_TEST_DATA to the folder of the data sets.",
            subject="PINCITE_TEST_DATA",
        )
    return path


def pdpa_questions(n: int = N_QUESTIONS) -> list[str]:
    """Questions of the PDPA set, evenly spread."""
    lines = data_file("pdpa/pdpa_qa_public.jsonl").read_text(encoding="utf-8").splitlines()
    questions = [json.loads(line)["question_user"] for line in lines]
    return questions[:: max(len(questions) // n, 1)][:n]


def licence_questions(n: int = N_QUESTIONS) -> list[dict[str, Any]]:
    """Questions on licences with the keys of which at least one should be cited."""
    path = resources.path("benchmarks/refusal/licence_questions.jsonl")
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()][:n]


def run() -> int:
    """Ask, print the table, return 0."""
    settings = load_settings()
    app = Services(settings, progress=say)
    try:
        app.init()
        ingest_licences(app, export_licences(settings.home))
        took: list[float] = []

        def ask(question: str) -> dict[str, Any]:
            start = time.perf_counter()
            document = app.ask_and_wait(question, filters=ONLY_LICENCES, caller=None, wait_s=120)
            took.append((time.perf_counter() - start) * 1e3)
            return document

        refused = 0
        for question in pdpa_questions():
            document = ask(question)
            refused += document["outcome"] == "refusal"
            _row("pdpa", document, question)
        wrongly = cited = 0
        for item in licence_questions():
            document = ask(item["question"])
            wrongly += document["outcome"] == "refusal"
            cited += cites(document, tuple(item["expected"]))
            _row("licence", document, item["question"])
    finally:
        app.close()
    took.sort()
    result = {
        "pdpa_refused": refused,
        "pdpa_questions": N_QUESTIONS,
        "licence_refused": wrongly,
        "licence_questions": N_QUESTIONS,
        "licence_cited_as_expected": cited,
        "p50_ms": round(took[len(took) // 2]),
        "max_ms": round(took[-1]),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
    }
    print(f"\nPDPA questions refused: {refused} of {N_QUESTIONS} (at least 18 wanted)")
    print(f"licence questions refused: {wrongly} of {N_QUESTIONS} (at most 4 wanted); cited as expected: {cited}")
    print(json.dumps(result))
    return 0


def _row(kind: str, document: dict[str, Any], question: str) -> None:
    score = (document["answerability"] or {}).get("score")
    shown = "  -  " if score is None else f"{score:5.2f}"
    print(f"{kind:<8} {document['outcome']:<8} {shown}  {question[:90]}")


if __name__ == "__main__":
    run_as_command(run)
