"""The forensic chunker: every promise, on hard and on random texts."""

import time
from collections.abc import Sequence
from itertools import pairwise

import pytest
import regex
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pincite.adapters.wordpiece import WordPieceTokenizer
from pincite.domain.errors import SourceError
from pincite.domain.types import Chunk, Page, SourceDocument, Span, Versioned
from pincite.ingest.chunk_forensic import CHUNKER, chunk, spans, windows

ALPHABET = "ab, .\n\r\t\x0c中文한글\u1100\u1161\u11a8e\u0301\u0323\u200b\u200d\ufeff\u00a0\u2028"
ALPHABET += "👨👩🏽\U0001f1e6\U0001f1e7क\u094d\u093f\u0600\u0e33\U00020000ŉİ\x1c\ufffd\ufffe"
TEXTS = st.one_of(st.text(ALPHABET, max_size=120), st.text(max_size=120))


@pytest.fixture(scope="module")
def tokenizer() -> WordPieceTokenizer:
    return WordPieceTokenizer.bundled()


def document(text: str, pages: Sequence[Page] = ()) -> SourceDocument:
    return SourceDocument(
        source_id="s1",
        content_hash="0" * 64,
        uri="file:///a.txt",
        file_name="a.txt",
        media_type="text/plain",
        title="A",
        text=text,
        pages=tuple(pages),
        extractor=Versioned(id="text", version="1"),
        case_id="case 7",
        date="2024-02-29",
        acl=("team",),
    )


def check_spans(text: str, tokens: Sequence[Span], pairs: Sequence[tuple[Span, Span]]) -> None:
    """Every promise of the module's docstring, each computed the slow way."""
    boundaries = {0, *(m.end() for m in regex.finditer(r"\X", text))}
    covered: set[int] = set()
    for token_span, span in pairs:
        covered.update(range(span.start, span.end))
        assert span.start in boundaries and span.end in boundaries
        piece = span.slice(text)
        assert piece.strip(), "an empty chunk"
        # White space at an end is part of a cluster with a character that counts.
        clusters = regex.findall(r"\X", piece)
        assert clusters[0].strip() and clusters[-1].strip()
        for token in tokens[token_span.start : token_span.end]:
            assert span.start <= token.start and token.end <= span.end
    lost = [i for i, c in enumerate(text) if not c.isspace() and i not in covered]
    assert not lost
    char_spans = [span for _, span in pairs]
    assert len({(s.start, s.end) for s in char_spans}) == len(char_spans)
    for one, two in pairwise(char_spans):
        assert one.start <= two.start and one.end <= two.end


@settings(max_examples=400, deadline=None)
@given(TEXTS, st.integers(1, 6), st.data())
@example("e\u0301" * 30, 2, None)
@example("한" * 10, 2, None)
@example("\u200b\u200bword\u200b \u0301 next", 1, None)
@example("!" + "\u093f" * 30, 2, None)
def test_spans_keep_every_promise(
    tokenizer: WordPieceTokenizer, text: str, stride: int, data: st.DataObject | None
) -> None:
    window = stride * 2 if data is None else data.draw(st.integers(stride, 2 * stride))
    tokens = tokenizer.tokenize(text).spans
    pairs = list(spans(text, tokens, window=window, stride=stride))
    assert bool(pairs) == bool(tokens)
    if tokens:
        check_spans(text, tokens, pairs)


@settings(max_examples=60, deadline=None)
@given(st.text(ALPHABET, min_size=1, max_size=60), st.integers(1, 60))
def test_chunks_keep_every_promise(tokenizer: WordPieceTokenizer, unit: str, times: int) -> None:
    text = unit * times
    tokens = tokenizer.tokenize(text).spans
    if not tokens:
        with pytest.raises(SourceError) as caught:
            chunk(document(text), tokenizer, "r1")
        assert caught.value.code == "source_has_no_text"
        return
    chunks = chunk(document(text), tokenizer, "r1")
    check_spans(text, tokens, [(c.provenance.token_span, c.provenance.char_span) for c in chunks])
    assert [c.provenance.ordinal for c in chunks] == list(range(len(chunks)))
    assert len({c.chunk_id for c in chunks}) == len(chunks)
    for c in chunks:
        assert text[c.provenance.char_span.start : c.provenance.char_span.end] == c.text
        assert 1 <= c.n_tokens <= 200
        assert c.n_tokens == len(c.provenance.token_span)


