"""From bytes to a source document, and back to the file."""

from pathlib import Path
from typing import Any

import pytest
from make_pdf import make_pdf

from pincite.adapters.pdfium import PdfiumExtractor
from pincite.domain import ids
from pincite.domain.errors import SourceError, UserError
from pincite.domain.protocols import SourceReader
from pincite.domain.types import SourceDocument
from pincite.ingest.extract_text import MarkdownExtractor, PlainTextExtractor
from pincite.ingest.extractors import ExtractorSet
from pincite.ingest.read_source import DirectoryReader, load_document

ALL = ExtractorSet([PlainTextExtractor(), MarkdownExtractor(), PdfiumExtractor()])


def load(raw: bytes, file_name: str, **more: Any) -> SourceDocument:
    return load_document(raw, file_name=file_name, uri="file:///x", extractors=ALL, collection="c", **more)


def test_a_document_in_full() -> None:
    raw = b"\xef\xbb\xbfone\r\ntwo"
    document = load(raw, "a/My_lease.txt", case_id="7", date="2024-02-29", acl=["x", "y"])
    assert document.text == "one\r\ntwo"
    assert document.content_hash == ids.content_hash(raw)
    assert document.source_id == ids.source_id("c", "a/My_lease.txt")
    assert (document.file_name, document.title, document.media_type) == (
        "a/My_lease.txt",
        "My lease",
        "text/plain",
    )
    assert (document.case_id, document.date, document.acl) == ("7", "2024-02-29", ("x", "y"))
    assert (document.n_bytes, document.pages, document.warnings) == (len(raw), (), ())
    assert str(document.extractor) == "text@1"


def test_whose_title() -> None:
    assert load(b"# Lease\n", "a.md").title == "Lease"
    assert load(b"# Lease\n", "a.md", title=" Mine ").title == "Mine"
    assert load(b"# Lease\n", "a.md", title="  ").title == "Lease"
    assert load(b"plain", "a_b.md").title == "a b"


def test_the_callers_id() -> None:
    assert load(b"x", "a.txt", source_id="mine").source_id == "mine"


@pytest.mark.parametrize("date", ["2023-02-29", "2023-1-1", "20230101", "", "2023-01-01T00:00"])
def test_a_date_is_a_date(date: str) -> None:
    with pytest.raises(UserError) as caught:
        load(b"x", "a.txt", date=date)
    assert caught.value.code == "date_invalid"


def test_a_source_that_cannot_be_taken_in_is_named() -> None:
    for raw, file_name, code in [
        (b"", "a.txt", "source_empty"),
        (b"x", "a.docx", "source_type_unknown"),
        (b"\x80", "a.md", "source_encoding_unknown"),
        (b"x", "a.pdf", "source_broken"),
    ]:
        with pytest.raises(SourceError) as caught:
            load(raw, file_name)
        assert (caught.value.code, caught.value.subject) == (code, file_name)


def test_the_reader_reads_what_was_loaded(tmp_path: Path) -> None:
    pdf = make_pdf([b"one", b"two"])
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.pdf").write_bytes(pdf)
    reader: SourceReader = DirectoryReader(tmp_path, ALL)
    document = load(pdf, "sub/a.pdf")
    assert reader.read("sub/a.pdf") == (document.content_hash, document.text, document.pages)


@pytest.mark.parametrize(
    "file_name", ["../secret.txt", "/etc/hostname.txt", "a/../../secret.txt", "out.txt", "out/secret.txt", ""]
)
def test_the_reader_never_leaves_the_folder(tmp_path: Path, file_name: str) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "secret.txt").write_text("secret")
    (tmp_path / "secret.txt").write_text("secret")
    root = tmp_path / "root"
    (root / "a").mkdir(parents=True)
    (root / "out").symlink_to(tmp_path / "other")
    (root / "out.txt").symlink_to(tmp_path / "secret.txt")
    with pytest.raises(SourceError) as caught:
        DirectoryReader(root, ALL).read(file_name)
    assert caught.value.code == "source_outside_root"


@pytest.mark.parametrize(
    ("file_name", "code"),
    [
        ("none.txt", "source_missing"),
        ("none/a.txt", "source_missing"),
        ("x" * 300 + ".txt", "source_missing"),
        ("loop.txt", "source_missing"),
        ("half\ud800.txt", "source_missing"),
        ("nul\0.txt", "source_outside_root"),
        ("folder.txt", "source_unreadable"),
        ("a.docx", "source_type_unknown"),
        ("empty.txt", "source_empty"),
    ],
)
def test_the_reader_names_what_it_cannot_read(tmp_path: Path, file_name: str, code: str) -> None:
    (tmp_path / "folder.txt").mkdir()
    (tmp_path / "loop.txt").symlink_to(tmp_path / "loop.txt")
    (tmp_path / "a.docx").write_text("x")
    (tmp_path / "empty.txt").write_text("")
    with pytest.raises(SourceError) as caught:
        DirectoryReader(tmp_path, ALL).read(file_name)
    assert (caught.value.code, caught.value.subject) == (code, file_name)


def test_the_folder_itself_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "a.txt").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert DirectoryReader(tmp_path / "link", ALL).read("a.txt")[1] == "x"
