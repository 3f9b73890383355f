"""MaxSim: the numpy path against the reference, and the contract's edges."""

from __future__ import annotations

import numpy as np
import pytest

from pincite.kernels.maxsim import maxsim_many
from pincite.kernels.reference import maxsim


def vectors(seed: int, n: int, dim: int = 16) -> np.ndarray:
    rows = np.random.default_rng(seed).standard_normal((n, dim))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def test_the_definition_by_hand() -> None:
    query = np.array([[1, 0], [0, 1]], dtype=np.float32)
    document = np.array([[0.6, 0.8], [1, 0]], dtype=np.float32)
    assert maxsim(query, document) == pytest.approx(1.0 + 0.8)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_parity_with_the_reference(dtype: type) -> None:
    query = vectors(0, 9)
    documents = [vectors(i + 1, n).astype(dtype) for i, n in enumerate([1, 7, 0, 30, 2, 0])]
    fast = maxsim_many(query, documents)
    slow = [maxsim(query, document.astype(np.float32)) for document in documents]
    assert fast == pytest.approx(slow, rel=1e-4)


def test_negative_maxima_count() -> None:
    query = np.array([[1, 0]], dtype=np.float32)
    document = np.array([[-1, 0], [-0.5, 0]], dtype=np.float32)
    assert maxsim(query, document) == pytest.approx(-0.5)
    assert maxsim_many(query, [document]) == pytest.approx([-0.5])


def test_empty_documents_and_queries_score_zero() -> None:
    empty = np.zeros((0, 16), dtype=np.float32)
    assert maxsim(vectors(0, 3), empty) == 0.0
    assert maxsim(empty, vectors(0, 3)) == 0.0
    assert maxsim_many(vectors(0, 3), [empty, empty]) == [0.0, 0.0]
    assert maxsim_many(empty, [vectors(0, 3)]) == [0.0]
    assert maxsim_many(vectors(0, 3), []) == []


def test_masked_tokens() -> None:
    query = np.array([[1, 0], [0, 1]], dtype=np.float32)
    document = np.array([[1, 0], [0, 1]], dtype=np.float32)
    assert maxsim(query, document, document_mask=np.array([True, False])) == pytest.approx(1.0)
    assert maxsim(query, document, query_mask=np.array([False, True])) == pytest.approx(1.0)
    assert maxsim(query, document, document_mask=np.array([False, False])) == 0.0


def test_what_is_not_finite_is_refused() -> None:
    bad = vectors(0, 3)
    bad[1, 2] = np.nan
    with pytest.raises(ValueError, match="not finite"):
        maxsim(vectors(1, 2), bad)
    with pytest.raises(ValueError, match="not finite"):
        maxsim_many(vectors(1, 2), [bad])


def test_dimensions_must_agree() -> None:
    with pytest.raises(ValueError, match="go together"):
        maxsim(vectors(0, 2, dim=8), vectors(0, 2, dim=16))
    with pytest.raises(ValueError, match="go together"):
        maxsim_many(vectors(0, 2, dim=8), [vectors(0, 2, dim=16)])
