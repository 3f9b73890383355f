"""Celery's consumer acknowledges a message that it cannot decode, which loses it. Ours dead-letters it."""

from __future__ import annotations

from typing import Any

import structlog
from celery.worker.consumer import Consumer

from pincite.adapters import broker

_log = structlog.stdlib.get_logger(__name__)


class DeadLetteringConsumer(Consumer):  # type: ignore[misc]  # celery ships no types
    """Rejects what it cannot read; the queue's dead-letter exchange takes it."""

    def connect(self) -> Any:
        """Connect, and see to it that the dead letters have somewhere to go before anything is consumed."""
        connection = super().connect()
        with connection.channel() as channel:
            broker.dead_queue(self.app.conf.task_default_queue)(channel).declare()
        return connection

    def on_decode_error(self, message: Any, exc: Exception) -> None:
        """Called for a body that is not what its headers say."""
        _log.error("message_poisonous", why="cannot be decoded", error=type(exc).__name__)
        message.reject()

    def on_unknown_message(self, body: Any, message: Any) -> None:
        """Called for a message without a task's name."""
        _log.error("message_poisonous", why="not a task")
        message.reject()

    def on_unknown_task(self, body: Any, message: Any, exc: Exception) -> None:
        """Called for the name of a task that there is not."""
        _log.error("message_poisonous", why="unknown task")
        message.reject()

    def on_invalid_task(self, body: Any, message: Any, exc: Exception) -> None:
        """Called for a content type that is not accepted, and for malformed arguments."""
        _log.error("message_poisonous", why="invalid", error=type(exc).__name__)
        message.reject()
