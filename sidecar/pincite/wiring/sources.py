"""The extractors and the tokenizer that ingest and verification share."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from pincite.domain.protocols import SourceReader, Tokenizer
from pincite.ingest.extractors import ExtractorSet


@lru_cache(maxsize=1)
def extractor_set() -> ExtractorSet:
    """All extractors, by file suffix."""
    from pincite.adapters.pdfium import PdfiumExtractor
    from pincite.ingest.extract_text import MarkdownExtractor, PlainTextExtractor

    return ExtractorSet([PlainTextExtractor(), MarkdownExtractor(), PdfiumExtractor()])


@lru_cache(maxsize=1)
def tokenizer() -> Tokenizer:
    """The chunker's WordPiece tokenizer."""
    from pincite.adapters.wordpiece import WordPieceTokenizer

    return WordPieceTokenizer.bundled()


def directory_reader(root: Path) -> SourceReader:
    """Re-reads source files below a folder."""
    from pincite.ingest.read_source import DirectoryReader

    return DirectoryReader(root, extractor_set())
