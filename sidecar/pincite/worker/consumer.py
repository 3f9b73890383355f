"""Celery's consumer with a border: a message is checked wholly before Celery sees it.

Left to itself Celery acknowledges, and so loses, what it cannot decode, and a body of another shape than
its own ends the whole worker, which then meets the same message again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import structlog
from celery.worker.consumer import Consumer

from pincite.adapters import broker

_log = structlog.stdlib.get_logger(__name__)


class DeadLetteringConsumer(Consumer):
    """Rejects what is not a task of ours; the queue's dead-letter exchange takes it."""

    def connect(self) -> Any:
        """Connect, and see to it that dead letters have somewhere to go before anything is consumed."""
        connection = super().connect()
        with connection.channel() as channel:
            broker.dead_queue(self.app.conf.task_default_queue)(channel).declare()
        return connection

    def create_task_handler(self, *args: Any, **kwargs: Any) -> Callable[[Any], None]:
        """Celery's handler of incoming messages, behind the check."""
        handle = super().create_task_handler(*args, **kwargs)

        def checked(message: Any) -> None:
            fault = broker.message_fault(message.headers, message.content_type, message.body)
            if fault is None:
                handle(message)
            else:
                _log.error("message_poisonous", why=fault)
                message.reject_log_error(_log, self.connection_errors)

        return checked
