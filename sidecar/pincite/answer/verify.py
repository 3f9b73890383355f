"""Verify an answer document against the source files, from scratch.

Neither the index nor the stored verdicts are trusted: files are read and extracted again, every offset
is sliced, every number is looked up. The one thing taken from the document is what it claims.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pincite import resources
from pincite.answer.validators import SEMANTIC
from pincite.domain import ids
from pincite.domain.codes import Support
from pincite.domain.errors import PinciteError
from pincite.domain.protocols import SourceReader
from pincite.domain.types import Page
from pincite.text.numbers import missing_numbers
from pincite.text.overlap import lexical_overlap

_MIN_OVERLAP = 0.10
_MIN_COSINE = 0.40
_MAX_SHOWN = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One check: what was checked on which part of the document, and what was found."""

    name: str
    ok: bool
    subject: str
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyReport:
    """All checks of one document, in order."""

    answer_id: str
    checks: tuple[Check, ...] = field(default=())

    @property
    def ok(self) -> bool:
        """Every check passed, and there was at least one."""
        return bool(self.checks) and all(check.ok for check in self.checks)

    @property
    def failures(self) -> tuple[Check, ...]:
        """The checks that failed."""
        return tuple(check for check in self.checks if not check.ok)

    def as_dict(self) -> dict[str, Any]:
        """JSON-compatible form."""
        return {
            "answer_id": self.answer_id,
            "ok": self.ok,
            "n_checks": len(self.checks),
            "checks": [
                {"name": c.name, "ok": c.ok, "subject": c.subject, "detail": c.detail} for c in self.checks
            ],
        }


def verify(document: Mapping[str, Any], reader: SourceReader) -> VerifyReport:
    """Check everything that an answer document claims.

    Args:
        document: A parsed answer document.
        reader: Reads source files by the name that the document gives.

    A document that breaks the schema is not checked further. One with zero citations fails: a refusal
    has none, so there is nothing to verify in it, and the report says so.
    """
    answer_id = str(document.get("answer_id", ""))
    problems = list(_schema_problems(document))
    if problems:
        return VerifyReport(answer_id=answer_id, checks=tuple(problems))
    checks = [Check(name="schema", ok=True, subject="document")]
    n_citations = sum(len(s["citations"]) for s in document["sentences"])
    checks.append(
        Check(
            name="has_citations",
            ok=n_citations > 0,
            subject="document",
            detail=f"{n_citations} citations" if n_citations else _why_none(document),
        )
    )
    sources = _Sources(reader)
    checks += _evidence_checks(document, sources)
    checks += _sentence_checks(document, sources)
    return VerifyReport(answer_id=answer_id, checks=tuple(checks))


def _why_none(document: Mapping[str, Any]) -> str:
    if document["state"] != "done":
        return f"the answer is {document['state']}: there is nothing to verify yet"
    reason = (document["refusal"] or {}).get("reason")
    return f"this is a refusal ({reason}): it cites nothing, so there is nothing to verify"


def _schema_problems(document: Mapping[str, Any]) -> Iterator[Check]:
    import jsonschema

    schema = resources.load_json("contracts/schemas/answer.schema.json")
    validator = jsonschema.Draft202012Validator(schema)
    for number, error in enumerate(validator.iter_errors(document)):
        if number == 10:
            return
        yield Check(name="schema", ok=False, subject=error.json_path, detail=error.message[:300])


class _Sources:
    """Files, each read once; a failure is remembered as its message."""

    def __init__(self, reader: SourceReader) -> None:
        self._reader = reader
        self._read: dict[str, tuple[str, str, tuple[Page, ...]] | str] = {}

    def get(self, file_name: str) -> tuple[str, str, tuple[Page, ...]] | str:
        if file_name not in self._read:
            try:
                self._read[file_name] = self._reader.read(file_name)
            except PinciteError as exc:
                self._read[file_name] = f"{exc.code}: {exc.message}"
            except (OSError, ValueError) as exc:
                self._read[file_name] = f"{type(exc).__name__}: {exc}"
        return self._read[file_name]

    def extractor_of(self, file_name: str) -> Mapping[str, str] | None:
        """Id and version of the extractor; None where the file has none, which reading reports."""
        try:
            part = self._reader.extractor_of(file_name)
        except PinciteError:
            return None
        return {"id": part.id, "version": part.version}


