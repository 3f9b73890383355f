"""Fusion: bounded min–max, RRF, ties, missing scores."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pincite.rank import fusion
from pincite.rank.fusion import Bounds, FusionConfig

BOUNDS = Bounds(low=0.0, floor=8.0)


def test_a_lone_weak_hit_is_not_one() -> None:
    # Plain min-max would give 1.0 (neural-search issue 299).
    assert fusion.bounded_minmax({"a": 2.0}, BOUNDS) == {"a": 0.25}


def test_the_best_above_the_floor_is_one() -> None:
    scores = fusion.bounded_minmax({"a": 16.0, "b": 4.0}, BOUNDS)
    assert scores == {"a": 1.0, "b": 0.25}


def test_below_the_lower_bound_is_zero() -> None:
    assert fusion.bounded_minmax({"a": 0.3}, Bounds(low=0.5, floor=0.8)) == {"a": 0.0}


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_a_score_that_is_not_finite_is_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="not finite"):
        fusion.bounded_minmax({"a": 1.0, "b": bad}, BOUNDS)


def test_empty_legs_give_an_empty_ranking() -> None:
    assert fusion.first_stage({}, {}, [], FusionConfig()) == {}
    assert fusion.with_maxsim({}, {}, 3, FusionConfig()) == {}


def test_both_legs_contribute() -> None:
    config = FusionConfig(weight_knn=0.65, bm25=BOUNDS, knn=Bounds(low=0.5, floor=0.9))
    fused = fusion.first_stage({"lex": 8.0}, {"sem": 0.9}, ["lex", "sem"], config)
    assert fused["lex"] == pytest.approx(0.35)
    assert fused["sem"] == pytest.approx(0.65)


def test_without_a_semantic_leg_the_lexical_one_has_all_the_weight() -> None:
    fused = fusion.first_stage({"a": 8.0, "b": 4.0}, None, ["a", "b"], FusionConfig(bm25=BOUNDS))
    assert fused == {"a": 1.0, "b": 0.5}


def test_an_empty_semantic_leg_is_not_a_missing_one() -> None:
    fused = fusion.first_stage({"a": 8.0}, {}, ["a"], FusionConfig(weight_knn=0.65, bm25=BOUNDS))
    assert fused["a"] == pytest.approx(0.35)


CENTROIDS = {"late": 3.2, "lex": 0.4}


def test_the_centroid_leg_brings_candidates_and_by_default_no_score() -> None:
    order = ["lex", "sem", "late"]
    without = fusion.first_stage({"lex": 8.0}, {"sem": 0.9}, order, FusionConfig())
    fused = fusion.first_stage({"lex": 8.0}, {"sem": 0.9}, order, FusionConfig(), centroids=CENTROIDS)
    assert fused == without
    assert fused["late"] == 0.0


def test_a_weighted_centroid_leg_takes_its_share_of_the_others() -> None:
    config = FusionConfig(
        weight_knn=0.65,
        weight_centroids=0.3,
        bm25=BOUNDS,
        knn=Bounds(low=0.5, floor=0.9),
        maxsim=Bounds(low=0.2, floor=0.6),
    )
    order = ["lex", "sem", "late"]
    fused = fusion.first_stage(
        {"lex": 8.0}, {"sem": 0.9}, order, config, centroids={"late": 0.8, "lex": 0.4}, n_query_tokens=2
    )
    # Means 0.4 and 0.2 within [0.2, 0.6].
    assert fused == pytest.approx({"lex": 0.7 * 0.35, "sem": 0.7 * 0.65, "late": 0.3 * 0.5})
    # Without a semantic leg the lexical one has all that the centroid leg leaves.
    fused = fusion.first_stage({"lex": 8.0}, None, order, config, centroids={"late": 1.2}, n_query_tokens=2)
    assert fused == pytest.approx({"lex": 0.7, "sem": 0.0, "late": 0.3})


@pytest.mark.parametrize("method", ["minmax", "rrf"])
@pytest.mark.parametrize("bm25", [None, {}])
def test_alone_the_centroid_leg_is_the_first_stage(bm25: dict[str, float] | None, method: str) -> None:
    # 0.02 a token is below MaxSim's lower bound, and yet before 0.01.
    centroids = {"a": 0.01, "b": 1.2, "c": 0.02, "d": 0.9}
    fused = fusion.first_stage(
        bm25, None, list("abcd"), FusionConfig(method=method), centroids=centroids, n_query_tokens=1
    )
    assert fusion.ranked(fused) == ["b", "d", "c", "a"]
    assert fused["a"] > 0.0


def test_a_lone_weak_hit_of_the_centroid_leg_is_not_one() -> None:
    config = FusionConfig(maxsim=Bounds(low=0.2, floor=0.6))
    assert fusion.first_stage(None, None, ["a"], config, centroids={"a": 0.6}, n_query_tokens=4) == {"a": 0.25}


def test_a_missing_lexical_leg_leaves_the_semantic_one_all_the_weight() -> None:
    config = FusionConfig(knn=Bounds(low=0.5, floor=0.9))
    assert fusion.first_stage(None, {"a": 0.9}, ["a"], config) == pytest.approx({"a": 1.0})
    assert fusion.first_stage(None, None, ["a"], config) == {"a": 0.0}


@pytest.mark.parametrize("n", [None, 0])
def test_a_centroid_score_that_counts_needs_the_number_of_tokens(n: int | None) -> None:
    weighted = FusionConfig(weight_centroids=0.2)
    for bm25, config in (({"a": 1.0}, weighted), ({}, FusionConfig())):
        with pytest.raises(ValueError, match="n_query_tokens"):
            fusion.first_stage(bm25, None, ["a"], config, centroids={"a": 1.0}, n_query_tokens=n)
    # A leg that ran and found nothing needs none.
    assert fusion.first_stage({"a": 8.0}, None, ["a"], weighted, centroids={}) == {"a": pytest.approx(0.8)}


def test_rrf_counts_the_centroid_leg_when_it_ran() -> None:
    config = FusionConfig(method="rrf")
    fused = fusion.first_stage({"a": 9.0}, {"b": 0.8}, ["a", "b"], config, centroids={"b": 2.0, "a": 1.0})
    assert fused["a"] == pytest.approx((1 / 61 + 1 / 62) / (3 / 61))
    assert fused["b"] == pytest.approx((1 / 61 + 1 / 61) / (3 / 61))


def test_rrf_by_hand() -> None:
    fused = fusion.rrf([{"a": 9.0, "b": 3.0}, {"b": 0.7}], ["a", "b"], k=60)
    best = 2 / 61
    assert fused["a"] == pytest.approx((1 / 61) / best)
    assert fused["b"] == pytest.approx((1 / 62 + 1 / 61) / best)


def test_rrf_first_in_every_leg_is_one() -> None:
    fused = fusion.rrf([{"a": 2.0, "b": 1.0}, {"a": 0.9}], ["a", "b"])
    assert fused["a"] == pytest.approx(1.0)


def test_ties_keep_the_earlier_order() -> None:
    assert fusion.ranked({"z": 1.0, "a": 1.0, "m": 2.0}) == ["m", "z", "a"]
    assert fusion.ranks({"z": 1.0, "a": 1.0}, ["z", "a"]) == {"z": 1, "a": 2}


def test_a_chunk_without_token_vectors_keeps_its_first_stage_score() -> None:
    config = FusionConfig(weight_maxsim=0.5, maxsim=Bounds(low=0.0, floor=1.0))
    fused = fusion.with_maxsim({"a": 0.8, "b": 0.4}, {"b": 2.0}, 2, config)
    assert fused["a"] == pytest.approx(0.8)
    assert fused["b"] == pytest.approx(0.5 * 1.0 + 0.5 * 0.4)


def test_maxsim_changes_the_order() -> None:
    config = FusionConfig(weight_maxsim=0.6)
    first = {"a": 0.9, "b": 0.7}
    fused = fusion.with_maxsim(first, {"a": 0.6, "b": 1.4}, 2, config)
    assert fusion.ranked(fused) == ["b", "a"]


@given(
    st.dictionaries(st.text(min_size=1, max_size=3), st.floats(-5, 60), max_size=20),
    st.dictionaries(st.text(min_size=1, max_size=3), st.floats(0, 1), max_size=20),
    st.sampled_from(["minmax", "rrf"]),
)
def test_fused_scores_are_in_the_unit_interval_and_complete(
    bm25: dict[str, float], knn: dict[str, float], method: str
) -> None:
    order = list({**bm25, **knn})
    fused = fusion.first_stage(bm25, knn, order, FusionConfig(method=method))
    assert list(fused) == order
    assert all(0.0 <= score <= 1.0 + 1e-9 for score in fused.values())
    assert sorted(fusion.ranked(fused)) == sorted(order)
