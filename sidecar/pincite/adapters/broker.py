"""RabbitMQ, by way of kombu: the queue of answers to be made, and how an answer gets into it.

Durable queue, persistent messages, publisher confirms. What cannot be processed goes to ``<queue>.dead``.
A message holds an answer's id and nothing else: no credential and no text travels through the broker.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pincite.domain.errors import ConfigError, UpstreamError

TASK = "pincite.answer.run"
_HEADERS = frozenset({"lang", "task", "id", "root_id", "parent_id"})
_ANSWER_ID = re.compile(r"[0-9a-f]{32}")


def is_answer_id(value: object) -> bool:
    """Whether a message's argument can be an answer's id."""
    return isinstance(value, str) and _ANSWER_ID.fullmatch(value) is not None


def message_fault(headers: object, content_type: object, body: object) -> str | None:
    """Why a message is not one that ``publish_answer`` wrote, or None when it is.

    Args:
        headers: The message's headers.
        content_type: Its content type.
        body: Its raw body, bytes or already text.
    """
    if not isinstance(headers, dict) or headers.get("task") != TASK:
        return "unknown task"
    if not isinstance(headers.get("id"), str):
        return "no task id"
    # A broker adds headers of its own (x-death). Any other could make Celery wait, expire or chain.
    if any(name not in _HEADERS and not str(name).startswith("x-") for name in headers):
        return "unknown header"
    if content_type != "application/json" or not isinstance(body, str | bytes):
        return "not JSON"
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return "not JSON"
    match document:
        case [[answer_id], dict() as kwargs, dict() as embed] if (
            is_answer_id(answer_id) and not kwargs and not any(embed.values())
        ):
            return None
    return "not one answer id"


def dead_queue_name(queue: str) -> str:
    """The queue of messages that could not be processed."""
    return f"{queue}.dead"


def work_queue(queue: str) -> Any:
    """The queue of work: durable; what is rejected for good is dead-lettered."""
    from kombu import Exchange, Queue

    return Queue(
        queue,
        Exchange(queue, type="direct", durable=True),
        routing_key=queue,
        durable=True,
        queue_arguments={
            "x-dead-letter-exchange": dead_queue_name(queue),
            "x-dead-letter-routing-key": dead_queue_name(queue),
        },
    )


def dead_queue(queue: str) -> Any:
    """The queue of dead letters: durable, bounded."""
    from kombu import Exchange, Queue

    name = dead_queue_name(queue)
    return Queue(
        name,
        Exchange(name, type="direct", durable=True),
        routing_key=name,
        durable=True,
        queue_arguments={"x-max-length": 100_000},
    )


def shown_url(url: str) -> str:
    """The broker's URL without its password."""
    return re.sub(r"(?<=://)([^:/@]*):[^@]*@", r"\1:**@", url)


@contextmanager
def _connected(url: str, timeout_s: float) -> Iterator[Any]:
    """A connection with publisher confirms; broker and network errors become ours."""
    from amqp.exceptions import AMQPError, PreconditionFailed
    from kombu import Connection
    from kombu.exceptions import KombuError

    connection: Any = Connection(
        url, connect_timeout=timeout_s, transport_options={"confirm_publish": True, "max_retries": 0}
    )
    try:
        connection.connect()
        yield connection
    except PreconditionFailed as exc:
        raise ConfigError(
            "broker_queue_mismatch",
            f"A queue of that name exists with other properties: {exc.reply_text}.",
            mend="Delete the queue when it is empty, or set PINCITE_BROKER__QUEUE to another name.",
            subject=shown_url(url),
        ) from None
    except (OSError, AMQPError, KombuError) as exc:
        raise UpstreamError(
            "broker_unreachable",
            f"The broker at {shown_url(url)} failed: {type(exc).__name__}.",
            retryable=True,
            mend="Check PINCITE_BROKER__URL and that RabbitMQ runs.",
            subject=shown_url(url),
        ) from None
    finally:
        connection.release()


def declare(url: str, queue: str, *, timeout_s: float = 5.0) -> None:
    """Create the queues; changes nothing when they are there.

    Raises:
        UpstreamError: ``broker_unreachable``.
        ConfigError: ``broker_queue_mismatch``.
    """
    with _connected(url, timeout_s) as connection, connection.channel() as channel:
        dead_queue(queue)(channel).declare()
        work_queue(queue)(channel).declare()


def publish_answer(url: str, queue: str, answer_id: str, *, timeout_s: float = 5.0) -> None:
    """Queue an answer to be made. Returns once the broker has confirmed that it has the message.

    Publishing the same id twice is harmless: making an answer is idempotent by its id.

    Args:
        url: AMQP URL.
        queue: Name of the queue of work.
        answer_id: The stored, queued answer's id.
        timeout_s: Seconds for the connection, and again for the confirmation.

    Raises:
        UpstreamError: ``broker_unreachable``; the message may or may not have arrived.
        ConfigError: ``broker_queue_mismatch``.
    """
    if not is_answer_id(answer_id):
        raise ValueError("not an answer id")
    task_id = str(uuid.uuid4())
    with _connected(url, timeout_s) as connection, connection.channel() as channel:
        dead_queue(queue)(channel).declare()
        target = work_queue(queue)
        connection.Producer(channel).publish(
            # Celery's message protocol 2: positional and keyword arguments, and what to do afterwards.
            [[answer_id], {}, {"callbacks": None, "errbacks": None, "chain": None, "chord": None}],
            serializer="json",
            exchange=target.exchange,
            routing_key=target.routing_key,
            declare=[target],
            delivery_mode="persistent",
            mandatory=True,
            timeout=timeout_s,
            confirm_timeout=timeout_s,
            correlation_id=task_id,
            headers={"lang": "py", "task": TASK, "id": task_id, "root_id": task_id, "parent_id": None},
        )


def queue_state(url: str, queue: str, *, timeout_s: float = 5.0) -> tuple[int, int]:
    """(messages waiting, consumers) of a queue: a probe that needs no remote control.

    Raises:
        UpstreamError: ``broker_unreachable``, also when there is no such queue.
    """
    with _connected(url, timeout_s) as connection, connection.channel() as channel:
        found = channel.queue_declare(queue=queue, passive=True)
        return int(found.message_count), int(found.consumer_count)
