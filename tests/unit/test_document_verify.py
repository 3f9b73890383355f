"""The answer document follows its schema, comes back as it went, and verify catches every falsification."""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from answer_world import ANSWER_ID, ENCODER, LEASE, NOTE, SPLITTER, evidence, passages, question, write_sources
from click.testing import CliRunner

from pincite import resources
from pincite.answer.compose import Answerer, refuse
from pincite.answer.document import (
    evidence_from_document,
    question_from_document,
    queued_document,
    to_document,
)
from pincite.answer.extractive import ExtractiveGenerator
from pincite.answer.validators import Citeguard, LinksStand, NumbersStand
from pincite.answer.verify import verify
from pincite.cli.verify import verify as verify_command
from pincite.domain.codes import AnswerState, RefusalReason
from pincite.domain.errors import ContractError, NotFound, UserError
from pincite.domain.types import AnswerDraft, SearchFilter, StageTime
from pincite.wiring.sources import directory_reader

ASKED = question("How many days' written notice ends the lease?")
Change = Callable[[dict[str, Any]], None]


def document(draft: AnswerDraft) -> dict[str, Any]:
    return to_document(
        answer_id=ANSWER_ID,
        question=ASKED,
        evidence=evidence(),
        draft=draft,
        stages=[StageTime(name="bm25", took_ms=1.25)],
        models={"encoder": ENCODER.encoder_id},
        degraded=["knn:timeout"],
        created_at="2026-01-01T00:00:00Z",
        finished_at="2026-01-01T00:00:01Z",
    )


def answered() -> dict[str, Any]:
    answerer = Answerer(
        generator=ExtractiveGenerator(ENCODER, SPLITTER, threshold=0.0),
        validators=[Citeguard(ENCODER), NumbersStand(), LinksStand()],
        splitter=SPLITTER,
    )
    return document(answerer.answer(ASKED, evidence()))


def valid(value: dict[str, Any]) -> None:
    jsonschema.Draft202012Validator(resources.load_json("contracts/schemas/answer.schema.json")).validate(value)


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    write_sources(tmp_path)
    return tmp_path


def test_documents_follow_the_schema() -> None:
    done = answered()
    valid(json.loads(json.dumps(done, allow_nan=False)))
    assert done["outcome"] == "answer" and done["models"]["generation"] == ENCODER.encoder_id
    assert [s["name"] for s in done["stages"]] == ["bm25", "generate", "split", "validate"]
    for reason in RefusalReason:
        valid(document(refuse(reason, detail="x")))
    for state in (AnswerState.QUEUED, AnswerState.RUNNING):
        waiting = queued_document(
            answer_id=ANSWER_ID,
            question=ASKED,
            evidence=evidence(),
            stages=[],
            models={},
            degraded=[],
            created_at="2026-01-01T00:00:00Z",
            state=state,
        )
        valid(waiting)
    with pytest.raises(ValueError, match="outcome"):
        queued_document(
            answer_id=ANSWER_ID,
            question=ASKED,
            evidence=(),
            stages=[],
            models={},
            degraded=[],
            created_at="",
            state=AnswerState.DONE,
        )


def test_question_and_evidence_come_back() -> None:
    stored = json.loads(json.dumps(answered()))
    assert question_from_document(stored) == ASKED
    stored["question"]["filters"] = {"case_ids": ["A"], "date_from": "2020-01-01"}
    assert question_from_document(stored).filters == SearchFilter(case_ids=("A",), date_from="2020-01-01")
    by_id = {p.chunk.chunk_id: p for p in passages()}
    assert evidence_from_document(stored, by_id) == evidence()


def test_changed_evidence_is_not_found() -> None:
    stored = answered()
    by_id = {p.chunk.chunk_id: p for p in passages()}
    gone = dict(list(by_id.items())[1:])
    with pytest.raises(NotFound) as caught:
        evidence_from_document(stored, gone)
    assert caught.value.code == "evidence_changed"
    stored["evidence"][0]["seq_no"] += 1
    with pytest.raises(NotFound):
        evidence_from_document(stored, by_id)
    broken = answered()
    broken["evidence"][0]["citation_id"] = "c00000000"
    with pytest.raises(ContractError):
        evidence_from_document(broken, by_id)
    with pytest.raises(ContractError):
        question_from_document({"answer_id": ANSWER_ID})


