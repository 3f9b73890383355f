"""Configuration of the nodes: opensearch.yml, logging, keystore, command line."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pincite.adapters.embedded.access import NodeUser, hand_over, make_node_folder, make_open_folder
from pincite.adapters.embedded.jdk import Jdk
from pincite.domain.errors import ConfigError, UserError

TOKEN_SETTING = "pincite.sidecar.token"  # noqa: S105 - a setting's name
KEYSTORE = "opensearch.keystore"
_KEYSTORE_TOOL = Path(__file__).with_name("KeystoreTool.java")
_KEYSTORE_TIMEOUT_S = 120
_MIN_ASCII, _MAX_ASCII = 0x21, 0x7E

_LOG4J = """status = error
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = ${sys:opensearch.logs.base_path}/node.log
appender.file.filePattern = ${sys:opensearch.logs.base_path}/node-%i.log
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = [%d{ISO8601}][%-5p][%-25c{1.}] %m%n
appender.file.policies.type = Policies
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = 20MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 3
rootLogger.level = info
rootLogger.appenderRef.file.ref = file
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFolders:
    """The folders of one node below the cluster's folder."""

    conf: Path
    data: Path
    logs: Path
    temporary: Path

    @property
    def log(self) -> Path:
        """The node's own log."""
        return self.logs / "node.log"

    @property
    def output(self) -> Path:
        """What the process wrote to standard output and error since its last start."""
        return self.logs / "stdout.log"


def node_folders(cluster_folder: Path, name: str) -> NodeFolders:
    """Where the node ``name`` keeps its files."""
    return NodeFolders(
        conf=cluster_folder / "conf" / name,
        data=cluster_folder / "data" / name,
        logs=cluster_folder / "logs" / name,
        temporary=cluster_folder / "tmp" / name,
    )


def make_folders(cluster_folder: Path, name: str, user: NodeUser) -> NodeFolders:
    """Makes the folders of a node and gives them, with what is in them, to the node's user."""
    folders = node_folders(cluster_folder, name)
    for folder in (folders.conf, folders.data, folders.logs, folders.temporary):
        make_open_folder(folder.parent)
        make_node_folder(folder, user)
        hand_over(folder, user)
    return folders


