"""The memory-mapped cache of token rows: never a wrong row, whatever happens to the file or its writers."""

from __future__ import annotations

import errno
import multiprocessing
import os
import resource
import signal
import time
import zlib
from collections.abc import Iterator
from hashlib import blake2b
from multiprocessing.context import SpawnProcess
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pincite.adapters import token_cache, token_ring
from pincite.adapters.token_cache import TokenRowCache
from pincite.domain.protocols import LocatedTokens
from pincite.domain.types import ChunkVersion

ROW = 8
#: Bytes of header and table of a cache that is small enough for the smallest table.
FIXED = 4096 + (64 + 16) * 64
SPAWN = multiprocessing.get_context("spawn")
V1 = ChunkVersion(seq_no=1, primary_term=1)
V2 = ChunkVersion(seq_no=2, primary_term=1)


def bytes_for(capacity: int, row_bytes: int = ROW) -> int:
    """``max_bytes`` of a cache that holds so many rows."""
    found = next(
        b
        for b in range(FIXED + capacity * row_bytes, FIXED + capacity * (row_bytes + 2) + 2)
        if token_ring.Shape.of(row_bytes, b).capacity == capacity
    )
    return int(found)


def opened(folder: Path, capacity: int = 100, identity: str = "cluster index codec") -> TokenRowCache:
    return TokenRowCache(folder, row_bytes=ROW, max_bytes=bytes_for(capacity), identity=identity)


def rows_of(chunk_id: str, version: ChunkVersion, n: int | None = None, row_bytes: int = ROW) -> np.ndarray:
    """Rows that follow from id and version alone, so that a wrong one shows."""
    seed = blake2b(f"{chunk_id} {version.seq_no} {version.primary_term}".encode(), digest_size=8).digest()
    rng = np.random.default_rng(int.from_bytes(seed, "little"))
    drawn = int(rng.integers(0, 12))
    return rng.integers(0, 256, (drawn if n is None else n, row_bytes), dtype=np.uint8)


def put(cache: TokenRowCache, chunk_id: str, version: ChunkVersion = V1, n: int | None = None) -> None:
    cache.put_many([(chunk_id, version, rows_of(chunk_id, version, n))])


def read(located: LocatedTokens) -> dict[str, bytes]:
    places = zip(located.ids, located.starts.tolist(), located.lengths.tolist(), strict=True)
    return {chunk_id: located.rows[start : start + n].tobytes() for chunk_id, start, n in places}


def get(cache: TokenRowCache, **wanted: ChunkVersion) -> dict[str, bytes]:
    return read(cache.locate(wanted))


def the_file(folder: Path) -> Path:
    (path,) = folder.glob("*.cache")
    return path


def test_what_was_put_is_located_in_the_order_asked_for(tmp_path: Path) -> None:
    cache = opened(tmp_path)
    cache.put_many([(name, V1, rows_of(name, V1, n)) for name, n in [("a", 3), ("b", 0), ("c", 5)]])
    located = cache.locate({"c": V1, "missing": V1, "b": V1, "a": V1})
    assert located.ids == ("c", "b", "a")
    assert located.starts.dtype == located.lengths.dtype == np.int64
    assert located.lengths.tolist() == [5, 0, 3]
    assert located.rows.shape == (100, ROW)
    assert located.rows.dtype == np.uint8
    assert not located.rows.flags.writeable
    assert read(located) == {name: rows_of(name, V1, n).tobytes() for name, n in [("a", 3), ("b", 0), ("c", 5)]}
    assert located.valid()
    assert cache.reason is None
    assert (len(cache), cache.n_bytes) == (3, 8 * ROW)


def test_nothing_asked_nothing_located(tmp_path: Path) -> None:
    cache = opened(tmp_path)
    cache.put_many([])
    located = cache.locate({})
    assert located.ids == ()
    assert located.starts.shape == located.lengths.shape == (0,)
    assert located.valid()


