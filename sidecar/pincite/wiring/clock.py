"""Time in the composed flows: moments as they are stored, and how long each stage took."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from pincite.domain.types import StageTime


def now(*, minus_s: float = 0.0) -> str:
    """This moment, or one so many seconds ago: ISO 8601, UTC, milliseconds."""
    return (datetime.now(UTC) - timedelta(seconds=minus_s)).isoformat(timespec="milliseconds")


@dataclass(slots=True)
class Clock:
    """Wall time by stage, in order."""

    stages: list[StageTime] = field(default_factory=list)

    @contextmanager
    def measure(self, name: str) -> Iterator[None]:
        """Time a block."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.stages.append(StageTime(name=name, took_ms=(time.perf_counter() - start) * 1e3))
