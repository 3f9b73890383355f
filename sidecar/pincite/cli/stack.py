"""Cluster, sidecar and worker together, for a person to try: what ``pincite up`` runs."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from types import FrameType

from pincite.cli.common import say
from pincite.domain.errors import UpstreamError
from pincite.wiring.settings import Settings

_READY_S = 120.0
_GRACE_S = 35.0
_POLL_S = 0.2


class Stack:
    """Starts the parts, watches them, and stops them again.

    Args:
        settings: All settings; the children read the same environment.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._stopping = False

    def run(self) -> int:
        """Run until Ctrl-C or SIGTERM, or until a part ends by itself.

        Returns:
            0 when it was asked to stop, 1 when a part ended by itself.

        Raises:
            PinciteError: a part cannot be started; what was started is stopped.
        """
        previous = {sig: signal.signal(sig, self._ask_to_stop) for sig in (signal.SIGINT, signal.SIGTERM)}
        try:
            cluster_url = self._start_cluster()
            if self._stopping:
                return 0
            self._start("sidecar", "pincite.serve")
            if self._settings.broker.url is not None:
                self._start("worker", "pincite.worker")
            self._wait_for_sidecar()
            if not self._stopping:
                self._introduce(cluster_url)
            return self._watch()
        finally:
            self._stop()
            for sig, handler in previous.items():
                signal.signal(sig, handler)

    def _ask_to_stop(self, _signal: int, _frame: FrameType | None) -> None:
        self._stopping = True

    def _start_cluster(self) -> str:
        from pincite.wiring.access import open_cluster

        cluster = open_cluster(self._settings, say)
        try:
            return cluster.url
        finally:
            cluster.close()

    def _start(self, name: str, module: str) -> None:
        # A group of its own: Ctrl-C reaches this process alone, which then stops them in order.
        self._children[name] = subprocess.Popen(  # our own modules
            [sys.executable, "-m", module], start_new_session=True
        )

    @property
    def _url(self) -> str:
        host = self._settings.sidecar.host
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104  # compared, not bound
        return f"http://{f'[{host}]' if ':' in host else host}:{self._settings.sidecar.port}"

    def _wait_for_sidecar(self) -> None:
        deadline = time.monotonic() + _READY_S
        while not self._stopping and self._ended() is None:
            try:
                with urllib.request.urlopen(f"{self._url}/healthz", timeout=2):  # noqa: S310  # our own URL
                    return
            except (urllib.error.URLError, OSError):
                time.sleep(_POLL_S)
            if time.monotonic() > deadline:
                raise UpstreamError(
                    "sidecar_unreachable",
                    f"The sidecar did not answer at {self._url} within {_READY_S:.0f} s.",
                    mend="See its messages above.",
                    subject=self._url,
                )

    def _introduce(self, cluster_url: str) -> None:
        broker = self._settings.broker
        token = ' -H "Pincite-Token: $PINCITE_SIDECAR__TOKEN"' if self._settings.sidecar.token else ""
        question = shlex.quote(json.dumps({"question": "May the licensee sublicense?", "wait_s": 30}))
        if broker.url is None:
            made = "answers are made in the sidecar (no PINCITE_BROKER__URL, so no worker was started)"
        else:
            made = f"answers are made by the worker, from the queue {broker.queue}"
        say(f"cluster  {cluster_url}")
        say(f"sidecar  {self._url}")
        say(f"worker   {made}")
        say("")
        say("Take files in, then ask:")
        say("  pincite ingest PATH")
        say(f"  curl -s {self._url}/v1/ask -H 'Content-Type: application/json'{token} -d {question}")
        say("")
        say("Ctrl-C stops it.")

    def _ended(self) -> tuple[str, int] | None:
        for name, child in self._children.items():
            status = child.poll()
            if status is not None:
                return name, status
        return None

    def _watch(self) -> int:
        while not self._stopping:
            ended = self._ended()
            if ended is not None:
                name, status = ended
                why = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
                say(f"error: the {name} {why}; see its messages above. Stopping the rest.")
                return 1
            time.sleep(_POLL_S)
        return 0

    def _stop(self) -> None:
        """SIGTERM to all, time to finish what is in hand, then SIGKILL to the groups."""
        running = {name: child for name, child in self._children.items() if child.poll() is None}
        for name, child in running.items():
            say(f"stopping the {name}")
            child.terminate()
        deadline = time.monotonic() + _GRACE_S
        for name, child in running.items():
            try:
                child.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                say(f"the {name} is still busy: killing it (an answer in hand goes back into the queue)")
        for child in self._children.values():
            try:
                # Also what a part that ended by itself has left behind in its group.
                os.killpg(child.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
            child.wait()
        if self._settings.opensearch.url is None and self._children:
            say("The embedded cluster stays up; `pincite cluster down` stops it.")
