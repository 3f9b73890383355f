"""Token blobs and the bounded cache of decoded vectors."""

from __future__ import annotations

import base64

import numpy as np
import pytest

from pincite.adapters.token_cache import TokenCache
from pincite.domain.errors import ContractError
from pincite.domain.types import ChunkVersion
from pincite.kernels import blobs


def test_blob_round_trip_is_half_precision() -> None:
    tokens = np.random.default_rng(0).standard_normal((5, 8)).astype(np.float32)
    back = blobs.unpack(blobs.pack(tokens), 8)
    assert back.dtype == np.float32
    assert np.array_equal(back, tokens.astype(np.float16).astype(np.float32))


def test_blob_bytes_are_little_endian_rows() -> None:
    raw = base64.b64decode(blobs.pack(np.array([[1.0, -2.0]], dtype=np.float32)))
    assert raw == bytes([0x00, 0x3C, 0x00, 0xC0])


@pytest.mark.parametrize("n", [1, 2, 3])
def test_padding_may_be_missing(n: int) -> None:
    # OpenSearch's docvalue_fields returns base64 without it.
    tokens = np.ones((n, 4), dtype=np.float32)
    assert blobs.unpack(blobs.pack(tokens).rstrip("="), 4).shape == (n, 4)


def test_an_empty_blob_is_no_tokens() -> None:
    assert blobs.unpack(blobs.pack(np.zeros((0, 4), dtype=np.float32)), 4).shape == (0, 4)


@pytest.mark.parametrize(
    "blob",
    ["not base64!", base64.b64encode(b"\x00" * 9).decode(), base64.b64encode(b"\x00\x7c" * 4).decode()],
)
def test_malformed_blobs_are_named(blob: str) -> None:
    with pytest.raises(ContractError) as caught:
        blobs.unpack(blob, 4)
    assert caught.value.code == "tokens_malformed"


def test_what_is_not_finite_is_not_packed() -> None:
    with pytest.raises(ValueError, match="not finite"):
        blobs.pack(np.array([[np.inf]], dtype=np.float32))


V1, V2 = ChunkVersion(seq_no=1, primary_term=1), ChunkVersion(seq_no=2, primary_term=1)


def tokens(n: int) -> np.ndarray:
    return np.full((n, 4), 0.5, dtype=np.float16)


def test_another_version_is_a_miss() -> None:
    cache = TokenCache(1000)
    cache.put("a", V1, tokens(2))
    assert set(cache.get_many({"a": V1})) == {"a"}
    assert cache.get_many({"a": V2}) == {}
    assert cache.get_many({"a": ChunkVersion(seq_no=1, primary_term=2)}) == {}


def test_the_cache_is_bounded_and_drops_the_least_recently_used() -> None:
    cache = TokenCache(tokens(10).nbytes * 2)
    cache.put("a", V1, tokens(10))
    cache.put("b", V1, tokens(10))
    cache.get_many({"a": V1})
    cache.put("c", V1, tokens(10))
    assert set(cache.get_many({"a": V1, "b": V1, "c": V1})) == {"a", "c"}
    assert cache.n_bytes == tokens(10).nbytes * 2


def test_one_that_is_too_large_is_not_kept() -> None:
    cache = TokenCache(10)
    cache.put("a", V1, tokens(10))
    assert len(cache) == 0
    assert cache.n_bytes == 0


def test_putting_twice_counts_once() -> None:
    cache = TokenCache(1000)
    cache.put("a", V1, tokens(3))
    cache.put("a", V1, tokens(3))
    assert cache.n_bytes == tokens(3).nbytes
