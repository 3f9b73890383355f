"""Our residual codec and MaxSim against colbert-ai 0.2.22's ``ResidualCodec`` and scoring, on CPU.

What colbert-ai does, as found in its source and checked here:

* ``compress`` takes float32 (or float16: an index on CPU is made of vectors rounded to half precision, and the
  residual is then half minus float, in float32). The nearest centroid is the largest float32 product, the
  bucket is ``torch.bucketize(residual, cutoffs)``, right=False: the number of cutoffs below the residual.
* Bits are packed by numpy's ``packbits``, each code's low bit first.
* ``decompress`` adds centroid and weight in float32 and normalises in float32 (a zero vector stays zero). Ours
  normalises by a float64 length, so the two may differ by one or two units in the last place: 3e-7.
* On GPU, which is not tested here, centroids, weights and results are half precision.
* Scoring a search on CPU (``segmented_maxsim``) starts each maximum at 0: a query token whose best product is
  negative adds nothing there. On GPU and in training it counts as it is, and so it does in ours.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pincite.domain.codec import Codec
from pincite.kernels import reference, residual

DIM = 128
DECODE_TOLERANCE = 3e-7
SCORE_TOLERANCE = 1e-5
CASES = [(nbits, kind) for nbits in (1, 2, 4) for kind in ("floats", "grid")]
IDS = [f"{kind}-{nbits}" for nbits, kind in CASES]


def _normalise(rows: np.ndarray) -> np.ndarray:
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def _case(nbits: int, kind: str) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(10 * nbits + len(kind))
    n_buckets = 2**nbits
    if kind == "floats":
        centroids = _normalise(rng.standard_normal((64, DIM)))
        near = centroids[rng.integers(0, 64, 300)] + 0.05 * rng.standard_normal((300, DIM))
        vectors = _normalise(near)
        edges = np.sort(rng.normal(0, 0.05, 2 * n_buckets - 1)).astype(np.float32)
    else:
        # Multiples of powers of two: every product and sum is exact, so that equal centroids are equal and
        # residuals stand exactly on the cutoffs, whatever the order of summation.
        centroids = (rng.integers(-8, 9, (32, DIM)) / 64).astype(np.float32)
        centroids[20] = centroids[3]
        steps = rng.integers(-4 * n_buckets, 4 * n_buckets + 1, (300, DIM)) / 1024
        vectors = (centroids[rng.integers(0, 32, 300)] + steps).astype(np.float32)
        vectors[0] = centroids[3]
        edges = (np.arange(1 - n_buckets, n_buckets) / 512).astype(np.float32)
    return {
        "nbits": np.int64(nbits),
        "centroids": centroids,
        "cutoffs": edges[1::2],
        "weights": edges[0::2],
        "vectors": vectors,
        "lengths": np.array([120, 1, 100, 79], dtype=np.int64),
        "query": _normalise(vectors[rng.integers(0, 300, 32)] + 0.02 * rng.standard_normal((32, DIM))),
    }


def _codec(case: dict[str, np.ndarray]) -> Codec:
    return Codec(
        codec_id="test@000000000000",
        encoder_id="test",
        token_dim=DIM,
        dim=DIM,
        nbits=int(case["nbits"]),
        centroids=case["centroids"],
        bucket_cutoffs=case["cutoffs"],
        bucket_weights=case["weights"],
        facts={},
    )


def _against_second_document(case: dict[str, np.ndarray]) -> np.ndarray:
    """One query token, opposite to the only token of the second document."""
    at = int(case["lengths"][0])
    return -case["vectors"][at : at + 1]


@pytest.fixture(scope="module")
def theirs(oracle, tmp_path_factory: pytest.TempPathFactory) -> dict[str, np.ndarray]:
    folder: Path = tmp_path_factory.mktemp("codec")
    names = []
    for (nbits, kind), name in zip(CASES, IDS, strict=True):
        np.savez(folder / f"{name}.npz", **_case(nbits, kind))
        names.append(str(folder / f"{name}.npz"))
    negative = _case(2, "floats")
    negative["query"] = _against_second_document(negative)
    np.savez(folder / "negative.npz", **negative)
    return oracle("codec", {"cases": [*names, str(folder / "negative.npz")]})


@pytest.fixture(params=list(zip(CASES, IDS, strict=True)), ids=IDS)
def pair(request: pytest.FixtureRequest, theirs: dict[str, np.ndarray]):
    (nbits, kind), name = request.param
    prefix = f"{name}."
    found = {key.removeprefix(prefix): value for key, value in theirs.items() if key.startswith(prefix)}
    return _case(nbits, kind), found


def _rows(codes: np.ndarray, residuals: np.ndarray) -> np.ndarray:
    return np.concatenate([codes.astype("<u4").view(np.uint8).reshape(-1, 4), residuals], axis=1)


def test_compress_writes_equal_bytes(pair) -> None:
    case, found = pair
    codec = _codec(case)
    rows = _rows(found["codes"], found["residuals"])
    assert rows.shape == (300, codec.format.row_bytes)
    assert len(np.unique(found["residuals"])) > 2**codec.nbits
    np.testing.assert_array_equal(residual.encode_rows(codec, case["vectors"]), rows)
    np.testing.assert_array_equal(reference.encode_rows(codec, case["vectors"]), rows)


def test_vectors_of_half_precision_are_compressed_as_floats_of_that_value(pair) -> None:
    case, found = pair
    rounded = case["vectors"].astype(np.float16).astype(np.float32)
    rows = _rows(found["half_codes"], found["half_residuals"])
    np.testing.assert_array_equal(residual.encode_rows(_codec(case), rounded), rows)


def test_decompress_gives_equal_vectors(pair) -> None:
    case, found = pair
    codec = _codec(case)
    rows = _rows(found["codes"], found["residuals"])
    for decode in (residual.decode_rows, reference.decode_rows):
        np.testing.assert_allclose(decode(codec, rows), found["decoded"], rtol=0, atol=DECODE_TOLERANCE)


def _scores(case: dict[str, np.ndarray], decoded: np.ndarray) -> list[float]:
    ends = np.cumsum(case["lengths"])
    documents = np.split(decoded, ends[:-1])
    return [reference.maxsim(case["query"], document) for document in documents]


def test_maxsim_of_decompressed_vectors(pair) -> None:
    case, found = pair
    codec = _codec(case)
    ours = _scores(case, reference.decode_rows(codec, _rows(found["codes"], found["residuals"])))
    np.testing.assert_allclose(ours, found["padded_scores"], rtol=SCORE_TOLERANCE)
    best = [document @ case["query"].T for document in np.split(found["decoded"], np.cumsum(case["lengths"])[:-1])]
    clipped = [float(np.maximum(products.max(axis=0), 0).sum()) for products in best]
    np.testing.assert_allclose(clipped, found["scores"], rtol=SCORE_TOLERANCE)


def test_a_negative_maximum_counts_on_gpu_and_here_but_not_in_their_search_on_cpu(theirs) -> None:
    case = _case(2, "floats")
    case["query"] = _against_second_document(case)
    ours = _scores(case, theirs["negative.decoded"])
    assert ours[1] < -0.9
    np.testing.assert_allclose(ours, theirs["negative.padded_scores"], rtol=SCORE_TOLERANCE)
    np.testing.assert_allclose(np.maximum(ours, 0), theirs["negative.scores"], rtol=SCORE_TOLERANCE, atol=1e-7)
