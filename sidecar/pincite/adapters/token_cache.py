"""A memory-mapped cache of token rows, shared by the processes of a host, bounded, and safe against crashes.

One file holds a header, a table and a ring of rows. Positions in the ring are virtual: they only grow, and an
entry is alive while its position is within one capacity of the head. A writer, under a file lock that the
kernel frees when it dies, first moves the head over what it is about to overwrite, then writes the rows, then
the entries: killed anywhere, it leaves no entry that names other rows than its own. Readers take no lock: they
check an entry's checksum and position, and ask again after they have used the rows (``LocatedTokens.valid``).

What a crash of the machine leaves is not trusted: the header names the boot. A file that is not as it should
be is replaced, never an error.
"""

from __future__ import annotations

import fcntl
import hashlib
import mmap
import os
import platform
import threading
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pincite.domain.protocols import LocatedTokens
from pincite.domain.types import ChunkVersion

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pincite.domain.protocols import ByteArray

_MAGIC = b"pincite-tokens-1"
_HEADER_BYTES = 4096
_HEAD_AT = 512
_N_COLUMNS = 8
_KEY0, _KEY1, _SEQ, _TERM, _START, _LENGTH, _ROWS_CHECK, _CHECK = range(_N_COLUMNS)
_WINDOW = 16
_ROWS_AN_ENTRY = 100
_STEP_BYTES = 64 * 2**20
_SMALLEST_ROWS = 16
_MIX = np.array(
    [0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93,
     0xA0761D6478BD642F, 0xE7037ED1A0B428DB, 0x8EBC6AF09C88C6E3], dtype=np.uint64
)  # fmt: skip
#: Elsewhere stores may become visible out of order, and an entry before its rows: there the rows are checked.
_ORDERED_STORES = platform.machine().lower() in ("x86_64", "amd64")

Item = tuple[str, ChunkVersion, "ByteArray"]


