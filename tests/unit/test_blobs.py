"""Token blobs: what the cluster holds, and what is refused of it."""

from __future__ import annotations

import base64

import numpy as np
import pytest
from half_rows import from_blob, to_blob

from pincite.domain.codec import TokenFormat
from pincite.domain.errors import ContractError
from pincite.kernels import blobs

HALF = TokenFormat(kind="f16", dim=4)
CODES = TokenFormat(kind="rc", dim=8, nbits=2)


def test_blob_round_trip_is_half_precision() -> None:
    tokens = np.random.default_rng(0).standard_normal((5, 8)).astype(np.float32)
    assert np.array_equal(from_blob(to_blob(tokens), 8), tokens.astype(np.float16).astype(np.float32))


def test_blob_bytes_are_little_endian_rows() -> None:
    raw = base64.b64decode(to_blob(np.array([[1.0, -2.0]], dtype=np.float32)))
    assert raw == bytes([0x00, 0x3C, 0x00, 0xC0])


@pytest.mark.parametrize("n", [1, 2, 3])
def test_padding_may_be_missing(n: int) -> None:
    # OpenSearch's docvalue_fields returns base64 without it.
    rows = np.arange(n * CODES.row_bytes, dtype=np.uint8).reshape(n, CODES.row_bytes)
    assert np.array_equal(blobs.from_base64(blobs.to_base64(rows).rstrip("="), CODES), rows)


@pytest.mark.parametrize("form", [HALF, CODES])
def test_an_empty_blob_is_no_tokens(form: TokenFormat) -> None:
    empty = np.zeros((0, form.row_bytes), dtype=np.uint8)
    assert blobs.from_base64(blobs.to_base64(empty), form).shape == (0, form.row_bytes)


@pytest.mark.parametrize(
    "blob",
    ["not base64!", base64.b64encode(b"\x00" * 9).decode(), base64.b64encode(b"\x00\x7c" * 4).decode()],
)
def test_malformed_blobs_are_named(blob: str) -> None:
    with pytest.raises(ContractError) as caught:
        blobs.from_base64(blob, HALF)
    assert caught.value.code == "tokens_malformed"


def test_a_row_that_names_no_centroid_is_refused() -> None:
    rows = np.zeros((2, CODES.row_bytes), dtype=np.uint8)
    rows[1, 1] = 1  # centroid 256
    blob = blobs.to_base64(rows)
    assert len(blobs.from_base64(blob, CODES, n_centroids=257)) == 2
    with pytest.raises(ContractError, match="centroid 256"):
        blobs.from_base64(blob, CODES, n_centroids=256)


def test_what_is_not_finite_is_not_packed() -> None:
    with pytest.raises(ValueError, match="not finite"):
        to_blob(np.array([[np.inf]], dtype=np.float32))


@pytest.mark.parametrize("name", ["f16-384", "rc2-128", "rc1-8", "rc4-64"])
def test_format_names_round_trip(name: str) -> None:
    assert TokenFormat.parse(name).name == name


@pytest.mark.parametrize("name", ["rc3-128", "f32-4", "rc2-", "rc1-3", "f16-0", "rc2-128 "])
def test_other_names_are_no_formats(name: str) -> None:
    with pytest.raises(ValueError, match="format"):
        TokenFormat.parse(name)


def test_a_token_of_two_bits_and_128_dimensions_is_36_bytes() -> None:
    assert TokenFormat.parse("rc2-128").row_bytes == 36
