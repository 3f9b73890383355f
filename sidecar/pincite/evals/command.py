"""What every evaluation does when it is run as a command."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import NoReturn

from pincite.domain.errors import PinciteError
from pincite.wiring.console import fail


def run_as_command(run: Callable[[], int]) -> NoReturn:
    """Run it and exit with its status; an error of ours ends as one clear message."""
    try:
        sys.exit(run())
    except PinciteError as exc:
        sys.exit(fail(exc, as_json=False))
