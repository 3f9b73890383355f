"""Ports, processes, state, checksums, settings and plugin sources of the embedded cluster."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from pincite.adapters.embedded import assembly, config, layout, ports
from pincite.adapters.embedded.cluster import EmbeddedCluster
from pincite.adapters.embedded.plugin import sources_key
from pincite.adapters.embedded.processes import ProcessId, identify, is_alive, stop
from pincite.adapters.embedded.state import ClusterState, NodeState, locked, read_state, write_state
from pincite.domain.errors import ConfigError, UpstreamError, UserError

# ---- ports


def test_wanted_port_when_free():
    assert ports.choose(9000, 2, fixed=False, free=lambda port: True) == 9000


def test_next_block_when_the_default_is_taken():
    taken = {9000, 9102}  # the second is the transport port of 9002
    assert ports.choose(9000, 2, fixed=False, free=lambda port: port not in taken) == 9003


def test_reserved_ports_are_left_to_their_owners():
    assert ports.choose(9000, 1, fixed=False, reserved={9000}, free=lambda port: True) == 9001
    assert ports.choose(9000, 1, fixed=True, reserved={9000}, free=lambda port: True) == 9000


def test_explicit_port_taken_names_it():
    with pytest.raises(UserError) as caught:
        ports.choose(9000, 3, fixed=True, free=lambda port: port != 9102)
    assert (caught.value.code, caught.value.subject) == ("port_taken", "9102")
    assert "--port" in caught.value.mend


def test_no_port_at_all():
    with pytest.raises(ConfigError) as caught:
        ports.choose(9000, 1, fixed=False, free=lambda port: False)
    assert caught.value.code == "port_taken"


def test_is_free_sees_a_listener():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        assert not ports.is_free(port)
    assert ports.is_free(port)


# ---- processes


def sleeper(*code: str) -> subprocess.Popen[bytes]:
    script = "; ".join([*code, "print(flush=True)", "import time", "time.sleep(60)"])
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    return process


def disown(process: subprocess.Popen[bytes]) -> ProcessId:
    """Our code reaps it, so that Popen must not wait for it."""
    found = identify(process.pid)
    assert found is not None
    process.returncode = 0
    return found


def test_stop_ends_a_process_and_reaps_it():
    process = disown(sleeper())
    assert is_alive(process)
    assert stop([process], grace_s=10) == []
    assert not is_alive(process)


def test_one_that_ignores_sigterm_is_killed():
    process = disown(sleeper("import signal", "signal.signal(signal.SIGTERM, signal.SIG_IGN)"))
    begin = time.monotonic()
    assert stop([process], grace_s=0.5) == []
    assert 0.4 < time.monotonic() - begin < 5


def test_reused_pid_is_not_ours_and_not_stopped():
    process = disown(sleeper())
    reused = dataclasses.replace(process, started="another boot:1")
    assert not is_alive(reused)
    assert stop([reused], grace_s=0.1) == []
    assert is_alive(process)
    stop([process])


def test_a_zombie_is_dead():
    child = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # dead, not yet reaped
    assert identify(child.pid) is None
    child.wait()


@pytest.mark.skipif(
    not Path("/proc/self/task").exists(), reason="not applicable: only Linux shows threads in /proc"
)
def test_a_process_whose_first_thread_has_ended_is_alive_as_long_as_others_are():
    process = disown(
        sleeper(
            "import ctypes, threading, time",
            "threading.Thread(target=time.sleep, args=(60,)).start()",
            "print(flush=True)",
            "ctypes.CDLL(None).syscall(60 if __import__('platform').machine() == 'x86_64' else 93, 0)",
        )
    )
    deadline = time.monotonic() + 10
    while (text := Path(f"/proc/{process.pid}/stat").read_text()) and time.monotonic() < deadline:
        if text[text.rindex(")") + 2] == "Z":
            break
        time.sleep(0.02)
    assert text[text.rindex(")") + 2] == "Z"
    assert is_alive(process)
    assert stop([process], grace_s=0.2) == []
    assert not is_alive(process)


# ---- state and lock


def a_state(process: ProcessId) -> ClusterState:
    node = NodeState(name="pincite-1", http_port=9000, transport_port=9100, process=process)
    return ClusterState(
        opensearch="3.6.0",
        assembly="/a",
        java_home="/j",
        plugin=None,
        agent=False,
        heap_mb=512,
        jvm_options=("-Da=b",),
        nodes=(node,),
    )


def test_state_round_trip(tmp_path):
    state = a_state(ProcessId(pid=1, started="x"))
    write_state(tmp_path / "state.json", state)
    assert read_state(tmp_path / "state.json") == state
    assert [p.name for p in tmp_path.iterdir()] == ["state.json"]


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "{}", '{"state_version": 99}', '{"state_version": 1}'])
def test_state_that_cannot_be_understood_is_none(tmp_path, text):
    (tmp_path / "state.json").write_text(text)
    assert read_state(tmp_path / "state.json") is None


def test_status_tells_a_reused_pid_from_a_running_node(tmp_path):
    cluster = EmbeddedCluster(home=tmp_path, progress=lambda _: None)
    (tmp_path / "cluster").mkdir()
    write_state(tmp_path / "cluster/state.json", a_state(ProcessId(pid=os.getpid(), started="before")))
    status = cluster.status()
    assert not status.running
    assert [node.alive for node in status.nodes] == [False]
    assert cluster.down() is False
    assert not (tmp_path / "cluster/state.json").exists()


def test_down_and_status_of_nothing_make_nothing(tmp_path):
    cluster = EmbeddedCluster(home=tmp_path / "home", progress=lambda _: None)
    assert cluster.down() is False
    assert cluster.status().running is False
    assert json.loads(json.dumps(cluster.status().as_dict()))["home"] == str(tmp_path / "home")
    assert not (tmp_path / "home").exists()


def test_lock_is_waited_for_and_told_once(tmp_path):
    told: list[int] = []
    order: list[str] = []
    inside, leave = threading.Event(), threading.Event()

    def holder() -> None:
        with locked(tmp_path / "lock", waiting=lambda: None, timeout_s=5):
            inside.set()
            leave.wait(10)
            order.append("first")

    thread = threading.Thread(target=holder)
    thread.start()
    inside.wait(10)
    with (
        pytest.raises(UpstreamError) as caught,
        locked(tmp_path / "lock", waiting=lambda: told.append(1), timeout_s=0.5),
    ):
        raise AssertionError("two holders")
    assert caught.value.code == "cluster_busy"
    assert told == [1]
    leave.set()
    with locked(tmp_path / "lock", waiting=lambda: None, timeout_s=10):
        order.append("second")
    thread.join()
    assert order == ["first", "second"]


# ---- pinned files


def test_pins_agree_with_each_other():
    sums = json.loads(assembly.CHECKSUMS.read_text())
    pom = assembly.POM.read_text()
    assert pom.count("<artifactItem>") == len(sums)
    for path, digest in sums.items():
        folder, name = path.rsplit("/", 1)
        assert f"${{node}}/{folder}</outputDirectory><destFileName>{name}</destFileName>" in pom
        assert len(digest) == 64
    for folder in layout.ROOTS:
        assert any(path.startswith(f"{folder}/") for path in sums), folder
    assert layout.KNN_ZIP in sums
    # Log4j's parts must have one version; its core is pinned by hand.
    versions = {p.rsplit("-", 1)[1] for p in sums if p.startswith("lib/log4j-")}
    assert len(versions) == 1


def test_checksums(tmp_path):
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/a.jar").write_bytes(b"a")
    good = {"lib/a.jar": assembly.sha256_of(tmp_path / "lib/a.jar")}
    assembly.check_files(tmp_path, good)
    for sums, word in (
        ({"lib/a.jar": "0" * 64}, "does not have the pinned checksum"),
        ({**good, "lib/b.jar": "0" * 64}, "missing"),
        ({}, "not in the list"),
    ):
        with pytest.raises(ConfigError, match=word) as caught:
            assembly.check_files(tmp_path, sums)
        assert caught.value.code == "artifact_checksum_mismatch"
        assert caught.value.subject in ("lib/a.jar", "lib/b.jar")


def test_prune_keeps_what_is_used(tmp_path):
    base = f"base-{assembly.pins_key()}"
    for name in (base, "node-x-1", "node-x-2", "base-old", ".making-node-x-3", "unrelated"):
        (tmp_path / name).mkdir()
    (tmp_path / "lock").touch()
    assembly.prune(tmp_path, tmp_path / "node-x-2")
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([base, "node-x-2", "unrelated", "lock"])


# ---- configuration


def test_only_the_founder_founds_and_plugin_settings_need_the_plugin(tmp_path):
    def settings(name: str, plugin: dict[str, object] | None) -> dict[str, object]:
        return config.node_settings(
            cluster_name="c",
            name=name,
            folders=config.node_folders(tmp_path, name),
            http_port=1,
            transport_port=2,
            seed_ports=[2, 3],
            founder="pincite-1",
            plugin=plugin,
        )

    first, second = settings("pincite-1", {"pincite.sidecar.urls": ["u"]}), settings("pincite-2", None)
    assert first["cluster.initial_cluster_manager_nodes"] == ["pincite-1"]
    assert "cluster.initial_cluster_manager_nodes" not in second
    assert first["network.host"] == second["network.host"] == "127.0.0.1"
    assert first["pincite.sidecar.urls"] == ["u"]
    assert not any(key.startswith("pincite.") for key in second)


def test_shrinking_is_refused_and_names_the_data(tmp_path):
    for i in (1, 2, 3):
        state = tmp_path / f"cluster/data/pincite-{i}/nodes/0/_state"
        state.mkdir(parents=True)
        (state / "segments_1").touch()
    (tmp_path / "cluster/data/pincite-4").mkdir()  # a failed start leaves this; it holds nothing
    cluster = EmbeddedCluster(home=tmp_path, nodes=1, progress=lambda _: None)
    assert cluster.status().n_data_nodes == 3
    with pytest.raises(UserError) as caught:
        cluster._start_fresh(user=None)  # type: ignore[arg-type]  # refused before the user matters
    assert caught.value.code == "cluster_shrink"
    assert "--nodes 3" in caught.value.mend


# ---- plugin sources


def test_sources_key_follows_contents_and_names_and_ignores_builds(tmp_path):
    project = tmp_path / "plugin"
    (project / "src").mkdir(parents=True)
    (project / "pom.xml").write_text("<project/>")
    (project / "src/A.java").write_text("class A {}")
    key = sources_key(project)
    (project / "target").mkdir()
    (project / "target/x.jar").write_text("built")
    (project / ".idea").mkdir()
    (project / ".idea/x").write_text("mine")
    assert sources_key(project) == key
    copied = Path(shutil.copytree(project, tmp_path / "copy"))
    assert sources_key(copied) == key
    (project / "src/A.java").write_text("class A { }")
    assert sources_key(project) != key
    (copied / "src/A.java").rename(copied / "src/B.java")
    assert sources_key(copied) != key