def node_settings(
    *,
    cluster_name: str,
    name: str,
    folders: NodeFolders,
    http_port: int,
    transport_port: int,
    seed_ports: Sequence[int],
    founder: str,
    plugin: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """The settings of one node.

    Args:
        cluster_name: The cluster's name.
        name: The node's name.
        folders: Its folders.
        http_port: Its HTTP port.
        transport_port: Its transport port.
        seed_ports: Transport ports of all nodes.
        founder: The node that founds the cluster when there is no data yet; the others join it. Only
            this one is ever told to found, so that two halves can never become two clusters.
        plugin: Settings of our plugin; None when it is not installed, since a node refuses to start
            with settings that no plugin knows.
    """
    settings: dict[str, Any] = {
        "cluster.name": cluster_name,
        "node.name": name,
        "network.host": "127.0.0.1",
        "http.port": http_port,
        "transport.port": transport_port,
        "discovery.seed_hosts": [f"127.0.0.1:{port}" for port in seed_ports],
        "path.data": str(folders.data),
        "path.logs": str(folders.logs),
        # The stock limits are shares of the disk and stop writing on a laptop with 100 GB left.
        "cluster.routing.allocation.disk.watermark.low": "2gb",
        "cluster.routing.allocation.disk.watermark.high": "1gb",
        "cluster.routing.allocation.disk.watermark.flood_stage": "500mb",
        # An index of ours that was not made by `pincite init` would get guessed mappings.
        "action.auto_create_index": "-pincite-*,+*",
    }
    if name == founder:
        settings["cluster.initial_cluster_manager_nodes"] = [founder]
    if plugin is not None:
        settings.update(plugin)
    return settings


def write_config(folders: NodeFolders, settings: Mapping[str, Any], user: NodeUser) -> None:
    """Writes opensearch.yml and the logging configuration."""
    # JSON values are YAML values, and json quotes what needs quoting.
    lines = [f"{key}: {json.dumps(value)}" for key, value in settings.items()]
    (folders.conf / "opensearch.yml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folders.conf / "log4j2.properties").write_text(_LOG4J, encoding="utf-8")
    hand_over(folders.conf, user)


def write_keystores(
    node: Path, confs: Sequence[Path], secret_settings: Mapping[str, str], jdk: Jdk, user: NodeUser
) -> None:
    """Writes the same keystore into each configuration folder, unless it already holds these secrets.

    Args:
        node: The assembled node.
        confs: Configuration folders.
        secret_settings: Names and values; may be empty.
        jdk: The JDK.
        user: The node's user.

    Raises:
        ConfigError: ``keystore_failed``.
    """
    mark = hashlib.sha256(json.dumps([_KEYSTORE_TOOL.name, dict(secret_settings)]).encode()).hexdigest()
    stale = [conf for conf in confs if not _holds(conf, mark)]
    if not stale:
        return
    with tempfile.TemporaryDirectory() as folder:
        try:
            done = subprocess.run(  # noqa: S603 - fixed program, no shell
                [str(jdk.java), "-Xmx256m", "-cp", f"{node / 'lib'}/*", str(_KEYSTORE_TOOL), folder],
                input="".join(f"{key}\t{value}\n" for key, value in secret_settings.items()),
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_KEYSTORE_TIMEOUT_S,
                check=False,
            )
            problem = done.stderr.strip()[-2000:] if done.returncode else ""
        except subprocess.TimeoutExpired:
            problem = f"it did not end within {_KEYSTORE_TIMEOUT_S} s"
        made = Path(folder) / KEYSTORE
        if problem or not made.is_file():
            raise ConfigError(
                "keystore_failed",
                f"The node's keystore could not be written: {problem or 'no file was made'}",
                mend="Run pincite doctor; the JDK must be complete.",
                subject=str(stale[0] / KEYSTORE),
            )
        for conf in stale:
            shutil.copyfile(made, conf / KEYSTORE)
            (conf / KEYSTORE).chmod(0o600)
            _mark_file(conf).write_text(mark, encoding="ascii")
            _mark_file(conf).chmod(0o600)
            hand_over(conf, user)


def _mark_file(conf: Path) -> Path:
    return conf / "keystore.sha256"


def _holds(conf: Path, mark: str) -> bool:
    try:
        return (conf / KEYSTORE).is_file() and _mark_file(conf).read_text(encoding="ascii") == mark
    except OSError:
        return False


def java_command(
    node: Path, folders: NodeFolders, jdk: Jdk, *, heap_mb: int, agent: bool, more: Sequence[str] = ()
) -> list[str]:
    """The command line of a node.

    Args:
        node: The assembled node.
        folders: The node's folders.
        jdk: The JDK.
        heap_mb: Heap, in MiB; as much again may be used outside of it.
        agent: Whether OpenSearch's Java agent enforces the plugins' policies, as in real distributions.
        more: Further options, after ours.
    """
    options = [
        f"-Xms{heap_mb}m",
        f"-Xmx{heap_mb}m",
        f"-XX:MaxDirectMemorySize={max(heap_mb // 2, 128)}m",
        "-XX:+UseG1GC",
        "-XX:+ExitOnOutOfMemoryError",
        f"-XX:ErrorFile={folders.logs}/hs_err_pid%p.log",
        "-Xss1m",
        "-Djava.awt.headless=true",
        "-Dfile.encoding=UTF-8",
        f"-Djava.io.tmpdir={folders.temporary}",
        "-Djna.nosys=true",
        "-Dio.netty.noUnsafe=true",
        "-Dio.netty.noKeySetOptimization=true",
        "-Dlog4j.shutdownHookEnabled=false",
        "-Dlog4j2.disable.jmx=true",
        f"-Dopensearch.path.home={node}",
        f"-Dopensearch.path.conf={folders.conf}",
        "-Dopensearch.distribution.type=tar",
        "-Dopensearch.bundled_jdk=false",
        "--add-modules=jdk.incubator.vector",
        "--enable-native-access=ALL-UNNAMED",
    ]
    if agent:
        options.append(f"-javaagent:{node / 'agent/opensearch-agent.jar'}")
    return [str(jdk.java), *options, *more, "-cp", f"{node / 'lib'}/*", "org.opensearch.bootstrap.OpenSearch"]


def sidecar_token(home: Path) -> str:
    """The secret that the embedded cluster's plugin shows to the sidecar; made once per home.

    Args:
        home: Pincite's home.

    Returns:
        A URL-safe token, the same for every caller with this home.

    Raises:
        ConfigError: ``home_unwritable``.
    """
    path = home / "cluster" / "sidecar.token"
    try:
        if not path.exists():
            make_open_folder(path.parent)
            temporary = path.with_name(f".sidecar.token-{os.getpid()}")
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(handle, "w", encoding="ascii") as out:
                out.write(secrets.token_urlsafe(32))
            try:
                os.link(temporary, path)  # fails when another process was first: then theirs is the token
            except FileExistsError:
                pass
            finally:
                temporary.unlink()
        return path.read_text(encoding="ascii").strip()
    except OSError as exc:
        raise ConfigError(
            "home_unwritable",
            f"The sidecar's token {path} cannot be read or made: {exc.strerror or exc}.",
            mend="Run the command as the user that owns Pincite's home, or set PINCITE_SIDECAR__TOKEN.",
            subject=str(path),
        ) from None


def check_token(token: str) -> str:
    """The token itself, if it can stand in an HTTP header and in the keystore.

    Raises:
        UserError: ``token_invalid``.
    """
    if not token or any(not _MIN_ASCII <= ord(c) <= _MAX_ASCII for c in token):
        raise UserError(
            "token_invalid",
            "The sidecar's token is empty or holds a space, a control or a non-ASCII character.",
            mend="Set PINCITE_SIDECAR__TOKEN to printable ASCII without spaces, or unset it.",
            subject="PINCITE_SIDECAR__TOKEN",
        )
    return token
