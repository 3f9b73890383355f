"""Ingest over real documents: contracts, hard texts, encodings, PDFs."""

import codecs
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from pincite.adapters.pdfium import PdfiumExtractor
from pincite.adapters.wordpiece import WordPieceTokenizer
from pincite.domain.errors import SourceError
from pincite.domain.types import SourceDocument
from pincite.ingest.chunk_forensic import chunk
from pincite.ingest.extract_text import MarkdownExtractor, PlainTextExtractor
from pincite.ingest.extractors import ExtractorSet
from pincite.ingest.read_source import DirectoryReader, load_document
from pincite.ingest.walk import read_bytes, walk
from pincite.testing.extractors import check_extracted

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(os.environ.get("PINCITE_TEST_DATA", ROOT.parent / "shared" / "data"))
pytestmark = [pytest.mark.data, pytest.mark.skipif(not DATA.is_dir(), reason="PINCITE_TEST_DATA is not here")]

EXTRACTORS = ExtractorSet([PlainTextExtractor(), MarkdownExtractor(), PdfiumExtractor()])


def lines(name: str) -> list[dict[str, Any]]:
    path = DATA / name
    if not path.is_file():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def load(raw: bytes, file_name: str) -> SourceDocument:
    return load_document(raw, file_name=file_name, uri="", extractors=EXTRACTORS, collection="c")


@pytest.fixture(scope="module")
def bundled() -> WordPieceTokenizer:
    return WordPieceTokenizer.bundled()


HARD_TEXTS = lines("offsets/hard_texts_wordpiece_public.jsonl")


@pytest.mark.parametrize("item", HARD_TEXTS, ids=[item["id"] for item in HARD_TEXTS])
def test_offsets_of_hard_texts(item: dict[str, Any], bundled: WordPieceTokenizer) -> None:
    given = [tuple(pair) for pair in item["uncased"]["offsets"]]
    from_vocab = WordPieceTokenizer.from_vocab(DATA / "offsets" / "bert_uncased_vocab.txt")
    for tokenizer in (bundled, from_vocab):
        spans = tokenizer.tokenize(item["text"]).spans
        assert [(s.start, s.end) for s in spans] == given
        assert [s.slice(item["text"]) for s in spans] == item["uncased"]["slices"]


@pytest.mark.parametrize("item", HARD_TEXTS, ids=[item["id"] for item in HARD_TEXTS])
def test_chunks_of_hard_texts(item: dict[str, Any], bundled: WordPieceTokenizer) -> None:
    text = item["text"]
    try:
        document = load(text.encode("utf-8"), "hard.txt")
        chunks = chunk(document, bundled, "r")
    except SourceError as error:
        assert error.code in {"source_empty", "source_has_no_text"}
        assert not item["uncased"]["offsets"]
        return
    assert document.text == text
    assert [c.text for c in chunks] == [text.strip()]


def test_contracts_are_sliced_to_the_character(bundled: WordPieceTokenizer) -> None:
    folder = DATA / "legalbench_rag" / "docs"
    walked = walk([folder], EXTRACTORS)
    assert len(walked.files) == 10
    reader = DirectoryReader(folder, EXTRACTORS)
    for found in walked.files:
        raw = read_bytes(found.path, file_name=found.file_name)
        document = load(raw, found.file_name)
        assert document.text.encode("utf-8") == raw.removeprefix(codecs.BOM_UTF8)
        start = time.process_time()
        chunks = chunk(document, bundled, "r")
        assert time.process_time() - start < 4
        assert reader.read(found.file_name) == (document.content_hash, document.text, ())
        covered = 0
        for c in chunks:
            span = c.provenance.char_span
            assert document.text[span.start : span.end] == c.text == c.text.strip()
            assert not document.text[covered : span.start].strip()
            covered = max(covered, span.end)
        assert not document.text[covered:].strip()


