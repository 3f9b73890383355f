"""Starts, stops and describes the embedded cluster."""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pincite.adapters.embedded import assembly, config, layout, ports
from pincite.adapters.embedded.access import (
    NodeUser,
    check_home,
    closed_folder,
    make_open_folder,
    node_user,
)
from pincite.adapters.embedded.jdk import Jdk, find_jdk
from pincite.adapters.embedded.plugin import plugin_zip
from pincite.adapters.embedded.processes import identify, is_alive, stop
from pincite.adapters.embedded.rest import get_json
from pincite.adapters.embedded.state import ClusterState, NodeState, locked, read_state, write_state
from pincite.adapters.embedded.status import ClusterStatus, NodeStatus
from pincite.domain.errors import UpstreamError, UserError

# A start takes 20 to 40 s of CPU. On a busy machine that is minutes, so a node that still writes to its
# log is given longer than one that has fallen silent; a node looking for others never falls silent.
SILENT_TIMEOUT_S = 120.0
READY_TIMEOUT_S = 360.0
STOP_GRACE_S = 20.0
# Another process may be downloading and assembling while we wait for the lock.
LOCK_TIMEOUT_S = 1800.0
_LOG_LINES = 30
_PROGRESS_EVERY_S = 10.0

# Name, HTTP port, transport port of a node that is to be started.
Plan = tuple[str, int, int]


def to_stderr(message: str) -> None:
    """Writes one line of progress."""
    sys.stderr.write(f"pincite: {message}\n")
    sys.stderr.flush()