@pytest.mark.parametrize(
    ("n_tokens", "expected"),
    [
        (0, []),
        (1, [(0, 1)]),
        (200, [(0, 200)]),
        (201, [(0, 200), (100, 201)]),
        (300, [(0, 200), (100, 300)]),
        (301, [(0, 200), (100, 300), (200, 301)]),
    ],
)
def test_windows_are_the_papers(n_tokens: int, expected: list[tuple[int, int]]) -> None:
    got = [(w.start, w.end) for w in windows(n_tokens, window=200, stride=100)]
    assert got == expected
    if n_tokens:
        # LawRAG §3.1: k = 1 … ⌈(n − w)/s⌉ + 1, and one window for a text shorter than a window.
        assert len(got) == max(-(-(n_tokens - 200) // 100), 0) + 1


def test_a_stride_beyond_the_window_is_refused() -> None:
    with pytest.raises(ValueError, match="lose tokens"):
        list(windows(10, window=2, stride=3))


def test_provenance_in_full(tokenizer: WordPieceTokenizer) -> None:
    text = " ".join(f"w{i}" for i in range(150))
    first, second = chunk(document("\n" + text + "\n"), tokenizer, "run 1")[:2]
    assert first.provenance.passage_id == "p0"
    assert second.provenance.passage_id == "p1"
    assert first.provenance.token_span == Span(start=0, end=200)
    assert second.provenance.token_span.start == 100
    assert first.provenance.char_span.start == 1
    assert first.provenance.chunker == CHUNKER == Versioned(id="forensic", version="1")
    assert first.provenance.ingest_run == "run 1"
    assert (first.provenance.case_id, first.date, first.acl) == ("case 7", "2024-02-29", ("team",))
    assert (first.provenance.page_start, first.provenance.page_label_end) == (None, None)
    assert first.provenance.section_path == ()


def test_the_id_names_the_content_and_nothing_of_the_run(tokenizer: WordPieceTokenizer) -> None:
    def run_ids(run: str) -> list[str]:
        return [c.chunk_id for c in chunk(document("some words " * 300), tokenizer, run)]

    assert run_ids("a") == run_ids("b")


def test_characters_in_no_token_belong_to_their_neighbours(tokenizer: WordPieceTokenizer) -> None:
    text = "\u200bcafe\u0301\u0323\u200b \u200b"
    (only,) = chunk(document(text), tokenizer, "r")
    assert only.text == text


def test_a_syllable_of_three_tokens_is_never_cut(tokenizer: WordPieceTokenizer) -> None:
    # Twenty words of ten syllables: 600 tokens, three equal spans a syllable. Token 200 is the last third
    # of syllable 66, so the first window ends with that syllable and the third begins with it.
    chunks = chunk(document(("한" * 10 + " ") * 20), tokenizer, "r")
    assert [c.text.count("한") for c in chunks] == [67, 67, 68, 67, 67]
    assert [c.n_tokens for c in chunks] == [200] * 5


def test_windows_within_one_cluster_are_one_chunk(tokenizer: WordPieceTokenizer) -> None:
    # One cluster of 301 tokens: a Devanagari vowel sign is a token and joins what is before it.
    text = "!" + "\u093f" * 100
    tokens = tokenizer.tokenize(text).spans
    assert len(tokens) == 101
    pairs = list(spans(text, tokens, window=4, stride=2))
    assert [(c.start, c.end) for _, c in pairs] == [(0, 101)]


def test_pages_and_labels(tokenizer: WordPieceTokenizer) -> None:
    words = "word " * 149 + "word"
    parts = [words, "", words, words]
    text = "\n\f".join(parts)
    pages = []
    at = 0
    for number, (part, label) in enumerate(zip(parts, ["i", "ii", None, "1"], strict=True), start=1):
        pages.append(Page(number=number, span=Span(start=at, end=at + len(part)), label=label))
        at += len(part) + 2
    chunks = chunk(document(text, pages), tokenizer, "r")
    # 450 tokens: pages 1, 3 and 4 hold tokens 0-149, 150-299 and 300-449; page 2 is blank.
    assert [(c.provenance.token_span.start, c.provenance.token_span.end) for c in chunks] == [
        (0, 200),
        (100, 300),
        (200, 400),
        (300, 450),
    ]
    where = [(c.provenance.page_start, c.provenance.page_end) for c in chunks]
    assert where == [(1, 3), (1, 3), (3, 4), (4, 4)]
    labels = [(c.provenance.page_label_start, c.provenance.page_label_end) for c in chunks]
    assert labels == [("i", None), ("i", None), (None, "1"), ("1", "1")]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.text("ab 中\u0301\n", max_size=12), min_size=1, max_size=12))
