"""What the sidecar asks of the composed flows. ``wiring`` fulfils it; one object a process, thread-safe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

from pincite.domain.types import SearchFilter, SearchResult


class SidecarServices(Protocol):
    """The composed flows behind the routes.

    ``caller`` is the client's ``Authorization`` for the cluster, or None for the sidecar's own credentials.
    """

    def search(
        self, query: str, *, size: int = 10, from_: int = 0, filters: SearchFilter, caller: str | None
    ) -> SearchResult:
        """Passages, best first."""

    def ask(self, question: str, *, filters: SearchFilter, caller: str | None) -> dict[str, Any]:
        """The answer document: done when it is made in this process, queued when a worker makes it."""

    def get_answer(self, answer_id: str, *, caller: str | None) -> dict[str, Any]:
        """The answer document.

        Raises:
            NotFound: ``answer_unknown``.
        """

    def hook_legs(self, request: dict[str, Any]) -> dict[str, Any]:
        """A checked ``hook_legs_request`` to its ``hook_legs_response``."""

    def hook_rerank(self, request: dict[str, Any]) -> dict[str, Any]:
        """A checked ``hook_rerank_request`` to its ``hook_rerank_response``."""

    def rerank(self, query: str, documents: list[str]) -> list[float]:
        """One finite score a document."""

    def embed(self, texts: list[str], *, kind: Literal["passage", "query"]) -> dict[str, Any]:
        """``embed_response``."""

    def readiness(self) -> Sequence[Mapping[str, Any]]:
        """Checks ``{name, ok, detail}``."""

    def requeue(self, *, older_than_s: float) -> list[str]:
        """Hand unfinished answers that are older to a worker again; returns their ids."""

    def close(self) -> None:
        """Let go of connections and threads."""
