"""The extractive generator: verbatim, cited, and able to refuse."""

from __future__ import annotations

import pytest
from answer_world import ENCODER, LEASE, NOTE, SPLITTER, evidence, passage, question

from pincite.answer.answerability import coverage, coverage_features, probability
from pincite.answer.compose import Answerer
from pincite.answer.extractive import WEIGHTS, ExtractiveGenerator
from pincite.answer.mint import mint
from pincite.answer.validators import Citeguard, LinksStand, NumbersStand
from pincite.domain.codes import Outcome, RefusalReason
from pincite.domain.types import Question, TermStat
from pincite.text.stems import StemSet, stem

GENERATOR = ExtractiveGenerator(ENCODER, SPLITTER, threshold=0.0)
VALIDATORS = [Citeguard(ENCODER), NumbersStand(), LinksStand()]


def answerer(threshold: float) -> Answerer:
    generator = ExtractiveGenerator(ENCODER, SPLITTER, threshold=threshold)
    return Answerer(generator=generator, validators=VALIDATORS, splitter=SPLITTER)


@pytest.mark.parametrize(
    "asked",
    [
        "Who keeps the roof in good repair?",
        "How many days' written notice ends the lease?",
        "Who inspected the boiler on 12 March 2015?",
        "Where are the findings, see note of the annex?",
        "Which models replace the boiler before winter?",
    ],
)
def test_every_shown_sentence_is_its_quote(asked: str) -> None:
    draft = answerer(0.0).answer(question(asked), evidence())
    assert draft.outcome is Outcome.ANSWER
    assert draft.n_generations == 1 and not draft.dropped
    for sentence in draft.sentences:
        assert sentence.span.slice(draft.text) == sentence.text
        (citation,) = sentence.citations
        source = LEASE if citation.file_name == "leases/lease.txt" else NOTE
        assert citation.quote == sentence.text == citation.quote_span.slice(source)


def test_brackets_of_the_source_survive_and_cite_nothing() -> None:
    draft = answerer(0.0).answer(question("Who inspected the boiler?"), evidence())
    assert "[Acme Heating]" in draft.text
    draft = answerer(0.0).answer(question("see note of the annex for the findings"), evidence())
    assert "See note [1] of the annex" in draft.text
    assert {c.citation_id for s in draft.sentences for c in s.citations} <= {e.citation_id for e in evidence()}


def test_headings_scraps_and_cut_sentences_are_not_quoted() -> None:
    cut = mint("a" * 32, [passage(LEASE, "leases/lease.txt", 35, LEASE.index("No notice") + 20, ordinal=1)])
    texts = [c.text for c in GENERATOR.candidates(cut)]
    assert not any("LEASE AGREEMENT" in t for t in texts)
    assert not any(t.startswith("shall pay") for t in texts)
    assert not any(t.endswith("No notice is needed") for t in texts)
    assert any(t.startswith("2. Either party") for t in texts)


def test_the_same_sentence_of_two_versions_is_quoted_once() -> None:
    other = LEASE.replace("$1,200", "$1,250").replace("heating", "boiler")
    both = mint(
        "a" * 32,
        [
            passage(LEASE, "leases/lease.txt", 0, len(LEASE)),
            passage(other, "leases/other.txt", 0, len(other)),
        ],
    )
    draft = answerer(0.0).answer(question("When may a party end this lease with written notice?"), both)
    assert sum("Either party may end" in s.text for s in draft.sentences) == 1


def test_strict_quotes_one_sentence() -> None:
    generation = GENERATOR.generate(question("roof heating rent notice"), evidence(), strict=True)
    assert len(SPLITTER.split(generation.text)) == 1


def test_below_the_threshold_is_refused() -> None:
    draft = answerer(0.999999).answer(question("Who keeps the roof?"), evidence())
    assert draft.refusal is not None and draft.refusal.reason is RefusalReason.NOT_ANSWERABLE
    assert draft.generation is not None and draft.generation.threshold == 0.999999
    assert set(WEIGHTS) - {"bias"} <= set(draft.generation.features)


def test_evidence_without_a_sentence_is_refused() -> None:
    text = "TITLE\n\n§ 1\n\n---\n"
    draft = answerer(0.5).answer(question("What?"), mint("a" * 32, [passage(text, "t.txt", 0, len(text))]))
    assert draft.refusal is not None and draft.refusal.reason is RefusalReason.NOT_ANSWERABLE


def test_what_the_corpus_lacks_lowers_the_score() -> None:
    here = GENERATOR.generate(question("Who keeps the roof in good repair?"), evidence(), strict=False)
    gone = GENERATOR.generate(
        question("Which vaccine does the zoo give zebras?", absent=("vaccine", "zoo", "zebras", "give")),
        evidence(),
        strict=False,
    )
    assert here.answerability is not None and gone.answerability is not None
    assert here.answerability > gone.answerability
    assert gone.features["absent"] == 1.0 and here.features["absent"] == 0.0


def test_another_language_and_strange_questions_do_not_break() -> None:
    for asked in ("房东需要修理屋顶吗？", "😀", "a", "?" * 5000, "\u202eright to left"):
        draft = answerer(0.5).answer(Question(text=asked), evidence())
        assert draft.outcome is Outcome.REFUSAL, asked


def test_coverage_weighs_rare_words_more() -> None:
    terms = [TermStat(term="roof", n_chunks=1), TermStat(term="shall", n_chunks=900)]
    assert coverage(terms, StemSet(["roof"]), 1000) > 0.9
    assert coverage(terms, StemSet(["shall"]), 1000) < 0.1
    assert coverage([], StemSet(["roof"]), 1000) == 0.0
    compound = question("gpl-3.0")
    text = "GPL version 3 and 0"
    assert coverage_features(compound, mint("a" * 32, [passage(text, "gpl-3.0.txt", 0, len(text))]))[
        "coverage_all"
    ] == pytest.approx(1.0)


def test_stems() -> None:
    assert stem("licences") == stem("license") == stem("licensed")
    assert "modification" in StemSet(["modify"]) or "modify" in StemSet(["modification"])
    assert "3" not in StemSet(["13"])
    assert "contract" not in StemSet(["contact"])


def test_a_feature_that_is_no_number_means_no_answer() -> None:
    assert probability({"x": float("nan")}, {"bias": 5.0, "x": 1.0}) == 0.0
