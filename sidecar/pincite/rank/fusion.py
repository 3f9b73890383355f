"""Fusion, the one place for it: bounded min–max and reciprocal rank fusion (design.md §3).

Plain min–max gives a lone weak hit 1.0 and stretches noise to the full range. Bounded min–max does not:
its lower bound is what the score means at "nothing in common", and its upper bound is the list's best or
a fixed floor, whichever is higher.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

#: The usual constant of RRF (Cormack, Clarke and Büttcher 2009).
RRF_K = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """``low`` is the score of "nothing in common"; ``floor`` is the least upper bound."""

    low: float
    floor: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FusionConfig:
    """Weights and bounds.

    Attributes:
        weight_knn: Share of the semantic leg in the first stage; the lexical one has the rest.
        weight_centroids: Share of the centroid leg in the first stage, when it ran; the other legs have the
            rest. 0: the leg brings candidates and leaves the order to MaxSim.
        weight_maxsim: Share of MaxSim in the fused score; the first stage has the rest.
        bm25: BM25 has no upper bound; the floor is the score of a rather good match.
        knn: (1 + cos) / 2, so 0.5 is "unrelated".
        maxsim: Mean over the query's tokens of the best cosine; the centroid leg's score is on the same scale.
        method: ``minmax`` or ``rrf``, for the first stage.
    """

    weight_knn: float = 0.65
    weight_centroids: float = 0.0
    weight_maxsim: float = 0.6
    bm25: Bounds = Bounds(low=0.0, floor=8.0)
    knn: Bounds = Bounds(low=0.5, floor=0.8)
    maxsim: Bounds = Bounds(low=0.2, floor=0.6)
    method: str = "minmax"


def bounded_minmax(scores: Mapping[str, float], bounds: Bounds) -> dict[str, float]:
    """Scores in [0, 1] by id.

    Raises:
        ValueError: a score is not finite.
    """
    for key, score in scores.items():
        if not math.isfinite(score):
            raise ValueError(f"score of {key} is not finite")
    high = max([bounds.floor, *scores.values()])
    width = high - bounds.low
    return {key: min(max((score - bounds.low) / width, 0.0), 1.0) for key, score in scores.items()}


def ranks(scores: Mapping[str, float], order: Sequence[str]) -> dict[str, int]:
    """1-based ranks, best first; ties keep their place in ``order``."""
    place = {key: i for i, key in enumerate(order)}
    return {key: i + 1 for i, key in enumerate(sorted(scores, key=lambda k: (-scores[k], place[k])))}


def rrf(legs: Sequence[Mapping[str, float]], order: Sequence[str], *, k: int = RRF_K) -> dict[str, float]:
    """Reciprocal rank fusion, scaled so that first in every leg is 1.0."""
    fused = dict.fromkeys(order, 0.0)
    for leg in legs:
        for key, rank in ranks(leg, order).items():
            fused[key] += 1.0 / (k + rank)
    best = len(legs) / (k + 1)
    return {key: score / best for key, score in fused.items()} if best else fused


def first_stage(
    bm25: Mapping[str, float] | None,
    knn: Mapping[str, float] | None,
    order: Sequence[str],
    config: FusionConfig,
    *,
    centroids: Mapping[str, float] | None = None,
    n_query_tokens: int | None = None,
) -> dict[str, float]:
    """The first stage's fused score by id, for every id of ``order``.

    RRF counts every leg that ran. Bounded min–max weighs them; when the centroid leg alone ran, or there is
    no semantic leg and the lexical one found nothing, its score is the first stage ("ColBERT end to end").

    Args:
        bm25: Raw scores of the lexical leg; an id it lacks counts 0 there. None when the leg did not run.
        knn: Raw scores of the semantic leg, (1 + cos) / 2; None when the leg did not run, and then the
            lexical leg has all the weight of the two.
        order: Every id, in the order that breaks ties.
        config: Weights and bounds.
        centroids: Raw scores of the centroid leg, sums over the query's tokens; None when it did not run.
            With a weight they should be MaxSim's approximation (retrieve/centroids.py, ``imputed_sum``).
        n_query_tokens: Tokens of the query; min–max needs them where the centroid leg's score counts.

    Raises:
        ValueError: a score is not finite; ``n_query_tokens`` is needed and missing or below 1.
    """
    if config.method == "rrf":
        return rrf([leg for leg in (bm25, knn, centroids) if leg is not None], order)
    if centroids and not bm25 and knn is None:
        # No lower bound here: it would make ties of the weak hits, and nothing else could tell them apart.
        alone = bounded_minmax(_means(centroids, n_query_tokens), Bounds(low=0.0, floor=config.maxsim.floor))
        return {key: alone.get(key, 0.0) for key in order}
    lexical = bounded_minmax(bm25 or {}, config.bm25)
    semantic = bounded_minmax(knn or {}, config.knn)
    weight = 0.0 if knn is None else 1.0 if bm25 is None else config.weight_knn
    fused = {key: weight * semantic.get(key, 0.0) + (1 - weight) * lexical.get(key, 0.0) for key in order}
    share = config.weight_centroids
    if centroids is None or not share:
        return fused
    third = bounded_minmax(_means(centroids, n_query_tokens), config.maxsim)
    return {key: share * third.get(key, 0.0) + (1 - share) * score for key, score in fused.items()}


def _means(scores: Mapping[str, float], n_query_tokens: int | None) -> dict[str, float]:
    if not scores:
        return {}
    if n_query_tokens is None or n_query_tokens < 1:
        raise ValueError(f"the centroid leg's score counts and n_query_tokens is {n_query_tokens}")
    return {key: score / n_query_tokens for key, score in scores.items()}


def with_maxsim(
    first: Mapping[str, float],
    maxsim: Mapping[str, float],
    n_query_tokens: int,
    config: FusionConfig,
) -> dict[str, float]:
    """The first stage fused with MaxSim.

    An id without a MaxSim score is imputed its own first-stage score in place of MaxSim's, so that a
    chunk that waits for encoding keeps its first-stage place as far as the scales allow.

    Args:
        first: First-stage scores in [0, 1], in order.
        maxsim: MaxSim scores (sums over query tokens) of some of the ids.
        n_query_tokens: Turns sums into means.
        config: Weights and bounds.
    """
    if not maxsim or n_query_tokens == 0:
        return dict(first)
    means = {key: score / n_query_tokens for key, score in maxsim.items()}
    late = bounded_minmax(means, config.maxsim)
    weight = config.weight_maxsim
    return {key: weight * late.get(key, score) + (1 - weight) * score for key, score in first.items()}


def ranked(scores: Mapping[str, float]) -> list[str]:
    """Ids, best first; ties keep the mapping's order, which is the earlier stage's."""
    place = {key: i for i, key in enumerate(scores)}
    return sorted(scores, key=lambda key: (-scores[key], place[key]))
