"""PDF text by page."""

import re
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from make_pdf import make_pdf

from pincite.adapters import pdfium
from pincite.adapters.pdfium import PAGE_BREAK, PdfiumExtractor
from pincite.domain.errors import SourceError
from pincite.domain.protocols import Extracted
from pincite.testing.extractors import check_extracted, check_extractor


def extract(raw: bytes) -> Extracted:
    extracted = PdfiumExtractor().extract(raw, file_name="a.pdf")
    check_extracted(extracted, name="a.pdf")
    return extracted


def code(raw: bytes) -> str:
    with pytest.raises(SourceError) as caught:
        extract(raw)
    assert caught.value.subject == "a.pdf"
    return caught.value.code


def test_conformance() -> None:
    check_extractor(
        PdfiumExtractor(),
        {"one.pdf": make_pdf([b"one"]), "three.pdf": make_pdf([b"one", b"", b"three"])},
        broken={"text.pdf": b"plain text", "half.pdf": make_pdf([b"one"])[:40], "blank.pdf": make_pdf([b""])},
    )


def test_the_version_names_library_build_and_extraction() -> None:
    assert PdfiumExtractor().extractor.id == "pdfium"
    assert re.fullmatch(r"5\.15\.2-\d+-\d+", PdfiumExtractor().extractor.version)


def test_pages_are_physical_and_blank_ones_are_named() -> None:
    extracted = extract(make_pdf([b"first page", b"", b"third page"]))
    assert extracted.text == f"first page{PAGE_BREAK}{PAGE_BREAK}third page"
    assert [(p.number, p.span.slice(extracted.text)) for p in extracted.pages] == [
        (1, "first page"),
        (2, ""),
        (3, "third page"),
    ]
    assert extracted.warnings == ("1 page(s) without text: 2",)


def test_warnings_are_short_however_many_pages() -> None:
    pages = [b"a", *[b""] * 300, b"b", b"", b"c"]
    assert extract(make_pdf(pages)).warnings == ("301 page(s) without text: 2-301, 303",)


def test_pages_that_cannot_be_read() -> None:
    lying = make_pdf([b"one", b"two"]).replace(b"/Count 2", b"/Count 5")
    extracted = extract(lying)
    assert [p.span.slice(extracted.text) for p in extracted.pages] == ["one", "two", "", "", ""]
    assert extracted.warnings == ("3 page(s) cannot be read: 3-5",)
    # A million pages are claimed: no million attempts.
    assert code(make_pdf([b"one", b"two"]).replace(b"/Count 2", b"/Count 900000")) == "source_broken"


def test_a_hyphen_at_a_lines_end_is_printed_as_it_stands() -> None:
    lines = [b"the Soekarno-", b"Hatta airport"]
    content = b"BT /F1 12 Tf 14 TL 50 700 Td " + b" T* ".join(b"<%s> Tj" % x.hex().encode() for x in lines)
    plain = b"BT /F1 12 Tf 50 700 Td <%s> Tj ET" % b"x".hex().encode()
    raw = make_pdf([b"x"])
    assert plain in raw
    # The file's offsets no longer fit; pdfium rebuilds them.
    raw = raw.replace(
        b"<</Length %d>>stream\n%s" % (len(plain), plain),
        b"<</Length %d>>stream\n%s ET" % (len(content) + 3, content),
    )
    assert extract(raw).text == "the Soekarno-\nHatta airport"


def test_labels_are_the_printed_ones() -> None:
    pdf = make_pdf([b"a", b"b", b"c", b"d"], labels="0<</S/r/St 3>>2<</S/D>>3<</S/D/P(A-)>>")
    assert [p.label for p in extract(pdf).pages] == ["iii", "iv", "1", "A-1"]
    assert [p.label for p in extract(make_pdf([b"a", b"b"])).pages] == [None, None]


def test_no_cap_on_pages() -> None:
    extracted = extract(make_pdf([b"page %d" % n for n in range(1, 702)]))
    assert len(extracted.pages) == 701
    assert extracted.pages[-1].span.slice(extracted.text) == "page 701"


def test_rare_characters_survive_and_what_is_no_text_does_not() -> None:
    to_unicode = {
        0x41: "D840DC0B",  # U+2000B, outside the basic plane
        0x42: "D83DDE00",
        0x43: "D800",  # half a character
        0x44: "0041030A",  # two characters for one code
        0x45: "000C",  # a form feed, which would look like a page break
        0x46: "0001",
        0x47: "FFFE",
        0x48: "0002",  # pdfium's own mark of a hyphen at a line's end
        0x49: "0000",
    }
    extracted = extract(make_pdf([b"xAyBzCwDvEuFtGsHrIq", b"last"], to_unicode=to_unicode))
    first = extracted.pages[0].span.slice(extracted.text)
    marked = first.replace("\ufffd", "?")
    assert marked == "x\U0002000by\U0001f600z?wA\u030av?u?t?s?r?q"
    assert extracted.text.count("\f") == 1


@pytest.mark.parametrize(
    ("title", "expected"),
    [
        ("Lease of 1 Main Street", "Lease of 1 Main Street"),
        ("租赁合同", "租赁合同"),
        ("Microsoft Word - lease.docx", None),
        ("lease_final.indd", None),
        ("untitled", None),
        ("scan0001", None),
        ("x" * 300 + " y", None),
        (None, None),
    ],
)
def test_a_title_is_taken_when_an_author_wrote_it(title: str | None, expected: str | None) -> None:
    assert extract(make_pdf([b"a"], title=title)).title == expected


def test_errors_have_their_own_codes() -> None:
    assert code(b"") == "source_empty"
    assert code(b"not a PDF") == "source_broken"
    assert code(make_pdf([b"a"])[:60]) == "source_broken"
    assert code(make_pdf([b"", b""])) == "source_has_no_text"
    assert code(make_pdf([b"   "])) == "source_has_no_text"
    assert code(make_pdf([b"AA"], to_unicode={0x41: "0001"})) == "source_has_no_text"


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_damaged_files_are_read_or_named(data: st.DataObject) -> None:
    raw = bytearray(make_pdf([b"first", b"second"], labels="0<</S/r>>"))
    for _ in range(data.draw(st.integers(1, 12))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    del raw[data.draw(st.integers(1, len(raw))) :]
    try:
        extract(bytes(raw))
    except SourceError as error:
        assert error.code in {"source_broken", "source_has_no_text", "source_encrypted"}


def test_threads_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    pdfs = [make_pdf([b"page %d of %d" % (p, n) for p in range(20)]) for n in range(12)]
    alone = [extract(pdf) for pdf in pdfs]
    inside: list[str] = []
    most = 0
    read = pdfium._read

    def watched(raw: bytes, file_name: str) -> object:
        nonlocal most
        inside.append(file_name)
        most = max(most, len(inside))
        time.sleep(0.002)
        try:
            return read(raw, file_name)
        finally:
            inside.pop()

    monkeypatch.setattr(pdfium, "_read", watched)
    with ThreadPoolExecutor(max_workers=8) as pool:
        assert list(pool.map(extract, pdfs)) == alone
    assert most == 1
