"""``python -m pincite.cli.java_home``: prints the home of the JDK to use; for the Makefile."""

from __future__ import annotations

import sys

from pincite.adapters.embedded.jdk import find_jdk
from pincite.cli.common import fail
from pincite.domain.errors import ConfigError
from pincite.wiring.settings import load_settings

if __name__ == "__main__":
    try:
        print(find_jdk(load_settings().java_home).home)
    except ConfigError as exc:
        sys.exit(fail(exc, as_json=False))
