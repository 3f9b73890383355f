"""``make bench-fusion``: what each leg, their fusion and MaxSim find, and what the weights do.

Two sets: PDPA (243 questions, each subsection of the Act a source; PINCITE_TEST_DATA) and the licences of the
demo (58 questions, of which 32 fitted the answerability). A question's gold is one or more sources; ranks are
of distinct sources. Each candidate is scored once; the table is computed from those scores. The last line is
JSON.
"""

from __future__ import annotations

import fnmatch
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pincite import resources
from pincite.domain.types import SearchFilter
from pincite.evals.command import run_as_command
from pincite.evals.licences import export_licences
from pincite.evals.refusal import data_file
from pincite.ingest.walk import walk
from pincite.rank import fusion
from pincite.rank.fusion import Bounds, FusionConfig
from pincite.wiring.console import say
from pincite.wiring.ingest_flow import IngestOptions
from pincite.wiring.services import Services
from pincite.wiring.settings import load_settings
from pincite.wiring.sources import extractor_set

_SIZE = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A question, the patterns of its gold file names, and every candidate's scores by stage."""

    gold: tuple[str, ...]
    files: Mapping[str, str]
    legs: Mapping[str, Mapping[str, float]]
    n_query_tokens: int


def pdpa(folder: Path) -> list[tuple[str, tuple[str, ...]]]:
    """Write each subsection as a file; the questions with their gold files."""
    for line in data_file("pdpa/pdpa_corpus_subsections.jsonl").read_text(encoding="utf-8").splitlines():
        chunk = json.loads(line)
        (folder / f"{chunk['chunk_id']}.txt").write_text(chunk["text"], encoding="utf-8")
    lines = data_file("pdpa/pdpa_qa_public.jsonl").read_text(encoding="utf-8").splitlines()
    return [
        (item["question_user"], tuple(f"{link['chunk_id']}.txt" for link in item["corpus_links"]))
        for item in map(json.loads, lines)
        if item["corpus_links"]
    ]


def licences() -> list[tuple[str, tuple[str, ...]]]:
    """Questions on licences with patterns of the files that may be cited."""
    out = []
    for name in ("licence_questions", "licence_questions_fit"):
        text = resources.path(f"benchmarks/refusal/{name}.jsonl").read_text(encoding="utf-8")
        out += [
            (item["question"], tuple(f"{key}.txt" for key in item["expected"]))
            for item in map(json.loads, text.splitlines())
        ]
    return out


def judge(app: Services, questions: Iterable[tuple[str, tuple[str, ...]]]) -> list[Judged]:
    """Score the candidates of each question."""
    out = []
    for question, gold in questions:
        # Every candidate of both legs, with all its scores, as the product's own search gives them.
        found = app.search(question, size=2 * _SIZE, filters=SearchFilter(), caller=None)
        legs: dict[str, dict[str, float]] = {"bm25": {}, "knn": {}, "maxsim": {}}
        for passage in found.passages:
            for stage, scores in legs.items():
                score = passage.score(stage)
                if score is not None:
                    scores[passage.chunk.chunk_id] = score
        out.append(
            Judged(
                gold=gold,
                files={p.chunk.chunk_id: p.chunk.provenance.file_name for p in found.passages},
                legs=legs,
                n_query_tokens=app.n_query_tokens(question),
            )
        )
    return out


def by_leg(item: Judged, leg: str) -> list[str]:
    """The order of one leg alone (MaxSim: within the first stage's best 200)."""
    return fusion.ranked(item.legs[leg])


def first_stage_only(item: Judged, config: FusionConfig) -> list[str]:
    """The order of the fused first stage."""
    return fusion.ranked(hybrid(item, config))


def full(item: Judged, config: FusionConfig) -> list[str]:
    """The default pipeline's order."""
    first = hybrid(item, config)
    head = {key: first[key] for key in fusion.ranked(first)[:_SIZE]}
    late = {key: score for key, score in item.legs["maxsim"].items() if key in head}
    return fusion.ranked(fusion.with_maxsim(head, late, item.n_query_tokens, config))


def hybrid(item: Judged, config: FusionConfig) -> dict[str, float]:
    """First-stage scores."""
    return fusion.first_stage(item.legs["bm25"], item.legs["knn"], list(item.files), config)


def measure(items: Sequence[Judged], order: Callable[[Judged], Sequence[str]]) -> dict[str, float]:
    """MRR@10 and recall of any gold source at 5 and 10."""
    mrr = at5 = at10 = 0.0
    for item in items:
        files = list(dict.fromkeys(item.files[key] for key in order(item)))[:10]
        hit = next((n for n, f in enumerate(files) if any(fnmatch.fnmatch(f, g) for g in item.gold)), None)
        if hit is not None:
            mrr += 1 / (hit + 1)
            at5 += hit < 5
            at10 += 1
    n = len(items)
    return {"mrr10": round(mrr / n, 3), "r5": round(at5 / n, 3), "r10": round(at10 / n, 3)}


def table(name: str, items: Sequence[Judged]) -> dict[str, dict[str, float]]:
    """Print and return the figures of one set."""
    default = FusionConfig()
    rows = {leg: measure(items, partial(by_leg, leg=leg)) for leg in ("bm25", "knn", "maxsim")}
    rows["hybrid"] = measure(items, partial(first_stage_only, config=default))
    rows["rrf"] = measure(items, partial(first_stage_only, config=FusionConfig(method="rrf")))
    rows["default"] = measure(items, partial(full, config=default))
    for weight in (0.4, 0.5, 0.6, 0.7, 0.8, 0.9):
        config = FusionConfig(weight_maxsim=weight, maxsim=Bounds(low=0.2, floor=0.6))
        rows[f"maxsim {weight}"] = measure(items, partial(full, config=config))
    print(f"\n{name}, {len(items)} questions")
    for row, figures in rows.items():
        print(f"  {row:<12} " + "  ".join(f"{key} {value:.3f}" for key, value in figures.items()))
    return rows


def run() -> int:
    """Ingest both sets under prefixes of their own, measure, print."""
    result = {}
    with tempfile.TemporaryDirectory() as scratch:
        questions = pdpa(Path(scratch))
        result["pdpa"] = _one("pincite-bench-pdpa", Path(scratch), {}, questions)
    corpus = export_licences(load_settings().home)
    result["licences"] = _one("pincite-bench-licences", corpus.folder, corpus.titles, licences())
    print(
        json.dumps(
            {name: rows["default"] | {"bm25_mrr10": rows["bm25"]["mrr10"]} for name, rows in result.items()}
        )
    )
    return 0


def _one(
    prefix: str, folder: Path, titles: dict[str, str], questions: list[tuple[str, tuple[str, ...]]]
) -> dict[str, dict[str, float]]:
    os.environ["PINCITE_INDEX_PREFIX"] = prefix
    app = Services(load_settings(), progress=say)
    try:
        say(f"{prefix}: ingest")
        app.ingest(walk([folder], extractor_set()), IngestOptions(titles=titles))
        return table(prefix.removeprefix("pincite-bench-"), judge(app, questions))
    finally:
        app.close()


if __name__ == "__main__":
    run_as_command(run)
