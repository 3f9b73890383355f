"""Validators fail closed; quotes are slices."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pytest
from answer_world import ENCODER, LEASE, SPLITTER, evidence, passages
from hypothesis import given, settings
from hypothesis import strategies as st

from pincite.answer.quote import choose_quote, cite
from pincite.answer.validators import Citeguard, LinksStand, NumbersStand, run_validator
from pincite.domain.codes import Support
from pincite.domain.types import Passage, Sentence, Span, Verdict, Versioned

VALIDATORS = [Citeguard(ENCODER), Citeguard(), NumbersStand(), LinksStand()]


@pytest.mark.parametrize("validator", VALIDATORS, ids=lambda v: str(v.validator))
def test_nothing_cited_is_unsupported(validator: Citeguard) -> None:
    assert validator.validate("The rent is due.", []).support is Support.UNSUPPORTED


def test_citeguard_takes_either_measure() -> None:
    lease = passages()[:1]
    lexical = Citeguard(ENCODER).validate("The tenant shall pay a rent.", lease)
    assert lexical.support is Support.SUPPORTED and "lexical" in lexical.reason
    none = Citeguard(ENCODER).validate("Quantum chromodynamics forbids zebras.", lease)
    assert none.support is Support.UNSUPPORTED
    # Function words carry no lexical overlap, but the encoder sees them.
    close = Citeguard(ENCODER, min_overlap=1.1, min_cosine=0.4).validate(lease[0].chunk.text, lease)
    assert close.support is Support.SUPPORTED and "cosine" in close.reason
    assert Citeguard(min_overlap=1.1).validate(lease[0].chunk.text, lease).support is Support.UNSUPPORTED


def test_numbers_and_links_must_stand() -> None:
    lease, note = passages()[0], passages()[2]
    numbers, links = NumbersStand(), LinksStand()
    assert numbers.validate("The rent is $1,200.", [lease]).support is Support.SUPPORTED
    wrong = numbers.validate("The rent is $1,300.", [lease])
    assert wrong.support is Support.UNSUPPORTED and "1,300" in wrong.reason
    assert links.validate("See https://example.org/boilers.", [note]).support is Support.SUPPORTED
    for url in ("https://example.org/boiler", "https://evil.example", "www.evil.example", "mailto:a@b.example"):
        assert links.validate(f"See {url}.", [note]).support is Support.UNSUPPORTED


class _Broken:
    def __init__(self, verdict: Verdict | Exception) -> None:
        self._verdict = verdict

    @property
    def validator(self) -> Versioned:
        return Versioned(id="broken", version="1")

    def validate(self, sentence: str, cited: Sequence[Passage]) -> Verdict:
        if isinstance(self._verdict, Exception):
            raise self._verdict
        return self._verdict


def _verdict(score: float | None, support: Support = Support.SUPPORTED) -> Verdict:
    return Verdict(validator=Versioned(id="broken", version="1"), support=support, score=score, reason="")


@pytest.mark.parametrize(
    "bad", [RuntimeError("x"), MemoryError(), _verdict(float("nan")), _verdict(float("inf")), None]
)
def test_a_failing_validator_is_no_pass(bad: Verdict | Exception) -> None:
    assert run_validator(_Broken(bad), "s", passages()).support is Support.UNCHECKED


def test_the_worst_verdict_decides() -> None:
    def sentence(*verdicts: Verdict) -> Sentence:
        return Sentence(text="s", span=Span(start=0, end=1), citations=(), verdicts=verdicts)

    assert not sentence().supported
    assert sentence(_verdict(1.0)).supported
    for support in Support:
        if support is not Support.SUPPORTED:
            assert not sentence(_verdict(1.0), _verdict(None, support), _verdict(1.0)).supported


def test_a_quote_is_the_equal_sentence_or_the_closest() -> None:
    text = passages()[0].chunk.text
    exact = "The landlord shall keep the\nroof and the heating in good repair."
    assert choose_quote(exact, text, SPLITTER).slice(text) == exact
    close = choose_quote("Keeping the roof and heating in repair is the landlord's duty.", text, SPLITTER)
    assert close.slice(text) == exact
    with pytest.raises(ValueError, match="without text"):
        choose_quote("x", " \n", SPLITTER)


def test_a_citation_has_offsets_in_the_source() -> None:
    item = evidence()[1]
    citation = cite("Notice of sixty days ends the lease.", item, SPLITTER)
    assert citation.quote_span.slice(LEASE) == citation.quote
    assert "sixty (60) days" in citation.quote
    assert (citation.page_start, citation.page_label) == (None, None)


def test_a_form_feed_in_a_file_without_pages_is_no_page() -> None:
    base = evidence()[1]
    chunk = dataclasses.replace(base.passage.chunk, text="One.\n\fTwo is sixty days.")
    item = dataclasses.replace(base, passage=dataclasses.replace(base.passage, chunk=chunk))
    citation = cite("Two is sixty days.", item, SPLITTER)
    assert (citation.page_start, citation.page_end, citation.page_label) == (None, None, None)


def test_a_quote_over_a_page_break_states_both_pages() -> None:
    base = evidence()[1]
    where = dataclasses.replace(
        base.passage.chunk.provenance, page_start=4, page_end=6, page_label_start="iv", page_label_end="vi"
    )
    text = "Rent is due.\n\fNotice of sixty days\n\fends the lease."
    chunk = dataclasses.replace(base.passage.chunk, text=text, provenance=where)
    item = dataclasses.replace(base, passage=dataclasses.replace(base.passage, chunk=chunk))
    citation = cite("Notice of sixty days ends the lease.", item, SPLITTER)
    assert citation.quote == "Notice of sixty days\n\fends the lease."
    assert (citation.page_start, citation.page_end, citation.page_label) == (5, 6, None)


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=80), st.text(min_size=1, max_size=200))
def test_every_quote_is_a_slice(sentence: str, text: str) -> None:
    if text.strip():
        span = choose_quote(sentence, text, SPLITTER)
        assert 0 <= span.start < span.end <= len(text)
