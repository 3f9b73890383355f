"""Training of residual codecs: spherical k-means, Lloyd–Max buckets, and an even spread of the residuals.

After ColBERTv2 (Santhanam et al. 2022, §3.3) with three changes that cost no byte: the projection ends in a
random rotation, because the buckets are the same in every dimension and residuals should be so too; buckets
are Lloyd–Max instead of quantiles, which is less squared error for the same bits; and both are trained on
residuals of vectors that the centroids were not trained on.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from pincite.domain.codec import BIT_ORDER, Codec
from pincite.encode.token_rows import project
from pincite.kernels.residual import assign

if TYPE_CHECKING:
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
        sample: (n, token_dim) float32 token vectors, L2-normalised, of the collection or one like it.
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
    vectors = project(sample[rng.permutation(len(sample))], document)
    n = n_centroids or min(n_centroids_for(n_collection_tokens or len(sample)), max(len(sample) // 4, 1))
    n = min(n, len(vectors) - 4)
    n_held_out = min(_HELD_OUT, len(vectors) // 5)
    held_out, rest = vectors[:n_held_out], vectors[n_held_out:]
    centroids = spherical_kmeans(rest[: max(n * _POINTS_A_CENTROID, 1)], min(n, len(rest)), rng, progress)
    residuals = held_out - centroids[assign(centroids, held_out)]
    cutoffs, weights = lloyd_max(residuals.ravel(), nbits)
    made = Codec(
        codec_id="",
        encoder_id=encoder_id,
        token_dim=token_dim,
        dim=dim,
        nbits=nbits,
        centroids=centroids.astype(np.float16).astype(np.float32),
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


def with_id(codec: Codec, name: str) -> Codec:
    """The codec with the id that its content gives it."""
    return Codec(
        codec_id=f"{name}@{content_hash(codec)}",
        encoder_id=codec.encoder_id,
        token_dim=codec.token_dim,
        dim=codec.dim,
        nbits=codec.nbits,
        centroids=codec.centroids,
        bucket_cutoffs=codec.bucket_cutoffs,
        bucket_weights=codec.bucket_weights,
        document_projection=codec.document_projection,
        query_projection=codec.query_projection,
        facts=codec.facts,
    )


def content_hash(codec: Codec) -> str:
    """12 hex digits over everything that encoding and decoding depend on."""
    digest = hashlib.sha256(
        json.dumps([codec.encoder_id, codec.token_dim, codec.dim, codec.nbits, BIT_ORDER]).encode()
    )
    for array in (
        codec.centroids,
        codec.bucket_cutoffs,
        codec.bucket_weights,
        codec.document_projection,
        codec.query_projection,
    ):
        digest.update(b"none" if array is None else np.ascontiguousarray(array, dtype="<f4").tobytes())
    return digest.hexdigest()[:12]


def pca_rotation(sample: FloatArray, dim: int, rng: np.random.Generator) -> FloatArray | None:
    """(token_dim, dim): the directions of most second moment, then a random rotation; None when dim is all.

    Not centred: MaxSim is made of inner products, which the mean direction is part of.
    """
    token_dim = sample.shape[1]
    if dim == token_dim:
        return None
    values, vectors = np.linalg.eigh((sample.T @ sample).astype(np.float64))
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
