"""Who runs the node, and whether that user can reach the files.

OpenSearch refuses to run as root. When Pincite itself runs as root (containers, servers) the node's
processes are given to an unprivileged user.
"""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pincite.domain.errors import ConfigError

CANDIDATES = ("opensearch", "pincite", "nobody")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeUser:
    """The user of the node's processes.

    Args:
        name: Its name.
        uid: Its user id.
        gid: Its primary group's id.
        dropped: Whether it is another user than ours, so that files must be handed over.
    """

    name: str
    uid: int
    gid: int
    dropped: bool


def node_user(candidates: Sequence[str] = CANDIDATES) -> NodeUser:
    """Ourselves, or the first of ``candidates`` that exists when we are root.

    Raises:
        ConfigError: ``node_user_missing``.
    """
    uid = os.geteuid()
    if uid != 0:
        try:
            name = pwd.getpwuid(uid).pw_name
        except KeyError:  # containers run with uids that have no name
            name = str(uid)
        return NodeUser(name=name, uid=uid, gid=os.getegid(), dropped=False)
    for candidate in candidates:
        try:
            entry = pwd.getpwnam(candidate)
        except KeyError:
            continue
        if entry.pw_uid != 0:
            return NodeUser(name=candidate, uid=entry.pw_uid, gid=entry.pw_gid, dropped=True)
    raise ConfigError(
        "node_user_missing",
        f"OpenSearch does not run as root, and none of the users {', '.join(candidates)} exists.",
        mend="Create a user named opensearch, or run pincite as a user that is not root.",
        subject="user",
    )


def can_enter(folder: Path, user: NodeUser) -> bool:
    """Whether ``user`` may pass through ``folder``, judged by its mode bits.

    Access control lists are not read: where they grant more, the mode is the stricter judge.
    """
    info = folder.stat()
    if info.st_uid == user.uid:
        return bool(info.st_mode & stat.S_IXUSR)
    if info.st_gid == user.gid:
        return bool(info.st_mode & stat.S_IXGRP)
    return bool(info.st_mode & stat.S_IXOTH)


def closed_folder(path: Path, user: NodeUser) -> Path | None:
    """The topmost existing folder on the way to ``path`` (itself included) that ``user`` cannot enter."""
    path = path.absolute()
    real = path.resolve()
    # A link's own way and its target's way must both be open.
    for folder in dict.fromkeys([*reversed(path.parents), path, *reversed(real.parents), real]):
        if folder.is_dir() and not can_enter(folder, user):
            return folder
    return None


def inspect_home(home: Path, user: NodeUser) -> None:
    """Looks whether ``home`` can be made, written and reached. Makes nothing.

    Raises:
        ConfigError: ``home_unreachable`` or ``home_unwritable``, naming the folder.
    """
    closed = closed_folder(home, user) if user.dropped else None
    if closed is not None and closed != home:
        raise _unreachable(closed, home, user)
    nearest = nearest_existing(home)
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        why = f"{nearest} is not a folder" if not nearest.is_dir() else f"{nearest} does not allow it"
        raise _unwritable(home, why)


def check_home(home: Path, user: NodeUser) -> None:
    """Makes sure that the home exists, that we can write there and that ``user`` can reach it.

    Raises:
        ConfigError: ``home_unreachable`` or ``home_unwritable``, naming the folder.
    """
    inspect_home(home, user)
    try:
        home.mkdir(parents=True, exist_ok=True)
        if user.dropped and not can_enter(home, user):
            home.chmod(0o755)
        probe = home / f".write-test-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as exc:
        raise _unwritable(home, exc.strerror or str(exc)) from None
    closed = closed_folder(home, user) if user.dropped else None
    if closed is not None:  # a parent that we have just made under a strict umask
        raise _unreachable(closed, home, user)


def nearest_existing(path: Path) -> Path:
    """The path itself or the nearest parent that exists."""
    path = path.absolute()
    # os.path answers False where a closed folder hides the path; Path.exists raises.
    return next(folder for folder in (path, *path.parents) if os.path.exists(folder))  # noqa: PTH110


def _unreachable(closed: Path, home: Path, user: NodeUser) -> ConfigError:
    return ConfigError(
        "home_unreachable",
        f"The user {user.name}, which runs the embedded node, cannot enter {closed} on the way to {home}.",
        mend="Set PINCITE_HOME to a folder that every user can reach, for instance /var/lib/pincite, "
        f"or open the folder with: chmod o+x {closed}",
        subject=str(closed),
    )


def _unwritable(home: Path, why: str) -> ConfigError:
    return ConfigError(
        "home_unwritable",
        f"Pincite's home {home} cannot be written: {why}.",
        mend="Set PINCITE_HOME to a folder that you can write.",
        subject=str(home),
    )


def make_open_folder(folder: Path) -> Path:
    """A folder that everyone can enter and read, whatever the umask."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)
    return folder


def make_node_folder(folder: Path, user: NodeUser) -> Path:
    """A folder that belongs to the node's user and is closed to others."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    if user.dropped:
        os.chown(folder, user.uid, user.gid)
    return folder


def hand_over(folder: Path, user: NodeUser) -> None:
    """Gives everything below ``folder`` to the node's user. Links are not followed."""
    if not user.dropped:
        return
    for parent, folders, files in os.walk(folder):
        for name in [*folders, *files]:
            os.chown(Path(parent) / name, user.uid, user.gid, follow_symlinks=False)
    os.chown(folder, user.uid, user.gid)
