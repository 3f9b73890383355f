"""The late-interaction parts of the index as it is now: coder, store, scorer; renewed when its codec changes."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from pathlib import Path

from pincite.adapters.opensearch_codecs import CodecIndex
from pincite.adapters.opensearch_indices import IndexModel, Indices
from pincite.adapters.opensearch_tokens import StoredTokens
from pincite.adapters.token_cache import TokenRowCache
from pincite.domain.codec import Codec, TokenFormat
from pincite.domain.errors import ConfigError, NotFound
from pincite.domain.protocols import MaxSimScorer, TokenCoder
from pincite.encode import codec_artefact
from pincite.encode.shipped_codecs import shipped_codec, shipped_codec_facts
from pincite.encode.token_rows import CodecCoder, HalfCoder
from pincite.wiring.clock import now

#: How long a process may score with a codec that the index no longer has; such chunks score nothing.
_CHECK_EVERY_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LateParts:
    """What turns tokens into rows, finds them and scores them, for one codec."""

    model: IndexModel
    coder: TokenCoder
    store: StoredTokens
    scorer: MaxSimScorer


class LateInteraction:
    """The parts for the codec that the index was made with; thread-safe.

    Args:
        indices: The installation.
        cache_folder: Where the memory-mapped cache lives.
        cache_bytes: Its bound.
        device: ``auto``, ``cpu`` or ``cuda``, for the scorer.
    """

    def __init__(self, indices: Indices, *, cache_folder: Path, cache_bytes: int, device: str) -> None:
        self._indices, self._folder, self._bytes, self._device = indices, cache_folder, cache_bytes, device
        self._lock = threading.Lock()
        self._parts: LateParts | None = None
        self._checked = 0.0

    def get(self) -> LateParts:
        """The parts.

        Raises:
            ConfigError: ``codec_missing``; ``encoder_mismatch``.
            NotFound: ``index_missing``.
        """
        with self._lock:
            fresh = time.monotonic() - self._checked < _CHECK_EVERY_S
            if self._parts is not None and fresh:
                return self._parts
            model = self._indices.installed_model()
            if model is None:
                raise NotFound("index_missing", "There is no Pincite index yet.", mend="Run `pincite init`.")
            if self._parts is None or self._parts.model != model:
                self._parts = self._open(model)
            self._checked = time.monotonic()
            return self._parts

    def _open(self, model: IndexModel) -> LateParts:
        coder = coder_of(model, self._indices)
        identity = (
            f"{self._indices.cluster.info()['cluster_uuid']} {self._indices.alias('chunks')} {model.codec_id}"
        )
        cache = TokenRowCache(
            self._folder, row_bytes=coder.format.row_bytes, max_bytes=self._bytes, identity=identity
        )
        return LateParts(
            model=model,
            coder=coder,
            store=StoredTokens(
                self._indices,
                cache,
                coder.format,
                codec_id=model.codec_id,
                n_centroids=None if coder.codec is None else len(coder.codec.centroids),
            ),
            scorer=load_scorer(coder, self._device),
        )


def load_scorer(coder: TokenCoder, device: str) -> MaxSimScorer:
    """The fastest scorer that runs here.

    Raises:
        ConfigError: ``device_unavailable``: ``cuda`` was asked for and there is none.
    """
    if coder.codec is None:
        from pincite.kernels.maxsim_half import HalfScorer

        return HalfScorer(coder.format.dim)
    if device != "cpu":
        from pincite.adapters.models_gpu_maxsim import TorchScorer, cuda_available

        if cuda_available():
            return TorchScorer(coder.codec, device="cuda")
        if device == "cuda":
            raise ConfigError(
                "device_unavailable",
                "PINCITE_SIDECAR__DEVICE is cuda, and there is no CUDA device that torch can use.",
                mend="Set it to auto or cpu.",
                subject="PINCITE_SIDECAR__DEVICE",
            )
    from pincite.kernels.maxsim_codes import CodesScorer

    return CodesScorer(coder.codec)


def coder_of(model: IndexModel, indices: Indices) -> TokenCoder:
    """The coder that an index's chunks are written with.

    Raises:
        ConfigError: ``codec_missing``, ``codec_mismatch``.
    """
    if TokenFormat.parse(model.token_format).kind == "f16":
        return HalfCoder(model.token_dim)
    return CodecCoder(load_codec(model.codec_id, model.encoder_id, indices))


def load_codec(codec_id: str, encoder_id: str, indices: Indices) -> Codec:
    """A codec from the cluster, where the one that is shipped with Pincite is stored when it is missing.

    Raises:
        ConfigError: ``codec_missing``; ``codec_mismatch``: it was made for another encoder.
        ContractError: ``codec_malformed``.
    """
    ensure_stored(codec_id, encoder_id, indices)
    codec = codec_artefact.from_bytes(CodecIndex(indices).get(codec_id))
    if codec.encoder_id != encoder_id:
        raise ConfigError(
            "codec_mismatch",
            f"The codec {codec_id} takes vectors of {codec.encoder_id}; the index was made with {encoder_id}.",
            mend="`pincite codec status` lists the codecs; `pincite codec train` makes one for this encoder.",
            subject=codec_id,
        )
    return codec


def ensure_stored(codec_id: str, encoder_id: str, indices: Indices) -> None:
    """Store the codec that is shipped with Pincite where an index names it and the cluster lacks it."""
    shipped = shipped_codec_facts(encoder_id)
    if shipped is not None and shipped.codec_id == codec_id and not CodecIndex(indices).has(codec_id):
        codec = shipped_codec(encoder_id)
        assert codec is not None  # noqa: S101  # its facts are known
        store_codec(codec, indices)


def store_codec(codec: Codec, indices: Indices) -> None:
    """Write a codec to the cluster; one that is there is left as it is."""
    stored = CodecIndex(indices)
    if not stored.has(codec.codec_id):
        stored.put(codec_artefact.to_bytes(codec), codec_artefact.manifest(codec), created_at=now())


def cache_folder(home: Path) -> Path:
    """Where the memory-mapped cache lives."""
    return home / "cache" / "tokens"
