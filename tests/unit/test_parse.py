"""Citation markers: the closed set, what models make of them, and that parsing stays linear."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pincite.answer.parse import parse
from pincite.domain.types import Span
from pincite.text.sentences import LegalSentenceSplitter

KNOWN = {"c1234abcd", "cffffffff"}
SPLITTER = LegalSentenceSplitter()


def ids_and_errors(text: str) -> tuple[str, list[str], list[str]]:
    parsed = parse(text, KNOWN)
    return (
        parsed.text,
        [i for m in parsed.markers for i in m.ids],
        [e.code for m in parsed.markers for e in m.errors],
    )


@pytest.mark.parametrize(
    ("text", "shown", "ids"),
    [
        ("Rent is due [c1234abcd].", "Rent is due.", ["c1234abcd"]),
        ("Rent is due. [c1234abcd]", "Rent is due.", ["c1234abcd"]),
        ("Rent is due.[c1234abcd]", "Rent is due.", ["c1234abcd"]),
        ("Rent is due [c1234abcd, cffffffff].", "Rent is due.", ["c1234abcd", "cffffffff"]),
        ("Rent is due [c1234abcd][cffffffff].", "Rent is due.", ["c1234abcd", "cffffffff"]),
        ("租金到期【c1234abcd】。", "租金到期。", ["c1234abcd"]),
        ("租金到期【ｃ１２３４ａｂｃｄ】。", "租金到期。", ["c1234abcd"]),
        ("Rent [C1234ABCD] is due.", "Rent is due.", ["c1234abcd"]),
        ("Rent is due (c1234abcd).", "Rent is due.", ["c1234abcd"]),
        ("Rent is due `[c1234abcd]`.", "Rent is due.", ["c1234abcd"]),
        ("Rent is due [c1234abcd](https://evil.example).", "Rent is due.", ["c1234abcd"]),
        ("See [Company] and x[i] and [●].", "See [Company] and x[i] and [●].", []),
        ("Code `a[0]` stays.", "Code `a[0]` stays.", []),
        ("```\na[0] = [1]\n```\nEnd [c1234abcd].", "```\na[0] = [1]\n```\nEnd.", ["c1234abcd"]),
    ],
)
def test_markers_that_resolve_and_brackets_that_are_text(text: str, shown: str, ids: list[str]) -> None:
    assert ids_and_errors(text) == (shown, ids, [])


@pytest.mark.parametrize(
    "marker",
    [
        "[1]", "[0]", "[12]", "[^1]", "[#3]", "[1, 2]", "[1-3]", "[c99999999]", "[c0]", "[cXXXXXXXX]", "[source]",
        "[Source 1]", "[doc 2]", "[citation needed]", "[citation_id]", "[passage 3]", "【3†source】",
        "（c99999999）", "[id]", "[c1234abcd, c99999999]", "[c1234abcd, p. 3]", "c99999999",
    ],
)  # fmt: skip
def test_markers_that_are_none_are_errors_and_are_not_shown(marker: str) -> None:
    text, _, errors = ids_and_errors(f"Rent is due {marker}.")
    assert errors, marker
    assert text == "Rent is due."


def test_links_lose_their_targets() -> None:
    parsed = parse("See [the form](https://evil.example/x) or <https://evil.example>. [c1234abcd]", KNOWN)
    assert parsed.text == "See the form or https://evil.example."
    assert len(parsed.links) == 2


def test_each_marker_belongs_to_one_sentence() -> None:
    text = "One [c1234abcd]. Two. [cffffffff] Three.\n\nFour. [1]"
    parsed = parse(text, KNOWN)
    spans = SPLITTER.split(parsed.text)
    owned = parsed.assign(spans)
    assert [s.slice(parsed.text) for s in spans] == ["One.", "Two.", "Three.", "Four."]
    assert [[i for m in ms for i in m.ids] for ms in owned] == [["c1234abcd"], ["cffffffff"], [], []]
    assert [e.raw for e in owned[3][0].errors] == ["1"]


def test_raw_gives_back_brackets_and_links_but_not_markers() -> None:
    sentence = "See [1] of [the annex](https://a.example) for it."
    parsed = parse(f"{sentence} [c1234abcd]", KNOWN)
    spans = SPLITTER.split(parsed.text)
    assert len(spans) == 1
    assert parsed.raw(spans[0], parsed.assign(spans)[0]) == sentence


PIECES = st.sampled_from(
    ["[", "]", "【", "】", "(", ")", "`", "```", "\n", " ", ".", "c1234abcd", "c99999999", "1", "x", "source",
     "](", "http://a", "<http://a>", "!", "词", "😀", ",", "^", "†"]
)  # fmt: skip


@settings(max_examples=500, deadline=None)
@given(st.one_of(st.text(max_size=200), st.lists(PIECES, max_size=60).map("".join)))
def test_whatever_comes_in_the_text_maps_back_and_no_marker_is_shown(text: str) -> None:
    parsed = parse(text, KNOWN)
    assert len(parsed.origin) == len(parsed.text)
    assert all(text[o] == c for o, c in zip(parsed.origin, parsed.text, strict=True))
    assert list(parsed.origin) == sorted(set(parsed.origin))
    for marker in parsed.markers:
        assert set(marker.ids) <= KNOWN
        assert marker.ids or marker.errors
        assert 0 <= marker.at <= len(parsed.text)
    spans = SPLITTER.split(parsed.text)
    owned = parsed.assign(spans)
    assert len(owned) == len(spans)
    if spans:
        assert sum(len(ms) for ms in owned) == len(parsed.markers)
    for span, markers in zip(spans, owned, strict=True):
        assert isinstance(parsed.raw(span, markers), str)
    assert parsed.raw(Span(start=0, end=0), ()) == ""


@pytest.mark.parametrize(
    "piece", ["[", "[c1234abcd", "[[1]", "(", "`", "](", "[a](", "<http:", "```\n", "[1] ", "c1"]
)
def test_parsing_is_linear(piece: str) -> None:
    def took(n: int) -> float:
        text = piece * (n // len(piece))
        begin = time.process_time()
        parse(text, KNOWN)
        return time.process_time() - begin

    small, large = took(40_000), took(320_000)
    assert large < 30 * small + 0.5
