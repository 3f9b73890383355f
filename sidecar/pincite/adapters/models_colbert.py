"""ColBERT checkpoints (Khattab & Zaharia 2020; Santhanam et al. 2022), loaded by sentence-transformers.

Stanford's format and PyLate's are read by ``MultiVectorEncoder``; what it finds (markers, lengths, query
padding, projection, punctuation skiplist) is used here with the packed engines where the body allows.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from pincite.adapters.models_checkpoint import checkpoint_id, model_library
from pincite.adapters.models_fast import Unsupported
from pincite.adapters.models_forward import LIBRARY, open_body, packed_or_library, special_ids
from pincite.adapters.windows import BATCH_TOKENS, MAX_CONTEXT_TOKENS, Turns, batches, cut_windows, token_ids
from pincite.domain.errors import ConfigError
from pincite.domain.protocols import Encoded
from pincite.kernels.vectors import normalize

if TYPE_CHECKING:
    from pincite.adapters.models_calibrate import Calibration
    from pincite.domain.protocols import Encoder, FloatArray

#: Tokens of a document window, special tokens and marker included (design.md §5).
DOCUMENT_TOKENS = 220


class ColbertEncoder:
    """Token vectors of a ColBERT checkpoint, and pooled ones made of them.

    Documents: ``[CLS] [D] context text [SEP]`` in windows; stored are the text's own tokens without those of
    the checkpoint's skiplist, so ``Encoded.ordinals`` says which they are. Queries: ``[CLS] [Q] text [SEP]``
    padded with ``[MASK]``; all of these vectors are returned, as ColBERT scores them. A query longer than the
    padding is encoded as long as it is, not cut.

    Args:
        path: Folder or hub id of the checkpoint.
        encoder_id: Stable id; the default names the checkpoint and a hash of its weights where local.
        device: torch device; None takes a CUDA device when there is one.
        engine: As in ``SentenceTransformerEncoder``.
        cache_dir: As in ``SentenceTransformerEncoder``.
        query_tokens: Length that queries are padded to; None: the checkpoint's, else 32.
        document_tokens: Length of a document's windows, at most the model's limit.
        pooled: An encoder for the k-NN vectors. None: the mean of a text's token vectors, normalised. Its id
            becomes part of this encoder's.

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
        query_tokens: int | None = None,
        document_tokens: int = DOCUMENT_TOKENS,
        pooled: Encoder | None = None,
    ) -> None:
        library = model_library(path, "PINCITE_ENCODER")
        try:
            model = library.MultiVectorEncoder(str(path), device=device)
        except (OSError, ValueError, KeyError) as exc:
            raise ConfigError(
                "encoder_unloadable",
                f"The ColBERT encoder {path} could not be loaded: {exc}",
                mend="Set PINCITE_ENCODER to the path of a checkpoint in Stanford's format or PyLate's.",
                subject=str(path),
            ) from exc
        model.eval()
        self._tokenizer: Any = model.tokenizer
        # The markers are special tokens; they are looked up before texts stop being able to name them.
        self._query_marker = token_ids(self._tokenizer, [model.prompts.get("query") or ""])[0]
        self._document_marker = token_ids(self._tokenizer, [model.prompts.get("document") or ""])[0]
        self._tokenizer.split_special_tokens = True
        self._cls, self._sep = special_ids(self._tokenizer)
        self._mask = int(self._tokenizer.mask_token_id)
        body = model[0]
        expansion = body.query_expansion or {}
        self._attend = bool(expansion.get("attend"))
        self._query_tokens = query_tokens or int(expansion.get("length") or 32 if expansion else 0)
        self._limit = int(body.max_seq_length or 512)
        self._document_tokens = min(document_tokens, self._limit)
        self._skip = _skiplist(model, self._tokenizer)
        self._forward = packed_or_library(
            engine, lambda: _Packed(model, engine, cache_dir), lambda: _Library(model)
        )
        self._turns = Turns()
        self._pooler = pooled
        own = encoder_id or checkpoint_id(Path(path))
        self._id = own if pooled is None else f"{own}+{pooled.encoder_id}"
        probe = self.encode_query("probe")
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
        """What computes the vectors."""
        return self._forward.engine

    @property
    def calibration(self) -> Calibration | None:
        """How the engine was chosen; None when it was named, or nothing was to choose."""
        return self._forward.calibration

    def encode_passages(self, texts: Sequence[str], *, contexts: Sequence[str] | None = None) -> list[Encoded]:
        """Encode passages; a context is cut to 48 tokens. Cost is one forward pass of each token."""
        heads = token_ids(self._tokenizer, contexts) if contexts else [[]] * len(texts)
        before = [self._document_marker + head[:MAX_CONTEXT_TOKENS] for head in heads]
        rows = token_ids(self._tokenizer, texts)
        vectors = self._run(rows, before, self._document_tokens)
        poolers = self._pooler.encode_passages(texts, contexts=contexts) if self._pooler else None
        found = []
        for i, (row, (tokens, first)) in enumerate(zip(rows, vectors, strict=True)):
            kept = np.array([at for at, token in enumerate(row) if token not in self._skip], dtype=np.int64)
            stored = tokens[kept]
            pooled = poolers[i].pooled if poolers else _pool(stored, first)
            found.append(Encoded(pooled=pooled, tokens=stored, ordinals=kept if self._skip else None))
        return found

    def encode_query(self, text: str) -> Encoded:
        """Encode one query, padded with [MASK]: (query_tokens, token_dim) token vectors, or more of a long one."""
        row = token_ids(self._tokenizer, [text])[0]
        head = self._query_marker
        room = self._limit - 2 - len(head)
        pieces = [row[start : start + room] for start in range(0, max(len(row), 1), room)]
        full = [[self._cls, *head, *piece, self._sep] for piece in pieces]
        real = [len(ids) for ids in full]
        # Only a whole query is padded: the windows of a long one have tokens enough.
        full[0] += [self._mask] * (self._query_tokens - real[0])
        keys = [len(ids) for ids in full] if self._attend else real
        with self._turns.turn():
            states = [part for ids, n in zip(full, keys, strict=True) for part in self._forward([ids], [n])]
        if self._pooler:
            pooled = self._pooler.encode_query(text).pooled
        else:
            own = [part[1 + len(head) : n - 1] for part, n in zip(states, real, strict=True)]
            pooled = _pool(np.concatenate(own), states[0][0])
        return Encoded(pooled=pooled, tokens=np.concatenate(states))

    def _run(
        self, rows: list[list[int]], before: list[list[int]], length: int
    ) -> list[tuple[FloatArray, FloatArray]]:
        """Of each text: the vectors of all its tokens, and that of the first [CLS] (for an empty text)."""
        windows = cut_windows(rows, before, length - 2)
        full = [[self._cls, *w.before, *w.piece, self._sep] for w in windows]
        states: dict[int, FloatArray] = {}
        for batch in batches([len(ids) for ids in full], BATCH_TOKENS, padded=self._forward.padded):
            with self._turns.turn():
                outputs = self._forward([full[i] for i in batch], [len(full[i]) for i in batch])
            states |= zip(batch, outputs, strict=True)
        parts: list[list[FloatArray]] = [[] for _ in rows]
        first: dict[int, FloatArray] = {}
        for i, window in enumerate(windows):
            start = 1 + len(window.before)
            parts[window.owner].append(states[i][start : start + len(window.piece)])
            first.setdefault(window.owner, states[i][0])
        return [(np.concatenate(part), first[owner]) for owner, part in enumerate(parts)]


