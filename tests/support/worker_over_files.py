"""A worker process over answers kept as files, for the tests of what the broker and Celery do.

``python worker_over_files.py FOLDER``. An answer is ``FOLDER/<id>.json``; its ``script`` says what making it
does, attempt by attempt: ``ok``, ``hold`` (wait for FOLDER/release), ``retry`` (a peer failed for now),
``fail`` (a peer failed for good), ``crash`` (an unforeseen error), ``overrun``, ``die``.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from pincite.domain.errors import UpstreamError
from pincite.wiring.settings import Settings, load_settings
from pincite.worker.run import run


class FileServices:
    """Makes the answers of a folder.

    Args:
        folder: Where they are.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run_answer(self, answer_id: str) -> dict[str, Any]:
        path = self.folder / f"{answer_id}.json"
        document: dict[str, Any] = json.loads(path.read_text())
        if document["state"] == "done":
            return document
        attempt = document["n_attempts"]
        document["n_attempts"] = attempt + 1
        self._write(path, document)
        step = document["script"][min(attempt, len(document["script"]) - 1)]
        match step:
            case "hold":
                (self.folder / f"{answer_id}.held").touch()
                while not (self.folder / "release").exists():
                    time.sleep(0.05)
            case "retry" | "fail":
                raise UpstreamError("llm_unreachable", "No connection.", retryable=step == "retry")
            case "crash":
                raise RuntimeError("unforeseen")
            case "overrun":
                time.sleep(600)
            case "die":
                os.kill(os.getpid(), signal.SIGKILL)
        document.update(state="done", outcome="answer", pid=os.getpid())
        self._write(path, document)
        with (self.folder / "made.log").open("a") as log:
            log.write(f"{answer_id}\n")
        return document

    def close(self) -> None:
        pass

    @staticmethod
    def _write(path: Path, document: dict[str, Any]) -> None:
        temporary = path.with_suffix(".tmp")
        temporary.write_text(json.dumps(document))
        temporary.replace(path)


def build(_: Settings) -> FileServices:
    return FileServices(Path(sys.argv[1]))


if __name__ == "__main__":
    sys.exit(run(load_settings(), build, soft_limit_s=3, hard_limit_s=6, pauses_s=(0.1, 0.2)))