def test_what_was_answered_verifies(sources: Path) -> None:
    report = verify(answered(), directory_reader(sources))
    assert report.ok, report.failures
    assert len(report.checks) > 20


def _verdict(d: dict[str, Any], **values: Any) -> None:
    for verdict in d["sentences"][0]["verdicts"]:
        if verdict["validator"]["id"] == "citeguard":
            verdict.update(values)


def test_a_paraphrase_rests_on_the_stored_semantic_verdict(sources: Path) -> None:
    """What Citeguard passes by cosine alone passes here too, and the report says what it rests on."""
    said = "Quantum chromodynamics forbids zebras."
    made = answered()
    _reworded(said)(made)
    verdict = Citeguard(ENCODER, min_cosine=-1.0).validate(said, [e.passage for e in evidence()])
    assert verdict.reason.startswith("semantic only: ")
    _verdict(made, support="supported", score=0.55, reason=verdict.reason)
    report = verify(made, directory_reader(sources))
    assert report.ok, report.failures
    (check,) = [c for c in report.checks if c.name == "overlap"]
    assert "stored semantic verdict" in check.detail
    for false in ({"score": 0.2}, {"score": None}, {"support": "unsupported"}, {"reason": "lexical overlap 0.55"}):
        changed = copy.deepcopy(made)
        _verdict(changed, **false)
        assert "overlap" in {c.name for c in verify(changed, directory_reader(sources)).failures}


def _citation(change: Callable[[dict[str, Any]], None]) -> Change:
    return lambda d: change(d["sentences"][0]["citations"][0])


def _item(change: Callable[[dict[str, Any]], None]) -> Change:
    def apply(d: dict[str, Any]) -> None:
        cited = d["sentences"][0]["citations"][0]["citation_id"]
        change(next(e for e in d["evidence"] if e["citation_id"] == cited))

    return apply


def _reworded(text: str) -> Change:
    def apply(d: dict[str, Any]) -> None:
        sentence = copy.deepcopy(d["sentences"][0])
        sentence.update(text=text, start=0, end=len(text))
        d.update(text=text, sentences=[sentence])

    return apply


FALSIFIED: dict[str, tuple[Change, str]] = {
    "a changed character": (_citation(lambda c: c.update(quote=c["quote"][:-2] + "~.")), "quote"),
    "start off by one": (_citation(lambda c: c.update(char_start=c["char_start"] + 1)), "quote"),
    "end off by one": (_citation(lambda c: c.update(char_end=c["char_end"] - 1)), "quote"),
    "both off by one": (
        _citation(lambda c: c.update(char_start=c["char_start"] + 1, char_end=c["char_end"] + 1)),
        "quote",
    ),
    "far outside": (_citation(lambda c: c.update(char_start=10**9, char_end=10**9 + 5)), "offsets"),
    "another file": (_citation(lambda c: c.update(file_name="note.txt")), "content_hash"),
    "a missing file": (_citation(lambda c: c.update(file_name="gone.txt")), "source_readable"),
    "a file outside": (_citation(lambda c: c.update(file_name="../../etc/passwd")), "source_readable"),
    "another hash": (_citation(lambda c: c.update(content_hash="0" * 64)), "content_hash"),
    "another extractor": (_citation(lambda c: c.update(extractor={"id": "ocr", "version": "9"})), "extractor"),
    "a page": (_citation(lambda c: c.update(page_start=1, page_end=1)), "pages"),
    "an id that was not minted": (_citation(lambda c: c.update(citation_id="c00000000")), "citation_resolves"),
    "evidence text": (_item(lambda e: e.update(text=e["text"] + " ")), "quote"),
    "evidence span": (_item(lambda e: e.update(char_end=e["char_end"] - 1)), "quote"),
    "evidence id": (_item(lambda e: e.update(chunk_id="0" * 32)), "citation_id_minted"),
    "a shifted sentence": (lambda d: d["sentences"][0].update(start=1), "sentence_span"),
    "uncited text before": (lambda d: d.update(text="Trust me. " + d["text"]), "sentence_span"),
    "uncited text after": (lambda d: d.update(text=d["text"] + " Trust me."), "nothing_uncited"),
    "another number": (_reworded("The lease ends with ninety (90) days' notice."), "numbers"),
    "another matter": (_reworded("Quantum chromodynamics forbids zebras."), "overlap"),
}