def _evidence_checks(document: Mapping[str, Any], sources: _Sources) -> Iterator[Check]:
    """Cited evidence is in its file, word for word."""
    cited = {c["citation_id"] for s in document["sentences"] for c in s["citations"]}
    minted: list[str] = [item["citation_id"] for item in document["evidence"]]
    yield _equal("citation_ids_unique", "evidence", len(set(minted)), len(minted))
    for number, item in enumerate(document["evidence"]):
        subject = f"evidence[{number}]"
        expected = ids.citation_id(document["answer_id"], item["chunk_id"])
        yield _equal("citation_id_minted", subject, item["citation_id"], expected)
        if item["citation_id"] not in cited:
            continue
        source = sources.get(item["file_name"])
        if isinstance(source, str):
            yield Check(name="source_readable", ok=False, subject=subject, detail=source)
            continue
        yield from _place_checks(subject, item, item["text"], source, sources)


def _sentence_checks(document: Mapping[str, Any], sources: _Sources) -> Iterator[Check]:
    evidence = {item["citation_id"]: item for item in document["evidence"]}
    end = 0
    for number, sentence in enumerate(document["sentences"]):
        subject = f"sentences[{number}]"
        sliced = document["text"][sentence["start"] : sentence["end"]]
        yield _equal("sentence_span", subject, sliced, sentence["text"])
        between = document["text"][end : sentence["start"]]
        yield Check(
            name="sentence_order",
            ok=sentence["start"] >= end and not between.strip(),
            subject=subject,
            detail=_short(between.strip()),
        )
        end = max(end, sentence["end"])
        texts: list[str] = []
        for position, citation in enumerate(sentence["citations"]):
            where = f"{subject}.citations[{position}]"
            item = evidence.get(citation["citation_id"])
            yield Check(name="citation_resolves", ok=item is not None, subject=where)
            source = sources.get(citation["file_name"])
            if isinstance(source, str):
                yield Check(name="source_readable", ok=False, subject=where, detail=source)
                continue
            yield from _place_checks(where, citation, citation["quote"], source, sources, evidence=item)
            if item is not None:
                yield from _agreement(where, citation, item)
                # The words of the file, not those of the document, are what must support the sentence.
                texts.append(source[1][item["char_start"] : item["char_end"]])
        yield from _support_checks(subject, sentence["text"], texts, sentence["verdicts"])
    rest = document["text"][end:].strip() if document["sentences"] else ""
    yield Check(name="nothing_uncited", ok=not rest, subject="text", detail=_short(rest))


def _support_checks(
    subject: str, text: str, cited: Sequence[str], verdicts: Sequence[Mapping[str, Any]]
) -> Iterator[Check]:
    """Overlap and numbers. A cosine cannot be computed again without the model, so it is the one verdict
    that is taken from the document, and the detail says so."""
    overlap = lexical_overlap(text, cited)
    detail = f"lexical overlap {overlap:.2f}, at least {_MIN_OVERLAP:.2f} is needed"
    semantic = bool(cited) and overlap < _MIN_OVERLAP and any(_is_semantic(v) for v in verdicts)
    if semantic:
        detail = (
            f"lexical overlap {overlap:.2f} is below {_MIN_OVERLAP:.2f}: rests on the stored semantic verdict of "
            "citeguard, which is not computed again without the model"
        )
    yield Check(name="overlap", ok=overlap >= _MIN_OVERLAP or semantic, subject=subject, detail=detail)
    absent = missing_numbers(text, cited)
    detail = "not in the cited passage: " + ", ".join(absent[:8]) if absent else ""
    yield Check(name="numbers", ok=not absent, subject=subject, detail=detail)


def _is_semantic(verdict: Mapping[str, Any]) -> bool:
    """Citeguard passed the sentence by cosine alone."""
    score = verdict["score"]
    return (
        verdict["validator"]["id"] == "citeguard"
        and verdict["support"] == Support.SUPPORTED.value
        and str(verdict["reason"]).startswith(SEMANTIC)
        and score is not None
        and score >= _MIN_COSINE
    )


