"""One forward pass of a sentence-transformers checkpoint: packed where it can be, else the library's own."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

import numpy as np
import torch

from pincite.adapters.models_calibrate import Calibration, open_engine
from pincite.adapters.models_fast import BertWeights, PackedBert, Unsupported
from pincite.adapters.windows import Window
from pincite.domain.errors import ConfigError
from pincite.kernels.vectors import normalize

if TYPE_CHECKING:
    from pincite.domain.protocols import FloatArray

    #: A window's pooled vector (dim,) and the vectors of its piece (n, token_dim), both L2-normalised.
    Vectors: TypeAlias = tuple[FloatArray, FloatArray]

#: The engine's name where sentence-transformers itself runs the model.
LIBRARY = "sentence-transformers"
A = TypeVar("A")
B = TypeVar("B")
_POOLINGS = ("mean", "cls")
_TAIL = ("Dense", "Normalize")


class Forward(Protocol):
    """Windows to vectors."""

    @property
    def engine(self) -> str:
        """What computes."""

    @property
    def calibration(self) -> Calibration | None:
        """How the engine was chosen."""

    @property
    def padded(self) -> bool:
        """Whether texts of a batch are padded to the longest."""

    def __call__(self, windows: Sequence[Window]) -> list[Vectors]:
        """Vectors of each window, in order."""


def open_forward(model: Any, engine: str, cache_dir: Path | None) -> Forward:
    """The packed forward pass, if the checkpoint is of a kind that it supports and runs on a CPU.

    Args:
        model: A ``SentenceTransformer``.
        engine: ``auto``, an engine's name, or ``sentence-transformers``.
        cache_dir: Of the calibration.

    Raises:
        ConfigError: ``engine_unknown``; ``engine_unsupported`` when an engine is named that can't be had.
    """
    return packed_or_library(
        engine, lambda: PackedForward(model, engine, cache_dir), lambda: LibraryForward(model)
    )


def packed_or_library(engine: str, packed: Callable[[], A], library: Callable[[], B]) -> A | B:
    """What the packed engines run, if they can and were not declined; else the library's own way.

    Args:
        engine: ``auto``, an engine's name, or ``sentence-transformers``.
        packed: Makes the packed one; raises ``Unsupported`` when it can't.
        library: Makes the other.

    Raises:
        ConfigError: ``engine_unsupported`` when an engine is named that can't be had.
    """
    if engine == LIBRARY:
        return library()
    try:
        return packed()
    except Unsupported as exc:
        if engine == "auto":
            return library()
        raise ConfigError(
            "engine_unsupported",
            f"The engine {engine} can't run this encoder: {exc}.",
            mend=f"Choose auto or {LIBRARY}.",
            subject=engine,
        ) from exc


class PackedForward:
    """Texts packed without padding (models_fast.py); pooling and what follows it as the checkpoint says.

    Raises:
        Unsupported: the checkpoint or the device is not one for it.
    """

    padded = False

    def __init__(self, model: Any, engine: str, cache_dir: Path | None) -> None:
        if model.device.type != "cpu":
            raise Unsupported(f"the model is on {model.device}")
        body, pooling, *tail = list(model)
        if type(body).__name__ != "Transformer" or type(pooling).__name__ != "Pooling":
            raise Unsupported("the checkpoint is not a transformer with a pooling layer")
        if pooling.pooling_mode not in _POOLINGS:
            raise Unsupported(f"pooling {pooling.pooling_mode!r}")
        others = [type(module).__name__ for module in tail if type(module).__name__ not in _TAIL]
        if others:
            raise Unsupported(f"a module {others[0]}")
        self._mean = pooling.pooling_mode == "mean"
        self._tail = tail
        self._cls, self._sep = special_ids(model.tokenizer)
        self._bert, self.calibration = open_body(body, model.tokenizer, engine, cache_dir)

    @property
    def engine(self) -> str:
        """The engine's name."""
        return self._bert.engine

    def __call__(self, windows: Sequence[Window]) -> list[Vectors]:
        """Vectors of each window, in order."""
        states, offsets = self._bert.forward([[self._cls, *w.before, *w.piece, self._sep] for w in windows])
        states = states.float()
        with torch.inference_mode():
            if self._mean:
                parts = states.split(np.diff(offsets).tolist())
                pooled = torch.stack([part.mean(dim=0) for part in parts])
            else:
                pooled = states[torch.tensor(offsets[:-1])]
            features = {"sentence_embedding": pooled}
            for module in self._tail:
                features = module(features)
            pooled = features["sentence_embedding"]
        vectors, rows = normalize(pooled.numpy()), states.numpy()
        return [
            (vectors[i], normalize(rows[start : start + len(window.piece)]))
            for i, window in enumerate(windows)
            for start in [offsets[i] + 1 + len(window.before)]
        ]


def open_body(
    body: Any, tokenizer: Any, engine: str, cache_dir: Path | None
) -> tuple[PackedBert, Calibration | None]:
    """The packed engine of a checkpoint's ``Transformer`` module, calibrated with its own tokenizer.

    Raises:
        Unsupported: not of the BERT family.
        ConfigError: ``engine_unknown``, ``engine_unsupported``.
    """
    cls, sep = special_ids(tokenizer)
    weights = BertWeights.of(body.auto_model)
    limit = min(int(body.max_seq_length or 512), weights.max_tokens) - 2

    def tokenize(texts: Sequence[str]) -> list[list[int]]:
        rows = tokenizer(list(texts), add_special_tokens=False, truncation=False, verbose=False)["input_ids"]
        return [[cls, *row[:limit], sep] for row in rows]

    return open_engine(weights, tokenize, engine=engine, weights_id=weights_id(weights), cache_dir=cache_dir)


class LibraryForward:
    """Padded batches through sentence-transformers, on its device."""

    padded = True
    engine = LIBRARY
    calibration = None

    def __init__(self, model: Any) -> None:
        self._model = model
        self._cls, self._sep = special_ids(model.tokenizer)

    def __call__(self, windows: Sequence[Window]) -> list[Vectors]:
        """Vectors of each window, in order."""
        full = [[self._cls, *w.before, *w.piece, self._sep] for w in windows]
        shape = len(full), max(map(len, full))
        ids = torch.full(shape, self._model.tokenizer.pad_token_id or 0, dtype=torch.long)
        mask = torch.zeros(shape, dtype=torch.long)
        for i, row in enumerate(full):
            ids[i, : len(row)] = torch.tensor(row)
            mask[i, : len(row)] = 1
        device = self._model.device
        with torch.inference_mode():
            out = self._model({"input_ids": ids.to(device), "attention_mask": mask.to(device)})
        pooled = normalize(out["sentence_embedding"].float().cpu().numpy())
        states = out["token_embeddings"].float().cpu().numpy()
        return [
            (pooled[i], normalize(states[i, start : start + len(window.piece)]))
            for i, window in enumerate(windows)
            for start in [1 + len(window.before)]
        ]


def special_ids(tokenizer: Any) -> tuple[int, int]:
    """The ids that open and close a text."""
    return int(tokenizer.cls_token_id), int(tokenizer.sep_token_id)


def weights_id(weights: BertWeights) -> str:
    """A hash over names, shapes and sums of the weights: quick, and enough to key a calibration."""
    digest = hashlib.sha256()
    for name, tensor in sorted(weights.tensors.items()):
        values = tensor.flatten()
        facts = float(values.sum()), float(values[:: max(len(values) // 997, 1)].abs().sum())
        digest.update(f"{name} {tuple(tensor.shape)} {facts[0]:.4e} {facts[1]:.4e}\n".encode())
    return digest.hexdigest()
