"""A memory-mapped cache of token rows, shared by the processes of one host (design.md §5, Freshness).

One file holds a header, a table and a slab of rows that is written as a ring::

    header   4,096 bytes: what the file is, and words that change (head, capacity, bytes on disk)
    table    64 bytes an entry: which version of which chunk, and where its rows are
    slab     capacity x row_bytes

Positions in the ring are *virtual*: they only grow, and row ``v`` stands at ``v % capacity``. Everything that was
written before ``head - capacity`` has been overwritten, or may be at any moment. So one comparison tells whether
an entry still holds, and nothing is ever deleted.

Writers hold a file lock, which the kernel frees when they die. They move the head, then write the rows, then the
entry; each entry carries a checksum. Wherever a writer is killed, what it leaves is an entry that does not count.
Readers take no lock: they ask ``valid`` after they have used the rows. What a machine's crash leaves is not
trusted at all: the file belongs to one boot.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import platform
import threading
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from pincite.domain.protocols import LocatedTokens
from pincite.domain.types import ChunkVersion

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Words: TypeAlias = NDArray[np.uint64]
    Rows: TypeAlias = NDArray[np.uint8]
    Item: TypeAlias = tuple[bytes, ChunkVersion, Rows]

_MAGIC = int.from_bytes(b"pinctok\n", "little")
_LAYOUT = 1
_HEADER_BYTES = 4096
_HEADER_WORDS = 10
_HEAD, _CAPACITY, _ALLOCATED = 64, 65, 66  # on a cache line of their own
_ENTRY_BYTES = 64
_KEY, _VERSION, _START, _LENGTH, _ROWS_CRC, _CHECKSUM = slice(0, 2), slice(2, 4), 4, 5, 6, 7
#: An entry stands in one of so many slots behind its home. At half load all of them are taken for one key in
#: some hundreds; then the oldest of them gives way.
_WINDOW = 16
_ROWS_AN_ENTRY = 150
_AT_ONCE = 256  # entries that are written together
_MIN_SLOTS = 64
_SEALED_BITS = 44
_SEALED_MASK = (1 << _SEALED_BITS) - 1
#: Disk is taken in steps of this size, so that a small index has a small cache.
_STEP_BYTES = 64 << 20
_SMALLEST_BYTES = 1 << 20
_LOCK_WAIT_S = 5.0
_UNUSED_S = 30 * 86400
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
#: x86 makes stores visible in their order. Elsewhere an entry may be seen before its rows, so they are summed.
_STORES_IN_ORDER = platform.machine().lower() in {"x86_64", "amd64"}
_NO_ROOM = {errno.ENOSPC, errno.EFBIG, errno.EDQUOT, errno.ENOMEM}
_OFFSETS = np.arange(_WINDOW)

# Odd numbers, another for each word, so that words that change places change the sum.
_ODD = np.frombuffer(b"".join(blake2b(bytes([i]), digest_size=8).digest() for i in range(9)), dtype=np.uint64) | 1
_SHIFT = np.uint64(29)


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
        shape = _Shape.of(row_bytes, max_bytes)
        digest = _digest(identity)
        named = blake2b(f"{_LAYOUT} {row_bytes} {shape.capacity}\n".encode() + digest, digest_size=12).hexdigest()
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
        keys = np.frombuffer(b"".join([_digest(chunk_id) for chunk_id in ids]), dtype=np.uint64).reshape(-1, 2)
        versions = np.array([(v.seq_no, v.primary_term) for v in wanted.values()], dtype=np.int64).reshape(-1, 2)
        entries = ring.find(keys)
        same = (entries[:, _KEY] == keys) & (entries[:, _VERSION] == versions.view(np.uint64))
        good = same.all(axis=1)
        # The bounds are read after the entries: an entry may be newer than what was read before it.
        bounds = ring.bounds()
        head, capacity = bounds or (0, 0)
        good &= _holds(entries, head, capacity) & (bounds is not None)
        starts, lengths = entries[:, _START].astype(np.int64), entries[:, _LENGTH].astype(np.int64)
        if not _STORES_IN_ORDER:
            for i in np.flatnonzero(good):
                position = int(starts[i]) % max(capacity, 1)
                rows = ring.rows[position : position + int(lengths[i])]
                good[i] = zlib.crc32(rows.data) == entries[i, _ROWS_CRC]
        found = np.flatnonzero(good)
        starts, lengths = starts[found], lengths[found]
        held = starts[lengths > 0]
        oldest = int(held.min()) if len(held) else None

        def valid() -> bool:
            if oldest is None:
                return True
            now = ring.bounds()
            return now is not None and oldest >= now[0] - now[1]

        return LocatedTokens(
            ids=tuple([ids[i] for i in found]),
            rows=ring.rows,
            starts=starts % max(capacity, 1),
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
        unique = {(_digest(chunk_id), version): self._checked(rows) for chunk_id, version, rows in items}
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
        return int(self._ring.live()[:, _LENGTH].sum()) * self._shape.row_bytes

    def __len__(self) -> int:
        return len(self._ring.live())

    def close(self) -> None:
        """Let go of the file. Rows that were located stay readable while they are held."""
        with self._thread_lock:
            shape = self._shape.emptied()
            # Never given bounds: it holds nothing and takes nothing.
            self._ring = _Ring(mmap.mmap(-1, shape.size), shape, None)
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

    def _open(self) -> _Ring:
        if not hasattr(os, "posix_fallocate") or not _BOOT_ID.exists():
            return self._in_memory(OSError("this system has no boot id or no posix_fallocate"))
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with _locked(self._folder):
                return self._open_locked()
        except OSError as exc:
            return self._in_memory(exc)

    def _open_locked(self) -> _Ring:
        """The file that is there, or a new one in its place."""
        boot = _boot()
        try:
            fd = os.open(self._path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            return self._create(boot)
        try:
            ring = _Ring.of_file(fd, self._shape, self._identity, boot)
        finally:
            os.close(fd)
        return ring or self._create(boot)

    def _create(self, boot: bytes) -> _Ring:
        self._sweep(boot)
        new = self._path.with_suffix(".new")
        shape = self._shape
        while True:
            new.unlink(missing_ok=True)
            fd = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(fd, fcntl.LOCK_SH)
                os.ftruncate(fd, shape.size)
                os.posix_fallocate(fd, 0, min(shape.size, shape.slab_at + min(_STEP_BYTES, shape.slab_bytes)))
                ring = _Ring(mmap.mmap(fd, shape.size), shape, os.fstat(fd).st_ino)
                ring.write_header(self._identity, boot)
                new.rename(self._path)
                return ring
            except OSError as exc:
                new.unlink(missing_ok=True)
                if exc.errno not in _NO_ROOM or shape.slab_bytes < 2 * _SMALLEST_BYTES:
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
                stale = _boot_of(os.pread(fd, _HEADER_WORDS * 8, 0)) != boot
                if stale or time.time() - os.fstat(fd).st_mtime > _UNUSED_S:
                    path.unlink()
            except OSError:
                continue  # in use, or not ours to remove
            finally:
                os.close(fd)

    def _in_memory(self, exc: OSError) -> _Ring:
        self._why = f"{self._path} cannot be used ({exc.strerror or exc}); the cache is in this process's memory."
        shape = self._shape
        while True:
            try:
                pages = mmap.mmap(-1, shape.size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
                break
            except OSError:
                if shape.capacity == 0:
                    raise
                shape = shape.halved()
        ring = _Ring(pages, shape, None)
        ring.write_header(self._identity, bytes(16))
        return ring


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shape:
    """Sizes of the parts of a file."""

    row_bytes: int
    capacity: int
    n_slots: int

    @classmethod
    def of(cls, row_bytes: int, max_bytes: int) -> _Shape:
        room = max_bytes - _HEADER_BYTES - (_MIN_SLOTS + _WINDOW) * _ENTRY_BYTES
        # Two slots for each entry of the usual size: half load.
        capacity = max(0, int(room / (row_bytes + 2 * _ENTRY_BYTES / _ROWS_AN_ENTRY)))
        return cls(
            row_bytes=row_bytes, capacity=capacity, n_slots=max(_MIN_SLOTS, 2 * (capacity // _ROWS_AN_ENTRY))
        )

    def halved(self) -> _Shape:
        return _Shape(row_bytes=self.row_bytes, capacity=self.capacity // 2, n_slots=self.n_slots)

    def emptied(self) -> _Shape:
        return _Shape(row_bytes=self.row_bytes, capacity=0, n_slots=_MIN_SLOTS)

    @property
    def slab_at(self) -> int:
        return _HEADER_BYTES + (self.n_slots + _WINDOW) * _ENTRY_BYTES

    @property
    def slab_bytes(self) -> int:
        return self.capacity * self.row_bytes

    @property
    def size(self) -> int:
        return self.slab_at + self.slab_bytes


class _Ring:
    """A mapped file, or anonymous memory of the same layout. ``put`` is called under the writers' lock."""

    def __init__(self, pages: mmap.mmap, shape: _Shape, inode: int | None) -> None:
        self.shape, self.inode = shape, inode
        self._words: Words = np.frombuffer(pages, dtype=np.uint64, count=_HEADER_BYTES // 8)
        table = np.frombuffer(pages, dtype=np.uint64, count=shape.slab_at // 8)[_HEADER_BYTES // 8 :]
        self._table: Words = table.reshape(-1, _ENTRY_BYTES // 8)
        slab = np.frombuffer(pages, dtype=np.uint8)[shape.slab_at : shape.size]
        self._slab: Rows = slab.reshape(shape.capacity, shape.row_bytes)
        self.rows: Rows = self._slab.view()
        self.rows.flags.writeable = False

    @classmethod
    def of_file(cls, fd: int, wanted: _Shape, identity: bytes, boot: bytes) -> _Ring | None:
        """The ring in a file; None when the file is not one of ours, of this boot, whole."""
        size = os.fstat(fd).st_size
        raw = os.pread(fd, _HEADER_WORDS * 8, 0)
        if len(raw) < _HEADER_WORDS * 8:
            return None
        words = np.frombuffer(raw, dtype=np.uint64)
        # The capacity may be less than asked: there was no room when the file was made.
        shape = _Shape(row_bytes=wanted.row_bytes, capacity=int(words[4]), n_slots=wanted.n_slots)
        if not np.array_equal(words, _header(shape, identity, boot)):
            return None
        if shape.capacity > wanted.capacity or size != shape.size:
            return None
        fcntl.flock(fd, fcntl.LOCK_SH)  # in use; the map holds it as long as it lives
        os.utime(fd)
        ring = cls(mmap.mmap(fd, size), shape, os.fstat(fd).st_ino)
        return ring if ring.sound() else None

    def write_header(self, identity: bytes, boot: bytes) -> None:
        self.seal(_CAPACITY, self.shape.capacity)
        self.seal(_HEAD, 0)
        self.seal(_ALLOCATED, 0)
        self._words[:_HEADER_WORDS] = _header(self.shape, identity, boot)

    def seal(self, at: int, value: int) -> None:
        """Store a number with its check bits in one word, so that no reader sees half of it."""
        self._words[at] = value | _check_bits(value) << _SEALED_BITS

    def _unseal(self, at: int) -> int | None:
        word = int(self._words[at])
        value = word & _SEALED_MASK
        return value if word >> _SEALED_BITS == _check_bits(value) else None

    def sound(self) -> bool:
        """Whether the words that change are undamaged."""
        return self.bounds() is not None and self._unseal(_ALLOCATED) is not None

    def bounds(self) -> tuple[int, int] | None:
        """(head, capacity), or None when they are damaged.

        The capacity shrinks when the disk is full; it is written before the head and read after it.
        """
        head = self._unseal(_HEAD)
        capacity = self._unseal(_CAPACITY)
        if head is None or capacity is None or capacity > self.shape.capacity:
            return None
        if head > _SEALED_MASK - 2 * self.shape.capacity - 2:
            return None  # used up, after 10^13 rows: such a file is replaced as well
        return head, capacity

    def find(self, keys: Words) -> Words:
        """A copy of the entry of each key, (n, 8); of the home slot where there is none."""
        home = self._home(keys)
        return self._table[home + (self._table[home[:, None] + _OFFSETS, 0] == keys[:, :1]).argmax(axis=1)]

    def _home(self, keys: Words) -> NDArray[np.intp]:
        return (keys[:, 1] % np.uint64(self.shape.n_slots)).astype(np.intp)

    def live(self) -> Words:
        """A copy of all entries that hold."""
        used = self._table[self._table[:, _CHECKSUM] != 0]
        bounds = self.bounds()
        return used[:0] if bounds is None else used[_holds(used, *bounds)]

    def put(self, batch: list[Item], fd: int | None) -> int:
        """Write entries that are not held; the length of the last one that was written, 0 for none."""
        bounds = self.bounds()
        if bounds is None or not batch:
            return 0
        head, capacity = bounds
        entries = np.zeros((len(batch), _ENTRY_BYTES // 8), dtype=np.uint64)
        entries[:, _KEY] = np.frombuffer(b"".join([digest for digest, _, _ in batch]), np.uint64).reshape(-1, 2)
        versions = np.array([(version.seq_no, version.primary_term) for _, version, _ in batch], dtype=np.int64)
        entries[:, _VERSION] = versions.view(np.uint64)
        there = self.find(entries[:, _KEY])
        held = (there[:, :_START] == entries[:, :_START]).all(axis=1) & _holds(there, head, capacity)
        kept: list[tuple[int, int, int]] = []
        for i in np.flatnonzero(~held).tolist():
            n = len(batch[i][2])
            start, capacity = self._reserve(n, head, capacity, fd)
            if start is not None:
                kept.append((i, start, n))
                head = start + n
        self.seal(_HEAD, head)
        # What the rest of the batch has pushed out already is not written at all.
        kept = [(i, start, n) for i, start, n in kept if start >= head - capacity]
        for i, start, n in kept:
            position, rows = start % max(capacity, 1), batch[i][2]
            self._slab[position : position + n] = rows
            entries[i, _START], entries[i, _LENGTH], entries[i, _ROWS_CRC] = start, n, zlib.crc32(rows.data)
        self._enter(entries[[i for i, _, _ in kept]], head, capacity)
        return kept[-1][2] if kept else 0

    def _enter(self, entries: Words, head: int, capacity: int) -> None:
        """Give each entry its sum and a slot: the one its key has, else one that is free, else the oldest."""
        entries[:, _CHECKSUM] = _checksum(entries)
        home = self._home(entries)
        windows = self._table[home[:, None] + _OFFSETS]
        same = windows[:, :, 0] == entries[:, :1]
        holds = _holds(windows, head, capacity)
        # False sorts first: the slot of the key, then those that do not hold, then the oldest.
        order = np.lexsort((windows[:, :, _START], holds, ~same), axis=1)
        slots = home[:, None] + order
        own: dict[int, int] = {}
        taken: set[int] = set()
        for entry, key, choice in zip(entries, entries[:, 0].tolist(), slots.tolist(), strict=True):
            slot = own.get(key, -1)
            if slot < 0:
                slot = next((at for at in choice if at not in taken), choice[0])
            own[key] = slot
            taken.add(slot)
            self._table[slot] = entry

    def _reserve(self, n: int, head: int, capacity: int, fd: int | None) -> tuple[int | None, int]:
        """Where the next n rows go, and the capacity then; None when there is no room for them."""
        while n <= capacity:
            position = head % capacity if capacity else 0
            # A document never wraps.
            start = head if position + n <= capacity else head + capacity - position
            if self._allocate((start % capacity if capacity else 0) + n, fd):
                return start, capacity
            # There is no room on the disk.
            if start == head == position:
                # On the first lap row v stands at v, and still does when the capacity shrinks to what is there.
                capacity = (self._unseal(_ALLOCATED) or 0) // self.shape.row_bytes
                self.seal(_CAPACITY, capacity)
            elif position:
                head += capacity - position  # the end of a lap that was never taken from the disk: left out
            else:
                break
        return None, capacity

    def _allocate(self, end: int, fd: int | None) -> bool:
        """See that the first ``end`` rows are on disk: writing to a map of what is not there kills the process."""
        needed = end * self.shape.row_bytes
        if fd is None or needed <= (self._unseal(_ALLOCATED) or 0):
            return True
        step = min(-(-needed // _STEP_BYTES) * _STEP_BYTES, self.shape.slab_bytes)
        try:
            os.posix_fallocate(fd, self.shape.slab_at, step)
        except OSError as exc:
            if exc.errno not in _NO_ROOM:
                raise
            return False
        self.seal(_ALLOCATED, step)
        return True


def _holds(entries: Words, head: int, capacity: int) -> NDArray[np.bool_]:
    """Which of (..., 8) entries are whole and not overwritten."""
    starts, lengths = entries[..., _START].astype(np.int64), entries[..., _LENGTH].astype(np.int64)
    held: NDArray[np.bool_] = (starts >= head - capacity) & (starts + lengths <= head)
    held &= _checksum(entries) == entries[..., _CHECKSUM]
    return held


def _digest(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _boot() -> bytes:
    return bytes.fromhex(_BOOT_ID.read_text(encoding="ascii").strip().replace("-", ""))[:16].ljust(16, b"\0")


def _boot_of(header: bytes) -> bytes:
    return header[7 * 8 : 9 * 8]


def _header(shape: _Shape, identity: bytes, boot: bytes) -> Words:
    """The words of the header that never change, their checksum last."""
    words = np.zeros((1, _HEADER_WORDS), dtype=np.uint64)
    words[0, :5] = _MAGIC, _LAYOUT, shape.row_bytes, shape.n_slots, shape.capacity
    words[0, 5:9] = np.frombuffer(identity + boot, dtype=np.uint64)
    words[0, 9] = _checksum(words)[0]
    header: Words = words[0]
    return header


def _checksum(records: Words) -> Words:
    """(...) checksums of (..., k) words without their last. A change of one word always changes it."""
    odd = _ODD[: records.shape[-1] - 1]
    mixed = (records[..., :-1] + odd) * odd
    mixed ^= mixed >> _SHIFT
    return np.asarray((mixed * odd).sum(axis=-1, dtype=np.uint64))


def _check_bits(value: int) -> int:
    return zlib.crc32(value.to_bytes(8, "little")) >> 12


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