def test_located_quotes_count_in_the_text_that_ingest_stores() -> None:
    """The set's spans count a byte order mark as a character; the canonical text has none."""
    n_exact = 0
    for item in lines("legalbench_rag/legalbench_rag_qa_public.jsonl"):
        path = DATA / "legalbench_rag" / item["file"]
        raw = path.read_bytes()
        text = load(raw, path.name).text
        mark = 1 if raw.startswith(codecs.BOM_UTF8) else 0
        for quote in item["quotes"]:
            if quote["status"] == "exact":
                assert [text[a - mark : b - mark] for a, b in quote["spans"]] == [quote["quote"]]
                n_exact += 1
    assert n_exact > 50


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("lcl_reference_utf8.txt", None),
        ("lcl_cr_only.txt", None),
        ("lcl_mixed_newlines_u2028.txt", None),
        ("lcl_utf16le_bom.txt", None),
        ("lcl_utf8_bom_crlf.txt", None),
        ("lcl_gb18030.txt", "source_encoding_unknown"),
        ("lcl_big5_trad_fail.txt", "source_encoding_unknown"),
        ("lcl_invalid_utf8.txt", "source_encoding_unknown"),
    ],
)
def test_one_law_in_eight_encodings(name: str, code: str | None, bundled: WordPieceTokenizer) -> None:
    raw = (DATA / "offsets" / "text_fixtures" / name).read_bytes()
    if code:
        with pytest.raises(SourceError) as caught:
            load(raw, name)
        assert (caught.value.code, caught.value.subject) == (code, name)
        assert name in caught.value.message
        return
    document = load(raw, name)
    reference = (DATA / "offsets" / "text_fixtures" / "lcl_reference_utf8.txt").read_bytes().decode("utf-8")
    assert document.text.split() == reference.split()
    encoding = "utf-16" if raw.startswith(b"\xff\xfe") else "utf-8-sig"
    assert document.text == raw.decode(encoding)
    for c in chunk(document, bundled, "r"):
        assert c.provenance.char_span.slice(document.text) == c.text


MANIFEST = [item for item in lines("pdfs/MANIFEST.jsonl") if (DATA / "pdfs" / item["file"]).is_file()]
PDF_ERRORS = {
    "empty.pdf": "source_empty",
    "image-pdf.pdf": "source_has_no_text",
    "poppler-85140-0.pdf": "source_has_no_text",
    "password-example.pdf": "source_encrypted",
    "crazyones-encrypted-256.pdf": "source_encrypted",
    "r6-user-password.pdf": "source_encrypted",
}


@pytest.mark.parametrize("item", MANIFEST, ids=[Path(item["file"]).name for item in MANIFEST])
def test_pdfs(item: dict[str, Any], bundled: WordPieceTokenizer) -> None:
    path = DATA / "pdfs" / item["file"]
    facts = item["facts"]
    if path.name in PDF_ERRORS:
        with pytest.raises(SourceError) as caught:
            load(path.read_bytes(), path.name)
        assert (caught.value.code, caught.value.subject) == (PDF_ERRORS[path.name], path.name)
        return
    extracted = PdfiumExtractor().extract(path.read_bytes(), file_name=path.name)
    check_extracted(extracted, name=path.name)
    if "pages" in facts:
        assert len(extracted.pages) == facts["pages"]
    if "labels" in facts:
        assert [p.label for p in extracted.pages] == facts["labels"]
    for number, words in facts.get("must_contain", {}).items():
        assert words in extracted.pages[int(number) - 1].span.slice(extracted.text)
    for fact in ("header", "hidden_text_example"):
        if fact in facts:
            assert facts[fact] in extracted.text
    document = load(path.read_bytes(), path.name)
    for c in chunk(document, bundled, "r"):
        span = c.provenance.char_span
        assert document.text[span.start : span.end] == c.text
        shared = [p.number for p in document.pages if max(p.span.start, span.start) < min(p.span.end, span.end)]
        assert (c.provenance.page_start, c.provenance.page_end) == (shared[0], shared[-1])