def test_only_exactly_the_version_is_a_hit(tmp_path: Path) -> None:
    cache = opened(tmp_path)
    put(cache, "a", V1, 2)
    for other in [V2, ChunkVersion(seq_no=1, primary_term=2), ChunkVersion(seq_no=0, primary_term=1)]:
        assert get(cache, a=other) == {}
    put(cache, "a", V2, 2)
    assert get(cache, a=V1) == {}
    assert get(cache, a=V2) == {"a": rows_of("a", V2, 2).tobytes()}
    assert len(cache) == 1


def test_any_id_and_any_version_number(tmp_path: Path) -> None:
    cache = opened(tmp_path)
    big = ChunkVersion(seq_no=2**63 - 1, primary_term=2**63 - 1)
    unassigned = ChunkVersion(seq_no=-2, primary_term=0)
    for chunk_id in ["", "x" * 5000, "法", "\ud800", "a\0b"]:
        for version in [big, unassigned]:
            rows = np.full((1, ROW), len(chunk_id) % 251, dtype=np.uint8)
            cache.put_many([(chunk_id, version, rows)])
            assert read(cache.locate({chunk_id: version})) == {chunk_id: rows.tobytes()}


def test_putting_twice_takes_room_once(tmp_path: Path) -> None:
    cache = opened(tmp_path, 10)
    put(cache, "a", V1, 4)
    for _ in range(20):
        put(cache, "b", V1, 4)
    assert set(get(cache, a=V1, b=V1)) == {"a", "b"}
    assert cache.n_bytes == 8 * ROW


def test_rows_of_another_shape_are_refused(tmp_path: Path) -> None:
    cache = opened(tmp_path)
    for rows in [np.zeros((2, ROW + 1), np.uint8), np.zeros((2, ROW), np.int8), np.zeros(ROW, np.uint8)]:
        with pytest.raises(ValueError, match="rows are"):
            cache.put_many([("a", V1, rows)])
    assert len(cache) == 0


def test_first_in_first_out_and_the_bound_holds(tmp_path: Path) -> None:
    cache = opened(tmp_path, 20)
    names = [f"chunk {i}" for i in range(50)]
    for i, name in enumerate(names):
        assert cache.full == (i >= 5)
        put(cache, name, V1, 4)
        held = cache.locate(dict.fromkeys(names, V1)).ids
        assert list(held) == names[max(0, i - 4) : i + 1]
    assert cache.n_bytes == 20 * ROW
    assert the_file(tmp_path).stat().st_size <= bytes_for(20)


def test_a_document_never_wraps(tmp_path: Path) -> None:
    cache = opened(tmp_path, 10)
    put(cache, "a", V1, 6)
    put(cache, "b", V1, 6)  # rows 6 to 9 are too few: it starts anew, over a
    located = cache.locate({"a": V1, "b": V1})
    assert located.ids == ("b",)
    assert located.starts.tolist() == [0]
    put(cache, "c", V1, 4)
    assert get(cache, b=V1, c=V1) == {n: rows_of(n, V1, k).tobytes() for n, k in [("b", 6), ("c", 4)]}


def test_one_that_is_larger_than_the_cache_is_not_kept(tmp_path: Path) -> None:
    cache = opened(tmp_path, 10)
    put(cache, "fits", V1, 10)
    put(cache, "too large", V1, 11)
    assert cache.locate({"fits": V1, "too large": V1}).ids == ("fits",)


@pytest.mark.parametrize("max_bytes", [0, 1, FIXED, FIXED + ROW])
def test_no_room_at_all_is_no_error(tmp_path: Path, max_bytes: int) -> None:
    cache = TokenRowCache(tmp_path, row_bytes=ROW, max_bytes=max_bytes, identity="x")
    put(cache, "a", V1, 2)
    put(cache, "empty", V1, 0)
    assert "a" not in cache.locate({"a": V1, "empty": V1}).ids
    assert cache.full


def test_more_entries_than_slots(tmp_path: Path) -> None:
    cache = opened(tmp_path, 10_000)
    names = [f"chunk {i}" for i in range(2_000)]
    cache.put_many([(name, V1, rows_of(name, V1, 1)) for name in names])
    held = read(cache.locate(dict.fromkeys(names, V1)))
    assert 64 <= len(held) == len(cache) <= 134 + 16
    assert held == {name: rows_of(name, V1, 1).tobytes() for name in held}
    assert names[-1] in held