def _place_checks(
    subject: str,
    item: Mapping[str, Any],
    claimed: str,
    source: tuple[str, str, tuple[Page, ...]],
    sources: _Sources,
    *,
    evidence: Mapping[str, Any] | None = None,
) -> Iterator[Check]:
    """The file is the one meant, and the span of its text is what the document says.

    ``evidence`` is what a citation refers to; None for an evidence item itself.
    """
    content_hash, text, pages = source
    yield _equal("content_hash", subject, item["content_hash"], content_hash)
    extractor = sources.extractor_of(item["file_name"])
    if extractor is not None:
        yield _equal("extractor", subject, dict(item["extractor"]), dict(extractor))
    start, end = item["char_start"], item["char_end"]
    in_text = 0 <= start < end <= len(text)
    yield Check(
        name="offsets",
        ok=in_text,
        subject=subject,
        detail="" if in_text else f"[{start}, {end}) is not inside the text of {len(text)} characters",
    )
    yield _equal("quote", subject, claimed, text[start:end])
    yield from _page_checks(subject, item, pages, evidence)


def _page_checks(
    subject: str, item: Mapping[str, Any], pages: Sequence[Page], evidence: Mapping[str, Any] | None
) -> Iterator[Check]:
    """The stated pages are those that hold the span, no more and no fewer.

    The label is the printed one of the first page. A citation may leave it out on a page that is neither the
    first nor the last of its evidence.
    """
    first, last = item["page_start"], item["page_end"]
    if not pages:
        yield _equal("pages", subject, (first, last), (None, None))
        return
    start, end = item["char_start"], item["char_end"]
    touched = [page for page in pages if page.span.start < end and start < page.span.end]
    numbers = [page.number for page in touched]
    exact = bool(numbers) and (first, last) == (numbers[0], numbers[-1])
    detail = "" if exact else f"stated {first}–{last}, the text stands on {numbers[:1] + numbers[-1:]}"
    yield Check(name="pages", ok=exact, subject=subject, detail=detail)
    label = item["page_label_start"] if "page_label_start" in item else item["page_label"]
    middle = evidence is not None and first not in (evidence["page_start"], evidence["page_end"])
    expected = next((page.label for page in pages if page.number == first), None)
    yield _equal("page_label", subject, label, None if middle and label is None else expected)
    if "page_label_end" in item:
        expected = next((page.label for page in pages if page.number == last), None)
        yield _equal("page_label_end", subject, item["page_label_end"], expected)


def _agreement(subject: str, citation: Mapping[str, Any], item: Mapping[str, Any]) -> Iterator[Check]:
    """The citation is of the evidence that it names; the quote and its pages lie inside it."""
    for name in ("chunk_id", "source_id", "content_hash", "file_name"):
        yield _equal(f"same_{name}", subject, citation[name], item[name])
    stated = [item["page_start"], citation["page_start"], citation["page_end"], item["page_end"]]
    numbers = [number for number in stated if number is not None]
    ordered = not numbers or (len(numbers) == 4 and numbers == sorted(numbers))
    detail = "" if ordered else f"stated {stated[1]}–{stated[2]}, the evidence {stated[0]}–{stated[3]}"
    yield Check(name="pages_in_evidence", ok=ordered, subject=subject, detail=detail)
    yield _equal("same_extractor", subject, dict(citation["extractor"]), dict(item["extractor"]))
    inside = item["char_start"] <= citation["char_start"] < citation["char_end"] <= item["char_end"]
    yield Check(name="quote_in_evidence", ok=inside, subject=subject)


def _equal(name: str, subject: str, stated: object, found: object) -> Check:
    same = stated == found
    detail = "" if same else f"stated {_short(stated)}, found {_short(found)}"
    return Check(name=name, ok=same, subject=subject, detail=detail)


def _short(value: object) -> str:
    if value == "":
        return ""
    shown = repr(value)
    return shown if len(shown) <= _MAX_SHOWN else shown[: _MAX_SHOWN - 1] + "…"