def test_pages_are_those_that_share_a_character(tokenizer: WordPieceTokenizer, parts: list[str]) -> None:
    text = "\n\f".join(parts)
    pages = []
    at = 0
    for number, part in enumerate(parts, start=1):
        pages.append(Page(number=number, span=Span(start=at, end=at + len(part))))
        at += len(part) + 2
    if not tokenizer.tokenize(text).spans:
        return
    for c in chunk(document(text, pages), tokenizer, "r"):
        span = c.provenance.char_span
        shared = [p.number for p in pages if max(p.span.start, span.start) < min(p.span.end, span.end)]
        assert (c.provenance.page_start, c.provenance.page_end) == (shared[0], shared[-1])


def test_pages_that_touch(tokenizer: WordPieceTokenizer) -> None:
    """A third-party extractor may join its pages without a break; one page may be blank."""
    # 300 tokens, each with the space behind it; a window's last space is not in its chunk.
    text = "中 " * 300
    bounds = [0, 200, 200, 399, 600]
    pages = [Page(number=n, span=Span(start=bounds[n - 1], end=bounds[n])) for n in range(1, 5)]
    chunks = chunk(document(text, pages), tokenizer, "r")
    assert [(c.provenance.char_span.start, c.provenance.char_span.end) for c in chunks] == [
        (0, 399),
        (200, 599),
    ]
    assert [(c.provenance.page_start, c.provenance.page_end) for c in chunks] == [(1, 3), (3, 4)]
    # Text behind the last page counts to it.
    chunks = chunk(document(text, pages[:1]), tokenizer, "r")
    assert [(c.provenance.page_start, c.provenance.page_end) for c in chunks] == [(1, 1), (1, 1)]


@pytest.mark.parametrize("text", ["\u200b\u200d\ufeff", "\u0301", " \n", ""])
def test_text_without_a_word_is_an_error(tokenizer: WordPieceTokenizer, text: str) -> None:
    with pytest.raises(SourceError) as caught:
        chunk(document(text), tokenizer, "r")
    assert caught.value.code == "source_has_no_text"
    assert caught.value.subject == "a.txt"


def test_a_long_contract_takes_under_two_seconds(tokenizer: WordPieceTokenizer) -> None:
    text = "The Parties shall keep the “Confidential Information” secret, § 4.2.\r\n" * 5800
    assert len(text) > 400_000
    took = []
    for _ in range(3):  # the best of three: other processes share the machine
        start = time.process_time()
        chunks: list[Chunk] = chunk(document(text), tokenizer, "r")
        took.append(time.process_time() - start)
    assert min(took) < 2
    assert chunks[-1].provenance.char_span.end == len(text.rstrip())
