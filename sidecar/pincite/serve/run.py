"""The sidecar under gunicorn: one process, many threads, no preload.

One process, because the models and the cache of token vectors are its memory; threads, because numpy,
torch and sockets let go of the interpreter's lock. The services are built after the fork: CUDA and torch's
thread pools do not survive one.
"""

from __future__ import annotations

import ipaddress
import logging
import socket
import sys
from collections.abc import Callable
from typing import Any

import structlog
from flask import Flask
from gunicorn.app.base import BaseApplication
from gunicorn.arbiter import Arbiter
from gunicorn.glogging import Logger

from pincite.adapters.broker import queue_state
from pincite.domain.errors import ConfigError, PinciteError
from pincite.serve.app import create_app
from pincite.serve.services import SidecarServices
from pincite.serve.sweep import Sweep
from pincite.wiring.logs import configure_logs
from pincite.wiring.settings import Settings

_log = structlog.stdlib.get_logger(__name__)

# Threads that answer probes and turn requests away while all others wait in the queue.
_SPARE_THREADS = 8
_GRACE_S = 30


def is_loopback(host: str) -> bool:
    """Whether every address of the host is a loopback address."""
    try:
        found = {str(entry[4][0]) for entry in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
    except OSError:
        raise ConfigError(
            "host_unknown",
            f"The host {host!r} cannot be resolved.",
            mend="Set PINCITE_SIDECAR__HOST to an address of this machine.",
            subject="PINCITE_SIDECAR__HOST",
        ) from None
    return all(ipaddress.ip_address(address.partition("%")[0]).is_loopback for address in found)


def check_bind(host: str, port: int, token: str | None) -> None:
    """Refuse an address that must not or cannot be listened on.

    Raises:
        ConfigError: ``host_unknown``, ``token_required``, ``port_taken`` or ``bind_failed``.
    """
    if not token and not is_loopback(host):
        raise ConfigError(
            "token_required",
            f"The sidecar would listen on {host}, which others can reach, without a token.",
            mend="Set PINCITE_SIDECAR__TOKEN, or listen on 127.0.0.1.",
            subject="PINCITE_SIDECAR__TOKEN",
        )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as exc:
            taken = exc.errno in {98, 48}
            raise ConfigError(
                "port_taken" if taken else "bind_failed",
                f"The sidecar cannot listen on {host}:{port}: {exc.strerror}.",
                mend="Stop what listens there, or choose another with --port or PINCITE_SIDECAR__PORT.",
                subject=f"{host}:{port}",
            ) from None


class _JSONLogger(Logger):
    """gunicorn's own messages go the way of all others: JSON on stderr."""

    def setup(self, cfg: Any) -> None:
        self.cfg = cfg
        self.error_log.handlers[:] = []
        self.error_log.propagate = True
        self.error_log.setLevel(logging.INFO)
        self.access_log.disabled = True

    def access(self, resp: Any, req: Any, environ: Any, request_time: Any) -> None:
        """Nothing: the app logs its requests itself."""

    def reopen_files(self) -> None:
        """Nothing to reopen."""

    def close_on_exec(self) -> None:
        """Nothing of our own is open."""


class _Application(BaseApplication):
    def __init__(self, options: dict[str, Any], make_app: Callable[[], Flask]) -> None:
        self._options = options
        self._make_app = make_app
        super().__init__()

    def load_config(self) -> None:
        for name, value in self._options.items():
            self.cfg.set(name, value)

    def load(self) -> Flask:
        """Runs in the worker process, after the fork."""
        try:
            return self._make_app()
        except PinciteError as exc:
            _log.error("sidecar_cannot_start", **exc.as_dict())
            # Tells gunicorn's master to end instead of trying for ever.
            sys.exit(Arbiter.APP_LOAD_ERROR)


def run(
    settings: Settings,
    build_services: Callable[[Settings], SidecarServices],
    *,
    host: str | None = None,
    port: int | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT; requests in hand get 30 s to finish. Ends by ``SystemExit``.

    Args:
        settings: All settings.
        build_services: Makes the composed flows; called once, in the process that serves.
        host: Instead of ``settings.sidecar.host``.
        port: Instead of ``settings.sidecar.port``.

    Raises:
        ConfigError: ``token_required``, ``port_taken`` …
    """
    configure_logs()
    own = settings.sidecar
    host = host or own.host
    port = port or own.port
    token = own.token.get_secret_value() if own.token else None
    check_bind(host, port, token)
    held: list[SidecarServices] = []
    sweeps: list[Sweep] = []

    def make_app() -> Flask:
        services = build_services(settings)
        held.append(services)
        if settings.broker.url is not None:
            url, queue = settings.broker.url.get_secret_value(), settings.broker.queue
            sweeps.append(
                Sweep(
                    n_waiting=lambda: queue_state(url, queue)[0],
                    requeue=lambda age_s: services.requeue(older_than_s=age_s),
                )
            )
            sweeps[-1].start()
        app = create_app(
            services,
            token=token,
            max_queue=own.max_queue,
            threads=own.threads,
            rerank_model=settings.encoder if settings.reranker == "identity" else settings.reranker,
        )
        _log.info("sidecar_ready", host=host, port=port, threads=own.threads, max_queue=own.max_queue)
        return app

    def worker_exit(_server: Any, _worker: Any) -> None:
        for sweep in sweeps:
            sweep.stop()
        for services in held:
            services.close()

    shown = f"[{host}]" if ":" in host else host
    options: dict[str, Any] = {
        "bind": f"{shown}:{port}",
        "worker_class": "gthread",
        "workers": 1,
        # Each request in the queue holds a thread; the gate decides which of them work.
        "threads": own.max_queue + _SPARE_THREADS,
        "worker_connections": max(1000, 4 * own.max_queue),
        "preload_app": False,
        "timeout": 120,
        "graceful_timeout": _GRACE_S,
        "keepalive": 30,
        "logger_class": _JSONLogger,
        "worker_exit": worker_exit,
        "limit_request_line": 8190,
        "limit_request_fields": 100,
    }
    _Application(options, make_app).run()
