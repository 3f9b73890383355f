"""``pincite serve``, ``pincite worker``, ``pincite up``.

The sidecar and the worker are entry points of their own (``python -m pincite.serve``, ``pincite.worker``):
the commands become those processes, or start them as children.
"""

from __future__ import annotations

import os
import sys
from typing import NoReturn

import click


@click.command()
@click.option("--host", help="Address to listen on (PINCITE_SIDECAR__HOST; 127.0.0.1).")
@click.option("--port", type=click.IntRange(1, 65535), help="Port to listen on (PINCITE_SIDECAR__PORT; 9280).")
def serve(host: str | None, port: int | None) -> None:
    """Run the sidecar until it is stopped.

    An address that others can reach needs PINCITE_SIDECAR__TOKEN.
    """
    if host is not None:
        os.environ["PINCITE_SIDECAR__HOST"] = host
    if port is not None:
        os.environ["PINCITE_SIDECAR__PORT"] = str(port)
    _become("pincite.serve")


@click.command()
@click.option("--concurrency", type=click.IntRange(1, 64), default=1, show_default=True, help="Answers at once.")
@click.option("--probe", is_flag=True, help="Do not work: exit 0 when a worker consumes the queue, else not.")
def worker(concurrency: int, probe: bool) -> None:
    """Take questions from RabbitMQ (PINCITE_BROKER__URL) and answer them until it is stopped."""
    _become("pincite.worker", "--concurrency", str(concurrency), *(["--probe"] if probe else []))


@click.command()
def up() -> None:
    """Run cluster, sidecar and worker together.

    Ctrl-C stops the sidecar and the worker; the embedded cluster stays up.
    """
    from pincite.cli.stack import Stack
    from pincite.wiring.settings import load_settings

    sys.exit(Stack(load_settings()).run())


def _become(module: str, *arguments: str) -> NoReturn:
    """Replace this process: signals and the exit status are then the other's, with nobody in between."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, "-m", module, *arguments])  # noqa: S606  # our own module
