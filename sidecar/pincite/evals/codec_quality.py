"""``make bench-codec``: what the projection and the codes of the shipped MiniLM codec cost in quality.

Every passage of a set is ranked by MaxSim for every question, in all 384 dimensions (the truth that the top
10 is compared with), in 128 and from codes. No text of the sets was trained on (codec_texts.py says what
is near). "PCA" and "plain" are ColBERT's recipe on the same training texts: uncentred PCA, quantile buckets, the
same number of centroids; k-means has no more points for it than for ours.

Per set and system: ``overlap384`` (top 10 kept of 384-dimension float), ``overlap128`` (of the same projection's
floats), nDCG@10 and MRR@10 over the questions with an answer in the set. The last line is JSON.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pincite.adapters.models_sbert import MINILM_ID, load_minilm
from pincite.domain.codec import Codec
from pincite.encode.codec_train import (
    pca_rotation,
    quantile_buckets,
    refit_buckets,
    spherical_kmeans,
)
from pincite.encode.shipped_codecs import shipped_codec
from pincite.encode.token_rows import CodecCoder, project
from pincite.evals.codec_texts import EvaluationSet, evaluation_sets, training_texts
from pincite.evals.command import run_as_command
from pincite.evals.measures import ndcg10, rr10
from pincite.evals.train_minilm_codec import tokens_of
from pincite.kernels.residual import assign, decode_rows, encode_rows
from pincite.wiring.console import say

if TYPE_CHECKING:
    from pincite.domain.protocols import Encoder, FloatArray, IntArray

_TOP = 10
_N_SAMPLE_PASSAGES = 1500
_N_HELD_OUT = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """A codec, and whether a document is scored from its rows or from its projected floats."""

    name: str
    codec: Codec
    coded: bool

    def vectors(self, tokens: FloatArray) -> FloatArray:
        """What the scorer sees of a document's tokens, (n, dim) float32."""
        projected = project(tokens, self.codec.document_projection)
        return decode_rows(self.codec, encode_rows(self.codec, projected)) if self.coded else projected

    def query(self, tokens: FloatArray) -> FloatArray:
        """The question's vectors."""
        return CodecCoder(self.codec).query(tokens)


def systems(codec: Codec, sample: FloatArray, statutes: FloatArray) -> list[System]:
    """Ours and ColBERT's recipe, at 1, 2 and 4 bits, with their floats.

    Args:
        codec: The shipped one.
        sample: (n, token_dim) float32 token vectors of licences.
        statutes: The same of statutes, for the buckets of 1 and 4 bits.
    """
    plain = plain_codec(codec, sample, np.random.default_rng(0))
    found = [
        System(name="PCA, float", codec=plain, coded=False),
        System(name="PCA, 2-bit plain", codec=plain, coded=True),
        System(name="ours, float", codec=codec, coded=False),
        System(name="ours, 2-bit", codec=codec, coded=True),
    ]
    for nbits in (1, 4):
        other = refit_buckets(dataclasses.replace(codec, nbits=nbits), statutes, "other")
        found.append(System(name=f"ours, {nbits}-bit", codec=other, coded=True))
    return found


