"""What the worker asks of the composed flows. ``wiring`` fulfils it."""

from __future__ import annotations

from typing import Any, Protocol


class WorkerServices(Protocol):
    """The flow behind the task."""

    def run_answer(self, answer_id: str) -> dict[str, Any]:
        """Generate, validate and store an answer; idempotent by its id.

        Counts its own attempts in the answer document, and stores a refusal after the last.

        Raises:
            UpstreamError: with ``retryable`` when it should be tried again.
        """

    def close(self) -> None:
        """Let go of connections and threads."""