class TokenRowCache:
    """Rows by chunk id and version; the oldest go first.

    Args:
        folder: Where the file lies; made when missing. What cannot be written there is held in memory.
        row_bytes: Bytes a row.
        max_bytes: Bound of the rows' bytes.
        identity: What the rows belong to (cluster, index, codec): another has another file.
    """

    def __init__(self, folder: Path, *, row_bytes: int, max_bytes: int, identity: str) -> None:
        self._row_bytes = row_bytes
        self._capacity = max(max_bytes // row_bytes, _SMALLEST_ROWS)
        wanted = max(self._capacity // _ROWS_AN_ENTRY * 2, 1024)
        self._n_slots = 1 << (wanted - 1).bit_length()
        self._slab_at = _HEADER_BYTES + self._n_slots * _N_COLUMNS * 8
        self._mutex = threading.Lock()
        self._lock_file: int | None = None
        self._file: int | None = None
        self._stuck = False
        self.reason: str | None = None
        name = hashlib.sha256(f"{identity}\x00{row_bytes}\x00{self._capacity}".encode()).hexdigest()[:32]
        self._expected = self._header(name)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            buffer = self._open(folder / f"{name}.rows")
        except OSError as exc:
            self.reason = f"{folder} cannot be used: {exc.strerror or exc}"
            buffer = mmap.mmap(-1, self._size)
        self._map(buffer)

    # -- reading -----------------------------------------------------------------------------------

    def locate(self, wanted: Mapping[str, ChunkVersion]) -> LocatedTokens:
        """Rows of exactly these versions, without copying; what is not there is left out."""
        ids = list(wanted)
        keys = np.array([_key(i) for i in ids], dtype=np.uint64).reshape(len(ids), 2)
        versions = np.array([(v.seq_no, v.primary_term) for v in wanted.values()], dtype=np.int64)
        versions = versions.reshape(len(ids), 2).view(np.uint64)
        slots = (keys[:, :1] + np.arange(_WINDOW, dtype=np.uint64)) & np.uint64(self._n_slots - 1)
        entries = self._table[slots.astype(np.int64)]
        match = (
            (entries[:, :, _KEY0] == keys[:, :1])
            & (entries[:, :, _KEY1] == keys[:, 1:])
            & (entries[:, :, _SEQ] == versions[:, :1])
            & (entries[:, :, _TERM] == versions[:, 1:])
            & (entries[:, :, _CHECK] == _checks(entries))
        )
        rows_of = np.flatnonzero(match.any(axis=1))
        found = entries[rows_of, match[rows_of].argmax(axis=1)]
        alive = self._alive(found[:, _START])
        rows_of, found = rows_of[alive], found[alive]
        virtual = found[:, _START].copy()
        lengths = found[:, _LENGTH].astype(np.int64)
        starts = (virtual % np.uint64(self._capacity)).astype(np.int64)
        if not _ORDERED_STORES:
            whole = np.array(
                [
                    zlib.crc32(self._rows[s : s + n].tobytes()) == c
                    for s, n, c in zip(starts, lengths, found[:, _ROWS_CHECK], strict=True)
                ],
                dtype=bool,
            )
            rows_of, virtual, lengths, starts = rows_of[whole], virtual[whole], lengths[whole], starts[whole]
        return LocatedTokens(
            ids=tuple(ids[i] for i in rows_of),
            rows=self._view,
            starts=starts,
            lengths=lengths,
            valid=lambda: bool(self._alive(virtual).all()),
        )

    @property
    def full(self) -> bool:
        """Whether what is put now pushes something out, or cannot be kept."""
        return self._stuck or int(self._head[0]) + _ROWS_AN_ENTRY * 2 > self._capacity

    @property
    def n_bytes(self) -> int:
        """Bytes of the ring that are in use."""
        return min(int(self._head[0]), self._capacity) * self._row_bytes

    def __len__(self) -> int:
        table = np.array(self._table)
        return int(
            ((table[:, _CHECK] == _checks(table)) & self._alive(table[:, _START]) & table.any(axis=1)).sum()
        )

    # -- writing -----------------------------------------------------------------------------------

    def put_many(self, items: Iterable[Item]) -> None:
        """Keep rows; ones that alone exceed the capacity are not kept."""
        kept = [item for item in items if len(item[2]) <= self._capacity]
        if not kept:
            return
        with self._writing():
            for start in range(0, len(kept), 256):
                self._put(kept[start : start + 256])

    def _put(self, items: list[Item]) -> None:
        position = int(self._head[0])
        places = []
        for _, _, rows in items:
            offset = position % self._capacity
            if offset + len(rows) > self._capacity:
                # A document's rows stay together: the rest of the ring is left out.
                position += self._capacity - offset
            places.append(position)
            position += len(rows)
        if not self._allocate(places, [len(rows) for _, _, rows in items]):
            return
        # First of all: whoever holds rows of the part that is overwritten now must see it.
        self._head[0] = position
        for (_, _, rows), place in zip(items, places, strict=True):
            offset = place % self._capacity
            self._rows[offset : offset + len(rows)] = rows
        for (chunk_id, version, rows), place in zip(items, places, strict=True):
            # A batch larger than the ring overwrites itself.
            if place + self._capacity >= position:
                self._enter(_key(chunk_id), version, place, rows)

    def _enter(self, key: tuple[int, int], version: ChunkVersion, place: int, rows: ByteArray) -> None:
        slots = np.array([(key[0] + i) & (self._n_slots - 1) for i in range(_WINDOW)], dtype=np.int64)
        entries = self._table[slots]
        mine = (entries[:, _KEY0] == np.uint64(key[0])) & (entries[:, _KEY1] == np.uint64(key[1]))
        # Its own slot, else a free or dead one (position 0 of an empty slot is the oldest), else the oldest.
        oldest = entries[:, _START].astype(np.int64)
        oldest[~self._alive(entries[:, _START]) | ~entries.any(axis=1)] = -1
        slot = slots[int(mine.argmax())] if mine.any() else slots[int(oldest.argmin())]
        entry = np.zeros(_N_COLUMNS, dtype=np.uint64)
        entry[_KEY0], entry[_KEY1] = key
        entry[_SEQ : _TERM + 1] = np.array([version.seq_no, version.primary_term], dtype=np.int64).view(np.uint64)
        entry[_START], entry[_LENGTH] = place, len(rows)
        entry[_ROWS_CHECK] = 0 if _ORDERED_STORES else zlib.crc32(np.ascontiguousarray(rows).tobytes())
        entry[_CHECK] = _checks(entry[None])[0]
        self._table[slot] = entry

    def close(self) -> None:
        """Let go of the files. The mapping stays while rows of it are in use."""
        for number in (self._file, self._lock_file):
            if number is not None:
                os.close(number)
        self._file = self._lock_file = None
        self._stuck = True

    # -- the file ----------------------------------------------------------------------------------

    @property
    def _size(self) -> int:
        return self._slab_at + self._capacity * self._row_bytes

    def _header(self, name: str) -> bytes:
        try:
            boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        except OSError:
            boot = "unknown"
        return _MAGIC + f" {name} {self._row_bytes} {self._capacity} {self._n_slots} {boot}".encode()

    def _open(self, path: Path) -> mmap.mmap:
        self._lock_file = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
        with self._writing():
            if not self._usable(path):
                self._create(path)
            self._file = os.open(path, os.O_RDWR)
            return mmap.mmap(self._file, self._size)

    def _usable(self, path: Path) -> bool:
        try:
            with path.open("rb") as file:
                return file.read(_HEAD_AT).rstrip(b"\x00") == self._expected and path.stat().st_size == self._size
        except FileNotFoundError:
            return False

    def _create(self, path: Path) -> None:
        """A new file in the old one's place; who has the old one mapped goes on with it."""
        new = path.with_suffix(f".{os.getpid()}.new")
        number = os.open(new, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            os.ftruncate(number, self._size)
            # A page that the disk has no room for would kill the process that touches it.
            os.posix_fallocate(number, 0, self._slab_at)
            os.pwrite(number, self._expected, 0)
            new.replace(path)
        except OSError:
            new.unlink(missing_ok=True)
            raise
        finally:
            os.close(number)

    def _allocate(self, places: list[int], lengths: list[int]) -> bool:
        """Whether the disk holds the part of the ring that is about to be written."""
        if self._file is None:
            return self.reason is not None
        end = max((p % self._capacity + n) * self._row_bytes for p, n in zip(places, lengths, strict=True))
        allocated = int(self._head[1])
        while allocated < end:
            step = min(_STEP_BYTES, self._capacity * self._row_bytes - allocated)
            try:
                os.posix_fallocate(self._file, self._slab_at + allocated, step)
            except OSError as exc:
                self._stuck = True
                self.reason = f"no more is kept: {exc.strerror or exc}"
                return False
            allocated += step
            self._head[1] = allocated
        return True

    def _map(self, buffer: mmap.mmap) -> None:
        self._head: NDArray[np.uint64] = np.frombuffer(buffer, dtype=np.uint64, count=2, offset=_HEAD_AT)
        self._table: NDArray[np.uint64] = np.frombuffer(
            buffer, dtype=np.uint64, count=self._n_slots * _N_COLUMNS, offset=_HEADER_BYTES
        ).reshape(self._n_slots, _N_COLUMNS)
        self._rows: ByteArray = np.frombuffer(
            buffer, dtype=np.uint8, count=self._capacity * self._row_bytes, offset=self._slab_at
        ).reshape(self._capacity, self._row_bytes)
        self._view: ByteArray = self._rows.view()
        self._view.flags.writeable = False

    def _alive(self, starts: NDArray[np.uint64]) -> NDArray[np.bool_]:
        head = int(self._head[0])
        # What begins beyond the head was never published by a writer that knows this file.
        alive: NDArray[np.bool_] = (starts + np.uint64(self._capacity) >= np.uint64(head)) & (starts <= head)
        return alive

    @contextmanager
    def _writing(self) -> Iterator[None]:
        with self._mutex:
            if self._lock_file is None:
                yield
                return
            fcntl.flock(self._lock_file, fcntl.LOCK_EX)
            try:
                yield
            finally:
                fcntl.flock(self._lock_file, fcntl.LOCK_UN)


def _key(chunk_id: str) -> tuple[int, int]:
    """128 bits of an id: its own where it is 32 hex digits, as ours are, else a hash."""
    try:
        raw = bytes.fromhex(chunk_id) if len(chunk_id) == 32 and chunk_id.islower() else b""
    except ValueError:
        raw = b""
    if len(raw) != 16:
        raw = hashlib.blake2b(chunk_id.encode(), digest_size=16).digest()
    return int.from_bytes(raw[:8], "little"), int.from_bytes(raw[8:], "little")


def _checks(entries: NDArray[np.uint64]) -> Any:
    """A checksum of each entry's other columns."""
    mixed = entries[..., :_CHECK] * _MIX
    mixed ^= mixed >> np.uint64(29)
    return np.bitwise_xor.reduce(mixed * _MIX, axis=-1) + np.uint64(1)
