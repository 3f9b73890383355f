"""Texts that the MiniLM codec is trained on, and the sets that it is measured on; the two share no document
and no question.

Training, in windows of 200 tokens: licences for projection and centroids, housing statutes for the buckets;
sentences and spans of both as pseudo-queries (plain, and inside question frames), and the questions of ExpertQA.
Held out: one licence in eight by the
hash of its key, and those that the licence questions expect; of other licences near-duplicates remain on
both sides, as licences are copied from each other. PDPA, LegalBench-RAG and PolicyQA are held out whole: no
text of theirs is trained on.
"""

from __future__ import annotations

import fnmatch
import hashlib
import json
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pincite import resources
from pincite.evals.late_interaction import contracts, holding
from pincite.evals.licences import licence_bodies
from pincite.evals.refusal import data_file
from pincite.wiring.sources import tokenizer

_WINDOW_TOKENS = 200
_WINDOWS_A_LICENCE = 2
_LICENCE_QUESTIONS = ("licence_questions.jsonl", "licence_questions_fit.jsonl")
_FRAMES = (
    "What does {title} say about {span}?",
    "Does the text allow {span}?",
    "Is it required that {span}?",
    "When does the rule apply: {span}?",
    "What happens if {span}?",
    "Who is responsible for {span}?",
    "Is {span} permitted under {title}?",
    "How is {span} defined?",
)