class _Packed:
    """Token vectors from the packed engine and the checkpoint's projection.

    Raises:
        Unsupported: the checkpoint or the device is not one for it.
    """

    padded = False

    def __init__(self, model: Any, engine: str, cache_dir: Path | None) -> None:
        if model.device.type != "cpu":
            raise Unsupported(f"the model is on {model.device}")
        self._head = _head(model)
        self._bert, self.calibration = open_body(model[0], model.tokenizer, engine, cache_dir)

    @property
    def engine(self) -> str:
        """The engine's name."""
        return self._bert.engine

    def __call__(self, rows: list[list[int]], keys: list[int]) -> list[FloatArray]:
        """(n, token_dim) L2-normalised vectors of each row of ids; ``keys`` can be attended to."""
        states, offsets = self._bert.forward(rows, keys=keys)
        with torch.inference_mode():
            vectors = _project(self._head, states.float())
        return np.split(normalize(vectors.numpy()), offsets[1:-1])


class _Library:
    """The same through the library's own transformer, padded, on its device."""

    padded = True
    engine = LIBRARY
    calibration = None

    def __init__(self, model: Any) -> None:
        self._body, self._head, self._device = model[0], _head(model), model.device
        self._pad = int(model.tokenizer.pad_token_id or 0)

    def __call__(self, rows: list[list[int]], keys: list[int]) -> list[FloatArray]:
        """(n, token_dim) L2-normalised vectors of each row of ids; ``keys`` can be attended to."""
        shape = len(rows), max(map(len, rows))
        ids, mask = torch.full(shape, self._pad), torch.zeros(shape, dtype=torch.long)
        for i, row in enumerate(rows):
            ids[i, : len(row)] = torch.tensor(row)
            mask[i, : keys[i]] = 1
        with torch.inference_mode():
            out = self._body({"input_ids": ids.to(self._device), "attention_mask": mask.to(self._device)})
            vectors = normalize(_project(self._head, out["token_embeddings"].float()).cpu().numpy())
        return [vectors[i, : len(row)] for i, row in enumerate(rows)]


def _head(model: Any) -> list[Any]:
    """What stands between hidden states and token vectors: the projection. Masks and norms are ours."""
    return [module for module in list(model)[1:] if type(module).__name__ == "Dense"]


def _project(head: list[Any], states: torch.Tensor) -> torch.Tensor:
    features = {"token_embeddings": states}
    for module in head:
        features = module(features)
    return features["token_embeddings"]


def _skiplist(model: Any, tokenizer: Any) -> frozenset[int]:
    words = [
        word
        for module in model
        if type(module).__name__ == "MultiVectorMask" and "document" in module.skiplist_tasks
        for word in module.skiplist_words
    ]
    ids = {int(tokenizer.convert_tokens_to_ids(word)) for word in words}
    return frozenset(ids - {tokenizer.unk_token_id})


def _pool(tokens: FloatArray, otherwise: FloatArray) -> FloatArray:
    """The mean of token vectors, normalised; of no tokens, the other vector (k-NN takes no zero vector)."""
    return normalize(tokens.mean(axis=0)) if len(tokens) else otherwise
