"""Grapheme boundaries, against the plain walk over the whole text."""

import time

import pytest
import regex
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pincite.text.graphemes import Graphemes, extend_to_grapheme_end

JOINING = "a\u0301\u0308\u200d\u0600 \r\n中👨👩🏽"
JOINING += "\u1100\u1161\u11a8가각\U0001f1e6\U0001f1e7क\u094dष\u093f\u0e33\ufe0f❤"
TEXTS = st.one_of(st.text(JOINING, max_size=40), st.text(max_size=40))


@settings(deadline=None)
@given(TEXTS)
@example("\U0001f1e6\U0001f1e7\U0001f1e8\u0301\U0001f1e9\U0001f1ea")
@example("\u0600\U0001f1e6\U0001f1e7\U0001f1e8\U0001f1e9")
@example("👨\u200d👩\u0301\u200d👩🏽x")
@example("क\u094d\u200dषक")
def test_boundaries_are_those_of_the_plain_walk(text: str) -> None:
    boundaries = [0, *(m.end() for m in regex.finditer(r"\X", text))]
    graphemes = Graphemes(text)
    for index in range(len(text) + 1):
        assert graphemes.end_at_or_after(index) == min(b for b in boundaries if b >= index)
        assert graphemes.start_at_or_before(index) == max(b for b in boundaries if b <= index)


def test_extend() -> None:
    assert extend_to_grapheme_end("cafe\u0301!", 4) == 5
    assert extend_to_grapheme_end("ab\r\n", 3) == 4
    assert extend_to_grapheme_end("abc", 2) == 2


@pytest.mark.parametrize(
    "unit", ["\U0001f1e6", "a\u0301", "\u0301", "👨\u200d", "\u1100", "中", "\r\n", "\u0600", "é"]
)
def test_time_is_linear(unit: str) -> None:
    # A plain ``\X`` walk over a row of 38,000 flags takes ten seconds, and four times that for twice as many.
    start = time.perf_counter()
    Graphemes(unit * (400_000 // len(unit)))
    assert time.perf_counter() - start < 5
