"""Codec training, refined encoding, the artefact, and the shipped codec."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable

import numpy as np
import pytest
from safetensors.numpy import load, save

from pincite.adapters.models_sbert import MINILM_ID, load_minilm
from pincite.domain.codec import Codec
from pincite.domain.errors import ContractError
from pincite.encode import codec_artefact
from pincite.encode.codec_train import (
    content_hash,
    lloyd_max,
    n_centroids_for,
    pca_rotation,
    quantile_buckets,
    refit_buckets,
    spherical_kmeans,
    train_codec,
    with_id,
)
from pincite.encode.shipped_codecs import FOLDER, shipped_codec, shipped_codec_facts
from pincite.encode.token_rows import project
from pincite.kernels.residual import decode_rows, encode_rows


def clustered(n: int, dim: int, *, n_clusters: int = 12, spread: float = 0.3, seed: int = 0) -> np.ndarray:
    """Unit vectors around a few directions."""
    rng = np.random.default_rng(seed)
    means = rng.standard_normal((n_clusters, dim))
    noise = spread * rng.standard_normal((n, dim))
    x = means[rng.integers(n_clusters, size=n)] + noise * np.linspace(0.3, 2.0, dim)
    return np.asarray(x / np.linalg.norm(x, axis=1, keepdims=True), dtype=np.float32)


@pytest.fixture(scope="module")
def codec() -> Codec:
    return train_codec(clustered(3000, 48), encoder_id="e@1", dim=32, n_centroids=64, seed=3)


def cosines(codec: Codec, rows: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    return np.asarray(np.einsum("ij,ij->i", decode_rows(codec, rows), vectors))


# -- training ---------------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_codec_and_another_seed_another(codec: Codec) -> None:
    again = train_codec(clustered(3000, 48), encoder_id="e@1", dim=32, n_centroids=64, seed=3)
    other = train_codec(clustered(3000, 48), encoder_id="e@1", dim=32, n_centroids=64, seed=4)
    assert codec_artefact.to_bytes(again) == codec_artefact.to_bytes(codec)
    assert other.codec_id != codec.codec_id


def test_the_number_of_centroids_grows_with_the_root_of_the_collection() -> None:
    assert [n_centroids_for(n) for n in (1, 10_000, 20_000_000, 10**12)] == [16, 1024, 16384, 16384]


def test_buckets_ascend_and_rise_with_the_residual(codec: Codec) -> None:
    for nbits in (1, 2, 4):
        trained = train_codec(clustered(2000, 16), encoder_id="e@1", nbits=nbits, n_centroids=16)
        assert trained.bucket_cutoffs.shape == (2**nbits - 1,)
        assert (np.diff(trained.bucket_cutoffs) > 0).all()
        assert (np.diff(trained.bucket_weights) > 0).all()
        # Each weight lies in its own bucket.
        assert (np.searchsorted(trained.bucket_cutoffs, trained.bucket_weights) == np.arange(2**nbits)).all()


def test_lloyd_max_of_a_gaussian_is_max_1960s_table() -> None:
    values = np.random.default_rng(0).standard_normal(200_000).astype(np.float32)
    cutoffs, weights = lloyd_max(values, 2)
    assert cutoffs == pytest.approx([-0.9816, 0, 0.9816], abs=0.02)
    assert weights == pytest.approx([-1.51, -0.4528, 0.4528, 1.51], abs=0.02)

    def error(buckets: tuple[np.ndarray, np.ndarray]) -> float:
        return float(((buckets[1][np.searchsorted(buckets[0], values)] - values) ** 2).mean())

    assert error((cutoffs, weights)) < error(quantile_buckets(values, 2))


def test_lloyd_max_of_one_value_still_ascends() -> None:
    cutoffs, weights = lloyd_max(np.full(50, 0.25, dtype=np.float32), 2)
    assert (np.diff(weights) > 0).all() and (np.diff(cutoffs) > 0).all()


def test_kmeans_finds_separated_clusters_and_no_worse_a_fit_than_a_plain_loop() -> None:
    x = clustered(400, 8, n_clusters=4, spread=0.02)
    centroids = spherical_kmeans(x, 24, np.random.default_rng(1))
    assert np.linalg.norm(centroids, axis=1) == pytest.approx(1.0, abs=1e-5)
    start = x[np.random.default_rng(1).choice(len(x), size=24, replace=False)]
    brute = start.astype(np.float64)
    for _ in range(8):
        nearest = [int(np.argmax([float(row @ c) for c in brute])) for row in x]
        for k in range(len(brute)):
            mine = x[[i for i, c in enumerate(nearest) if c == k]]
            if len(mine):
                brute[k] = mine.sum(0) / np.linalg.norm(mine.sum(0))
    assert (x @ centroids.T).max(axis=1).mean() >= (x @ brute.T).max(axis=1).mean() - 1e-4


def test_an_empty_cluster_is_seeded_again() -> None:
    x = np.repeat(np.eye(6, dtype=np.float32), [200, 2, 2, 2, 2, 2], axis=0)
    centroids = spherical_kmeans(x, 6, np.random.default_rng(0))
    assert (x @ centroids.T).max(axis=1).min() == pytest.approx(1.0, abs=1e-5)


def test_the_projection_is_orthonormal_and_evens_out_the_variance() -> None:
    x = clustered(4000, 48)
    projection = pca_rotation(x, 32, np.random.default_rng(0))
    assert projection is not None
    assert projection.T @ projection == pytest.approx(np.eye(32), abs=1e-4)
    _, vectors = np.linalg.eigh(x.T @ x)
    plain = (x @ vectors[:, ::-1][:, :32]).var(axis=0)
    turned = (x @ projection).var(axis=0)
    assert turned.sum() == pytest.approx(plain.sum(), rel=0.02)
    assert turned.max() / turned.min() < plain.max() / plain.min() / 2


def test_question_tokens_draw_the_projection_to_them() -> None:
    x = clustered(4000, 48)
    asked = clustered(500, 48, seed=9)
    without = pca_rotation(x, 8, np.random.default_rng(0))
    with_queries = pca_rotation(x, 8, np.random.default_rng(0), asked)
    assert without is not None and with_queries is not None
    assert np.linalg.norm(asked @ with_queries) > np.linalg.norm(asked @ without)


def test_a_given_projection_is_kept_and_one_that_is_missing_is_refused(codec: Codec) -> None:
    pair = (codec.document_projection, codec.document_projection)
    again = train_codec(clustered(900, 48, seed=5), encoder_id="e@1", dim=32, projection=pair, n_centroids=16)
    assert again.document_projection is codec.document_projection
    assert again.query_projection is codec.document_projection
    with pytest.raises(ValueError, match="need a projection"):
        train_codec(clustered(900, 48), encoder_id="e@1", dim=32, projection=(None, None))
    with pytest.raises(ValueError, match="cannot train"):
        train_codec(np.full((900, 48), np.nan, dtype=np.float32), encoder_id="e@1")


def test_buckets_are_trained_on_stretches_that_the_centroids_have_not_seen() -> None:
    # Documents of 600 tokens that all but repeat one vector: any other token of a document gives its code away.
    rng = np.random.default_rng(0)
    x = np.repeat(clustered(40, 16, spread=1.0), 600, axis=0) + 1e-3 * rng.standard_normal((24_000, 16))
    x = (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32)
    trained = train_codec(x, encoder_id="e@1", n_centroids=64)
    assert trained.facts["residual_rms"] > 2e-3


def test_buckets_refitted_on_other_texts_keep_the_centroids_and_code_those_texts_better(codec: Codec) -> None:
    other = clustered(2000, 48, spread=0.6, seed=7)
    refitted = refit_buckets(codec, other, "wide", {"buckets": "other"})
    assert refitted.centroids is codec.centroids
    assert refitted.codec_id.startswith("wide@") and refitted.codec_id != codec.codec_id
    assert refitted.facts["buckets"] == "other" and refitted.facts["seed"] == codec.facts["seed"]
    assert (refitted.bucket_weights[-1] - refitted.bucket_weights[0]) > np.ptp(codec.bucket_weights)
    fresh = project(clustered(500, 48, spread=0.6, seed=7), codec.document_projection)
    before, after = (cosines(c, encode_rows(c, fresh), fresh).mean() for c in (codec, refitted))
    assert after > before
    with pytest.raises(ValueError, match="empty sample"):
        refit_buckets(codec, other[:0], "none")


# -- the artefact -----------------------------------------------------------------------------------


def test_an_artefact_comes_back_as_it_was_and_is_byte_stable(codec: Codec) -> None:
    raw = codec_artefact.to_bytes(codec)
    back = codec_artefact.from_bytes(raw)
    assert codec_artefact.to_bytes(back) == raw
    assert (back.codec_id, back.encoder_id, back.format) == (codec.codec_id, "e@1", codec.format)
    for name in ("centroids", "bucket_cutoffs", "bucket_weights", "document_projection"):
        assert (getattr(back, name) == getattr(codec, name)).all(), name
    vectors = project(clustered(50, 48, seed=8), codec.document_projection)
    assert (encode_rows(back, vectors) == encode_rows(codec, vectors)).all()
    assert codec_artefact.read_manifest(raw)["format"] == "rc2-32"


def test_the_id_covers_what_decoding_depends_on_and_not_the_facts(codec: Codec) -> None:
    assert content_hash(dataclasses.replace(codec, facts={"other": 1})) == content_hash(codec)
    for change in (
        {"encoder_id": "e@2"},
        {"bucket_weights": codec.bucket_weights * np.float32(1.01)},
        {"query_projection": codec.document_projection},
    ):
        assert content_hash(dataclasses.replace(codec, **change)) != content_hash(codec), change


def changed(codec: Codec, edit: Callable[[dict[str, np.ndarray], dict[str, object]], None]) -> bytes:
    """The artefact after an edit of its tensors and its manifest."""
    raw = codec_artefact.to_bytes(codec)
    tensors, manifest = dict(load(raw)), codec_artefact.read_manifest(raw)
    edit(tensors, manifest)
    return save(tensors, {"pincite": json.dumps(manifest)})


@pytest.mark.parametrize(
    ("says", "edit"),
    [
        ("bit order", lambda t, m: m.update(bit_order="lsb")),
        ("layout", lambda t, m: m.update(layout=99)),
        ("not whole", lambda t, m: m.pop("nbits")),
        ("no residual format", lambda t, m: m.update(nbits=3)),
        ("holds", lambda t, m: t.pop("centroids")),
        ("holds", lambda t, m: t.update(more=np.zeros(1, dtype=np.float32))),
        ("shape", lambda t, m: t.update(bucket_cutoffs=np.zeros(2, dtype=np.float32))),
        ("shape", lambda t, m: t.update(centroids=t["centroids"][:, :5].copy())),
        ("shape", lambda t, m: t.update(document_projection=np.zeros((48, 31), dtype=np.float32))),
        ("not finite", lambda t, m: t.update(bucket_weights=np.array([0, 1, np.nan, 2], dtype=np.float32))),
        ("ascend", lambda t, m: t.update(bucket_cutoffs=t["bucket_cutoffs"][::-1].copy())),
        ("no centroids", lambda t, m: t.update(centroids=np.zeros((0, 32), dtype=np.float16))),
        ("no projection", lambda t, m: t.pop("document_projection")),
        ("type", lambda t, m: t.update(centroids=np.zeros((64, 32), dtype=np.int32))),
        ("what its id says", lambda t, m: t.update(centroids=t["centroids"] * np.float16(0.5))),
        ("what its id says", lambda t, m: m.update(encoder_id="e@2")),
    ],
)
def test_a_damaged_artefact_is_refused_with_what_is_wrong(
    codec: Codec, says: str, edit: Callable[[dict[str, np.ndarray], dict[str, object]], None]
) -> None:
    with pytest.raises(ContractError, match=says) as error:
        codec_artefact.from_bytes(changed(codec, edit))
    assert error.value.code == "codec_malformed"


@pytest.mark.parametrize("cut", [0, 4, 300, -1])
def test_a_cut_artefact_is_refused(codec: Codec, cut: int) -> None:
    with pytest.raises(ContractError, match="cannot be used"):
        codec_artefact.from_bytes(codec_artefact.to_bytes(codec)[:cut])


def test_a_codec_is_named_by_its_content(codec: Codec) -> None:
    assert with_id(codec, "mine").codec_id == f"mine@{content_hash(codec)}"


# -- the shipped codec ------------------------------------------------------------------------------


def test_the_shipped_codec_loads_and_its_facts_are_read_without_it() -> None:
    facts, shipped = shipped_codec_facts(MINILM_ID), shipped_codec(MINILM_ID)
    assert facts is not None and shipped is not None
    assert (facts.codec_id, facts.format) == (shipped.codec_id, "rc2-128")
    assert (shipped.token_dim, shipped.dim, len(shipped.centroids)) == (384, 128, 8192)
    assert (FOLDER / "minilm.safetensors").stat().st_size < 3_000_000
    assert shipped_codec("another@1") is None and shipped_codec_facts("another@1") is None


def test_the_shipped_codec_keeps_the_directions_of_text_of_another_kind() -> None:
    shipped = shipped_codec(MINILM_ID)
    assert shipped is not None
    texts = [
        "The mitochondrion makes most of the cell's chemical energy, which is stored in a small molecule.",
        "A tenant who pays rent late owes a fee only if the lease says so.",
    ]
    for encoded in load_minilm().encode_passages(texts):
        vectors = project(encoded.tokens.astype(np.float32), shipped.document_projection)
        assert cosines(shipped, encode_rows(shipped, vectors), vectors).mean() > 0.9
