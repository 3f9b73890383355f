"""``python -m pincite.serve``: the sidecar's process. ``pincite serve`` becomes this one."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING

import structlog

from pincite.domain.errors import PinciteError
from pincite.serve.run import run
from pincite.serve.services import SidecarServices
from pincite.wiring.settings import Settings, load_settings

if TYPE_CHECKING:
    from pincite.wiring.services import Services


def main() -> int:
    """Read the settings and serve."""
    try:
        run(load_settings(), _build)
    except PinciteError as exc:
        mend = f"\n       {exc.mend}" if exc.mend else ""
        sys.stderr.write(f"error: {exc.message} [{exc.code}]{mend}\n")
        return exc.exit_code
    return 0


def _build(settings: Settings) -> SidecarServices:
    from pincite.wiring.services import Services

    services = Services(settings, progress=_progress)
    # Beside the first requests, not before them: /readyz says when the encoder and the cluster are there.
    threading.Thread(target=_warm, args=[services], name="warm", daemon=True).start()
    return services


def _warm(services: Services) -> None:
    try:
        services.warm()
    except PinciteError as exc:
        _progress(f"{exc.code}: {exc.message}")


def _progress(message: str) -> None:
    structlog.stdlib.get_logger(__name__).info("progress", message=message)


if __name__ == "__main__":
    sys.exit(main())
