"""kernels/residual.py against the definition."""

from __future__ import annotations

import numpy as np
import pytest

from pincite.domain.codec import Codec
from pincite.kernels import reference, residual


@pytest.mark.parametrize("nbits", [1, 2, 4])
@pytest.mark.parametrize("n", [0, 1, 300])
def test_rows_are_those_of_the_definition(nbits: int, n: int) -> None:
    rng = np.random.default_rng(n + nbits)
    vectors = rng.normal(size=(n, 16)).astype(np.float32)
    centroids = rng.normal(size=(9, 16)).astype(np.float32)
    weights = np.linspace(-1, 1, 2**nbits, dtype=np.float32)
    codec = Codec(
        codec_id="t", encoder_id="t", token_dim=16, dim=16, nbits=nbits, centroids=centroids,
        bucket_cutoffs=(weights[1:] + weights[:-1]) / 2, bucket_weights=weights, facts={},
    )  # fmt: skip
    rows = residual.encode_rows(codec, vectors)
    np.testing.assert_array_equal(rows, reference.encode_rows(codec, vectors))
    np.testing.assert_allclose(residual.decode_rows(codec, rows), reference.decode_rows(codec, rows), atol=1e-6)
    with pytest.raises(ValueError, match="not finite"):
        residual.encode_rows(codec, np.full((1, 16), np.nan, dtype=np.float32))
    with pytest.raises(ValueError, match="names centroid"):
        residual.decode_rows(codec, np.full((1, codec.format.row_bytes), 255, dtype=np.uint8))
