"""The worker's process: declares the queues and consumes until SIGTERM."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import structlog

from pincite.adapters import broker
from pincite.domain.errors import ConfigError, UpstreamError
from pincite.wiring.logs import configure_logs
from pincite.wiring.settings import Settings
from pincite.worker.services import WorkerServices

_log = structlog.stdlib.get_logger(__name__)


def broker_url(settings: Settings) -> str:
    """The broker's URL.

    Raises:
        ConfigError: ``broker_not_configured``.
    """
    if settings.broker.url is None:
        raise ConfigError(
            "broker_not_configured",
            "There is no broker to take work from.",
            mend="Set PINCITE_BROKER__URL (amqp://user:password@host:5672/). "
            "Without a broker answers are made in the process that asks, and no worker is needed.",
            subject="PINCITE_BROKER__URL",
        )
    return settings.broker.url.get_secret_value()


def probe(settings: Settings) -> None:
    """Check that a worker consumes the queue.

    Raises:
        ConfigError: ``broker_not_configured``.
        UpstreamError: ``broker_unreachable``, ``worker_absent``.
    """
    _, n_consumers = broker.queue_state(broker_url(settings), settings.broker.queue)
    if n_consumers == 0:
        raise UpstreamError(
            "worker_absent",
            f"Nobody consumes the queue {settings.broker.queue}.",
            mend="Start a worker: pincite worker.",
            subject=settings.broker.queue,
        )


def run(
    settings: Settings,
    build_services: Callable[[Settings], WorkerServices],
    *,
    concurrency: int = 1,
    **overrides: Any,
) -> int:
    """Consume until SIGTERM; the answer in hand is finished first. A second SIGTERM ends at once.

    Args:
        settings: All settings.
        build_services: Makes the composed flows, once in each process of the pool.
        concurrency: Answers made at once, each in a process of its own.
        overrides: Limits for ``make_app``.

    Returns:
        The exit status.

    Raises:
        ConfigError: ``broker_not_configured``, ``broker_queue_mismatch``.
    """
    from pincite.worker.app import LazyServices, make_app

    configure_logs()
    url = broker_url(settings)
    queue = settings.broker.queue
    try:
        broker.declare(url, queue)
    except UpstreamError as exc:
        # Celery tries again until the broker is there, and declares the queue of work; the other one is
        # declared by whoever publishes.
        _log.warning("broker_unreachable", subject=exc.subject)
    app = make_app(url, queue, LazyServices(lambda: build_services(settings)), **overrides)
    worker = app.Worker(
        pool="prefork",
        concurrency=concurrency,
        without_gossip=True,
        without_mingle=True,
        without_heartbeat=True,
        loglevel=logging.INFO,
        optimization="fair",
        quiet=True,
    )
    # Celery logs each task with its arguments at INFO; ours are ids, and our own events say more.
    # A rejection is no accident: its traceback, at WARNING, would say nothing that our event does not.
    logging.getLogger("celery.app.trace").setLevel(logging.ERROR)
    logging.getLogger("celery.worker.strategy").setLevel(logging.WARNING)
    _log.info("worker_starts", broker=broker.shown_url(url), queue=queue, concurrency=concurrency)
    worker.start()
    return int(worker.exitcode or 0)