def test_valid_turns_false_when_located_rows_are_overwritten(tmp_path: Path) -> None:
    cache, other = opened(tmp_path, 10), opened(tmp_path, 10)
    put(cache, "a", V1, 4)
    put(cache, "none", V1, 0)
    located, without_rows = cache.locate({"a": V1}), cache.locate({"none": V1})
    put(other, "b", V1, 6)
    assert located.valid()
    assert read(located) == {"a": rows_of("a", V1, 4).tobytes()}
    put(other, "c", V1, 1)
    assert not located.valid()
    assert without_rows.ids == ("none",)
    assert without_rows.valid()


def test_located_rows_outlive_the_cache(tmp_path: Path) -> None:
    cache = opened(tmp_path)
    put(cache, "a", V1, 4)
    located = cache.locate({"a": V1})
    cache.close()
    assert read(located) == {"a": rows_of("a", V1, 4).tobytes()}
    assert located.valid()
    put(cache, "b", V1, 1)
    assert get(cache, a=V1, b=V1) == {}
    assert cache.reason == "The cache is closed."
    cache.close()


def test_what_one_process_kept_the_next_finds(tmp_path: Path) -> None:
    first = opened(tmp_path)
    put(first, "a", V1, 4)
    first.close()
    assert get(opened(tmp_path), a=V1) == {"a": rows_of("a", V1, 4).tobytes()}


def test_identities_do_not_share(tmp_path: Path) -> None:
    one, two = opened(tmp_path, identity="codec 1"), opened(tmp_path, identity="codec 2")
    put(one, "a", V1, 4)
    assert get(two, a=V1) == {}
    assert get(one, a=V1)


def test_another_boot_starts_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    running = opened(tmp_path)
    put(running, "a", V1, 4)
    boot_id = tmp_path / "boot_id"
    boot_id.write_text("11111111-2222-3333-4444-555555555555\n")
    monkeypatch.setattr(token_ring, "BOOT_ID", boot_id)
    after = opened(tmp_path)
    assert get(after, a=V1) == {}
    put(after, "b", V1, 4)
    assert get(opened(tmp_path), b=V1)
    # The one that still has the old file goes over to the new one when it next writes.
    put(running, "c", V1, 4)
    assert set(get(running, a=V1, b=V1, c=V1)) == {"b", "c"}


def test_files_of_another_boot_are_removed_unless_in_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left, used = opened(tmp_path, identity="left"), opened(tmp_path, identity="used")
    left.close()
    (tmp_path / "tokens-aborted.new").write_bytes(b"x")
    (tmp_path / "other.cache").write_bytes(b"x")
    boot_id = tmp_path / "boot_id"
    boot_id.write_text("11111111-2222-3333-4444-555555555555\n")
    monkeypatch.setattr(token_ring, "BOOT_ID", boot_id)
    opened(tmp_path, identity="new")
    assert {used._path.name, "other.cache"} < {path.name for path in tmp_path.iterdir()}
    assert not left._path.exists()
    assert not (tmp_path / "tokens-aborted.new").exists()


@pytest.mark.parametrize("raw", [b"", b"x", b"\0" * 5000, b"\xff" * 100_000])
def test_a_file_of_something_else_is_replaced(tmp_path: Path, raw: bytes) -> None:
    path = opened(tmp_path)._path
    path.write_bytes(raw)
    cache = opened(tmp_path)
    assert cache.reason is None
    put(cache, "a", V1, 4)
    assert get(opened(tmp_path), a=V1)


@pytest.mark.parametrize("change", [-1, 1])
def test_a_file_of_another_size_is_replaced(tmp_path: Path, change: int) -> None:
    cache = opened(tmp_path)
    put(cache, "a", V1, 4)
    path = cache._path
    cache.close()
    os.truncate(path, path.stat().st_size + change)
    assert get(opened(tmp_path), a=V1) == {}
    assert path.stat().st_size == cache._shape.size


