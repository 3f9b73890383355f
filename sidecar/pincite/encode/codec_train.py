"""Training of residual codecs: spherical k-means, Lloyd–Max buckets, and an even spread of the residuals.

After ColBERTv2 (Santhanam et al. 2022, §3.3) with three changes that cost no byte: the projection ends in a
random rotation, because the buckets are the same in every dimension and residuals should be so too; buckets
are Lloyd–Max instead of quantiles, which is less squared error for the same bits; and buckets are trained on
whole stretches of text that the centroids have not seen. Tokens of the same documents are too near their
centroids: their buckets are too narrow for any other text, and that costs more than all else here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pincite.domain.codec import Codec
from pincite.encode.token_rows import project
from pincite.kernels.codec_hash import content_hash
from pincite.kernels.residual import assign

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pincite.domain.protocols import FloatArray

Progress = Callable[[str, int, int], None]
Projection = tuple["FloatArray | None", "FloatArray | None"]

DIM = 128
#: Assignment is brute force: more centroids than this take longer than the encoder.
MAX_CENTROIDS = 16_384
_POINTS_A_CENTROID = 64
_ROUNDS = 8
_LLOYD_ROUNDS = 200
_HELD_OUT = 20_000
#: Tokens of a held-out stretch: a few chunks of the same document.
_STRETCH = 500


def n_centroids_for(n_tokens: int) -> int:
    """2^⌊log2(16·√n)⌋ for a collection of n tokens (ColBERTv2), at most ``MAX_CENTROIDS``."""
    return min(MAX_CENTROIDS, 1 << int(np.log2(16 * max(n_tokens, 1) ** 0.5)))


def train_codec(
    sample: FloatArray,
    *,
    encoder_id: str,
    name: str = "codec",
    dim: int | None = None,
    nbits: int = 2,
    n_centroids: int | None = None,
    n_collection_tokens: int | None = None,
    projection: Projection | None = None,
    facts: Mapping[str, Any] | None = None,
    seed: int = 0,
    progress: Progress = lambda *_: None,
) -> Codec:
    """Train a codec.

    Args:
        sample: (n, token_dim) float32 token vectors, L2-normalised, of the collection or one like it, in the
            order of the texts.
        encoder_id: Whose vectors they are.
        name: First part of the codec's id.
        dim: Dimensions of the codes; None: 128, or the encoder's where it has fewer.
        nbits: Bits a dimension: 1, 2 or 4.
        n_centroids: None: by the size of the collection, and at most one for each four vectors of the sample.
        n_collection_tokens: Tokens of the collection; None: the sample is all.
        projection: (document, query) projections to keep; None: PCA and rotation from the sample, where the
            encoder has more dimensions than the codes.
        facts: What else the manifest is to say.
        seed: Same input, same seed, same codec.
        progress: Told of the rounds of k-means.

    Raises:
        ValueError: the sample is too small or not finite.
    """
    if sample.ndim != 2 or len(sample) < 8 or not np.isfinite(sample).all():
        raise ValueError(f"a sample of shape {sample.shape} cannot train a codec")
    rng = np.random.default_rng(seed)
    token_dim = sample.shape[1]
    dim = dim or min(DIM, token_dim)
    document, query = projection or (pca_rotation(sample, dim, rng), None)
    if document is None and dim != token_dim:
        raise ValueError(f"codes of {dim} dimensions need a projection of {token_dim}")
    vectors = project(sample, document)
    chosen = _stretches(len(vectors), min(_HELD_OUT, len(vectors) // 5), rng)
    held_out = vectors[chosen]
    rest = vectors[~chosen]
    rest = rest[rng.permutation(len(rest))]
    n = n_centroids or min(n_centroids_for(n_collection_tokens or len(sample)), max(len(sample) // 4, 1))
    centroids = spherical_kmeans(rest[: max(n * _POINTS_A_CENTROID, 1)], min(n, len(rest)), rng, progress)
    centroids = centroids.astype(np.float16).astype(np.float32)
    residuals = held_out - centroids[assign(centroids, held_out)]
    cutoffs, weights = lloyd_max(residuals.ravel(), nbits)
    made = Codec(
        codec_id="",
        encoder_id=encoder_id,
        token_dim=token_dim,
        dim=dim,
        nbits=nbits,
        centroids=centroids,
        bucket_cutoffs=cutoffs,
        bucket_weights=weights,
        document_projection=document,
        query_projection=query,
        facts={
            "n_sample_tokens": len(sample),
            "n_collection_tokens": n_collection_tokens,
            "seed": seed,
            "residual_rms": round(float(np.sqrt((residuals**2).mean())), 6),
            **(facts or {}),
        },
    )
    return with_id(made, name)


def refit_buckets(codec: Codec, sample: FloatArray, name: str, facts: Mapping[str, Any] | None = None) -> Codec:
    """The codec with buckets for texts of another kind than its centroids were trained on.

    Args:
        codec: Its centroids and projections stay.
        sample: (n, token_dim) float32 token vectors, L2-normalised, of texts that it was not trained on.
        name: First part of the new id.
        facts: What the manifest is to say beside what it said.

    Raises:
        ValueError: the sample is empty or not finite.
    """
    if not len(sample):
        raise ValueError("an empty sample cannot train buckets")
    vectors = project(sample, codec.document_projection)
    residuals = vectors - codec.centroids[assign(codec.centroids, vectors)]
    cutoffs, weights = lloyd_max(residuals.ravel(), codec.nbits)
    rms = round(float(np.sqrt((residuals**2).mean())), 6)
    made = replace(
        codec,
        bucket_cutoffs=cutoffs,
        bucket_weights=weights,
        facts={**codec.facts, "residual_rms": rms, **(facts or {})},
    )
    return with_id(made, name)


def _stretches(n: int, n_wanted: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """(n,) bool: about n_wanted of n, in stretches of consecutive ones spread over all."""
    length = max(min(_STRETCH, n_wanted), 1)
    n_places = n // length
    places = rng.choice(n_places, size=min(max(n_wanted // length, 1), n_places), replace=False)
    chosen = np.zeros(n, dtype=np.bool_)
    for place in places:
        chosen[place * length : (place + 1) * length] = True
    return chosen


def with_id(codec: Codec, name: str) -> Codec:
    """The codec with the id that its content gives it."""
    return replace(codec, codec_id=f"{name}@{content_hash(codec)}")


def pca_rotation(
    sample: FloatArray, dim: int, rng: np.random.Generator, queries: FloatArray | None = None
) -> FloatArray | None:
    """(token_dim, dim): the directions of most second moment, then a random rotation; None when dim is all.

    Not centred: MaxSim is made of inner products, which the mean direction is part of. Where question tokens
    are at hand their second moment counts as much as the documents': it keeps 1 to 2 of 100 of the top 10 more.
    The optimum for inner products alone (SVD of both moments' roots) keeps fewer than PCA: vectors are
    normalised after the projection, and then it is not the optimum.

    Args:
        sample: (n, token_dim) document tokens, L2-normalised.
        dim: Dimensions to keep.
        rng: For the rotation.
        queries: (m, token_dim) question tokens, likewise, or None.
    """
    token_dim = sample.shape[1]
    if dim == token_dim:
        return None
    moment = (sample.T @ sample).astype(np.float64) / len(sample)
    if queries is not None:
        moment += (queries.T @ queries).astype(np.float64) / len(queries)
    values, vectors = np.linalg.eigh(moment)
    directions = vectors[:, np.argsort(values)[::-1][:dim]]
    return np.asarray(directions @ rotation(dim, rng), dtype=np.float32)


def rotation(dim: int, rng: np.random.Generator) -> np.ndarray[Any, np.dtype[np.float64]]:
    """A random orthogonal matrix, uniformly distributed (QR of a Gaussian matrix with the signs fixed)."""
    q, r = np.linalg.qr(rng.standard_normal((dim, dim)))
    return np.asarray(q * np.sign(np.diag(r)))


def spherical_kmeans(
    vectors: FloatArray, n: int, rng: np.random.Generator, progress: Progress = lambda *_: None
) -> FloatArray:
    """(n, dim) unit centroids: k-means by inner product; an empty cluster takes the worst-served vector.

    Cost: rounds × len(vectors) × n × dim multiply-adds.
    """
    centroids = vectors[rng.choice(len(vectors), size=n, replace=False)].copy()
    for round_ in range(_ROUNDS):
        progress("k-means", round_ + 1, _ROUNDS)
        nearest = assign(centroids, vectors)
        sums = np.zeros_like(centroids, dtype=np.float64)
        np.add.at(sums, nearest, vectors)
        empty = np.flatnonzero(np.bincount(nearest, minlength=n) == 0)
        if len(empty):
            fit = np.einsum("ij,ij->i", vectors, centroids[nearest])
            sums[empty] = vectors[np.argsort(fit, kind="stable")[: len(empty)]]
        norms = np.linalg.norm(sums, axis=1, keepdims=True)
        centroids = np.where(norms > 1e-9, sums / np.maximum(norms, 1e-9), centroids).astype(np.float32)
    return np.asarray(centroids, dtype=np.float32)


def lloyd_max(values: FloatArray, nbits: int) -> tuple[FloatArray, FloatArray]:
    """(cutoffs, weights) of least squared error for a sample of values (Lloyd 1982, Max 1960).

    It begins with ColBERT's quantiles, which it can only improve.
    """
    n = 2**nbits
    ordered = np.sort(values.astype(np.float64))
    if ordered[0] == ordered[-1]:
        # Nothing to tell apart: any ascending buckets do.
        weights = ordered[0] + np.linspace(-1e-6, 1e-6, n)
        return ((weights[1:] + weights[:-1]) / 2).astype(np.float32), weights.astype(np.float32)
    sums = np.concatenate([[0.0], np.cumsum(ordered)])
    weights = np.quantile(ordered, (np.arange(n) + 0.5) / n)
    for _ in range(_LLOYD_ROUNDS):
        edges = np.searchsorted(ordered, (weights[1:] + weights[:-1]) / 2, side="right")
        bounds = np.concatenate([[0], edges, [len(ordered)]])
        counts = np.diff(bounds)
        means = np.where(counts > 0, np.diff(sums[bounds]) / np.maximum(counts, 1), weights)
        if np.allclose(means, weights, rtol=0, atol=1e-9):
            break
        weights = means
    return ((weights[1:] + weights[:-1]) / 2).astype(np.float32), weights.astype(np.float32)


def quantile_buckets(values: FloatArray, nbits: int) -> tuple[FloatArray, FloatArray]:
    """(cutoffs, weights) as ColBERT takes them: quantiles at i / n and at (i + 1/2) / n."""
    n = 2**nbits
    cutoffs = np.quantile(values, np.arange(1, n) / n)
    return cutoffs.astype(np.float32), np.quantile(values, (np.arange(n) + 0.5) / n).astype(np.float32)
