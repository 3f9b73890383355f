"""The torch scorer against the definition, on the CPU always and on a GPU where there is one."""

from __future__ import annotations

import numpy as np
import pytest

from pincite.adapters.models_gpu_maxsim import TorchScorer, cuda_available
from pincite.domain.codec import Codec
from pincite.domain.protocols import MaxSimScorer
from pincite.kernels import reference

no_cuda = pytest.mark.skipif(not cuda_available(), reason="torch sees no CUDA device")


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=[pytest.mark.gpu, no_cuda])])
@pytest.mark.parametrize("nbits", [1, 2, 4])
def test_torch_scores_as_the_definition_says(device: str, nbits: int) -> None:
    rng = np.random.default_rng(nbits)
    weights = np.sort(rng.normal(size=2**nbits)).astype(np.float32)
    codec = Codec(
        codec_id="t", encoder_id="t", token_dim=24, dim=24, nbits=nbits, facts={}, bucket_weights=weights,
        bucket_cutoffs=(weights[1:] + weights[:-1]) / 2, centroids=rng.normal(size=(300, 24)).astype(np.float32),
    )  # fmt: skip
    rows = rng.integers(0, 256, (140, codec.format.row_bytes), dtype=np.uint8)
    rows[:, :4] = rng.integers(0, 300, 140).astype("<u4").view(np.uint8).reshape(-1, 4)
    rows.flags.writeable = False
    query = rng.normal(size=(7, 24)).astype(np.float32)
    query /= np.linalg.norm(query, axis=1, keepdims=True)
    starts, lengths = np.array([5, 0, 0, 90, 140, 0, 139]), np.array([3, 140, 1, 33, 0, 0, 1])
    scorer: MaxSimScorer = TorchScorer(codec, device)
    vectors = reference.decode_rows(codec, rows)
    want = [reference.maxsim(query, vectors[s : s + n]) for s, n in zip(starts, lengths, strict=True)]
    np.testing.assert_allclose(scorer.score(query, rows, starts, lengths), want, rtol=1e-5, atol=3e-6)
    assert scorer.score(query[:0], rows, starts, lengths).tolist() == [0.0] * 7
    with pytest.raises(ValueError, match="outside"):
        scorer.score(query, rows, starts, lengths + 140)
    with pytest.raises(ValueError, match="not finite"):
        scorer.score(query * np.float32(np.inf), rows, starts, lengths)
    bad = rows.copy()
    bad[139, :4] = 255
    with pytest.raises(ValueError, match="names centroid"):
        scorer.score(query, bad, starts, lengths)
