"""Token blobs."""

from __future__ import annotations

import base64

import numpy as np
import pytest

from pincite.domain.errors import ContractError
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
