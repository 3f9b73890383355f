"""The Celery app: one task, JSON only, late acknowledgement, no result backend, no remote control.

What may go wrong, and what then happens to the message:

====================================  =========================================================
the answer is stored                  acknowledged
a peer failed for now                 back into the queue, after a pause; the answer's own attempt
                                      counter ends it with a refusal
the process died, or overran its time back into the queue, likewise
the task raised anything else         ``<queue>.dead``
not JSON, unknown task, not an id     ``<queue>.dead``
====================================  =========================================================
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import structlog
from celery import Celery
from celery.exceptions import Reject, SoftTimeLimitExceeded

from pincite.adapters import broker
from pincite.domain.errors import PinciteError, UpstreamError
from pincite.worker.services import WorkerServices

_log = structlog.stdlib.get_logger(__name__)

# Below RabbitMQ's consumer_timeout of 30 min, after which it would take the message away.
SOFT_LIMIT_S = 120
HARD_LIMIT_S = 150
_PAUSES_S = (1.0, 2.0, 4.0, 8.0, 15.0)


class LazyServices:
    """Services built at first use: in the pool's process, after the fork, where torch may be loaded.

    Args:
        build: Makes them; called once a process.
    """

    def __init__(self, build: Callable[[], WorkerServices]) -> None:
        self._build = build
        self._lock = threading.Lock()
        self._made: WorkerServices | None = None

    def get(self) -> WorkerServices:
        """The services of this process."""
        with self._lock:
            if self._made is None:
                self._made = self._build()
            return self._made

    def close(self) -> None:
        """Close them if they were made."""
        with self._lock:
            made, self._made = self._made, None
        if made is not None:
            made.close()


def make_app(
    url: str,
    queue: str,
    services: LazyServices,
    *,
    soft_limit_s: float = SOFT_LIMIT_S,
    hard_limit_s: float = HARD_LIMIT_S,
    pauses_s: tuple[float, ...] = _PAUSES_S,
) -> Any:
    """The Celery app with its one task.

    Args:
        url: AMQP URL.
        queue: Name of the queue of work.
        services: Built lazily in each process of the pool.
        soft_limit_s: Seconds after which the task is asked to stop.
        hard_limit_s: Seconds after which its process is killed.
        pauses_s: Pauses before a message goes back, growing with each failure in a row.
    """
    app: Any = Celery("pincite", broker=url, set_as_current=False)
    work = broker.work_queue(queue)
    app.conf.update(
        task_queues=[work],
        task_default_queue=queue,
        task_default_exchange=queue,
        task_default_routing_key=queue,
        task_create_missing_queues=False,
        task_serializer="json",
        accept_content=["json"],
        result_backend=None,
        task_ignore_result=True,
        task_store_errors_even_if_ignored=False,
        task_acks_late=True,
        task_reject_on_worker_lost=True,
        # A failure is not acknowledged but rejected, which dead-letters it; an overrun goes back.
        task_acks_on_failure_or_timeout=False,
        task_soft_time_limit=soft_limit_s,
        task_time_limit=hard_limit_s,
        task_publish_retry=False,
        worker_prefetch_multiplier=1,
        worker_enable_remote_control=False,
        worker_send_task_events=False,
        worker_hijack_root_logger=False,
        worker_redirect_stdouts=False,
        worker_cancel_long_running_tasks_on_connection_loss=True,
        worker_consumer="pincite.worker.consumer:DeadLetteringConsumer",
        worker_proc_alive_timeout=60.0,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_transport_options={"confirm_publish": True},
        broker_heartbeat=30,
        event_queue_exclusive=False,
        enable_utc=True,
    )
    failures_in_a_row = 0

    def run(answer_id: str) -> None:
        nonlocal failures_in_a_row
        structlog.contextvars.bind_contextvars(answer_id=answer_id)
        began = time.monotonic()
        try:
            document = services.get().run_answer(answer_id)
        except SoftTimeLimitExceeded:
            _log.warning("answer_overran", limit_s=soft_limit_s)
            raise Reject("time limit", requeue=True) from None
        except PinciteError as exc:
            retry = isinstance(exc, UpstreamError) and exc.retryable
            _log.warning("answer_failed", code=exc.code, subject=exc.subject, again=retry)
            if retry:
                time.sleep(pauses_s[min(failures_in_a_row, len(pauses_s) - 1)])
                failures_in_a_row += 1
            raise Reject(exc.code, requeue=retry) from None
        except Exception as exc:
            # The type alone: a message may hold a question or a passage.
            _log.error("answer_failed", code="internal_error", error=type(exc).__name__, where=_where(exc))
            raise Reject("internal_error", requeue=False) from None
        else:
            failures_in_a_row = 0
            _log.info(
                "answer_done",
                outcome=document.get("outcome"),
                n_attempts=document.get("n_attempts"),
                took_ms=round((time.monotonic() - began) * 1000, 1),
            )
        finally:
            structlog.contextvars.unbind_contextvars("answer_id")

    app.task(run, name=broker.TASK, ignore_result=True, max_retries=0)
    return app


def _where(error: BaseException) -> list[str]:
    frames: list[str] = []
    trace = error.__traceback__
    while trace is not None:
        frames.append(f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}")
        trace = trace.tb_next
    return frames[-12:]
