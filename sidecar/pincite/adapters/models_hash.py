"""The ``hash`` encoder: weightless, seeded, deterministic. A registered engine, for tests and load runs.

Each word's vector is drawn from a generator seeded by the word, so equal words have cosine 1 and
different ones about 0: a bag of words with vectors. It is no model of meaning.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import regex

from pincite.domain.protocols import Encoded

if TYPE_CHECKING:
    from pincite.domain.protocols import FloatArray

_WORD = regex.compile(r"\p{Han}|[\p{L}\p{N}]+|[^\s\p{L}\p{N}]")


class HashEncoder:
    """Bag-of-words vectors from hashes.

    Args:
        dim: Dimensions of pooled and token vectors.
        seed: Another seed gives another, incompatible encoder.
    """

    def __init__(self, *, dim: int = 64, seed: int = 0) -> None:
        self._dim, self._seed = dim, seed
        self._vector = lru_cache(maxsize=65536)(self._draw)

    @property
    def encoder_id(self) -> str:
        """Name, dimensions and seed."""
        return f"hash-{self._dim}@{self._seed}"

    @property
    def dim(self) -> int:
        """Dimensions of the pooled vector."""
        return self._dim

    @property
    def token_dim(self) -> int:
        """Dimensions of a token vector."""
        return self._dim

    def encode_passages(self, texts: Sequence[str], *, contexts: Sequence[str] | None = None) -> list[Encoded]:
        """Encode passages; the words of a context count in the pooled vector alone."""
        before = contexts or [""] * len(texts)
        return [self._encode(text, context) for text, context in zip(texts, before, strict=True)]

    def encode_query(self, text: str) -> Encoded:
        """Encode one text."""
        return self._encode(text, "")

    def _encode(self, text: str, context: str) -> Encoded:
        tokens = np.stack([self._vector(word) for word in _WORD.findall(text.lower()) or [""]])
        pooled = tokens.sum(axis=0)
        for word in _WORD.findall(context.lower()):
            pooled = pooled + self._vector(word)
        norm = float(np.linalg.norm(pooled))
        unit = pooled / norm if norm > 0 else tokens[0]
        return Encoded(pooled=unit.astype(np.float32), tokens=tokens)

    def _draw(self, word: str) -> FloatArray:
        seed = int.from_bytes(hashlib.sha256(f"{self._seed}\x00{word}".encode()).digest()[:8], "big")
        vector = np.random.default_rng(seed).standard_normal(self._dim)
        return (vector / np.linalg.norm(vector)).astype(np.float32)
