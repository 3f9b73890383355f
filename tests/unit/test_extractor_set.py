"""Choice of the extractor."""

import pytest

from pincite.adapters.pdfium import PdfiumExtractor
from pincite.domain.errors import SourceError
from pincite.domain.protocols import Extracted
from pincite.domain.types import Page, Span, Versioned
from pincite.ingest.extract_text import MarkdownExtractor, PlainTextExtractor
from pincite.ingest.extractors import ExtractorSet
from pincite.testing.extractors import check_extractor

ALL = ExtractorSet([PlainTextExtractor(), MarkdownExtractor(), PdfiumExtractor()])


def test_by_suffix_in_any_case() -> None:
    assert ALL.for_file("a/B.TXT").media_type == "text/plain"
    assert ALL.for_file("a.b.markdown").media_type == "text/markdown"
    assert ALL.for_file("x.Pdf").media_type == "application/pdf"
    assert ALL.takes("a.text")
    assert not ALL.takes("pdf")


@pytest.mark.parametrize("file_name", ["a.docx", "README", "folder.txt/file", ".txt"])
def test_unknown_type_names_what_is_known(file_name: str) -> None:
    with pytest.raises(SourceError) as caught:
        ALL.for_file(file_name)
    assert caught.value.code == "source_type_unknown"
    assert caught.value.subject == file_name
    for suffix in (".md", ".pdf", ".txt"):
        assert suffix in caught.value.mend


def test_two_extractors_for_one_suffix() -> None:
    with pytest.raises(ValueError, match=r"two extractors take \.(txt|text)"):
        ExtractorSet([PlainTextExtractor(), PlainTextExtractor()])


class ThirdParty:
    """An extractor as a third party might write it, with one fault at a time."""

    extractor = Versioned(id="third", version="1")
    suffixes = frozenset({".xyz"})
    media_type = "text/x-xyz"

    def __init__(self, extracted: Extracted) -> None:
        self._extracted = extracted

    def extract(self, raw: bytes, *, file_name: str) -> Extracted:
        if not raw:
            raise SourceError("source_empty", "nothing", mend="fill it", subject=file_name)
        return self._extracted


def page(number: int, start: int, end: int) -> Page:
    return Page(number=number, span=Span(start=start, end=end))


def test_the_conformance_check_passes_a_good_extractor() -> None:
    good = Extracted(text="one\n\ftwo", pages=(page(1, 0, 3), page(2, 5, 8)), title="One")
    check_extractor(ThirdParty(good), {"a.xyz": b"x"})


@pytest.mark.parametrize(
    ("extracted", "fault"),
    [
        (Extracted(text="  ", pages=()), "no text"),
        (Extracted(text="a\0b", pages=()), "NUL"),
        (Extracted(text="a\ud800b", pages=()), "UTF-8"),
        (Extracted(text="a", pages=(), title=" "), "blank title"),
        (Extracted(text="ab", pages=(page(2, 0, 2),)), "page 2 where 1"),
        (Extracted(text="ab", pages=(page(1, 0, 2), page(2, 1, 2))), "within the page before"),
        (Extracted(text="ab", pages=(page(1, 0, 3),)), "beyond the text"),
        (Extracted(text="abc", pages=(page(1, 0, 1), page(2, 2, 3))), "on no page"),
    ],
)
def test_the_conformance_check_finds_each_fault(extracted: Extracted, fault: str) -> None:
    with pytest.raises(AssertionError, match=fault):
        check_extractor(ThirdParty(extracted), {"a.xyz": b"x"})


def test_the_conformance_check_wants_errors_for_broken_files() -> None:
    with pytest.raises(AssertionError, match="without an error"):
        check_extractor(ThirdParty(Extracted(text="a", pages=())), {}, broken={"b.xyz": b"broken"})
