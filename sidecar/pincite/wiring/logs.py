"""Logs: one JSON object a line on stderr, for our own events and for the libraries' alike.

Queries and passages are never logged at INFO or above.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import MutableMapping
from typing import Any

import structlog


def _traceback_lines(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Tracebacks as one JSON string would be unreadable; as a list of lines they are readable anywhere."""
    text = event.pop("exception", None)
    if text:
        event["exception"] = str(text).splitlines()
    return event


def configure_logs(level: int = logging.INFO) -> None:
    """Send structlog's events and the standard library's records to stderr as JSON lines."""
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.ExtraAdder()],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                _traceback_lines,
                structlog.processors.JSONRenderer(ensure_ascii=False, default=repr),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    logging.captureWarnings(True)
    # These log whole requests, bodies included, at INFO or DEBUG.
    for noisy in ("opensearch", "urllib3", "httpx", "httpx2", "httpcore", "openai", "amqp"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
