"""A real RabbitMQ for the tests: its own epmd, node, ports and folders; nothing is left running.

Debian's package starts its broker through a wrapper that insists on its own data folder. The script
behind it takes every path from the environment, so this runs that one, as the package's user when the
tests run as root (Erlang's cookie must belong to who reads it).
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_SERVER = (
    Path("/usr/lib/rabbitmq/bin/rabbitmq-server"),
    Path("/usr/lib/rabbitmq/lib/rabbitmq_server/sbin/rabbitmq-server"),
)
_START_S = 90.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RabbitMQ:
    """A running broker."""

    url: str
    port: int
    log: Path


def server_script() -> Path | None:
    """The broker's start script, or None when it is not installed."""
    return next((path for path in _SERVER if path.exists()), None)


def free_port(first: int, last: int) -> int:
    """A port in the range that nothing listens on."""
    for port in range(first, last + 1):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError(f"no free port in {first}-{last}")


def _range(variable: str, default: str) -> tuple[int, int]:
    first, last = os.environ.get(variable, default).split("-")
    return int(first), int(last)


class RabbitMQServer:
    """Starts, stops and restarts one broker in a scratch folder."""

    def __init__(self, home: Path, *, port: int, dist_port: int, epmd_port: int) -> None:
        self.home = home
        self.port = port
        self._dist_port = dist_port
        self._epmd_port = epmd_port
        self._user = "rabbitmq" if os.geteuid() == 0 else None
        self._epmd: subprocess.Popen[bytes] | None = None
        self._server: subprocess.Popen[bytes] | None = None
        if self._user:
            owner = pwd.getpwnam(self._user)
            os.chown(home, owner.pw_uid, owner.pw_gid)
        config = home / "rabbitmq.conf"
        config.write_text(
            f"listeners.tcp.default = 127.0.0.1:{port}\n"
            "log.console = true\nlog.console.level = info\nlog.file = false\n"
        )
        config.chmod(0o644)
        (home / "enabled_plugins").write_text("[].\n")
        self.log = home / "console.log"

    @property
    def url(self) -> str:
        """AMQP URL of the broker."""
        return f"amqp://guest:guest@127.0.0.1:{self.port}//"

    def _environment(self) -> dict[str, str]:
        home = str(self.home)
        return {
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            "HOME": home,
            "LANG": "C.UTF-8",
            "ERL_EPMD_PORT": str(self._epmd_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": f"pincite{self.port}@localhost",
            "RABBITMQ_DIST_PORT": str(self._dist_port),
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
            "RABBITMQ_CONFIG_FILE": f"{home}/rabbitmq.conf",
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{home}/enabled_plugins",
            "RABBITMQ_MNESIA_BASE": f"{home}/mnesia",
            "RABBITMQ_LOG_BASE": f"{home}/log",
            "RABBITMQ_PID_FILE": f"{home}/pid",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 1:1 -kernel inet_dist_use_interface {127,0,0,1}",
        }

    def _spawn(self, command: list[str], log: Path) -> subprocess.Popen[bytes]:
        with log.open("ab") as out:
            return subprocess.Popen(
                command,
                cwd=self.home,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                user=self._user,
                group=self._user,
                extra_groups=[] if self._user else None,
                start_new_session=True,
            )

    def start(self) -> None:
        """Start and wait until the port accepts connections."""
        script = server_script()
        if script is None:
            raise RuntimeError("rabbitmq-server is not installed (Debian: apt-get install rabbitmq-server)")
        if self._epmd is None:
            # epmd in the foreground: it would otherwise stay behind as a daemon of its own.
            epmd = shutil.which("epmd") or "epmd"
            self._epmd = self._spawn(
                [epmd, "-address", "127.0.0.1", "-port", str(self._epmd_port)], self.home / "epmd.log"
            )
            self._wait_for_port(self._epmd_port, self._epmd)
        for attempt in range(3):
            self._server = self._spawn([str(script)], self.log)
            try:
                self._wait_for_port(self.port, self._server)
                return
            except RuntimeError:
                # After a SIGKILL epmd may hold the node's name for a moment longer.
                self.stop_server(signal.SIGKILL)
                if attempt == 2:
                    raise
                time.sleep(2)

    def _wait_for_port(self, port: int, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + _START_S
        while time.monotonic() < deadline:
            if process.poll() is not None:
                break
            if _listens(port):
                return
            time.sleep(0.1)
        tail = self.log.read_text(errors="replace")[-2000:] if self.log.exists() else ""
        raise RuntimeError(f"RabbitMQ did not listen on {port}:\n{tail}")

    def stop_server(self, how: signal.Signals = signal.SIGTERM) -> None:
        """Stop the broker; its data and epmd stay, so that it can be started again."""
        if self._server is None:
            return
        _end_group(self._server, how)
        self._server = None
        # The group's leader is gone before Erlang's machine is, which may accept for a moment longer.
        deadline = time.monotonic() + _START_S
        while _listens(self.port) and time.monotonic() < deadline:
            time.sleep(0.05)

    def stop(self) -> None:
        """Stop everything."""
        self.stop_server()
        if self._epmd is not None:
            _end_group(self._epmd, signal.SIGTERM)
            self._epmd = None


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _end_group(process: subprocess.Popen[bytes], how: signal.Signals) -> None:
    try:
        os.killpg(process.pid, how)
        process.wait(timeout=30)
    except ProcessLookupError:
        process.wait(timeout=5)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=10)
    # Erlang's helpers live in the same group and may outlast the node by a moment.
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return


@contextmanager
def running() -> Iterator[RabbitMQServer]:
    """A broker in a scratch folder that goes away with it.

    Port ranges come from PINCITE_TEST_RABBITMQ_PORTS and PINCITE_TEST_EPMD_PORTS (``first-last``).
    """
    amqp = _range("PINCITE_TEST_RABBITMQ_PORTS", "5681-5689")
    epmd = _range("PINCITE_TEST_EPMD_PORTS", "4371-4379")
    home = Path(tempfile.mkdtemp(prefix="pincite-rabbitmq-", dir="/tmp"))
    home.chmod(0o755)
    epmd_port = free_port(*epmd)
    server = RabbitMQServer(
        home, port=free_port(*amqp), epmd_port=epmd_port, dist_port=free_port(epmd_port + 1, epmd[1])
    )
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(home, ignore_errors=True)
