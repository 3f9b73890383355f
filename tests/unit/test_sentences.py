"""Sentence boundaries: the rules for legal texts, and the invariants on any text."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pincite.text.sentences import LegalSentenceSplitter

SPLITTER = LegalSentenceSplitter()


def split(text: str) -> list[str]:
    return [span.slice(text) for span in SPLITTER.split(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" \n\t ", []),
        ("One. Two.", ["One.", "Two."]),
        # Hard-wrapped lines are one sentence, with LF, CRLF and CR alike.
        ("The tenant shall\npay rent. Then more.", ["The tenant shall\npay rent.", "Then more."]),
        ("The tenant\r\nshall pay. Yes.", ["The tenant\r\nshall pay.", "Yes."]),
        ("The tenant\rshall pay. Yes.", ["The tenant\rshall pay.", "Yes."]),
        ("A title\n\nA sentence.", ["A title", "A sentence."]),
        ("1. Pay rent; and\n2. Keep quiet.", ["1. Pay rent; and", "2. Keep quiet."]),
        ("as follows:\n(a) rent;\n(b) noise.", ["as follows:", "(a) rent;", "(b) noise."]),
        ("as set out in Section\n2. of the Act", ["as set out in Section\n2.", "of the Act"]),
        ("It is governed by version\n2.1 of it. Yes.", ["It is governed by version\n2.1 of it.", "Yes."]),
        ("Done.\nTERMS AND CONDITIONS\nThis is text.", ["Done.", "TERMS AND CONDITIONS", "This is text."]),
        # Capitals over several lines are a warranty clause, not headings.
        (
            "THE SOFTWARE IS PROVIDED AS IS, WITHOUT WARRANTY\nOF ANY KIND. IN NO EVENT SHALL\nWE BE LIABLE.",
            [
                "THE SOFTWARE IS PROVIDED AS IS, WITHOUT WARRANTY\nOF ANY KIND.",
                "IN NO EVENT SHALL\nWE BE LIABLE.",
            ],
        ),
        ("# Title\nBody text.", ["# Title", "Body text."]),
        ("See Smith v. Jones, No. 5. Next.", ["See Smith v. Jones, No. 5.", "Next."]),
        ("你好。世界！第二句？", ["你好。", "世界！", "第二句？"]),
        ("第一条 本法。\n第二条 适用。", ["第一条 本法。", "第二条 适用。"]),
        ("An emoji 😀. Next 👩‍👩‍👧.", ["An emoji 😀.", "Next 👩‍👩‍👧."]),
        ("One.[c1234abcd] Two. [c1234abcd]", ["One.[c1234abcd]", "Two. [c1234abcd]"]),
        ("One. [1] Two.", ["One. [1]", "Two."]),
        ("你好。[c1234abcd]世界！", ["你好。[c1234abcd]", "世界！"]),
        ("One.\n\n[1] Note text.", ["One.", "[1] Note text."]),
        ("[c1234abcd] One. Two.", ["[c1234abcd] One.", "Two."]),
    ],
)
def test_rules(text: str, expected: list[str]) -> None:
    assert split(text) == expected


ALPHABET = st.sampled_from(list("aBc. .!?\n\r\t()[]\"'“”。！1295-*#Ａé́😀漢\u200b\u3000\u2028;:,§"))
TEXTS = st.one_of(
    st.text(max_size=300),
    st.text(alphabet=ALPHABET, max_size=300),
    st.lists(
        st.sampled_from(
            ["Rent is due. ", "1. ", "(a) ", "\n", "\n\n", "[c1234abcd]", "[1]", "TITLE", "e.g. ", "“", "句。"]
        ),
        max_size=60,
    ).map("".join),
)


@settings(max_examples=400, deadline=None)
@given(TEXTS)
def test_spans_are_ordered_disjoint_trimmed_and_cover_the_text(text: str) -> None:
    end = 0
    for span in SPLITTER.split(text):
        assert span.start >= end
        assert not text[end : span.start].strip()
        piece = span.slice(text)
        assert piece and piece == piece.strip()
        end = span.end
    assert not text[end:].strip()


@pytest.mark.parametrize(
    "piece", ["a", "A. ", "(a ", '"x. ', "[c1 ", "[c1234abcd] ", "1. \n", "\n", "。", "A B.\n", "\u3000."]
)
def test_long_texts_cost_linear_time(piece: str) -> None:
    def took(n: int) -> float:
        text = piece * (n // len(piece))
        begin = time.process_time()
        SPLITTER.split(text)
        return time.process_time() - begin

    small, large = took(50_000), took(400_000)
    # Eight times the text: quadratic would be 64 times the time.
    assert large < 30 * small + 0.5
