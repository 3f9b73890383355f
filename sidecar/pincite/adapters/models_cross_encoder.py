"""Cross-encoders loaded by sentence-transformers: one batched pass over the best candidates."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from pathlib import Path

from pincite.adapters.models_checkpoint import checkpoint_id, model_library
from pincite.domain.errors import ConfigError, UpstreamError


class CrossEncoderReranker:
    """Scores (query, text) pairs with one checkpoint.

    Args:
        path: Folder or hub id of the checkpoint.
    """

    def __init__(self, path: str | Path) -> None:
        library = model_library(path, "PINCITE_RERANKER")
        try:
            self._model = library.CrossEncoder(str(path))
        except (OSError, ValueError) as exc:
            raise ConfigError(
                "reranker_unloadable",
                f"The cross-encoder {path} could not be loaded: {exc}",
                mend="Set PINCITE_RERANKER to identity or to the path of a cross-encoder checkpoint.",
                subject=str(path),
            ) from exc
        self._id = checkpoint_id(Path(path))
        self._lock = threading.Lock()

    @property
    def reranker_id(self) -> str:
        """Name and hash of the weights."""
        return self._id

    def rerank(self, query: str, texts: Sequence[str]) -> list[float] | None:
        """One score a text.

        Raises:
            UpstreamError: ``reranker_bad_score``: the model gave a score that is not finite.
        """
        with self._lock:
            raw = self._model.predict([(query, text) for text in texts], show_progress_bar=False)
        scores = [float(score) for score in raw]
        if not all(math.isfinite(score) for score in scores):
            raise UpstreamError(
                "reranker_bad_score", f"The cross-encoder {self._id} gave a score that is not finite."
            )
        return scores