@dataclass(frozen=True, kw_only=True)
class EmbeddedCluster:
    """A real OpenSearch on this machine, without Docker; its data stays between runs.

    Args:
        home: Pincite's home; the cluster lives in ``home/cluster``.
        http_port: HTTP port of the first node; the others follow, transport ports lie 100 higher.
        port_fixed: Whether the user named the port: then a taken port is an error, else another is used.
        nodes: How many nodes; None: as many as the data has, one when there is none.
        heap_mb: Heap of each node, in MiB.
        java_home: An explicit JDK; None: one is looked for.
        with_plugin: Whether Pincite's own plugin is installed.
        plugin_zip: Its zip; None: built from the shipped sources.
        agent: Run with OpenSearch's Java agent, which enforces plugin policies as distributions do.
        sidecar_urls: Where the plugin finds the sidecar.
        sidecar_token: The secret shared with the sidecar; None: the home's own (``sidecar_token()``).
        deadline_ms: The plugin's deadline; None: its default.
        jvm_options: Further options of the JVM, for instance ``-XX:TieredStopAtLevel=1``, which halves
            the CPU time of a start and slows down long runs.
        progress: Told what takes time.
    """

    home: Path
    http_port: int = 9270
    port_fixed: bool = False
    nodes: int | None = None
    heap_mb: int = 1024
    java_home: Path | None = None
    with_plugin: bool = True
    plugin_zip: Path | None = None
    agent: bool = False
    sidecar_urls: Sequence[str] = ("http://127.0.0.1:9280",)
    sidecar_token: str | None = field(default=None, repr=False)
    deadline_ms: int | None = None
    jvm_options: Sequence[str] = ()
    progress: Callable[[str], None] = to_stderr

    # ---- what callers use

    def up(self) -> ClusterStatus:
        """Starts what does not run yet, and waits until the cluster answers.

        Returns:
            The status; ``already_running`` when nothing had to be started.

        Raises:
            UserError: ``port_taken``, ``cluster_running``, ``cluster_shrink``, ``token_invalid``,
                ``plugin_zip_missing``.
            ConfigError: ``jdk_missing``, ``maven_missing``, ``home_unreachable``, ``home_unwritable``,
                ``node_user_missing``, ``artifact_checksum_mismatch``, ``plugin_missing``,
                ``plugin_install_failed``, ``keystore_failed``.
            UpstreamError: ``maven_failed``, ``node_failed``, ``cluster_busy``.
        """
        user = node_user()
        check_home(self.home, user)
        make_open_folder(self._folder)
        with self._locked():
            state = read_state(self._state_file)
            if state is not None and any(is_alive(node.process) for node in state.nodes):
                return self._complete(state, user)
            return self._start_fresh(user)

    def down(self) -> bool:
        """Stops all nodes and waits for their end. The data stays.

        Returns:
            Whether anything ran.

        Raises:
            UserError: ``not_permitted``.
            UpstreamError: ``node_unstoppable``, ``cluster_busy``.
        """
        if not os.path.exists(self._state_file):  # noqa: PTH110 - False, not an error, in a closed folder
            return False
        with self._locked():
            state = read_state(self._state_file)
            if state is None:
                self._state_file.unlink(missing_ok=True)
                return False
            running = [node for node in state.nodes if is_alive(node.process)]
            self._stop(state.nodes)
            self._state_file.unlink(missing_ok=True)
            return bool(running)

    def status(self) -> ClusterStatus:
        """What runs, and what there is. Starts nothing and takes no lock."""
        state = read_state(self._state_file)
        n_data = len(self._data_nodes())
        size = _size(self._folder / "data")
        if state is None:
            return ClusterStatus(running=False, home=self.home, data_bytes=size, n_data_nodes=n_data)
        nodes = tuple(
            NodeStatus(
                name=node.name,
                pid=node.process.pid,
                http_port=node.http_port,
                transport_port=node.transport_port,
                alive=is_alive(node.process),
            )
            for node in state.nodes
        )
        answering = next((node.http_port for node in nodes if node.alive and self._is_ours(node.http_port)), None)
        health = version = None
        plugins: tuple[str, ...] = ()
        if answering is not None:
            info = get_json(answering, "/") or {}
            version = info.get("version", {}).get("number")
            health = (get_json(answering, "/_cluster/health") or {}).get("status")
            rows = get_json(answering, "/_cat/plugins?format=json&h=component,version")
            if isinstance(rows, list):
                plugins = tuple(sorted({f"{row['component']} {row['version']}" for row in rows}))
        alive = [node for node in nodes if node.alive]
        port = answering or (alive[0].http_port if alive else None)
        return ClusterStatus(
            running=bool(alive),
            url=f"http://127.0.0.1:{port}" if port else None,
            health=health,
            version=version,
            plugins=plugins,
            nodes=nodes,
            data_bytes=size,
            n_data_nodes=n_data,
            home=self.home,
            java_home=state.java_home,
            agent=state.agent,
        )

    def ensure_running(self) -> str:
        """The URL of the embedded cluster, which is started when it does not run.

        Commands call this when no cluster is configured. It says when it starts one; what it starts
        stays up until ``pincite cluster down``.
        """
        state = read_state(self._state_file)
        if state is not None and all(is_alive(node.process) for node in state.nodes):
            if self._is_ours(state.nodes[0].http_port) and self._health(state) in ("green", "yellow"):
                return state.url
        else:
            self.progress(
                f"no cluster is configured (PINCITE_OPENSEARCH__URL): starting the embedded one in {self.home}; "
                "it stays up until `pincite cluster down`"
            )
        url = self.up().url
        assert url is not None  # noqa: S101 - up() returns only when a node answers
        return url

    # ---- starting

    def _start_fresh(self, user: NodeUser) -> ClusterStatus:
        data_nodes = self._data_nodes()
        n_nodes = self.nodes or len(data_nodes) or 1
        if n_nodes < len(data_nodes):
            raise UserError(
                "cluster_shrink",
                f"The data in {self._folder / 'data'} was written by {len(data_nodes)} nodes; "
                f"starting {n_nodes} would leave shards behind.",
                mend=f"Start with --nodes {len(data_nodes)}, or remove that folder to begin anew.",
                subject=str(self._folder / "data"),
            )
        token = config.check_token(self.sidecar_token or config.sidecar_token(self.home))
        reserved = {port for url in self.sidecar_urls if (port := urlsplit(url).port) is not None}
        first = ports.choose(self.http_port, n_nodes, fixed=self.port_fixed, reserved=reserved)
        if first != self.http_port:
            self.progress(f"port {self.http_port} is taken; using {first}")
        jdk = find_jdk(self.java_home, usable=lambda home: not user.dropped or closed_folder(home, user) is None)
        node_folder, plugin_key = self._assemble(jdk, user)
        state = ClusterState(
            opensearch=layout.OPENSEARCH_VERSION,
            assembly=str(node_folder),
            java_home=str(jdk.home),
            plugin=plugin_key,
            agent=self.agent,
            heap_mb=self.heap_mb,
            jvm_options=tuple(self.jvm_options),
            nodes=(),
        )
        names = [(f"pincite-{i + 1}", first + i, first + ports.TRANSPORT_OFFSET + i) for i in range(n_nodes)]
        self._configure(state, names, token, jdk, user)
        self.progress(
            f"starting OpenSearch {layout.OPENSEARCH_VERSION} on http://127.0.0.1:{first}"
            + (f" ({n_nodes} nodes)" if n_nodes > 1 else "")
            + (f" as user {user.name}" if user.dropped else "")
        )
        return self._launch(state, names, jdk, user)

    def _complete(self, state: ClusterState, user: NodeUser) -> ClusterStatus:
        """Some or all nodes run: starts the others and waits."""
        for wanted, actual, option in (
            (self.nodes, len(state.nodes), "--nodes"),
            (self.http_port if self.port_fixed else None, state.nodes[0].http_port, "--port"),
        ):
            if wanted is not None and wanted != actual:
                raise UserError(
                    "cluster_running",
                    f"The embedded cluster already runs with {option} {actual}, not {wanted}.",
                    mend="Run `pincite cluster down` first; the data stays.",
                    subject=option,
                )
        dead = [node for node in state.nodes if not is_alive(node.process)]
        if not dead:
            self._wait(state, started=state.nodes)
            return replace(self.status(), already_running=True)
        self.progress(f"starting {', '.join(node.name for node in dead)} again")
        jdk = find_jdk(Path(state.java_home))
        alive = replace(state, nodes=tuple(node for node in state.nodes if node not in dead))
        names = [(node.name, node.http_port, node.transport_port) for node in dead]
        return self._launch(alive, names, jdk, user)

    def _assemble(self, jdk: Jdk, user: NodeUser) -> tuple[Path, str | None]:
        # It may be a link: several homes can share one folder of assemblies.
        link = self._folder / "assembly"
        root = link.resolve()
        check_home(root, user)
        lock = locked(
            root / "lock",
            waiting=lambda: self.progress("another pincite process is assembling OpenSearch; waiting"),
            timeout_s=LOCK_TIMEOUT_S,
        )
        with lock:
            folder = assembly.assemble_base(root, jdk, self.progress)
            key = None
            if self.with_plugin:
                zip_file = plugin_zip(self.plugin_zip, root, jdk, self.progress)
                folder, key = assembly.add_plugin(root, folder, zip_file, jdk, self.progress)
            if not link.is_symlink():
                assembly.prune(root, folder)
        return folder, key

    def _configure(self, state: ClusterState, names: Sequence[Plan], token: str, jdk: Jdk, user: NodeUser) -> None:
        """Writes settings and keystore of every node."""
        plugin_settings: dict[str, Any] | None = None
        if state.plugin is not None:
            plugin_settings = {"pincite.sidecar.urls": list(self.sidecar_urls)}
            if self.deadline_ms is not None:
                plugin_settings["pincite.deadline_ms"] = self.deadline_ms
        confs = []
        for name, http_port, transport_port in names:
            folders = config.make_folders(self._folder, name, user)
            settings = config.node_settings(
                cluster_name=self._cluster_name,
                name=name,
                folders=folders,
                http_port=http_port,
                transport_port=transport_port,
                seed_ports=[transport for _, _, transport in names],
                founder=names[0][0],
                plugin=plugin_settings,
            )
            config.write_config(folders, settings, user)
            confs.append(folders.conf)
        secret = {} if state.plugin is None else {config.TOKEN_SETTING: token}
        config.write_keystores(Path(state.assembly), confs, secret, jdk, user)

    def _launch(self, state: ClusterState, names: Sequence[Plan], jdk: Jdk, user: NodeUser) -> ClusterStatus:
        """Starts nodes beside those of ``state`` and waits; when that fails, stops those it started."""
        started: list[NodeState] = []
        try:
            for plan in names:
                node = self._spawn(state, plan, jdk, user)
                started.append(node)
                nodes = tuple(sorted([*state.nodes, *started], key=lambda n: n.http_port))
                # Written after each start: a process that is killed here leaves no unknown node behind.
                write_state(self._state_file, replace(state, nodes=nodes))
            self._wait(replace(state, nodes=nodes), started=started)
        except BaseException:
            self._stop(started)
            if state.nodes:
                write_state(self._state_file, state)
            else:
                self._state_file.unlink(missing_ok=True)
            raise
        return self.status()

    def _spawn(self, state: ClusterState, plan: Plan, jdk: Jdk, user: NodeUser) -> NodeState:
        name, http_port, transport_port = plan
        folders = config.node_folders(self._folder, name)
        folders.log.unlink(missing_ok=True)
        command = config.java_command(
            Path(state.assembly), folders, jdk, heap_mb=state.heap_mb, agent=state.agent, more=state.jvm_options
        )
        # Nothing of our environment: a stray JAVA_TOOL_OPTIONS or proxy must not change the node.
        environ = {"PATH": os.defpath, "LANG": "C.UTF-8", "HOME": str(folders.temporary)}
        with folders.output.open("wb") as output:
            dropped = {"user": user.uid, "group": user.gid, "extra_groups": []} if user.dropped else {}
            process = subprocess.Popen(  # type: ignore[call-overload]  # noqa: S603
                command,
                cwd=folders.logs,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                **dropped,
            )
        found = identify(process.pid)
        # It outlives us on purpose; without this the interpreter warns of a child left running.
        process.returncode = 0
        if found is None:
            raise self._node_failed(name)
        return NodeState(name=name, http_port=http_port, transport_port=transport_port, process=found)

    def _wait(self, state: ClusterState, started: Sequence[NodeState]) -> None:
        """Waits until all nodes have formed one cluster whose primaries are there.

        A cluster that answers but stays red after the deadline is left running, and that is said: it
        is needed to find out why.
        """
        begin = last = heard = time.monotonic()
        written = -1
        while True:
            for node in started:
                if not is_alive(node.process):
                    raise self._node_failed(node.name)
            health = self._health(state)
            if health in ("green", "yellow"):
                return
            now = time.monotonic()
            size = sum(_bytes(config.node_folders(self._folder, node.name).log) for node in state.nodes)
            if size != written:
                written, heard = size, now
            if now - begin > READY_TIMEOUT_S or now - heard > SILENT_TIMEOUT_S:
                break
            if now - last > _PROGRESS_EVERY_S:
                last = now
                self.progress(f"waiting for the cluster ({now - begin:.0f} s)")
            time.sleep(0.25)
        if health == "red":
            self.progress("the cluster answers but its health is red: some shards could not be opened")
            return
        raise self._node_failed(state.nodes[0].name, why=f"was not ready within {now - begin:.0f} s")

    def _health(self, state: ClusterState) -> str | None:
        """The cluster's health; None while it does not answer or is not complete."""
        for node in state.nodes:
            answer = get_json(node.http_port, "/_cluster/health?timeout=1s")
            if not isinstance(answer, dict) or answer.get("cluster_name") != self._cluster_name:
                return None
            if answer.get("number_of_nodes") != len(state.nodes):
                return None
        return str(answer.get("status")) if isinstance(answer, dict) else None

    def _stop(self, nodes: Sequence[NodeState]) -> None:
        left = stop([node.process for node in nodes], grace_s=STOP_GRACE_S)
        if left:
            raise UpstreamError(
                "node_unstoppable",
                f"Processes {', '.join(str(p.pid) for p in left)} of the embedded cluster did not end.",
                mend="End them by hand (kill -9), then run the command again.",
                subject=str(left[0].pid),
            )

    def _node_failed(self, name: str, why: str = "ended while it was starting") -> UpstreamError:
        folders = config.node_folders(self._folder, name)
        lines = [*_tail(folders.output), *_tail(folders.log)][-_LOG_LINES:]
        return UpstreamError(
            "node_failed",
            f"The node {name} {why}. Its last lines:\n" + "\n".join(lines),
            mend=f"Its whole log is in {folders.logs}; `pincite doctor` looks for common causes.",
            subject=name,
        )

    # ---- small things

    @property
    def _folder(self) -> Path:
        return self.home / "cluster"

    @property
    def _state_file(self) -> Path:
        return self._folder / "state.json"

    @property
    def _cluster_name(self) -> str:
        # One per home, so that a node never joins, and we never mistake, another home's cluster.
        return "pincite-" + hashlib.sha256(str(self.home.resolve()).encode()).hexdigest()[:8]

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        with locked(
            self._folder / "lock",
            waiting=lambda: self.progress("another pincite process is starting or stopping the cluster; waiting"),
            timeout_s=LOCK_TIMEOUT_S,
        ):
            yield

    def _data_nodes(self) -> list[str]:
        """Names of the nodes that have written a cluster state, which a failed first start has not."""
        try:
            return sorted({path.parents[3].name for path in (self._folder / "data").glob("*/nodes/*/_state/*")})
        except OSError:  # another user's data: nothing of it can be told
            return []

    def _is_ours(self, port: int) -> bool:
        answer = get_json(port, "/")
        return isinstance(answer, dict) and answer.get("cluster_name") == self._cluster_name


def _bytes(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _tail(path: Path) -> list[str]:
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    return lines[-_LOG_LINES:]


def _size(folder: Path) -> int | None:
    """Bytes of all files below a folder; None when it cannot be read, 0 when it is not there."""
    total = 0
    failed = False

    def note(error: OSError) -> None:
        nonlocal failed
        failed = failed or not isinstance(error, FileNotFoundError)

    for parent, _, files in os.walk(folder, onerror=note):
        for name in files:
            with contextlib.suppress(OSError):  # Lucene removes files at any time
                total += (Path(parent) / name).lstat().st_size
    return None if failed else total