def test_a_removed_folder_is_no_error(tmp_path: Path) -> None:
    folder = tmp_path / "tokens"
    cache = opened(folder)
    put(cache, "a", V1, 4)
    for path in folder.iterdir():
        path.unlink()
    put(cache, "b", V1, 4)  # a new file
    assert get(cache, a=V1, b=V1) == {"b": rows_of("b", V1, 4).tobytes()}
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    put(cache, "c", V1, 4)
    assert get(cache, c=V1) == {"c": rows_of("c", V1, 4).tobytes()}
    assert "memory" in str(cache.reason)


def filled(folder: Path) -> tuple[TokenRowCache, dict[str, ChunkVersion]]:
    """A small cache on its third lap, and all that was ever put."""
    cache = opened(folder, 40)
    wanted: dict[str, ChunkVersion] = {}
    for i in range(30):
        wanted[f"chunk {i % 20}"] = ChunkVersion(seq_no=i, primary_term=1)
        put(cache, f"chunk {i % 20}", wanted[f"chunk {i % 20}"], 1 + i % 5)
    return cache, wanted


def assert_right(found: dict[str, bytes], wanted: dict[str, ChunkVersion]) -> None:
    for chunk_id, raw in found.items():
        assert raw == rows_of(chunk_id, wanted[chunk_id], len(raw) // ROW).tobytes()


def test_a_flipped_byte_of_header_or_table_never_gives_a_wrong_row(tmp_path: Path) -> None:
    cache, wanted = filled(tmp_path)
    before = read(cache.locate(wanted))
    assert len(before) > 5
    assert_right(before, wanted)
    path = cache._path
    clean = path.read_bytes()
    ring = cache._ring
    used = [4096 + 64 * int(i) for i in np.flatnonzero(ring._table.any(axis=1))]
    places = [*range(80), *range(512, 536), *(at + k for at in used for k in range(64))]
    rng = np.random.default_rng(1)
    with path.open("r+b", buffering=0) as file:
        for at in places:
            for flip in {1, 128, int(rng.integers(1, 256))}:
                os.pwrite(file.fileno(), bytes([clean[at] ^ flip]), at)
                found = read(cache.locate(wanted))
                assert found.items() <= before.items()
                lost = len(before) - len(found)
                assert lost <= (1 if at >= 4096 else len(before))
                if 512 <= at < 528:
                    assert lost == len(before)  # without bounds nothing holds
                os.pwrite(file.fileno(), clean[at : at + 1], at)
    assert read(cache.locate(wanted)) == before


@pytest.mark.parametrize("at", [0, 8, 16, 24, 32, 40, 56, 72, 512, 519, 520, 527, 528, 535])
def test_a_damaged_header_is_replaced(tmp_path: Path, at: int) -> None:
    running, wanted = filled(tmp_path)
    path, inode = running._path, running._path.stat().st_ino
    with path.open("r+b", buffering=0) as file:
        byte = os.pread(file.fileno(), 1, at)[0]
        os.pwrite(file.fileno(), bytes([byte ^ 0x10]), at)
    cache = opened(tmp_path, 40)
    assert path.stat().st_ino != inode
    assert read(cache.locate(wanted)) == {}
    put(running, "a", V1, 3)
    assert get(cache, a=V1) == get(running, a=V1) == {"a": rows_of("a", V1, 3).tobytes()}


def test_a_writer_replaces_damaged_bounds(tmp_path: Path) -> None:
    cache, wanted = filled(tmp_path)
    cache._ring._words[64] ^= np.uint64(1)
    put(cache, "a", V1, 3)
    assert get(cache, a=V1) == {"a": rows_of("a", V1, 3).tobytes()}
    assert read(cache.locate(wanted)) == {}


def test_random_rubbish_in_the_table(tmp_path: Path) -> None:
    cache, wanted = filled(tmp_path)
    rng = np.random.default_rng(2)
    for _ in range(200):
        table = cache._ring._table
        at = rng.integers(0, len(table), 8)
        table[at] = rng.integers(0, 2**63, (8, 8), dtype=np.uint64)
        # Halves of two entries, as a writer that was killed would leave them.
        used = np.flatnonzero(table.any(axis=1))
        a, b = rng.choice(used, 2)
        half = int(rng.integers(1, 8))
        table[a, :half] = table[b, :half]
        chunk_id = f"chunk {int(rng.integers(0, 20))}"
        put(cache, chunk_id, wanted[chunk_id], 3)
        located = cache.locate(wanted)
        assert chunk_id in located.ids
        assert_right(read(located), wanted)
        assert len(cache) <= 40


def test_rows_are_summed_where_stores_may_be_seen_out_of_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = opened(tmp_path)
    put(cache, "a", V1, 4)
    put(cache, "b", V1, 4)
    put(cache, "none", V1, 0)
    monkeypatch.setattr(token_ring, "_STORES_IN_ORDER", False)
    assert set(get(cache, a=V1, b=V1, none=V1)) == {"a", "b", "none"}
    cache._ring._slab[5, 3] ^= 1
    assert set(get(cache, a=V1, b=V1, none=V1)) == {"a", "none"}


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    cache = opened(tmp_path / "file" / "tokens", 20)
    assert "memory" in str(cache.reason)
    assert str(tmp_path / "file") in str(cache.reason)
    for i in range(30):
        put(cache, f"chunk {i}", V1, 4)
    located = cache.locate({f"chunk {i}": V1 for i in range(30)})
    assert located.ids == tuple(f"chunk {i}" for i in range(25, 30))
    assert read(located) == {name: rows_of(name, V1, 4).tobytes() for name in located.ids}
    put(cache, "next", V1, 1)
    assert not located.valid()


def test_a_folder_in_place_of_the_file(tmp_path: Path) -> None:
    path = opened(tmp_path)._path
    path.unlink()
    path.mkdir()
    cache = opened(tmp_path)
    put(cache, "a", V1, 2)
    assert get(cache, a=V1)
    assert "memory" in str(cache.reason)


MB = 1 << 20


def fill(cache: TokenRowCache, n: int, row_bytes: int) -> list[str]:
    """Documents of 1,000 rows; the names of those that are held, all of them right."""
    names = [f"chunk {i}" for i in range(n)]
    for name in names:
        cache.put_many([(name, V1, rows_of(name, V1, 1000, row_bytes))])
    held = read(cache.locate(dict.fromkeys(names, V1)))
    for name, raw in held.items():
        assert raw == rows_of(name, V1, 1000, row_bytes).tobytes()
    return list(held)


class Disk:
    """``posix_fallocate`` of a disk that fills up: no file may have more than ``room`` bytes on it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, code: int = errno.ENOSPC) -> None:
        self.room, self.code, self.asked = 1 << 40, code, 0
        monkeypatch.setattr(os, "posix_fallocate", self)
        monkeypatch.setattr(token_ring, "_STEP_BYTES", MB)

    def __call__(self, fd: int, offset: int, length: int) -> None:
        if offset + length > self.room:
            raise OSError(self.code, os.strerror(self.code))
        self.asked = max(self.asked, offset + length)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_disk_that_fills_up_makes_the_cache_smaller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    disk = Disk(monkeypatch, code)
    cache = TokenRowCache(tmp_path, row_bytes=100, max_bytes=8 * MB, identity="x")
    assert fill(cache, 10, 100) == [f"chunk {i}" for i in range(10)]
    assert disk.asked < 3 * MB
    disk.room = 3 * MB
    # A second process knows nothing of what the first one allocated.
    other = TokenRowCache(tmp_path, row_bytes=100, max_bytes=8 * MB, identity="x")
    held = fill(other, 200, 100)
    assert 10 <= len(held) <= 30
    assert held[-1] == "chunk 199"
    assert disk.asked <= 3 * MB
    assert "no room" in str(other.reason)
    assert "no room" in str(cache.reason)
    assert fill(cache, 300, 100)[-1] == "chunk 299"
    assert read(other.locate({"chunk 299": V1}))


def test_the_end_of_a_lap_that_was_never_taken_from_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch)
    cache = TokenRowCache(tmp_path, row_bytes=1000, max_bytes=3 * MB, identity="x")  # about 3,100 rows
    sizes = {"a": 1500, "b": 1640, "small": 60, "c": 450, "d": 1000, "e": 1000}
    for i, (name, n) in enumerate(sizes.items()):
        if i == 3:  # the second lap is at row 1,700; two steps are on disk, c would need the third
            disk.room = 2 * MB + 4096 + 64 * 128
        cache.put_many([(name, V1, rows_of(name, V1, n, 1000))])
        found = read(cache.locate(dict.fromkeys(sizes, V1)))
        assert name in found
        assert ("small" in found) == (2 <= i <= 4)
        assert found == {key: rows_of(key, V1, sizes[key], 1000).tobytes() for key in found}
    assert disk.asked <= disk.room


def test_a_full_disk_leaves_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(monkeypatch)
    disk.room = 1000
    cache = TokenRowCache(tmp_path, row_bytes=100, max_bytes=8 * MB, identity="x")
    assert os.strerror(errno.ENOSPC) in str(cache.reason)
    assert len(fill(cache, 20, 100)) == 20
    assert [path.name for path in tmp_path.iterdir()] == ["tokens.lock"]


def test_disk_is_taken_as_it_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_ring, "_STEP_BYTES", MB)
    cache = TokenRowCache(tmp_path, row_bytes=100, max_bytes=64 * MB, identity="x")
    assert fill(cache, 15, 100) == [f"chunk {i}" for i in range(15)]
    status = cache._path.stat()
    assert 2 * MB <= status.st_blocks * 512 <= 4 * MB
    assert 60 * MB < status.st_size <= 64 * MB


def with_a_limit_of_file_size(folder: Path) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (3 * MB, 3 * MB))
    cache = TokenRowCache(folder, row_bytes=100, max_bytes=16 * MB, identity="x")
    assert "no room" in str(cache.reason), cache.reason
    held = fill(cache, 100, 100)
    assert 10 <= len(held) <= 30
    assert held[-1] == "chunk 99"
    tiny = folder / "tiny"
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
    cache = TokenRowCache(tiny, row_bytes=100, max_bytes=16 * MB, identity="x")
    assert "memory" in str(cache.reason)
    assert len(fill(cache, 100, 100)) == 100


def test_a_limit_of_file_size(tmp_path: Path) -> None:
    assert ends(start(with_a_limit_of_file_size, tmp_path)) == 0


def start(target: object, *args: object) -> SpawnProcess:
    process = SPAWN.Process(target=target, args=args)  # type: ignore[arg-type]
    process.start()
    return process


def ends(process: SpawnProcess) -> int | None:
    process.join(120)
    code = process.exitcode
    if code is None:
        process.kill()
        process.join()
    process.close()
    return code


def of_process(i: int) -> dict[str, ChunkVersion]:
    return {f"chunk {k}": ChunkVersion(seq_no=i, primary_term=k) for k in range(150)}


def write_for_ever(folder: Path, seed: int) -> None:
    cache = opened(folder, 400)
    rng = np.random.default_rng(seed)
    while True:
        wanted = list(of_process(int(rng.integers(0, 3))).items())
        some = [wanted[int(k)] for k in rng.integers(0, len(wanted), 8)]
        cache.put_many([(chunk_id, version, rows_of(chunk_id, version)) for chunk_id, version in some])


def write_and_read(folder: Path, seed: int) -> None:
    cache = opened(folder, 400)
    rng = np.random.default_rng(seed)
    seen = 0
    for _ in range(400):
        wanted = of_process(int(rng.integers(0, 3)))
        some = [list(wanted.items())[int(k)] for k in rng.integers(0, len(wanted), 8)]
        cache.put_many([(chunk_id, version, rows_of(chunk_id, version)) for chunk_id, version in some])
        seen += check(cache, wanted)
    assert seen > 1000, seen
    assert cache.reason is None


def check(cache: TokenRowCache, wanted: dict[str, ChunkVersion]) -> int:
    """How many were found; those of a valid look-up are right."""
    located = cache.locate(wanted)
    found = read(located)
    if not located.valid():
        return 0
    for chunk_id, raw in found.items():
        assert raw == rows_of(chunk_id, wanted[chunk_id]).tobytes(), chunk_id
    return len(found)


def test_processes_write_and_read_at_once(tmp_path: Path) -> None:
    processes = [start(write_and_read, tmp_path, seed) for seed in range(3)]
    assert [ends(process) for process in processes] == [0, 0, 0]
    assert len(list(tmp_path.glob("*.cache"))) == 1


@pytest.fixture
def writers() -> Iterator[list[SpawnProcess]]:
    started: list[SpawnProcess] = []
    yield started
    for process in started:
        process.kill()
        process.join()
        process.close()


def test_writers_that_are_killed_leave_nothing_wrong(tmp_path: Path, writers: list[SpawnProcess]) -> None:
    cache = opened(tmp_path, 400)
    rng = np.random.default_rng(3)
    found = 0
    writers.extend(start(write_for_ever, tmp_path, seed) for seed in range(8))
    for killed in writers:
        head = cache._ring.bounds()
        until = time.monotonic() + 60
        while cache._ring.bounds() == head and time.monotonic() < until:
            time.sleep(0.001)
        assert cache._ring.bounds() != head
        time.sleep(float(rng.random()) * 0.05)
        os.kill(killed.pid or 0, signal.SIGKILL)
        killed.join()
        found += sum(check(cache, of_process(i)) for i in range(3))
    put(cache, "after", V1, 3)  # the lock is free
    assert get(cache, after=V1) == {"after": rows_of("after", V1, 3).tobytes()}
    last = [cache.locate(of_process(i)) for i in range(3)]
    assert all(located.valid() for located in last)
    found += sum(check(cache, of_process(i)) for i in range(3))
    assert found > 50


def test_a_lock_that_stays_held_does_not_hold_a_search_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_cache, "_LOCK_WAIT_S", 0.01)
    cache = opened(tmp_path)
    put(cache, "a", V1, 3)
    with token_cache._locked(tmp_path):
        put(cache, "b", V1, 3)
        assert set(get(cache, a=V1, b=V1)) == {"a"}
    put(cache, "b", V1, 3)
    assert set(get(cache, a=V1, b=V1)) == {"a", "b"}
    assert cache.reason is None


class Killed(BaseException):
    """Stands for a kill: the file is left as it is."""


@pytest.mark.parametrize(
    "point", ["before the head", "after the head", "first rows", "third rows", "entry", "torn"]
)
def test_a_writer_that_stops_between_its_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    cache, wanted = filled(tmp_path)
    before = read(cache.locate(wanted))
    located = cache.locate(wanted)
    ring, summed = cache._ring, 0
    new = {f"new {i}": V1 for i in range(4)}

    def seal(at: int, value: int) -> None:
        if point == "after the head":
            token_ring.Ring._seal(ring, at, value)
        raise Killed

    def crc32(rows: memoryview) -> int:
        nonlocal summed
        summed += 1
        if summed == (3 if point == "third rows" else 1):
            raise Killed
        return 0

    def enter(entries: np.ndarray, head: int, capacity: int) -> None:
        if point == "torn":
            entries[:, 7] = token_ring._checksum(entries)
            slots = ring._home(entries)
            ring._table[slots, :5] = entries[:, :5]
        raise Killed

    with monkeypatch.context() as patched:
        if point.endswith("the head"):
            patched.setattr(ring, "_seal", seal)
        elif point.endswith("rows"):
            patched.setattr(token_ring, "zlib", SimpleNamespace(crc32=crc32))
            patched.setattr(token_ring, "_check_bits", lambda value: zlib.crc32(value.to_bytes(8, "little")) >> 12)
        else:
            patched.setattr(ring, "_enter", enter)
        with pytest.raises(Killed):
            cache.put_many([(name, version, rows_of(name, version, 6)) for name, version in new.items()])
    assert located.valid() == (point == "before the head")
    reader = opened(tmp_path, 40)
    after = read(reader.locate({**wanted, **new}))
    assert after == before if point == "before the head" else after.items() < before.items()
    assert_right(after, wanted)
    cache.put_many([(name, version, rows_of(name, version, 6)) for name, version in new.items()])
    assert read(reader.locate(new)) == {name: rows_of(name, V1, 6).tobytes() for name in new}


@settings(max_examples=60, deadline=None)
@given(
    capacity=st.integers(0, 60),
    batches=st.lists(st.lists(st.tuples(st.integers(0, 90), st.integers(0, 2)), max_size=40), max_size=6),
)
def test_batches_of_any_size(
    tmp_path_factory: pytest.TempPathFactory, capacity: int, batches: list[list[tuple[int, int]]]
) -> None:
    cache = opened(tmp_path_factory.mktemp("batches"), capacity)
    for batch in batches:
        items = [(f"chunk {i}", ChunkVersion(seq_no=seq_no, primary_term=1)) for i, seq_no in batch]
        cache.put_many([(chunk_id, version, rows_of(chunk_id, version)) for chunk_id, version in items])
        for seq_no in range(3):
            wanted = {f"chunk {i}": ChunkVersion(seq_no=seq_no, primary_term=1) for i in range(91)}
            found = read(cache.locate(wanted))
            assert found == {c: rows_of(c, wanted[c]).tobytes() for c in found}


def test_the_last_of_a_batch_that_is_larger_than_the_cache(tmp_path: Path) -> None:
    cache = opened(tmp_path, 40)
    items = [(f"chunk {i}", V1, rows_of(f"chunk {i}", V1, 4)) for i in range(1000)]
    cache.put_many(items)
    located = cache.locate({chunk_id: V1 for chunk_id, _, _ in items})
    assert located.ids == tuple(f"chunk {i}" for i in range(990, 1000))
    assert list(read(located).values()) == [rows.tobytes() for _, _, rows in items[990:]]


def test_two_versions_of_a_chunk_in_a_batch(tmp_path: Path) -> None:
    cache = opened(tmp_path)
    cache.put_many([("a", version, rows_of("a", version, 3)) for version in [V1, V2, V1]])
    assert get(cache, a=V2) == {"a": rows_of("a", V2, 3).tobytes()}
    assert len(cache) == 1


step = st.tuples(
    st.sampled_from(["a", "b", "c", "d", "e", "f"]), st.integers(0, 2), st.integers(0, 12), st.booleans()
)


@settings(max_examples=150, deadline=None)
@given(capacity=st.integers(0, 25), steps=st.lists(step, max_size=40))
def test_it_behaves_as_a_ring_and_a_dict(
    tmp_path_factory: pytest.TempPathFactory, capacity: int, steps: list[tuple[str, int, int, bool]]
) -> None:
    folder = tmp_path_factory.mktemp("model")
    cache = opened(folder, capacity)
    other = opened(folder, capacity)
    head = 0
    model: dict[str, tuple[ChunkVersion, int, int]] = {}
    for name, seq_no, n, reopen in steps:
        version = ChunkVersion(seq_no=seq_no, primary_term=1)
        held = name in model and model[name][0] == version and model[name][1] >= head - capacity
        if not held and n <= capacity:
            if capacity and head % capacity + n > capacity:
                head += capacity - head % capacity
            model[name] = (version, head, n)
            head += n
        put(cache, name, version, n)
        if reopen:
            cache, other = other, opened(folder, capacity)
        live = {key: value for key, value in model.items() if value[1] >= head - capacity}
        for sought in range(3):
            wanted = {key: ChunkVersion(seq_no=sought, primary_term=1) for key in "abcdef"}
            located = cache.locate(wanted)
            assert read(located) == {
                key: rows_of(key, v, k).tobytes() for key, (v, _, k) in live.items() if v.seq_no == sought
            }
            assert located.valid()
        assert len(cache) == len(live)
        assert cache.n_bytes == ROW * sum(k for _, _, k in live.values())
