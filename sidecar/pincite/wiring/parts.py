"""Registered engines: names in settings to encoders, rerankers and chat models.

Heavy engines are loaded at first use, so that a process that never needs one never pays for it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

from pincite.adapters.models_sbert import MINILM_DIM, MINILM_ID
from pincite.adapters.opensearch_indices import IndexModel
from pincite.domain.codec import TokenFormat
from pincite.domain.protocols import Encoded, Encoder, Reranker
from pincite.domain.types import Versioned
from pincite.encode.batches import CONTEXT_ID
from pincite.encode.shipped_codecs import shipped_codec_facts
from pincite.rank.identity import IdentityReranker
from pincite.text.scripts import latin_share

_MIN_LATIN_SHARE = 0.5
#: Queries whose vectors are kept: the hook's two calls, and pages of one search, encode once.
_QUERIES_KEPT = 128


class LazyEncoder:
    """An encoder that is loaded when first asked for; thread-safe.

    Args:
        name: ``minilm``, ``hash``, or a checkpoint's path or id.
        check: Called once with the loaded encoder; raises when the index was made with another.
        engine: ``auto``, or the engine that encoders run on (adapters/models_fast.py).
        cache_dir: Where the choice of ``auto`` is remembered.
    """

    def __init__(
        self,
        name: str,
        *,
        check: Callable[[Encoder], None] | None = None,
        engine: str = "auto",
        cache_dir: Path | None = None,
    ) -> None:
        self.name = name
        self._engine, self._cache_dir = engine, cache_dir
        self._check = check
        self._encoder: Encoder | None = None
        self._lock = threading.Lock()
        self._queries: OrderedDict[str, Encoded] = OrderedDict()
        self._queries_lock = threading.Lock()

    def reads(self, text: str) -> bool:
        """Whether the encoder can read a text: the packaged MiniLM is English, so Latin script only."""
        return self.name != "minilm" or latin_share(text) >= _MIN_LATIN_SHARE

    @property
    def id_if_loaded(self) -> str | None:
        """The encoder's id, or None before it is loaded."""
        return self._encoder.encoder_id if self._encoder is not None else None

    def get(self) -> Encoder:
        """The encoder.

        Raises:
            ConfigError: it cannot be loaded, or the index was made with another.
        """
        with self._lock:
            if self._encoder is None:
                encoder = load_encoder(self.name, engine=self._engine, cache_dir=self._cache_dir)
                if self._check is not None:
                    self._check(encoder)
                self._encoder = encoder
            return self._encoder

    def encode_query(self, text: str) -> Encoded:
        """The query's vectors; those of the last queries are kept in memory.

        Raises:
            ConfigError: as ``get``.
        """
        with self._queries_lock:
            kept = self._queries.get(text)
            if kept is not None:
                self._queries.move_to_end(text)
                return kept
        encoded = self.get().encode_query(text)
        with self._queries_lock:
            self._queries[text] = encoded
            while len(self._queries) > _QUERIES_KEPT:
                self._queries.popitem(last=False)
        return encoded


def load_encoder(name: str, *, engine: str = "auto", cache_dir: Path | None = None) -> Encoder:
    """The encoder of a name: ``minilm``, ``hash``, or the path or id of a checkpoint, ColBERT's or another.

    Raises:
        ConfigError: ``encoder_missing``, ``encoder_unloadable``, ``models_missing`` …
    """
    if name == "hash":
        from pincite.adapters.models_hash import HashEncoder

        return HashEncoder()
    from pincite.adapters.models_encoders import open_encoder
    from pincite.adapters.models_sbert import load_minilm

    if name == "minilm":
        return load_minilm(engine=engine, cache_dir=cache_dir)
    return open_encoder(name, engine=engine, cache_dir=cache_dir)


def load_reranker(name: str) -> Reranker:
    """The reranker of a name: ``identity``, or a cross-encoder's path or id.

    Raises:
        ConfigError: ``reranker_unloadable``.
    """
    if name == "identity":
        return IdentityReranker()
    from pincite.adapters.models_cross_encoder import CrossEncoderReranker

    return CrossEncoderReranker(name)


def model_of(encoder: Encoder, chunker: Versioned, *, codec: str = "auto") -> IndexModel:
    """What a new index for this encoder is made with."""
    return _model(encoder.encoder_id, encoder.dim, encoder.token_dim, chunker, codec)


def expected_model(name: str, chunker: Versioned, *, codec: str = "auto") -> IndexModel:
    """The same, without loading the encoder where its facts are fixed: ``init`` then needs no torch."""
    if name != "minilm":
        return model_of(load_encoder(name), chunker, codec=codec)
    return _model(MINILM_ID, MINILM_DIM, MINILM_DIM, chunker, codec)


def _model(encoder_id: str, dim: int, token_dim: int, chunker: Versioned, codec: str) -> IndexModel:
    """Codes where a codec for the encoder is shipped, half-precision vectors otherwise."""
    shipped = shipped_codec_facts(encoder_id) if codec == "auto" else None
    half = TokenFormat(kind="f16", dim=token_dim).name
    return IndexModel(
        encoder_id=encoder_id,
        dim=dim,
        token_dim=token_dim,
        token_format=shipped.format if shipped else half,
        codec_id=shipped.codec_id if shipped else half,
        chunker=str(chunker),
        context=CONTEXT_ID,
    )
