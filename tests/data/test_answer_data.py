"""The splitter and the verbatim path on real contracts, laws and licences."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from pincite.answer.parse import parse
from pincite.text.numbers import missing_numbers
from pincite.text.overlap import lexical_overlap
from pincite.text.sentences import LegalSentenceSplitter

DATA = Path(os.environ.get("PINCITE_TEST_DATA") or Path(__file__).resolve().parents[3] / "shared" / "data")
pytestmark = [pytest.mark.data, pytest.mark.skipif(not DATA.is_dir(), reason="PINCITE_TEST_DATA is not here")]
SPLITTER = LegalSentenceSplitter()
CID = "c1234abcd"


def contracts() -> Iterator[str]:
    for path in sorted((DATA / "legalbench_rag" / "docs").glob("*.txt")):
        yield path.read_bytes().decode("utf-8")


def laws() -> Iterator[str]:
    with (DATA / "zh_law" / "corpus_core.jsonl").open(encoding="utf-8") as lines:
        for line in islice(lines, 0, 4000, 10):
            yield json.loads(line)["text"]


@pytest.mark.parametrize("texts", [contracts, laws])
def test_spans_cover_and_sentences_survive_the_answer_path(texts: object) -> None:
    n, torn = 0, []
    for text in texts():  # type: ignore[operator]
        end = 0
        for span in SPLITTER.split(text):
            assert span.start >= end and not text[end : span.start].strip()
            end = span.end
            sentence = span.slice(text)
            assert sentence == sentence.strip() != ""
            n += 1
            parsed = parse(f"{sentence} [{CID}]", {CID})
            again = SPLITTER.split(parsed.text)
            if len(again) != 1 or parsed.raw(again[0], parsed.assign(again)[0]) != sentence:
                torn.append(sentence)
        assert not text[end:].strip()
    assert n > 400
    # A torn sentence is never quoted; there must be few of them.
    assert len(torn) <= n // 500, torn[:10]


def test_a_contract_sentence_supports_itself_alone() -> None:
    """Verbatim sentences pass the rules against their own text; their numbers fail against another's."""
    text = next(contracts())
    sentences = [s.slice(text) for s in SPLITTER.split(text)]
    for sentence in sentences:
        assert missing_numbers(sentence, [text]) == []
        if any(char.isalpha() for char in sentence):
            assert lexical_overlap(sentence, [text]) == 1.0
    assert missing_numbers("The fee is $98,765,432.10.", [text])


@pytest.mark.parametrize("texts", [contracts, laws])
def test_a_slice_of_a_source_has_no_missing_numbers(texts: object) -> None:
    """Sentences, and those beside each other, against the chunk-sized window that holds them."""
    n = 0
    for text in islice(texts(), 40):  # type: ignore[operator]
        spans = SPLITTER.split(text)[:300]
        for first, last in zip(spans, spans[1:] or spans, strict=False):
            window = text[max(0, first.start - 600) : last.end + 600]
            for said in (first.slice(text), text[first.start : last.end]):
                assert missing_numbers(said, [window]) == [], said
                n += 1
    assert n > 100


def test_chinese_articles_split_at_their_stops() -> None:
    text = next(laws())
    pieces = [s.slice(text) for s in SPLITTER.split(text)]
    assert pieces and all(len(p) < 2000 for p in pieces)