@pytest.mark.parametrize("name", FALSIFIED)
def test_verify_fails_on(name: str, sources: Path) -> None:
    change, check = FALSIFIED[name]
    false = answered()
    change(false)
    report = verify(false, directory_reader(sources))
    assert not report.ok
    assert check in {c.name for c in report.failures}, report.failures


def test_verify_fails_on_a_changed_source(sources: Path) -> None:
    (sources / "leases" / "lease.txt").write_text(LEASE.replace("sixty", "ninety"), encoding="utf-8", newline="")
    names = {c.name for c in verify(answered(), directory_reader(sources)).failures}
    assert "content_hash" in names and "quote" in names
    (sources / "leases" / "lease.txt").write_bytes(NOTE.encode("utf-16-le")[1:])
    assert "source_readable" in {c.name for c in verify(answered(), directory_reader(sources)).failures}


def test_zero_citations_never_pass(sources: Path) -> None:
    reader = directory_reader(sources)
    refused = verify(document(refuse(RefusalReason.NOT_ANSWERABLE)), reader)
    assert not refused.ok
    (failure,) = refused.failures
    assert failure.name == "has_citations" and "refusal" in failure.detail
    without = answered()
    without["sentences"][0]["citations"] = []
    assert {c.name for c in verify(without, reader).failures} == {"schema"}
    assert not verify({"answer_id": "x"}, reader).ok


def run(*args: str, stdin: str | None = None) -> tuple[int, str]:
    result = CliRunner().invoke(verify_command, args, input=stdin, standalone_mode=False)
    if isinstance(result.exception, UserError):
        return result.exception.exit_code, result.exception.code
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return (result.exception.code if result.exception else 0), result.output  # type: ignore[return-value]


def test_cli(sources: Path, tmp_path: Path) -> None:
    good, bad = answered(), answered()
    bad["sentences"][0]["citations"][0]["char_start"] += 1
    file = tmp_path / "answer.json"
    file.write_text(json.dumps(good), encoding="utf-8")
    code, output = run(str(file), "--sources", str(sources))
    assert code == 0 and "verified" in output
    file.write_text(json.dumps([good, bad]), encoding="utf-8")
    code, output = run(str(file), "--sources", str(sources), "--json")
    assert code == 1
    printed = json.loads(output)
    assert printed["ok"] is False and [a["ok"] for a in printed["answers"]] == [True, False]
    code, _ = run("-", "--sources", str(sources), stdin=f"{json.dumps(good)}\n{json.dumps(good)}\n")
    assert code == 0
    code, output = run("-", "--sources", str(sources), stdin=json.dumps(bad))
    assert code == 1 and "FAIL" in output


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", "not_an_answer"),
        (b"no json", "answer_not_json"),
        (b"[]", "not_an_answer"),
        (b"[1]", "not_an_answer"),
        (b'{"a": 1}', "not_an_answer"),
        (b"\xff\xfe\x00", "answer_unreadable"),
        (b"[" * 100_000, "answer_not_json"),
        (b'{"answer_id": ' + b"1" * 5000 + b"}", "answer_not_json"),
        (b'{"answer_id": 1}\n{"answer_id": ' + b"1" * 5000 + b"}", "answer_not_json"),
    ],
)
def test_cli_bad_input(sources: Path, tmp_path: Path, content: bytes, code: str) -> None:
    file = tmp_path / "answer.json"
    file.write_bytes(content)
    assert run(str(file), "--sources", str(sources)) == (2, code)


