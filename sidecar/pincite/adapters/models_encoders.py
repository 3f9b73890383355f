"""Opens any encoder checkpoint: tells ColBERT's from an ordinary sentence-transformers one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pincite.adapters.models_colbert import ColbertEncoder
    from pincite.adapters.models_sbert import SentenceTransformerEncoder

_MULTI_VECTOR = ("ColBERT", "MultiVectorEncoder")


def open_encoder(
    path: str | Path, *, engine: str = "auto", cache_dir: Path | None = None
) -> SentenceTransformerEncoder | ColbertEncoder:
    """The encoder of a checkpoint.

    Args:
        path: Folder or hub id.
        engine: ``auto``, one of models_fast.ENGINES, or ``sentence-transformers``.
        cache_dir: Where the choice of ``auto`` is remembered; None: the user's cache folder.

    Raises:
        ConfigError: ``encoder_unloadable``, ``models_missing``, ``engine_unknown``, ``engine_unsupported``.
    """
    if is_colbert(path):
        from pincite.adapters.models_colbert import ColbertEncoder

        return ColbertEncoder(path, engine=engine, cache_dir=cache_dir)
    from pincite.adapters.models_sbert import SentenceTransformerEncoder

    return SentenceTransformerEncoder(path, engine=engine, cache_dir=cache_dir)


def is_colbert(path: str | Path) -> bool:
    """Whether a checkpoint makes token vectors for late interaction: Stanford's format, PyLate's, the library's.

    The files say so; of an id on the hub only the name is known before it is loaded.
    """
    folder = Path(path)
    if not folder.is_dir():
        return "colbert" in str(path).lower()
    if _json(folder / "config_sentence_transformers.json").get("model_type") in _MULTI_VECTOR:
        return True
    return "HF_ColBERT" in (_json(folder / "config.json").get("architectures") or [])


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
