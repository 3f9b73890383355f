"""The ``identity`` reranker: leaves the order as it is. The default until a cross-encoder is configured."""

from __future__ import annotations

from collections.abc import Sequence


class IdentityReranker:
    """Keeps the fused order."""

    @property
    def reranker_id(self) -> str:
        """``identity``."""
        return "identity"

    def rerank(self, query: str, texts: Sequence[str]) -> list[float] | None:
        """None: no scores, no change."""
        return None
