"""Token pooling."""

from __future__ import annotations

import numpy as np
import pytest

from pincite.encode.pooling import pool_tokens


def _unit(rng: np.random.Generator, n: int, dim: int = 16) -> np.ndarray:
    rows = rng.standard_normal((n, dim)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_pairs_of_near_tokens_are_merged_in_the_order_of_the_text() -> None:
    rng = np.random.default_rng(0)
    base = np.eye(16, dtype=np.float32)[:4]
    order = [2, 0, 3, 1, 0, 2, 1, 3]
    tokens = base[order] + rng.normal(0, 0.01, (8, 16)).astype(np.float32)
    tokens /= np.linalg.norm(tokens, axis=1, keepdims=True)
    pooled = pool_tokens(tokens, 2)
    assert pooled.shape == (4, 16) and pooled.dtype == np.float32
    np.testing.assert_allclose(pooled, base[[2, 0, 3, 1]], atol=0.05)
    np.testing.assert_allclose(np.linalg.norm(pooled, axis=1), 1.0, atol=1e-6)


@pytest.mark.parametrize(
    ("n", "factor", "wanted"), [(0, 2, 0), (1, 2, 1), (5, 2, 3), (200, 2, 100), (7, 3, 3), (4, 1, 4)]
)
def test_how_many_are_left(n: int, factor: int, wanted: int) -> None:
    pooled = pool_tokens(_unit(np.random.default_rng(n), n), factor)
    assert pooled.shape == (wanted, 16)


def test_equal_and_opposite_tokens_give_finite_rows() -> None:
    row = _unit(np.random.default_rng(1), 1)
    assert np.isfinite(pool_tokens(np.repeat(row, 6, axis=0), 2)).all()
    assert np.isfinite(pool_tokens(np.concatenate([row, -row]), 2)).all()


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match="factor"):
        pool_tokens(np.zeros((2, 4), dtype=np.float32), 0)
    with pytest.raises(ValueError, match="matrix"):
        pool_tokens(np.zeros(4, dtype=np.float32), 2)
