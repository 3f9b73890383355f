"""Hands forgotten answers to a worker again.

An answer is stored before it is published. When the broker fails between the two, or loses its disk, the
answer is queued in the index and in no queue. The sweep publishes such answers again, but only when the
queue is empty: otherwise they may be waiting in it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import structlog

from pincite.domain.errors import PinciteError

_log = structlog.stdlib.get_logger(__name__)

EVERY_S = 60.0
# Longer than all attempts of a worker may take, so that what it has in hand is left alone.
OLDER_THAN_S = 900.0


class Sweep:
    """A thread that sweeps now and then.

    Args:
        n_waiting: How many messages wait in the queue.
        requeue: Publishes unfinished answers older than so many seconds; returns their ids.
        every_s: Seconds between two sweeps.
        older_than_s: Age from which an unfinished answer counts as forgotten.
    """

    def __init__(
        self,
        *,
        n_waiting: Callable[[], int],
        requeue: Callable[[float], list[str]],
        every_s: float = EVERY_S,
        older_than_s: float = OLDER_THAN_S,
    ) -> None:
        self._n_waiting, self._requeue = n_waiting, requeue
        self._every_s, self._older_than_s = every_s, older_than_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sweep", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End; returns at once."""
        self._stop.set()

    def once(self) -> list[str]:
        """One sweep; the ids that were published again. A peer that fails now is asked again later."""
        try:
            if self._n_waiting() > 0:
                return []
            found = self._requeue(self._older_than_s)
        except PinciteError as exc:
            _log.warning("sweep_failed", code=exc.code, subject=exc.subject)
            return []
        if found:
            _log.info("answers_requeued", n=len(found))
        return found

    def _run(self) -> None:
        while not self._stop.wait(self._every_s):
            self.once()