def plain_codec(codec: Codec, sample: FloatArray, rng: np.random.Generator) -> Codec:
    """ColBERT's recipe: PCA, k-means, quantiles of held-out residuals."""
    projection = pca_rotation(sample, codec.dim, rng)
    vectors = project(sample[rng.permutation(len(sample))], projection)
    held_out, rest = vectors[:_N_HELD_OUT], vectors[_N_HELD_OUT:]
    centroids = spherical_kmeans(rest, min(len(codec.centroids), len(rest) // 4), rng)
    cutoffs, weights = quantile_buckets((held_out - centroids[assign(centroids, held_out)]).ravel(), codec.nbits)
    return dataclasses.replace(
        codec,
        codec_id="plain",
        centroids=centroids,
        bucket_cutoffs=cutoffs,
        bucket_weights=weights,
        document_projection=projection,
        query_projection=None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoded:
    """A set's token vectors: of all passages in one matrix, with each passage's first row."""

    tokens: FloatArray
    starts: IntArray
    queries: Sequence[FloatArray]


def encode(encoder: Encoder, data: EvaluationSet) -> Encoded:
    """Encode a set; every passage must have a token."""
    passages = tokens_of(encoder, data.passages)
    if len(passages) != len(data.passages):
        raise ValueError(f"a passage of {data.name} has no token")
    lengths = np.array([len(p) for p in passages])
    return Encoded(
        tokens=np.concatenate(passages),
        starts=np.concatenate([[0], np.cumsum(lengths)[:-1]]),
        queries=[encoder.encode_query(q).tokens for q in data.questions],
    )


def orders(queries: Sequence[FloatArray], vectors: FloatArray, starts: IntArray) -> list[list[int]]:
    """The best ten passages of each question by MaxSim."""
    out = []
    for query in queries:
        scores = np.maximum.reduceat(query @ vectors.T, starts, axis=1).sum(axis=0)
        out.append(np.argsort(-scores, kind="stable")[:_TOP].tolist())
    return out


def kept(found: Sequence[Sequence[int]], truth: Sequence[Sequence[int]]) -> float:
    """Mean share of the true top ten that was found."""
    return float(np.mean([len(set(a) & set(b)) / len(b) for a, b in zip(found, truth, strict=True)]))


def gains(found: Sequence[Sequence[int]], gold: Sequence[frozenset[int]]) -> tuple[float, float]:
    """Binary nDCG@10 and MRR@10 over the questions that have gold."""
    judged = [(order, wanted) for order, wanted in zip(found, gold, strict=True) if wanted]
    return (
        float(np.mean([ndcg10(order, wanted) for order, wanted in judged])),
        float(np.mean([rr10(order, wanted) for order, wanted in judged])),
    )


def measure(data: EvaluationSet, encoded: Encoded, candidates: Sequence[System]) -> dict[str, dict[str, float]]:
    """The figures of each system on a set."""
    tokens = encoded.tokens
    truth = orders(encoded.queries, tokens.astype(np.float32), encoded.starts)
    ndcg, mrr = gains(truth, data.gold)
    out = {"384, float": {"overlap384": 1.0, "ndcg10": round(ndcg, 4), "mrr10": round(mrr, 4)}}
    floats: dict[int, list[list[int]]] = {}
    for system in candidates:
        vectors = np.concatenate(
            [system.vectors(tokens[i : i + 8192].astype(np.float32)) for i in range(0, len(tokens), 8192)]
        )
        found = orders([system.query(q.astype(np.float32)) for q in encoded.queries], vectors, encoded.starts)
        if not system.coded:
            floats[id(system.codec.document_projection)] = found
        ndcg, mrr = gains(found, data.gold)
        figures = {
            "overlap384": kept(found, truth),
            "overlap128": kept(found, floats[id(system.codec.document_projection)]),
            "ndcg10": ndcg,
            "mrr10": mrr,
        }
        out[system.name] = {key: round(value, 4) for key, value in figures.items()}
    return out


def run() -> int:
    """Encode, measure, print."""
    codec = shipped_codec(MINILM_ID)
    assert codec is not None  # noqa: S101  # it is packaged
    encoder = load_minilm()
    say("encoding a sample of the training texts, for the plain codec")
    texts = training_texts()
    step = max(len(texts.passages) // _N_SAMPLE_PASSAGES, 1)
    sample, statutes = (
        np.concatenate(tokens_of(encoder, some)).astype(np.float32)
        for some in (texts.passages[::step], texts.statutes[:100])
    )
    candidates = systems(codec, sample, statutes)
    result: dict[str, dict[str, dict[str, float]]] = {}
    for data in evaluation_sets():
        say(f"{data.name}: {len(data.passages)} passages, {len(data.questions)} questions")
        result[data.name] = measure(data, encode(encoder, data), candidates)
    print(f"codec {codec.codec_id}; encoder engine {encoder.engine}")
    print(f"{'set':<12}{'system':<20}{'of 384 kept':>12}{'of 128 kept':>12}{'nDCG@10':>9}{'MRR@10':>9}")
    for name, rows in result.items():
        for system, row in rows.items():
            own = f"{row['overlap128']:.3f}" if "overlap128" in row else ""
            print(
                f"{name:<12}{system:<20}{row['overlap384']:>12.3f}{own:>12}{row['ndcg10']:>9.3f}{row['mrr10']:>9.3f}"
            )
    print(json.dumps({"codec_id": codec.codec_id, "sets": result}))
    return 0


if __name__ == "__main__":
    run_as_command(run)
