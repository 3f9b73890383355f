"""The embedded cluster, with real nodes under OpenSearch's Java agent."""

from __future__ import annotations

import dataclasses
import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pincite.adapters.embedded import ClusterStatus, EmbeddedCluster
from pincite.adapters.embedded.processes import identify, is_alive
from pincite.adapters.embedded.state import read_state
from pincite.domain.errors import UpstreamError, UserError

pytestmark = pytest.mark.timeout(600)

HEAP_MB = 512
# The nodes of these tests live for seconds: the quick compiler alone halves the CPU time of a start.
QUICK = ("-XX:TieredStopAtLevel=1",)


def rest(url: str, method: str, path: str, body: Any = None) -> Any:
    host, port = url.removeprefix("http://").split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=60)
    try:
        connection.request(
            method,
            path,
            None if body is None else json.dumps(body),
            {"Content-Type": "application/json"},
        )
        response = connection.getresponse()
        answer = json.loads(response.read())
    finally:
        connection.close()
    assert response.status < 300, answer
    return answer


def make_cluster(home: Path, *, port: int, with_plugin: bool) -> EmbeddedCluster:
    return EmbeddedCluster(
        home=home,
        http_port=port,
        port_fixed=True,
        heap_mb=HEAP_MB,
        agent=True,
        jvm_options=QUICK,
        with_plugin=with_plugin,
        progress=lambda _: None,
    )


@pytest.fixture(scope="module")
def cluster(
    embedded_home: Path, has_plugin: bool, free_cluster_port: Callable[..., int]
) -> Iterator[EmbeddedCluster]:
    made = make_cluster(embedded_home, port=free_cluster_port(), with_plugin=has_plugin)
    yield made
    made.down()


@pytest.fixture(scope="module")
def running(cluster: EmbeddedCluster) -> ClusterStatus:
    """Two processes start the cluster at the same moment."""
    script = (
        "import json, sys; from pathlib import Path; from pincite.adapters.embedded import EmbeddedCluster\n"
        "given = json.loads(sys.argv[1]); given['home'] = Path(given['home'])\n"
        "print(json.dumps(EmbeddedCluster(**given).up().as_dict()))"
    )
    given = {f.name: getattr(cluster, f.name) for f in dataclasses.fields(cluster) if f.name != "progress"}
    command = [sys.executable, "-c", script, json.dumps({**given, "home": str(cluster.home)})]
    starters = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)
    ]
    outputs = [starter.communicate(timeout=550) for starter in starters]
    assert [starter.returncode for starter in starters] == [0, 0], outputs
    first, second = (json.loads(out) for out, _ in outputs)
    assert sorted([first["already_running"], second["already_running"]]) == [False, True]
    assert [n["pid"] for n in first["nodes"]] == [n["pid"] for n in second["nodes"]]
    return cluster.status()


def test_runs_with_its_plugins_and_not_as_root(running: ClusterStatus, has_plugin: bool) -> None:
    assert running.running
    assert running.health in ("green", "yellow")
    assert running.version == "3.6.0"
    names = [plugin.split(" ")[0] for plugin in running.plugins]
    assert names == ["opensearch-knn", "pincite"] if has_plugin else ["opensearch-knn"]
    (node,) = running.nodes
    assert Path(f"/proc/{node.pid}").stat().st_uid != 0
    command = Path(f"/proc/{node.pid}/cmdline").read_text()
    assert "-javaagent:" in command
    token = (running.home / "cluster/sidecar.token").read_text()
    assert token not in command


def test_answers_a_knn_search(running: ClusterStatus) -> None:
    assert running.url is not None
    mapping = {"type": "knn_vector", "dimension": 2, "method": {"name": "hnsw", "engine": "lucene"}}
    rest(
        running.url,
        "PUT",
        "/kept",
        {
            "settings": {"index.knn": True, "number_of_replicas": 0},
            "mappings": {"properties": {"v": mapping}},
        },
    )
    for number, vector in enumerate([[0.0, 0.0], [3.0, 3.0], [9.0, 9.0]]):
        rest(running.url, "PUT", f"/kept/_doc/{number}?refresh=true", {"v": vector, "text": f"page {number}"})
    hits = rest(running.url, "POST", "/kept/_search", {"query": {"knn": {"v": {"vector": [4.0, 4.0], "k": 2}}}})
    assert [hit["_id"] for hit in hits["hits"]["hits"]] == ["1", "0"]


