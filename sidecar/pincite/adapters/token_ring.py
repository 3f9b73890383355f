"""A ring of token rows in a memory-mapped file, shared by the processes of one host.

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
import zlib
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from pincite.domain.types import ChunkVersion

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Words: TypeAlias = NDArray[np.uint64]
    Rows: TypeAlias = NDArray[np.uint8]
    Ints: TypeAlias = NDArray[np.int64]
    Item: TypeAlias = tuple[bytes, ChunkVersion, Rows]

_MAGIC = int.from_bytes(b"pinctok\n", "little")
LAYOUT = 1
_HEADER_BYTES = 4096
_HEADER_WORDS = 10
_HEAD, _CAPACITY, _ALLOCATED = 64, 65, 66  # on a cache line of their own
_ENTRY_BYTES = 64
_KEY, _VERSION, _START, _LENGTH, _ROWS_CRC, _CHECKSUM = slice(0, 2), slice(2, 4), 4, 5, 6, 7
#: An entry stands in one of so many slots behind its home. At half load all of them are taken for one key in
#: some hundreds; then the oldest of them gives way.
_WINDOW = 16
_ROWS_AN_ENTRY = 150
_MIN_SLOTS = 64
_SEALED_BITS = 44
_SEALED_MASK = (1 << _SEALED_BITS) - 1
#: Disk is taken in steps of this size, so that a small index has a small cache.
_STEP_BYTES = 64 << 20
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
#: x86 makes stores visible in their order. Elsewhere an entry may be seen before its rows, so they are summed.
_STORES_IN_ORDER = platform.machine().lower() in {"x86_64", "amd64"}
#: Errors of a disk or a machine that is full.
NO_ROOM = {errno.ENOSPC, errno.EFBIG, errno.EDQUOT, errno.ENOMEM}
_OFFSETS = np.arange(_WINDOW)

# Odd numbers, another for each word, so that words that change places change the sum.
_ODD = np.frombuffer(b"".join(blake2b(bytes([i]), digest_size=8).digest() for i in range(9)), dtype=np.uint64) | 1
_SHIFT = np.uint64(29)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Sizes of the parts of a file."""

    row_bytes: int
    capacity: int
    n_slots: int

    @classmethod
    def of(cls, row_bytes: int, max_bytes: int) -> Shape:
        """The largest that fits."""
        room = max_bytes - _HEADER_BYTES - (_MIN_SLOTS + _WINDOW) * _ENTRY_BYTES
        # Two slots for each entry of the usual size: half load.
        capacity = max(0, int(room / (row_bytes + 2 * _ENTRY_BYTES / _ROWS_AN_ENTRY)))
        return cls(
            row_bytes=row_bytes, capacity=capacity, n_slots=max(_MIN_SLOTS, 2 * (capacity // _ROWS_AN_ENTRY))
        )

    def halved(self) -> Shape:
        """Half the rows under the same table."""
        return Shape(row_bytes=self.row_bytes, capacity=self.capacity // 2, n_slots=self.n_slots)

    @property
    def slab_at(self) -> int:
        """Where the rows begin in the file."""
        return _HEADER_BYTES + (self.n_slots + _WINDOW) * _ENTRY_BYTES

    @property
    def slab_bytes(self) -> int:
        """Bytes of all rows."""
        return self.capacity * self.row_bytes

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return self.slab_at + self.slab_bytes


class Ring:
    """A mapped file, or anonymous memory of the same layout. ``put`` is called under the writers' lock."""

    def __init__(self, pages: mmap.mmap, shape: Shape, inode: int | None) -> None:
        self.shape, self.inode = shape, inode
        self._words: Words = np.frombuffer(pages, dtype=np.uint64, count=_HEADER_BYTES // 8)
        table = np.frombuffer(pages, dtype=np.uint64, count=shape.slab_at // 8)[_HEADER_BYTES // 8 :]
        self._table: Words = table.reshape(-1, _ENTRY_BYTES // 8)
        slab = np.frombuffer(pages, dtype=np.uint8)[shape.slab_at : shape.size]
        self._slab: Rows = slab.reshape(shape.capacity, shape.row_bytes)
        self.rows: Rows = self._slab.view()
        self.rows.flags.writeable = False

    @classmethod
    def of_file(cls, fd: int, wanted: Shape, identity: bytes, boot: bytes) -> Ring | None:
        """The ring in a file; None when the file is not one of ours, of this boot, whole."""
        size = os.fstat(fd).st_size
        raw = os.pread(fd, _HEADER_WORDS * 8, 0)
        if len(raw) < _HEADER_WORDS * 8:
            return None
        words = np.frombuffer(raw, dtype=np.uint64)
        # The capacity may be less than asked: there was no room when the file was made.
        shape = Shape(row_bytes=wanted.row_bytes, capacity=int(words[4]), n_slots=wanted.n_slots)
        if not np.array_equal(words, _header(shape, identity, boot)):
            return None
        if shape.capacity > wanted.capacity or size != shape.size:
            return None
        fcntl.flock(fd, fcntl.LOCK_SH)  # in use; the map holds it as long as it lives
        os.utime(fd)
        ring = cls(mmap.mmap(fd, size), shape, os.fstat(fd).st_ino)
        return ring if ring.sound() else None

    @classmethod
    def make_file(cls, fd: int, shape: Shape, identity: bytes, boot: bytes) -> Ring:
        """An empty ring in a new file, with room on disk for all but the later steps of the slab.

        Raises:
            OSError: there is no room.
        """
        fcntl.flock(fd, fcntl.LOCK_SH)
        first = min(_STEP_BYTES, shape.slab_bytes)
        os.ftruncate(fd, shape.size)
        os.posix_fallocate(fd, 0, shape.slab_at + first)
        ring = cls(mmap.mmap(fd, shape.size), shape, os.fstat(fd).st_ino)
        ring._begin(identity, boot, allocated=first)
        return ring

    @classmethod
    def in_memory(cls, shape: Shape, identity: bytes) -> Ring:
        """An empty ring that is this process's own, smaller where there is no memory."""
        while True:
            try:
                pages = mmap.mmap(-1, shape.size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
                break
            except OSError:
                if shape.capacity == 0:
                    raise
                shape = shape.halved()
        ring = cls(pages, shape, None)
        ring._begin(identity, bytes(16), allocated=shape.slab_bytes)
        return ring

    @classmethod
    def closed(cls, shape: Shape) -> Ring:
        """One that holds nothing and takes nothing: it is never given bounds."""
        shape = Shape(row_bytes=shape.row_bytes, capacity=0, n_slots=_MIN_SLOTS)
        return cls(mmap.mmap(-1, shape.size), shape, None)

    def _begin(self, identity: bytes, boot: bytes, *, allocated: int) -> None:
        self._seal(_CAPACITY, self.shape.capacity)
        self._seal(_HEAD, 0)
        self._seal(_ALLOCATED, allocated)
        self._words[:_HEADER_WORDS] = _header(self.shape, identity, boot)

    def _seal(self, at: int, value: int) -> None:
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

    def look_up(self, keys: Words, versions: Ints) -> tuple[NDArray[np.intp], Ints, Ints, Ints]:
        """Entries of exactly these versions: their places in ``keys``, virtual starts, positions and lengths.

        Args:
            keys: (n, 2): two words of the digest of the id.
            versions: (n, 2): ``seq_no``, ``primary_term``.
        """
        entries = self._find(keys)
        # The bounds are read after the entries: these may be newer than what was read before them.
        bounds = self.bounds()
        head, capacity = bounds or (0, 0)
        good = _holds(entries, head, capacity) & (bounds is not None)
        good &= (entries[:, _KEY] == keys).all(axis=1) & (entries[:, _VERSION].view(np.int64) == versions).all(
            axis=1
        )
        starts, lengths = entries[:, _START].astype(np.int64), entries[:, _LENGTH].astype(np.int64)
        positions = starts % max(capacity, 1)
        if not _STORES_IN_ORDER:
            for i in np.flatnonzero(good).tolist():
                rows = self.rows[positions[i] : positions[i] + lengths[i]]
                good[i] = zlib.crc32(rows.data) == entries[i, _ROWS_CRC]
        found = np.flatnonzero(good)
        return found, starts[found], positions[found], lengths[found]

    def _find(self, keys: Words) -> Words:
        """A copy of the entry of each key, (n, 8); of the home slot where there is none."""
        home = self._home(keys)
        entries: Words = self._table[
            home + (self._table[home[:, None] + _OFFSETS, 0] == keys[:, :1]).argmax(axis=1)
        ]
        return entries

    def _home(self, keys: Words) -> NDArray[np.intp]:
        return (keys[:, 1] % np.uint64(self.shape.n_slots)).astype(np.intp)

    def live(self) -> list[int]:
        """Lengths of all entries that hold. Reads the whole table."""
        used = self._table[self._table[:, _CHECKSUM] != 0]
        bounds = self.bounds()
        return [] if bounds is None else used[_holds(used, *bounds), _LENGTH].tolist()

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
        there = self._find(entries[:, _KEY])
        held = (there[:, :_START] == entries[:, :_START]).all(axis=1) & _holds(there, head, capacity)
        kept: list[tuple[int, int, int]] = []
        for i in np.flatnonzero(~held).tolist():
            n = len(batch[i][2])
            start, capacity = self._reserve(n, head, capacity, fd)
            if start is not None:
                kept.append((i, start, n))
                head = start + n
        self._seal(_HEAD, head)
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
                self._seal(_CAPACITY, capacity)
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
            if exc.errno not in NO_ROOM:
                raise
            return False
        self._seal(_ALLOCATED, step)
        return True


def _holds(entries: Words, head: int, capacity: int) -> NDArray[np.bool_]:
    """Which of (..., 8) entries are whole and not overwritten."""
    starts, lengths = entries[..., _START].astype(np.int64), entries[..., _LENGTH].astype(np.int64)
    held: NDArray[np.bool_] = (starts >= head - capacity) & (starts + lengths <= head)
    held &= _checksum(entries) == entries[..., _CHECKSUM]
    return held


def digest_of(text: str) -> bytes:
    """16 bytes that stand for a text."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def boot_id() -> bytes:
    """16 bytes that are others after each start of the machine."""
    return bytes.fromhex(BOOT_ID.read_text(encoding="ascii").strip().replace("-", ""))[:16].ljust(16, b"\0")


def made_in(boot: bytes, fd: int) -> bool:
    """Whether a file says that it belongs to this boot."""
    return os.pread(fd, 16, 7 * 8) == boot


def _header(shape: Shape, identity: bytes, boot: bytes) -> Words:
    """The words of the header that never change, their checksum last."""
    words = np.zeros((1, _HEADER_WORDS), dtype=np.uint64)
    words[0, :5] = _MAGIC, LAYOUT, shape.row_bytes, shape.n_slots, shape.capacity
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
