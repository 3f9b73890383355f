"""The cache of token rows, shared by the processes of one host (design.md §5, Freshness).

One file an identity (``token_ring`` says what is in it), in a folder with one lock for those who write. What
cannot be on disk is in memory: a cache is never a reason to fail.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pincite.adapters.token_ring import BOOT_ID, LAYOUT, NO_ROOM, Ring, Shape, boot_id, digest_of, made_in
from pincite.domain.protocols import LocatedTokens
from pincite.domain.types import ChunkVersion

if TYPE_CHECKING:
    from pincite.adapters.token_ring import Item, Rows

_LOCK_WAIT_S = 5.0
_UNUSED_S = 30 * 86400
#: A file is not made smaller than this.
_SMALLEST_BYTES = 1 << 20
_AT_ONCE = 256  # entries that are written together


class TokenRowCache:
    """Token rows by chunk id and exact version; first in, first out; thread- and process-safe.

    A folder that cannot be written, or a disk without room, is no error: the cache is then in this process's
    memory, or smaller, and ``reason`` says why.

    Args:
        folder: Where the file lives; made if missing. On a disk of this host.
        row_bytes: Bytes of a row.
        max_bytes: Upper bound of the file. Disk is taken as it is needed.
        identity: What the rows belong to (cluster, index, codec). Caches of one identity share a file.
    """

    def __init__(self, folder: Path, *, row_bytes: int, max_bytes: int, identity: str) -> None:
        if row_bytes < 1:
            raise ValueError(f"row_bytes is {row_bytes}")
        shape = Shape.of(row_bytes, max_bytes)
        digest = digest_of(identity)
        named = blake2b(f"{LAYOUT} {row_bytes} {shape.capacity}\n".encode() + digest, digest_size=12).hexdigest()
        self._folder, self._path = folder, folder / f"tokens-{named}.cache"
        self._shape, self._identity = shape, digest
        self._thread_lock = threading.Lock()
        self._why: str | None = None
        self._last_length = 1
        self._ring = self._open()

    @property
    def reason(self) -> str | None:
        """Why the cache is not on disk, or smaller than asked; None when all is well."""
        if self._why is not None:
            return self._why
        bounds = self._ring.bounds()
        if bounds is not None and bounds[1] < self._shape.capacity:
            share = bounds[1] / self._shape.capacity
            return f"{self._path} holds {share:.0%} of what it may: there was no room on the disk."
        return None

    def locate(self, wanted: Mapping[str, ChunkVersion]) -> LocatedTokens:
        """Rows of exactly these versions; ids without that version are left out.

        Numbers of a version are int64. Nothing is copied. About 1 µs an id.
        """
        ring, ids = self._ring, list(wanted)
        keys = np.frombuffer(b"".join([digest_of(chunk_id) for chunk_id in ids]), dtype=np.uint64).reshape(-1, 2)
        versions = np.array([(v.seq_no, v.primary_term) for v in wanted.values()], dtype=np.int64).reshape(-1, 2)
        found, starts, positions, lengths = ring.look_up(keys, versions)
        held = starts[lengths > 0]
        oldest = int(held.min()) if len(held) else None

        def valid() -> bool:
            if oldest is None:
                return True
            now = ring.bounds()
            return now is not None and oldest >= now[0] - now[1]

        return LocatedTokens(
            ids=tuple([ids[i] for i in found.tolist()]),
            rows=ring.rows,
            starts=positions,
            lengths=lengths,
            valid=valid,
        )

    def put_many(self, items: Iterable[tuple[str, ChunkVersion, Rows]]) -> None:
        """Keep rows, (n, row_bytes) uint8 each; the oldest give way.

        A version that is held stays as it is; another version of the same chunk is replaced. One that is larger
        than the whole cache is not kept, nor is anything when another process holds the lock for seconds.

        Raises:
            ValueError: rows of another shape or dtype.
        """
        # All of it is taken before the lock: the caller may be reading from the network.
        unique = {(digest_of(chunk_id), version): self._checked(rows) for chunk_id, version, rows in items}
        batch = [(digest, version, rows) for (digest, version), rows in unique.items()]
        # With a time limit: a process that was forked while another thread was in here has the lock for ever.
        if not batch or not self._thread_lock.acquire(timeout=_LOCK_WAIT_S):
            return
        try:
            if self._ring.inode is None:
                self._put(batch, None)
                return
            with _locked(self._folder):
                self._put_shared(batch)
        except TimeoutError:
            return
        except OSError as exc:
            self._ring = self._in_memory(exc)
            self._put(batch, None)
        finally:
            self._thread_lock.release()

    @property
    def full(self) -> bool:
        """Whether one more chunk of the usual size would push another one out."""
        bounds = self._ring.bounds()
        return bounds is None or bounds[0] + self._last_length > bounds[1]

    @property
    def n_bytes(self) -> int:
        """Bytes of the rows that can be found. Reads the whole table."""
        return sum(self._ring.live()) * self._shape.row_bytes

    def __len__(self) -> int:
        return len(self._ring.live())

    def close(self) -> None:
        """Let go of the file. Rows that were located stay readable while they are held."""
        with self._thread_lock:
            self._ring = Ring.closed(self._shape)
            self._why = "The cache is closed."

    def _checked(self, rows: Rows) -> Rows:
        if rows.dtype != np.uint8 or rows.ndim != 2 or rows.shape[1] != self._shape.row_bytes:
            raise ValueError(f"rows are {rows.dtype} {rows.shape}, not uint8 (n, {self._shape.row_bytes})")
        return np.ascontiguousarray(rows)

    def _put_shared(self, batch: list[Item]) -> None:
        """Write under the file lock; the file may have been replaced by another process, or be damaged."""
        fd = -1
        try:
            try:
                fd = os.open(self._path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
                same = os.fstat(fd).st_ino == self._ring.inode and self._ring.sound()
            except FileNotFoundError:
                same = False
            if not same:
                self._ring = self._open_locked()
                if fd >= 0:
                    os.close(fd)
                    fd = -1
                fd = os.open(self._path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            self._put(batch, fd)
        finally:
            if fd >= 0:
                os.close(fd)

    def _put(self, batch: list[Item], fd: int | None) -> None:
        for at in range(0, len(batch), _AT_ONCE):
            self._last_length = self._ring.put(batch[at : at + _AT_ONCE], fd) or self._last_length

    def _open(self) -> Ring:
        if not hasattr(os, "posix_fallocate") or not BOOT_ID.exists():
            return self._in_memory(OSError("this system has no boot id or no posix_fallocate"))
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with _locked(self._folder):
                return self._open_locked()
        except OSError as exc:
            return self._in_memory(exc)

    def _open_locked(self) -> Ring:
        """The file that is there, or a new one in its place."""
        boot = boot_id()
        try:
            fd = os.open(self._path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            return self._create(boot)
        try:
            ring = Ring.of_file(fd, self._shape, self._identity, boot)
        finally:
            os.close(fd)
        return ring or self._create(boot)

    def _create(self, boot: bytes) -> Ring:
        self._sweep(boot)
        new = self._path.with_suffix(".new")
        shape = self._shape
        while True:
            new.unlink(missing_ok=True)
            fd = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                ring = Ring.make_file(fd, shape, self._identity, boot)
                new.rename(self._path)
                return ring
            except OSError as exc:
                new.unlink(missing_ok=True)
                if exc.errno not in NO_ROOM or shape.slab_bytes < 2 * _SMALLEST_BYTES:
                    raise
                shape = shape.halved()
            finally:
                os.close(fd)

    def _sweep(self, boot: bytes) -> None:
        """Remove files that no process uses and none will: of another boot, or unused for long."""
        for path in self._folder.glob("tokens-*"):
            if path == self._path or path.suffix not in {".cache", ".new"}:
                continue
            try:
                fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            except OSError:
                continue
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if not made_in(boot, fd) or time.time() - os.fstat(fd).st_mtime > _UNUSED_S:
                    path.unlink()
            except OSError:
                continue  # in use, or not ours to remove
            finally:
                os.close(fd)

    def _in_memory(self, exc: OSError) -> Ring:
        self._why = f"{self._path} cannot be used ({exc.strerror or exc}); the cache is in this process's memory."
        return Ring.in_memory(self._shape, self._identity)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """The writers' lock of a folder.

    Opened anew each time: an open file that a forked child shares would not exclude it.

    Raises:
        TimeoutError: another process holds it for seconds (it may be stopped).
        OSError: the folder cannot be used.
    """
    fd = os.open(folder / "tokens.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        pause, until = 0.0005, time.monotonic() + _LOCK_WAIT_S
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    raise TimeoutError("another process holds the lock") from None
                time.sleep(pause)
                pause = min(2 * pause, 0.02)
        try:
            yield
        finally:
            # Said aloud: a child that was forked meanwhile would hold the lock with its copy of the file.
            fcntl.flock(fd, fcntl.LOCK_UN)
    finally:
        os.close(fd)
