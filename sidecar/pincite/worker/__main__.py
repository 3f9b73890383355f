"""``python -m pincite.worker [--concurrency N] [--probe]``. ``pincite worker`` becomes this process."""

from __future__ import annotations

import argparse
import sys

import structlog

from pincite.domain.errors import PinciteError
from pincite.wiring.settings import Settings, load_settings
from pincite.worker import run
from pincite.worker.services import WorkerServices


def main(arguments: list[str] | None = None) -> int:
    """Read the settings and work."""
    parser = argparse.ArgumentParser(prog="pincite worker")
    parser.add_argument("--concurrency", type=int, default=1)
    parser.add_argument("--probe", action="store_true", help="exit 0 when a worker consumes the queue")
    options = parser.parse_args(arguments)
    try:
        settings = load_settings()
        if options.probe:
            run.probe(settings)
            return 0
        return run.run(settings, _build, concurrency=max(1, options.concurrency))
    except PinciteError as exc:
        mend = f"\n       {exc.mend}" if exc.mend else ""
        sys.stderr.write(f"error: {exc.message} [{exc.code}]{mend}\n")
        return exc.exit_code


def _build(settings: Settings) -> WorkerServices:
    from pincite.wiring.services import Services

    return Services(settings, progress=_progress)


def _progress(message: str) -> None:
    structlog.stdlib.get_logger(__name__).info("progress", message=message)


if __name__ == "__main__":
    sys.exit(main())
