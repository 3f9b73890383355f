"""The sidecar's process over the tiny services: ``python serve_tiny.py ok|broken|unforeseen FOLDER``.

A rerank whose query is ``hold`` waits for FOLDER/release, after it has made FOLDER/held.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from tiny_services import TinyServices

from pincite.domain.errors import ConfigError, PinciteError
from pincite.serve.run import run
from pincite.wiring.settings import Settings, load_settings


class Held(TinyServices):
    """Can be held."""

    def rerank(self, query: str, documents: list[str]) -> list[float]:
        if query == "hold":
            folder = Path(sys.argv[2])
            (folder / "held").touch()
            while not (folder / "release").exists():
                time.sleep(0.02)
        return super().rerank(query, documents)

    def close(self) -> None:
        super().close()
        (Path(sys.argv[2]) / "closed").touch()


def build(_: Settings) -> Held:
    match sys.argv[1]:
        case "broken":
            raise ConfigError("encoder_unknown", "There is no such encoder.", mend="Set PINCITE_ENCODER.")
        case "unforeseen":
            raise RuntimeError("unforeseen")
    return Held()


if __name__ == "__main__":
    try:
        run(load_settings(), build)
    except PinciteError as exc:
        sys.exit(f"error: {exc.message} [{exc.code}]")
