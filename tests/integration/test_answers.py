"""Questions over real contracts with the real encoder: cited answers that verify, and refusals."""

from __future__ import annotations

import copy
import json
import shutil
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from live import Node, data_folder

from pincite import resources
from pincite.answer.verify import verify
from pincite.wiring.sources import directory_reader

#: Contracts small enough to encode in a test run; the benchmark takes all ten.
FILES = ("contractnli_*", "privacy_qa_*", "cuad_Cybergy*")
MINILM = {"PINCITE_ENCODER": "minilm"}


@pytest.fixture(scope="module")
def contracts(node: Node, module_prefix: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("contracts")
    for pattern in FILES:
        for path in (data_folder() / "legalbench_rag" / "docs").glob(pattern):
            shutil.copy(path, folder / path.name)
    report = node.cli_json(module_prefix, "ingest", str(folder), env=MINILM)
    assert report["totals"]["failed"] == 0
    return folder


def questions(folder: Path) -> list[dict[str, Any]]:
    """The first question on each contract."""
    lines = (
        (data_folder() / "legalbench_rag" / "legalbench_rag_qa_public.jsonl")
        .read_text(encoding="utf-8")
        .splitlines()
    )
    first: dict[str, dict[str, Any]] = {}
    for line in lines:
        item = json.loads(line)
        name = Path(item["file"]).name
        if (folder / name).exists():
            first.setdefault(name, item)
    return list(first.values())[:5]


@pytest.fixture(scope="module")
def answers(node: Node, module_prefix: str, contracts: Path) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    asked = questions(contracts)
    assert len(asked) == 5
    return [(item, node.cli_json(module_prefix, "ask", item["question"], env=MINILM)) for item in asked]


def test_at_least_four_of_five_cite_the_contract_named(
    answers: list[tuple[dict[str, Any], dict[str, Any]]],
) -> None:
    right = 0
    for item, document in answers:
        cited = {c["file_name"] for s in document["sentences"] for c in s["citations"]}
        right += document["outcome"] == "answer" and Path(item["file"]).name in cited
    assert right >= 4


def test_every_answer_fits_the_schema_and_verifies(
    node: Node, module_prefix: str, contracts: Path, answers: list[Any], tmp_path: Path
) -> None:
    schema = resources.load_json("contracts/schemas/answer.schema.json")
    for n, (_, document) in enumerate(answers):
        jsonschema.Draft202012Validator(schema).validate(document)
        assert document["state"] == "done"
        if document["outcome"] != "answer":
            continue
        for sentence in document["sentences"]:
            assert document["text"][sentence["start"] : sentence["end"]] == sentence["text"]
            assert all(v["support"] == "supported" for v in sentence["verdicts"])
            for citation in sentence["citations"]:
                text = (contracts / citation["file_name"]).read_bytes().decode("utf-8-sig")
                assert text[citation["char_start"] : citation["char_end"]] == citation["quote"]
        path = tmp_path / f"{n}.json"
        path.write_text(json.dumps(document), encoding="utf-8")
        report = node.cli_json(module_prefix, "verify", str(path), "--sources", str(contracts))
        assert report["ok"] is True


def test_verify_fails_on_what_was_tampered_with(
    node: Node, module_prefix: str, contracts: Path, answers: list[Any], tmp_path: Path
) -> None:
    document = next(d for _, d in answers if d["outcome"] == "answer")
    reader = directory_reader(contracts)
    assert verify(document, reader).ok
    other = next(
        p.name for p in contracts.iterdir() if p.name != document["sentences"][0]["citations"][0]["file_name"]
    )

    def changed_character(d: dict[str, Any]) -> None:
        quote = d["sentences"][0]["citations"][0]["quote"]
        d["sentences"][0]["citations"][0]["quote"] = ("X" if quote[0] != "X" else "Y") + quote[1:]

    def offset_off_by_one(d: dict[str, Any]) -> None:
        d["sentences"][0]["citations"][0]["char_start"] += 1
        d["sentences"][0]["citations"][0]["char_end"] += 1

    def another_file(d: dict[str, Any]) -> None:
        d["sentences"][0]["citations"][0]["file_name"] = other

    def a_changed_sentence(d: dict[str, Any]) -> None:
        d["sentences"][0]["text"] += "!"

    def no_citations(d: dict[str, Any]) -> None:
        d["sentences"][0]["citations"] = []

    for change in (changed_character, offset_off_by_one, another_file, a_changed_sentence, no_citations):
        tampered = copy.deepcopy(document)
        change(tampered)
        assert not verify(tampered, reader).ok, change.__name__
        path = tmp_path / f"{change.__name__}.json"
        path.write_text(json.dumps(tampered), encoding="utf-8")
        assert node.cli(module_prefix, "verify", str(path), "--sources", str(contracts)).returncode == 1


def test_verify_fails_on_a_changed_file(contracts: Path, answers: list[Any], tmp_path: Path) -> None:
    document = next(d for _, d in answers if d["outcome"] == "answer")
    for path in contracts.iterdir():
        shutil.copy(path, tmp_path / path.name)
    cited = tmp_path / document["sentences"][0]["citations"][0]["file_name"]
    cited.write_bytes(cited.read_bytes() + b" ")
    assert not verify(document, directory_reader(tmp_path)).ok


def test_citations_can_be_shown(node: Node, module_prefix: str, contracts: Path, answers: list[Any]) -> None:
    document = next(d for _, d in answers if d["outcome"] == "answer")
    citation = document["sentences"][0]["citations"][0]
    shown = node.cli_json(module_prefix, "show", citation["citation_id"], env=MINILM)
    assert citation["quote"] in [view["quote"] for view in shown["passages"]]


@pytest.mark.parametrize(
    "question",
    [
        "What is the boiling point of tungsten?",
        "Wie hoch ist die Mehrwertsteuer auf Bücher in Österreich?",
        "个人信息处理者应当在多长时间内通知个人？",
    ],
)
def test_what_the_contracts_cannot_answer_is_refused(
    node: Node, module_prefix: str, contracts: Path, question: str
) -> None:
    document = node.cli_json(module_prefix, "ask", question, env=MINILM)
    jsonschema.validate(document, resources.load_json("contracts/schemas/answer.schema.json"))
    assert document["outcome"] == "refusal"
    assert document["refusal"]["reason"] in ("not_answerable", "no_evidence")
    assert document["sentences"] == []


def test_verify_of_a_refusal_says_that_there_is_nothing_to_verify(
    node: Node, module_prefix: str, contracts: Path, tmp_path: Path
) -> None:
    document = node.cli_json(module_prefix, "ask", "What is the boiling point of tungsten?", env=MINILM)
    path = tmp_path / "refusal.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    assert node.cli(module_prefix, "verify", str(path), "--sources", str(contracts)).returncode == 1


def test_a_generator_that_is_not_configured_stores_nothing(node: Node, prefix: str) -> None:
    node.app(prefix).init()
    reply = node.cli_json(prefix, "ask", "May the tenant sublet?", env={"PINCITE_GENERATOR": "openai"}, code=3)
    assert reply["error"]["code"] == "llm_not_configured"
    assert node.scroll(f"{prefix}-answers") == []


def test_an_empty_index_refuses(node: Node, prefix: str) -> None:
    document = node.cli_json(prefix, "ask", "May the tenant sublet?")
    assert document["refusal"]["reason"] == "no_evidence"
