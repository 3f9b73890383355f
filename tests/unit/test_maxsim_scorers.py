"""The scorers over stored rows, against the definition (kernels/reference.py)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pincite.domain.codec import Codec
from pincite.domain.protocols import MaxSimScorer
from pincite.kernels import reference
from pincite.kernels.maxsim_codes import CodesScorer
from pincite.kernels.maxsim_half import HalfScorer

DIM = 24


def make_codec(nbits: int, *, dim: int = DIM, n_centroids: int = 300, seed: int = 0) -> Codec:
    rng = np.random.default_rng(seed)
    centroids = rng.normal(size=(n_centroids, dim)).astype(np.float32)
    centroids /= np.linalg.norm(centroids, axis=1, keepdims=True)
    # Not symmetric, so that a code read in the wrong order cannot pass.
    weights = np.sort(rng.normal(size=2**nbits)).astype(np.float32)
    return Codec(
        codec_id="t", encoder_id="t", token_dim=dim, dim=dim, nbits=nbits, centroids=centroids,
        bucket_cutoffs=(weights[1:] + weights[:-1]) / 2, bucket_weights=weights, facts={},
    )  # fmt: skip


def make_rows(codec: Codec, n: int, seed: int = 1) -> Any:
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, 256, (n, codec.format.row_bytes), dtype=np.uint8)
    rows[:, :4] = rng.integers(0, len(codec.centroids), n).astype("<u4").view(np.uint8).reshape(-1, 4)
    return rows


def make_query(n: int, dim: int = DIM, seed: int = 2) -> Any:
    query = np.random.default_rng(seed).normal(size=(n, dim)).astype(np.float32)
    return query / np.linalg.norm(query, axis=1, keepdims=True)


def expected(query: Any, vectors: Any, starts: Any, lengths: Any) -> list[float]:
    return [
        reference.maxsim(query, vectors[s : s + n]) for s, n in zip(starts, lengths, strict=True)
    ]  # fmt: skip


# Gaps, overlaps, repeats, out of order, empty at both ends, and lengths around the tile of 32.
STARTS = np.array([5, 0, 0, 90, 7, 7, 140, 0, 139, 33, 1])
LENGTHS = np.array([3, 140, 1, 33, 32, 31, 0, 0, 1, 65, 4])


@pytest.mark.parametrize("use_numba", [True, False])
@pytest.mark.parametrize("nbits", [1, 2, 4])
@pytest.mark.parametrize("n_query", [1, 4, 7])
def test_codes_score_as_the_definition_says(use_numba: bool, nbits: int, n_query: int) -> None:
    codec = make_codec(nbits)
    rows, query = make_rows(codec, 140), make_query(n_query)
    scorer: MaxSimScorer = CodesScorer(codec, 2, use_numba=use_numba)
    got = scorer.score(query, rows, STARTS, LENGTHS)
    assert got.dtype == np.float32
    want = expected(query, reference.decode_rows(codec, rows), STARTS, LENGTHS)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=2e-6)
    assert got[6] == got[7] == 0.0


@pytest.mark.parametrize("use_numba", [True, False])
@pytest.mark.parametrize("size", [1e-30, 1e-12, 0.0, 1e18])
def test_vectors_of_any_length_are_normalised(use_numba: bool, size: float) -> None:
    plain = make_codec(2)
    codec = Codec(
        codec_id="t", encoder_id="t", token_dim=DIM, dim=DIM, nbits=2, facts={},
        centroids=plain.centroids * np.float32(size), bucket_cutoffs=plain.bucket_cutoffs * np.float32(size),
        bucket_weights=plain.bucket_weights * np.float32(size),
    )  # fmt: skip
    rows, query = make_rows(codec, 40), make_query(3)
    got = CodesScorer(codec, 1, use_numba=use_numba).score(query, rows, np.array([0]), np.array([40]))
    want = expected(query, reference.decode_rows(codec, rows), [0], [40])
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("use_numba", [True, False])
def test_negative_maxima_count(use_numba: bool) -> None:
    codec = make_codec(2, n_centroids=1)
    rows = make_rows(codec, 1)
    query = -reference.decode_rows(codec, rows)
    got = CodesScorer(codec, 1, use_numba=use_numba).score(query, rows, np.array([0]), np.array([1]))
    np.testing.assert_allclose(got, [-1.0], rtol=1e-5)


@pytest.mark.parametrize("use_numba", [True, False])
def test_read_only_maps_strides_threads_and_callers(use_numba: bool, tmp_path: Path) -> None:
    codec = make_codec(2)
    rows, query = make_rows(codec, 6000), make_query(5)
    (tmp_path / "rows").write_bytes(b"x" + rows.tobytes())
    mapped = np.memmap(tmp_path / "rows", dtype=np.uint8, mode="r", offset=1, shape=rows.shape)
    lengths = np.random.default_rng(3).integers(0, 200, 90)
    starts = np.random.default_rng(4).integers(0, 5800, 90)
    one = CodesScorer(codec, 1, use_numba=use_numba).score(query, rows, starts, lengths)
    scorer = CodesScorer(codec, 3, use_numba=use_numba)
    np.testing.assert_array_equal(scorer.score(query, mapped, starts, lengths), one)
    wide = np.zeros((6000, rows.shape[1] + 3), dtype=np.uint8)
    wide[:, 2:-1] = rows
    np.testing.assert_array_equal(scorer.score(query, wide[:, 2:-1], starts, lengths), one)
    with ThreadPoolExecutor(4) as callers:
        for got in callers.map(lambda _: scorer.score(query, mapped, starts, lengths), range(16)):
            np.testing.assert_array_equal(got, one)


def test_halves_score_as_the_definition_says(tmp_path: Path) -> None:
    vectors = make_query(140, seed=9).astype("<f2")
    (tmp_path / "rows").write_bytes(b"x" + vectors.tobytes())
    rows = np.memmap(tmp_path / "rows", dtype=np.uint8, mode="r", offset=1, shape=(140, 2 * DIM))
    scorer: MaxSimScorer = HalfScorer(DIM)
    query = make_query(7)
    want = expected(query, vectors.astype(np.float32), STARTS, LENGTHS)
    np.testing.assert_allclose(scorer.score(query, rows, STARTS, LENGTHS), want, rtol=1e-5, atol=2e-6)
    broken = np.array(rows)
    broken[3].view("<f2")[5] = np.inf
    with pytest.raises(ValueError, match="not finite"):
        scorer.score(query, broken, np.array([0]), np.array([10]))
    scorer.score(query, broken, np.array([4]), np.array([10]))


@pytest.fixture(params=["numba", "numpy", "half"])
def scorer_and_rows(request: pytest.FixtureRequest) -> tuple[MaxSimScorer, Any]:
    if request.param == "half":
        return HalfScorer(DIM), np.zeros((10, 2 * DIM), dtype=np.uint8)
    codec = make_codec(2)
    return CodesScorer(codec, 2, use_numba=request.param == "numba"), make_rows(codec, 10)


@pytest.mark.parametrize(
    ("starts", "lengths"),
    [
        ([0], [11]), ([10], [1]), ([-1], [2]), ([0], [-1]), ([2**62], [2**62]), ([1], [2**63 - 1]), ([11], [0]),
        ([0, 1], [1]), ([0.5], [1]), ([[0]], [[1]]),
    ],
)  # fmt: skip
def test_documents_outside_of_the_rows_are_refused(scorer_and_rows: Any, starts: Any, lengths: Any) -> None:
    scorer, rows = scorer_and_rows
    with pytest.raises(ValueError, match=r"outside|lengths|whole numbers"):
        scorer.score(make_query(2), rows, np.array(starts), np.array(lengths))


def test_other_refusals_and_empty_questions(scorer_and_rows: Any) -> None:
    scorer, rows = scorer_and_rows
    one = np.array([0]), np.array([10])
    none = np.array([], dtype=np.int64)
    for value in (np.nan, np.inf, -np.inf):
        query = make_query(2)
        query[1, 3] = value
        with pytest.raises(ValueError, match="not finite"):
            scorer.score(query, rows, *one)
    for query in (make_query(2, dim=DIM + 8), make_query(2)[0]):
        with pytest.raises(ValueError, match="dimensions"):
            scorer.score(query, rows, *one)
    for other in (rows[:, 1:], rows.astype(np.int16), rows[0]):
        with pytest.raises(ValueError, match="are not of"):
            scorer.score(make_query(2), other, *one)
    assert scorer.score(make_query(2)[:0], rows, *one).tolist() == [0.0]
    assert scorer.score(make_query(2), rows, none, none).shape == (0,)
    assert scorer.score(make_query(2), rows[:0], np.array([0]), np.array([0])).tolist() == [0.0]


@pytest.mark.parametrize("use_numba", [True, False])
@pytest.mark.parametrize("number", [300, 2**31, 2**32 - 1])
def test_a_centroid_that_does_not_exist_is_refused(use_numba: bool, number: int) -> None:
    codec = make_codec(2)
    rows = make_rows(codec, 5000)
    rows[4321, :4] = np.array([number], dtype="<u4").view(np.uint8)
    scorer = CodesScorer(codec, 2, use_numba=use_numba)
    lengths = np.full(50, 100)
    starts = np.cumsum(lengths) - lengths
    with pytest.raises(ValueError, match=f"centroid {number} of 300"):
        scorer.score(make_query(2), rows, starts, lengths)
    assert scorer.score(make_query(2), rows, starts[:40], lengths[:40]).shape == (40,)


def test_a_codec_that_does_not_fit_is_refused() -> None:
    good = make_codec(2)
    fields = {
        "codec_id": "t", "encoder_id": "t", "token_dim": DIM, "dim": DIM, "nbits": 2, "facts": {},
        "centroids": good.centroids, "bucket_cutoffs": good.bucket_cutoffs, "bucket_weights": good.bucket_weights,
    }  # fmt: skip
    bad: list[dict[str, Any]] = [
        {"centroids": good.centroids[:, 1:]},
        {"bucket_weights": good.bucket_weights[1:]},
        {"centroids": good.centroids * np.float32(np.nan)},
    ]
    for change in bad:
        with pytest.raises(ValueError, match=r"not of rc2|not finite"):
            CodesScorer(Codec(**{**fields, **change}))
    with pytest.raises(ValueError, match="threads"):
        CodesScorer(good, 0)
