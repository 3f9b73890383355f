"""MaxSim over residual codes: ours beside numpy and torch. Run it with ``make bench-maxsim``.

Random codes, 200 documents of 135 tokens, 32 query tokens, 128 dimensions, 2 bits, two threads each. The
calls alternate, so that a busy machine slows all alike. The roofline counts the products and the rows' bytes.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from pincite.adapters.models_gpu_maxsim import TorchScorer
from pincite.domain.codec import Codec
from pincite.kernels.maxsim_codes import CodesScorer
from pincite.kernels.residual import byte_weights
from pincite.kernels.vectors import normalize

_DOCUMENTS, _LENGTH, _QUERY, _DIM, _NBITS, _CENTROIDS = 200, 135, 32, 128, 2, 4096
_RUNS = 60
_THREADS = 2


def main() -> None:
    """Measure, print the table and end with one line of JSON."""
    # torch takes its threads from the same variable as the others (the Makefile sets it).
    rng = np.random.default_rng(0)
    centroids = normalize(rng.normal(size=(_CENTROIDS, _DIM)))
    weights = np.array([-0.09, -0.03, 0.03, 0.09], dtype=np.float32)
    codec = Codec(
        codec_id="bench", encoder_id="bench", token_dim=_DIM, dim=_DIM, nbits=_NBITS, facts={},
        centroids=centroids, bucket_cutoffs=np.array([-0.06, 0.0, 0.06], dtype=np.float32), bucket_weights=weights,
    )  # fmt: skip
    n = _DOCUMENTS * _LENGTH
    rows = rng.integers(0, 256, (n, codec.format.row_bytes), dtype=np.uint8)
    rows[:, :4] = rng.integers(0, _CENTROIDS, n).astype("<u4").view(np.uint8).reshape(-1, 4)
    query = normalize(rng.normal(size=(_QUERY, _DIM)))
    lengths = np.full(_DOCUMENTS, _LENGTH)
    starts = np.cumsum(lengths) - lengths
    table = byte_weights(codec)

    def with_numpy() -> Any:
        numbers = np.ascontiguousarray(rows[:, :4]).view("<u4")[:, 0]
        vectors = centroids[numbers]
        vectors += table[rows[:, 4:]].reshape(n, _DIM)
        vectors /= np.sqrt(np.einsum("ij,ij->i", vectors, vectors))[:, None]
        return np.maximum.reduceat(vectors @ query.T, starts, axis=0).sum(axis=1)

    left, right = (rng.normal(size=(1024, 1024)).astype(np.float32) for _ in range(2))
    source = np.ones(32 << 20, dtype=np.uint8)
    target = np.empty_like(source)
    ours, torch_scorer = CodesScorer(codec, _THREADS), TorchScorer(codec, "cpu")
    calls: dict[str, Callable[[], Any]] = {
        "ours": lambda: ours.score(query, rows, starts, lengths),
        "numpy": with_numpy,
        "torch": lambda: torch_scorer.score(query, rows, starts, lengths),
        "sgemm": lambda: left @ right,
        "copy": lambda: np.copyto(target, source),
    }
    scores = {name: calls[name]() for name in ("ours", "numpy", "torch")}
    for name in ("numpy", "torch"):
        np.testing.assert_allclose(scores[name], scores["ours"], rtol=1e-4)
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(_RUNS):
        for name, call in calls.items():
            begun = time.perf_counter()
            call()
            taken[name].append(time.perf_counter() - begun)
    p50 = {name: float(np.percentile(times, 50)) for name, times in taken.items()}
    print(f"{'':8}{'p50 ms':>10}{'p95 ms':>10}")
    for name, times in taken.items():
        print(f"{name:8}{1e3 * p50[name]:10.2f}{1e3 * float(np.percentile(times, 95)):10.2f}")
    print("left out: colbert-ai, fast-plaid, late-interaction-kernels (this benchmark does not run them yet)")
    peak = 2 * 1024**3 / min(taken["sgemm"])
    bandwidth = 2 * source.nbytes / min(taken["copy"])
    bound = max(2 * n * _QUERY * _DIM / peak, rows.nbytes / bandwidth)
    print(f"peak {peak / 1e9:.0f} GFLOP/s (sgemm), {bandwidth / 1e9:.1f} GB/s (copy), bound {1e3 * bound:.2f} ms")
    result = {
        "ratio_numpy": p50["numpy"] / p50["ours"],
        "ratio_best_peer": min(p50["numpy"], p50["torch"]) / p50["ours"],
        "roofline_share": bound / p50["ours"],
    }
    print(json.dumps({name: round(value, 3) for name, value in result.items()}))


if __name__ == "__main__":
    main()
