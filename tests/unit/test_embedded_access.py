"""Who runs the node and what that user can reach."""

from __future__ import annotations

import os
import stat

import pytest

from pincite.adapters.embedded import EmbeddedCluster
from pincite.adapters.embedded.access import NodeUser, check_home, closed_folder, inspect_home, node_user
from pincite.adapters.embedded.config import check_token, sidecar_token
from pincite.domain.errors import ConfigError, UserError

STRANGER = NodeUser(name="stranger", uid=64321, gid=64321, dropped=True)


@pytest.fixture
def open_folder(tmp_path_factory):
    """A scratch folder whose parents every user can enter, which pytest's own are not."""
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def test_closed_parent_is_named(open_folder):
    closed = open_folder / "closed"
    (closed / "sub").mkdir(parents=True)
    closed.chmod(0o700)
    with pytest.raises(ConfigError) as caught:
        check_home(closed / "sub" / "home", STRANGER)
    error = caught.value
    assert (error.code, error.subject) == ("home_unreachable", str(closed))
    assert "PINCITE_HOME" in error.mend
    assert f"chmod o+x {closed}" in error.mend
    assert not (closed / "sub" / "home").exists()


def test_a_link_is_judged_by_its_target(open_folder):
    (open_folder / "private" / "target").mkdir(parents=True)
    (open_folder / "link").symlink_to(open_folder / "private" / "target")
    (open_folder / "private").chmod(0o700)
    assert closed_folder(open_folder / "link" / "home", STRANGER) == open_folder / "private"


def test_reachable_home_is_made_open_whatever_the_umask(open_folder):
    old = os.umask(0o077)
    try:
        check_home(open_folder / "home", STRANGER)
    finally:
        os.umask(old)
    assert stat.S_IMODE((open_folder / "home").stat().st_mode) == 0o755
    assert list((open_folder / "home").iterdir()) == []


def test_parents_made_under_a_strict_umask_are_named(open_folder):
    old = os.umask(0o077)
    try:
        with pytest.raises(ConfigError) as caught:
            check_home(open_folder / "a" / "home", STRANGER)
    finally:
        os.umask(old)
    assert caught.value.subject == str(open_folder / "a")


def test_inspecting_makes_nothing(open_folder):
    inspect_home(open_folder / "x" / "y", STRANGER)
    assert list(open_folder.iterdir()) == []


def test_home_below_a_file(open_folder):
    (open_folder / "file").touch()
    with pytest.raises(ConfigError) as caught:
        check_home(open_folder / "file" / "home", node_user())
    assert caught.value.code == "home_unwritable"


@pytest.mark.skipif(os.geteuid() != 0, reason="not applicable: needs root to become another user")
def test_a_home_in_anothers_closed_folder(open_folder):
    closed = open_folder / "closed"
    closed.mkdir(mode=0o700)
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.setgid(STRANGER.gid)
            os.setuid(STRANGER.uid)
            cluster = EmbeddedCluster(home=closed / "home", progress=lambda _: None)
            assert cluster.down() is False
            assert cluster.status().running is False
            cluster.up()
        except ConfigError as exc:
            status = 0 if exc.code == "home_unwritable" else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_root_is_never_the_nodes_user():
    user = node_user()
    assert user.uid != 0
    assert user.dropped == (os.geteuid() == 0)


@pytest.mark.skipif(os.geteuid() != 0, reason="not applicable: as another user nothing is dropped")
def test_no_user_to_drop_to():
    with pytest.raises(ConfigError) as caught:
        node_user(candidates=("no-such-user-here", "root"))
    assert caught.value.code == "node_user_missing"


def test_token_is_made_once_and_closed_to_others(tmp_path):
    token = sidecar_token(tmp_path)
    assert len(token) >= 43
    assert sidecar_token(tmp_path) == token
    assert stat.S_IMODE((tmp_path / "cluster/sidecar.token").stat().st_mode) == 0o600
    assert [p.name for p in (tmp_path / "cluster").iterdir()] == ["sidecar.token"]
    assert check_token(token) == token


@pytest.mark.parametrize("bad", ["", "two words", "tab\t", "line\n", "geheim§"])
def test_token_that_no_header_can_carry(bad):
    with pytest.raises(UserError) as caught:
        check_token(bad)
    assert caught.value.code == "token_invalid"
    assert not bad or bad not in caught.value.message
