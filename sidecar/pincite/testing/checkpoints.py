"""Seeded checkpoints with the shape of public ones: real bodies (MiniLM), random heads.

No hub is reachable from a build machine, so the loaders of ColBERT and cross-encoder checkpoints are
tested on these. Their heads are random: the numbers are stable, the ranking is not good.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np

from pincite.adapters.models_sbert import packaged_minilm

#: As Stanford's ColBERTv2 has it.
COLBERT_DIM = 128
_TOKENIZER_FILES = ("vocab.txt", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")


def write_colbert_checkpoint(folder: Path, seed: int = 7) -> Path:
    """A Stanford ColBERT checkpoint: ``HF_ColBERT``, ``linear.weight`` (128, 384) and ``artifact.metadata``.

    The body is MiniLM's, the projection a seeded matrix with orthonormal rows: it keeps what it can of
    the body's inner products, so that MaxSim over it still finds things.

    Args:
        folder: Made if missing; files of the same name are replaced.
        seed: Of the projection.

    Returns:
        The folder.
    """
    rng = np.random.default_rng(seed)
    tensors = {f"bert.{name}": rows for name, rows in _body().items()}
    hidden = tensors["bert.embeddings.word_embeddings.weight"].shape[1]
    basis, _ = np.linalg.qr(rng.standard_normal((hidden, COLBERT_DIM)))
    tensors["linear.weight"] = np.ascontiguousarray(basis.T, dtype=np.float32)
    _write(folder, tensors, {"architectures": ["HF_ColBERT"]})
    metadata = {
        "query_token_id": "[unused0]",
        "doc_token_id": "[unused1]",
        "query_token": "[Q]",
        "doc_token": "[D]",
        "attend_to_mask_tokens": False,
        "similarity": "cosine",
        "dim": COLBERT_DIM,
        "query_maxlen": 32,
        "doc_maxlen": 180,
        "mask_punctuation": True,
        "checkpoint": "colbert-ir/colbertv2.0",
    }
    (folder / "artifact.metadata").write_text(json.dumps(metadata, indent=2), encoding="utf-8")
    return folder


def write_cross_encoder_checkpoint(folder: Path, seed: int = 7) -> Path:
    """A checkpoint of the shape of cross-encoder/ms-marco-MiniLM-L-6-v2: BertForSequenceClassification, one label.

    The body is MiniLM's; pooler and classifier are seeded as BERT is initialised (normal, 0.02).

    Args:
        folder: Made if missing; files of the same name are replaced.
        seed: Of pooler and classifier.

    Returns:
        The folder.
    """
    rng = np.random.default_rng(seed)
    tensors = {f"bert.{name}": rows for name, rows in _body().items()}
    hidden = tensors["bert.embeddings.word_embeddings.weight"].shape[1]
    for name, shape in (("bert.pooler.dense", (hidden, hidden)), ("classifier", (1, hidden))):
        tensors[f"{name}.weight"] = (rng.standard_normal(shape) * 0.02).astype(np.float32)
        tensors[f"{name}.bias"] = np.zeros(shape[0], dtype=np.float32)
    _write(
        folder,
        tensors,
        {
            "architectures": ["BertForSequenceClassification"],
            "id2label": {"0": "LABEL_0"},
            "label2id": {"LABEL_0": 0},
            "sentence_transformers": {"activation_fn": "torch.nn.modules.linear.Identity"},
        },
    )
    return folder


def _body() -> dict[str, np.ndarray]:
    """MiniLM's tensors without the prefix and the pooler (it is seeded where one is needed)."""
    from safetensors.numpy import load_file

    tensors = load_file(str(packaged_minilm() / "model.safetensors"))
    return {
        name.removeprefix("bert."): rows
        for name, rows in tensors.items()
        if "pooler" not in name and "position_ids" not in name
    }


def _write(folder: Path, tensors: dict[str, np.ndarray], config: dict[str, object]) -> None:
    from safetensors.numpy import save_file

    source = packaged_minilm()
    folder.mkdir(parents=True, exist_ok=True)
    body = json.loads((source / "config.json").read_text(encoding="utf-8"))
    body.pop("_name_or_path", None)
    (folder / "config.json").write_text(json.dumps(body | config, indent=2), encoding="utf-8")
    for name in _TOKENIZER_FILES:
        if (source / name).is_file():
            shutil.copyfile(source / name, folder / name)
    save_file(tensors, str(folder / "model.safetensors"), metadata={"format": "pt"})
