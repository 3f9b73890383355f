"""Plain text and Markdown."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pincite.ingest.extract_text import MarkdownExtractor, PlainTextExtractor, first_heading
from pincite.testing.extractors import check_extracted, check_extractor

SAMPLES = {
    "a": "one\r\ntwo\rthree\u2028four".encode(),
    "b": b"\xef\xbb\xbf# Title\n\ntext",
    "c": b"\xff\xfe" + "第一章 总则\n".encode("utf-16-le"),
    "d": "Ti\u00eau \u0111e\u0302\u0300 👨\u200d👩\u200d👧".encode(),
}
BROKEN = {"e": b"\xff\xfe\x00\x00a\0\0\0", "f": b"%PDF-1.4", "g": b" \n", "h": b"\x80"}


@pytest.mark.parametrize("extractor", [PlainTextExtractor(), MarkdownExtractor()])
def test_conformance(extractor: PlainTextExtractor | MarkdownExtractor) -> None:
    check_extractor(extractor, SAMPLES, broken=BROKEN)


@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=("Cs", "Cc"))).map(lambda t: "x" + t))
def test_the_text_is_the_file(text: str) -> None:
    for extractor in (PlainTextExtractor(), MarkdownExtractor()):
        extracted = extractor.extract(text.encode(), file_name="a.txt")
        check_extracted(extracted)
        assert extracted.text == text
        assert extracted.pages == ()


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("# Lease agreement #\n\nbody", "Lease agreement"),
        ("intro\n\n## Second *level*\n# First", "Second *level*"),
        ("Title\n=====\n", "Title"),
        ("Title\r\n---\r\n", "Title"),
        ("old\rmac\r\rTitle\r===\r", "Title"),
        ("---\ntitle: front\n---\n\n# Real\n", "Real"),
        ("---\ntitle: front\n---\n\nno heading\n", None),
        ("```\n# code\n```\n# Real", "Real"),
        ("~~~~\n# code\n~~~\n# code\n~~~~\n# Real", "Real"),
        ("- item\n---\n# Real", "Real"),
        ("> quote\n---\n# Real", "Real"),
        ("    # indented code\n# Real", "Real"),
        ("#hashtag\n\n#\n\n# Real", "Real"),
        ("# " + "x" * 300 + "\n# Real", "Real"),
        ("para\n\n---\n\n# Real", "Real"),
        ("no heading at all", None),
        ("a | b\n--- | ---\n", None),
    ],
)
def test_first_heading(text: str, title: str | None) -> None:
    assert first_heading(text) == title


@settings(deadline=None)
@given(st.text("# \n=-`~a\r\t>", max_size=60))
def test_a_heading_is_one_line_of_the_text(text: str) -> None:
    title = first_heading(text)
    assert title is None or (title and title in " ".join(text.split()))
