"""The bounded queue: how many requests may be in the house, and how many of them may work at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from pincite.domain.errors import Overloaded, UpstreamError


class Gate:
    """Admits at most ``max_queue`` requests, of which at most ``max_working`` work at once.

    Args:
        max_queue: Requests waiting or working; one more is turned away.
        max_working: Requests working.
        outer: A gate whose limits hold too: slow work gets a part of it, so that it cannot crowd out the
            rest.
    """

    def __init__(self, *, max_queue: int, max_working: int, outer: Gate | None = None) -> None:
        self.max_queue = max_queue
        self._outer = outer
        self._lock = threading.Lock()
        self._admitted = 0
        self._working = threading.BoundedSemaphore(max_working)

    @property
    def depth(self) -> int:
        """Requests in the house."""
        return self._admitted

    @contextmanager
    def admitted(self) -> Iterator[None]:
        """Hold a place in the queue.

        Raises:
            Overloaded: ``queue_full``.
        """
        with self._lock:
            if self._admitted >= self.max_queue:
                raise Overloaded(
                    "queue_full",
                    f"{self.max_queue} requests are waiting already.",
                    mend="Try again later, or raise PINCITE_SIDECAR__MAX_QUEUE.",
                )
            self._admitted += 1
        try:
            if self._outer is None:
                yield
            else:
                with self._outer.admitted():
                    yield
        finally:
            with self._lock:
                self._admitted -= 1

    @contextmanager
    def working(self, deadline: float | None = None) -> Iterator[None]:
        """Hold one of the working places.

        Args:
            deadline: ``time.monotonic()`` after which the work is worth nothing; None waits as long as it
                takes.

        Raises:
            UpstreamError: ``deadline_passed`` while it waited.
        """
        left = None if deadline is None else deadline - time.monotonic()
        if (left is not None and left <= 0) or not self._working.acquire(timeout=left):
            raise UpstreamError(
                "deadline_passed",
                "The deadline passed while the request waited for its turn.",
                mend="Raise the deadline, or give the sidecar more threads.",
                subject="deadline_ms",
            )
        try:
            if self._outer is None:
                yield
            else:
                with self._outer.working(deadline):
                    yield
        finally:
            self._working.release()