Passage = tuple[str, str]
"""Title and text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingTexts:
    """What trains the codec.

    Attributes:
        passages: Of licences, for projection and centroids.
        statutes: Of another kind of text, for the buckets.
        queries: For the projection.
        sources: What the manifest says of where they are from.
    """

    passages: Sequence[Passage]
    statutes: Sequence[Passage]
    queries: Sequence[str]
    sources: Sequence[dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationSet:
    """Passages, questions, and for each question the numbers of the passages that answer it."""

    name: str
    passages: Sequence[Passage]
    questions: Sequence[str]
    gold: Sequence[frozenset[int]]


def training_texts(seed: int = 0) -> TrainingTexts:
    """What the shipped codec is trained on."""
    rng = random.Random(seed)  # noqa: S311  # not for secrets
    licences = [
        passage
        for key, body in licence_bodies()
        if not _held_out(key)
        for passage in _some_windows(key.replace("-", " "), body, rng)
    ]
    statutes = [
        passage
        for row in _lines("landlord_tenant/ma_general_laws_housing.jsonl")
        if not row["stub"]
        for passage in _some_windows(row["name"], row["text"], rng)
    ]
    asked = sorted({row["question"] for row in _lines("attribution/expertqa_claims_public.jsonl")})
    queries = [query for passage in licences + statutes for query in _pseudo_queries(passage, rng)]
    rng.shuffle(queries)
    return TrainingTexts(
        passages=licences,
        statutes=statutes,
        queries=[*asked, *queries],
        sources=[
            {"name": "licensedcode-data", "licence": "CC-BY-4.0", "n_passages": len(licences)},
            {"name": "Massachusetts General Laws, housing", "licence": "public law", "n_passages": len(statutes)},
            {"name": "ExpertQA, questions only", "licence": "MIT", "n_questions": len(asked)},
        ],
    )


def evaluation_sets() -> list[EvaluationSet]:
    """PDPA, LegalBench-RAG quotes, PolicyQA and licence questions."""
    return [_pdpa(), _legalbench(), _policyqa(), _licence_questions()]


def _pdpa() -> EvaluationSet:
    rows = list(_lines("pdpa/pdpa_corpus_subsections.jsonl"))
    numbers = {row["chunk_id"]: n for n, row in enumerate(rows)}
    asked = [q for q in _lines("pdpa/pdpa_qa_public.jsonl") if q["corpus_links"]]
    return EvaluationSet(
        name="pdpa",
        passages=[(row["law_short"], row["text"]) for row in rows],
        questions=[q["question_user"] for q in asked],
        gold=[
            frozenset(numbers[link["chunk_id"]] for link in q["corpus_links"] if link["chunk_id"] in numbers)
            for q in asked
        ],
    )


def _legalbench() -> EvaluationSet:
    chunks, asked = contracts()
    numbers = {chunk.chunk_id: n for n, chunk in enumerate(chunks)}
    gold = [frozenset(numbers[key] for key in holding(chunks, file_name, spans)) for _, file_name, spans in asked]
    return EvaluationSet(
        name="legalbench",
        passages=[(chunk.title, chunk.text) for chunk in chunks],
        questions=[question for question, _, _ in asked],
        gold=gold,
    )


def _policyqa(n: int = 300) -> EvaluationSet:
    rows = list(_lines("policyqa/passages_public.jsonl"))
    numbers = {row["id"]: n for n, row in enumerate(rows)}
    asked = list(_lines("policyqa/questions_public.jsonl"))
    asked = random.Random(0).sample(asked, n)  # noqa: S311  # not for secrets
    return EvaluationSet(
        name="policyqa",
        passages=[(row["doc"], row["text"]) for row in rows],
        questions=[q["question"] for q in asked],
        gold=[frozenset({numbers[q["passage"]]}) for q in asked],
    )


def _licence_questions() -> EvaluationSet:
    asked = _questions_on_licences()
    passages: list[Passage] = []
    keys: list[str] = []
    for key, body in licence_bodies():
        if _held_out(key):
            wanted = any(_expected(f"{key}.txt", q["expected"]) for q in asked)
            for window in _windows(body)[: None if wanted else 2]:
                passages.append((key.replace("-", " "), window))
                keys.append(f"{key}.txt")
    return EvaluationSet(
        name="licences",
        passages=passages,
        questions=[q["question"] for q in asked],
        gold=[frozenset(n for n, key in enumerate(keys) if _expected(key, q["expected"])) for q in asked],
    )


@lru_cache(maxsize=1)
def _questions_on_licences() -> list[dict[str, Any]]:
    return [
        json.loads(line)
        for name in _LICENCE_QUESTIONS
        for line in resources.path(f"benchmarks/refusal/{name}").read_text(encoding="utf-8").splitlines()
    ]


def _expected(file_name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch.fnmatch(file_name, pattern) for pattern in patterns)


def _held_out(key: str) -> bool:
    if hashlib.sha256(key.encode()).digest()[0] % 8 == 0:
        return True
    return any(_expected(f"{key}.txt", q.get("expected", ())) for q in _questions_on_licences())


def _windows(text: str) -> list[str]:
    spans = tokenizer().tokenize(text).spans
    pieces = [spans[i : i + _WINDOW_TOKENS] for i in range(0, len(spans), _WINDOW_TOKENS)]
    return [text[piece[0].start : piece[-1].end] for piece in pieces]


def _some_windows(title: str, text: str, rng: random.Random) -> list[Passage]:
    windows = _windows(text)
    return [(title, w) for w in rng.sample(windows, min(_WINDOWS_A_LICENCE, len(windows)))]


def _pseudo_queries(passage: Passage, rng: random.Random) -> list[str]:
    """A sentence as it is, or a short span of it inside a question's frame."""
    title, text = passage
    sentences = [s.split() for s in re.split(r"(?<=[.;:])\s+", text)]
    sentences = [s for s in sentences if len(s) >= 6]
    if not sentences:
        return []
    words = rng.choice(sentences)
    if rng.random() < 0.35:
        return [" ".join(words[:25])]
    n = rng.randint(3, 9)
    start = rng.randint(0, max(len(words) - n, 0))
    span = " ".join(words[start : start + n]).strip(".,;:()\"'").lower()
    return [rng.choice(_FRAMES).format(title=title, span=span)]


def _lines(name: str) -> Iterator[Any]:
    for line in data_file(name).read_text(encoding="utf-8").splitlines():
        yield json.loads(line)