def test_cli_missing_paths(sources: Path, tmp_path: Path) -> None:
    assert run(str(tmp_path / "none.json"), "--sources", str(sources)) == (2, "answer_unreadable")
    file = tmp_path / "answer.json"
    file.write_text(json.dumps(answered()), encoding="utf-8")
    assert run(str(file), "--sources", str(tmp_path / "none")) == (2, "sources_not_found")


def _paged(tmp_path: Path, pages: list[bytes], asked: str) -> dict[str, Any]:
    """A verified answer from a PDF whose one chunk is its whole text."""
    from answer_world import passage
    from make_pdf import make_pdf

    from pincite.answer.mint import mint
    from pincite.domain import ids
    from pincite.wiring.sources import extractor_set

    raw = make_pdf(pages, labels="0 <</S/r>>")
    (tmp_path / "lease.pdf").write_bytes(raw)
    extractor = extractor_set().for_file("lease.pdf")
    extracted = extractor.extract(raw, file_name="lease.pdf")
    base = passage(extracted.text, "lease.pdf", 0, len(extracted.text))
    where = dataclasses.replace(
        base.chunk.provenance,
        content_hash=ids.content_hash(raw),
        extractor=extractor.extractor,
        page_start=1,
        page_end=len(pages),
        page_label_start=extracted.pages[0].label,
        page_label_end=extracted.pages[-1].label,
    )
    chunk = dataclasses.replace(base.chunk, provenance=where)
    minted = mint(ANSWER_ID, [dataclasses.replace(base, chunk=chunk)])
    answerer = Answerer(
        generator=ExtractiveGenerator(ENCODER, SPLITTER, threshold=0.0),
        validators=[NumbersStand()],
        splitter=SPLITTER,
    )
    made = to_document(
        answer_id=ANSWER_ID,
        question=question(asked),
        evidence=minted,
        draft=answerer.answer(question(asked), minted),
        stages=[],
        models={},
        degraded=[],
        created_at="2026-01-01T00:00:00Z",
        finished_at="2026-01-01T00:00:01Z",
    )
    report = verify(made, directory_reader(tmp_path))
    assert report.ok, report.failures
    return made


PAGES = [
    b"The tenant shall pay the rent monthly.",
    b"The landlord shall keep the roof in good repair.",
    b"Either party may end the lease by written notice.",
]


@pytest.mark.parametrize(
    ("asked", "page", "label"),
    [
        ("Who shall pay the rent monthly?", 1, "i"),
        ("Who keeps the roof in good repair?", 2, None),
        ("Which party may end the lease by notice?", 3, "iii"),
    ],
)
def test_a_citation_states_the_page_of_its_quote(tmp_path: Path, asked: str, page: int, label: str | None) -> None:
    """The chunk runs over three pages; the citation names the one of the quote, and no other verifies."""
    made = _paged(tmp_path, PAGES, asked)
    cited = next(c for s in made["sentences"] for c in s["citations"] if c["quote"] == PAGES[page - 1].decode())
    assert (cited["page_start"], cited["page_end"], cited["page_label"]) == (page, page, label)
    reader = directory_reader(tmp_path)
    for change in (
        {"page_start": 1, "page_end": 3},
        {"page_start": page % 3 + 1, "page_end": page % 3 + 1},
        {"page_start": None, "page_end": None},
        {"page_label": "x"},
        {"page_start": page, "page_end": 4},
    ):
        before = dict(cited)
        cited.update(change)
        assert any(c.name.startswith("page") for c in verify(made, reader).failures), change
        cited.clear()
        cited.update(before)
    if label is not None:
        cited["page_label"] = None
        assert "page_label" in {c.name for c in verify(made, reader).failures}


def test_pages_outside_the_evidence_fail(tmp_path: Path) -> None:
    made = _paged(tmp_path, PAGES[1:], "Who keeps the roof in good repair?")
    made["evidence"][0]["page_label_end"] = "9"
    assert "page_label_end" in {c.name for c in verify(made, directory_reader(tmp_path)).failures}
    made["evidence"][0].update(page_start=2)
    assert "pages_in_evidence" in {c.name for c in verify(made, directory_reader(tmp_path)).failures}