def test_up_again_starts_nothing(running: ClusterStatus, cluster: EmbeddedCluster) -> None:
    again = cluster.up()
    assert again.already_running
    assert again.url == running.url
    assert [node.pid for node in again.nodes] == [node.pid for node in running.nodes]
    assert cluster.ensure_running() == running.url


def test_up_with_other_wishes_is_refused(running: ClusterStatus, cluster: EmbeddedCluster) -> None:
    for change, option in (({"nodes": 2}, "--nodes"), ({"http_port": cluster.http_port + 1}, "--port")):
        with pytest.raises(UserError) as caught:
            dataclasses.replace(cluster, **change).up()
        assert (caught.value.code, caught.value.subject) == ("cluster_running", option)


def test_taken_port_is_named(
    running: ClusterStatus, cluster: EmbeddedCluster, new_embedded_home: Callable[[], Path]
) -> None:
    home = new_embedded_home()
    with pytest.raises(UserError) as caught:
        dataclasses.replace(cluster, home=home).up()
    assert (caught.value.code, caught.value.subject) == ("port_taken", str(cluster.http_port))
    assert not EmbeddedCluster(home=home).status().running


def test_our_indices_are_not_made_by_accident(running: ClusterStatus) -> None:
    assert running.url is not None
    with pytest.raises(AssertionError, match="index_not_found_exception"):
        rest(running.url, "POST", "/pincite-chunks/_doc", {"text": "x"})


def test_data_stays_over_down_and_over_kill(running: ClusterStatus, cluster: EmbeddedCluster) -> None:
    (node,) = running.nodes
    assert cluster.down() is True
    assert identify(node.pid) is None
    assert cluster.down() is False
    assert not cluster.status().running
    url = cluster.ensure_running()
    assert rest(url, "GET", "/kept/_count")["count"] == 3
    (node,) = cluster.status().nodes
    os.kill(node.pid, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while cluster.status().running and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not cluster.status().running
    assert cluster.up().already_running is False
    assert rest(url, "GET", "/kept/_count")["count"] == 3
    assert cluster.status().data_bytes > 0


def test_a_node_that_cannot_start_tells_why(
    new_embedded_home: Callable[[], Path], free_cluster_port: Callable[..., int]
) -> None:
    home = new_embedded_home()
    hopeless = dataclasses.replace(make_cluster(home, port=free_cluster_port(), with_plugin=False), heap_mb=1)
    with pytest.raises(UpstreamError, match="heap") as caught:
        hopeless.up()
    assert (caught.value.code, caught.value.subject) == ("node_failed", "pincite-1")
    assert not (home / "cluster/state.json").exists()


@pytest.mark.timeout(900)
def test_grows_to_three_nodes_and_mends_a_lost_one(
    cluster: EmbeddedCluster, running: ClusterStatus, free_cluster_port: Callable[..., int]
) -> None:
    cluster.down()
    grown = dataclasses.replace(cluster, nodes=3, http_port=free_cluster_port(3))
    status = grown.up()
    try:
        assert status.url is not None
        assert len(status.nodes) == 3
        assert rest(status.url, "GET", "/_cluster/health")["number_of_nodes"] == 3
        assert rest(status.url, "GET", "/kept/_count")["count"] == 3
        state = read_state(grown.home / "cluster/state.json")
        assert state is not None
        lost = state.nodes[1]
        os.kill(lost.process.pid, signal.SIGKILL)
        while is_alive(lost.process):
            time.sleep(0.1)
        mended = grown.up()
        assert [node.alive for node in mended.nodes] == [True, True, True]
        kept = [node.pid for node in mended.nodes if node.name != lost.name]
        assert kept == [node.process.pid for node in state.nodes if node.name != lost.name]
        assert rest(status.url, "GET", "/_cluster/health")["number_of_nodes"] == 3
    finally:
        grown.down()
    with pytest.raises(UserError) as caught:
        dataclasses.replace(grown, nodes=1).up()
    assert caught.value.code == "cluster_shrink"
