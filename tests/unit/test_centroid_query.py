"""The centroid leg as a query: boosts by hand, merging, the clause budget, nothing to search."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pincite.retrieve import centroids as leg

#: Four centroids in the plane, at 0, 90, 180 degrees and at atan(4/3).
CENTROIDS = np.array([[1, 0], [0, 1], [-1, 0], [0.6, 0.8]], dtype=np.float32)


def probes(query: dict[str, Any]) -> list[list[tuple[str, float]]]:
    """Terms and boosts of each dis_max."""
    found = []
    for clause in query["bool"]["should"]:
        assert clause["dis_max"]["tie_breaker"] == 0.0
        queries = [q["constant_score"] for q in clause["dis_max"]["queries"]]
        found.append([(q["filter"]["term"]["centroids"], q["boost"]) for q in queries])
    return found


def n_clauses(query: dict[str, Any]) -> int:
    return sum(len(group) for group in probes(query))


def tokens(*rows: tuple[float, float]) -> np.ndarray:
    return np.array(rows, dtype=np.float32)


def test_boosts_are_the_products_of_the_nearest_centroids_less_what_is_imputed() -> None:
    query = leg.centroid_query(tokens((1, 0), (0.8, 0.6)), CENTROIDS, nprobe=2)
    assert query["bool"]["minimum_should_match"] == 1
    first, second = probes(query)
    assert [t for t, _ in first] == ["0", "3"]
    # The first token's next product is 0, the second one's 0.6, of which 0.8 is imputed.
    assert [b for _, b in first] == pytest.approx([1.0, 0.6])
    assert [t for t, _ in second] == ["3", "0"]
    assert [b for _, b in second] == pytest.approx([0.96 - 0.48, 0.8 - 0.48])


def test_score_and_imputed_sum_are_the_approximate_maxsim() -> None:
    query = tokens((1, 0), (0.8, 0.6), (0.8, 0.6))
    assert leg.imputed_sum(query, CENTROIDS, nprobe=2) == pytest.approx(2 * 0.48)
    best = sum(group[0][1] for group in probes(leg.centroid_query(query, CENTROIDS, nprobe=2)))
    assert best + 2 * 0.48 == pytest.approx(float((query @ CENTROIDS.T).max(axis=1).sum()))
    assert leg.imputed_sum(query, CENTROIDS, nprobe=4) == 0.0
    assert leg.imputed_sum(query[:0], CENTROIDS) == 0.0


def test_whatever_is_imputed_every_product_above_zero_stays_a_clause() -> None:
    twins = np.concatenate([CENTROIDS[:1]] * 3)
    (group,) = probes(leg.centroid_query(tokens((1, 0)), twins, nprobe=2))
    assert [b for _, b in group] == pytest.approx([0.2, 0.2])


def test_products_that_are_not_above_zero_are_left_out() -> None:
    (group,) = probes(leg.centroid_query(tokens((1, 0)), CENTROIDS, nprobe=4))
    assert [t for t, _ in group] == ["0", "3"]
    # The second token's best product is 0 and -1: it has no clause at all.
    assert len(probes(leg.centroid_query(tokens((1, 0), (0, -1)), CENTROIDS[:2]))) == 1


def test_equal_tokens_become_one_that_counts_as_often() -> None:
    query = leg.centroid_query(tokens((0, 1), (1, 0), (0, 1), (0, 1)), CENTROIDS, nprobe=1)
    first, second = probes(query)
    assert [t for t, _ in (*first, *second)] == ["1", "0"]
    assert [b for _, b in (*first, *second)] == pytest.approx([3 * (1 - 0.8 * 0.8), 1 - 0.8 * 0.6])


def test_the_filter_is_inside_and_the_leg_fetches_no_source() -> None:
    where = [{"term": {"provenance.case_id": "c"}}]
    body = leg.centroid_body(tokens((1, 0)), CENTROIDS, where, 7)
    assert body["query"]["bool"]["filter"] == where
    assert body["query"]["bool"]["must"] == [leg.centroid_query(tokens((1, 0)), CENTROIDS)]
    assert (body["size"], body["_source"], body["seq_no_primary_term"]) == (7, False, True)
    assert leg.centroid_body(tokens((1, 0)), CENTROIDS, [], 7)["query"]["bool"]["filter"] == []


@pytest.mark.parametrize(
    ("query", "centroids"),
    [
        (np.zeros((0, 2), dtype=np.float32), CENTROIDS),
        (tokens((1, 0)), np.zeros((0, 2), dtype=np.float32)),
        (tokens((0, -1)), CENTROIDS[:2]),
        (tokens((0, 0)), CENTROIDS),
    ],
)
def test_nothing_to_search_matches_nothing(query: np.ndarray, centroids: np.ndarray) -> None:
    assert leg.centroid_query(query, centroids) == {"match_none": {}}
    where = [{"term": {"lang": "en"}}]
    assert leg.centroid_body(query, centroids, where, 5)["query"]["bool"]["must"] == [{"match_none": {}}]


def random_unit(n: int, dim: int, seed: int) -> np.ndarray:
    rows = np.random.default_rng(seed).normal(size=(n, dim)).astype(np.float32)
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), dtype=np.float32)


@pytest.mark.parametrize(("n_tokens", "width"), [(10, 4), (250, 4), (251, 3), (400, 2), (1000, 1)])
def test_more_tokens_lower_nprobe_before_any_is_dropped(n_tokens: int, width: int) -> None:
    query = leg.centroid_query(random_unit(n_tokens, 16, 1), random_unit(300, 16, 2), nprobe=4)
    assert {len(group) for group in probes(query)} == {width}
    assert len(probes(query)) == n_tokens
    assert n_clauses(query) <= leg.MAX_CLAUSES


def test_beyond_that_the_tokens_with_the_least_spread_are_dropped() -> None:
    centroids = random_unit(50, 16, 3)
    flat = random_unit(20, 16, 4) * np.float32(0.05)
    query = np.concatenate([random_unit(600, 16, 5), flat, random_unit(400, 16, 6)])
    built = leg.centroid_query(query, centroids, nprobe=4)
    assert n_clauses(built) == leg.MAX_CLAUSES
    kept = probes(leg.centroid_query(np.concatenate([query[:600], query[620:]]), centroids, nprobe=1))
    for found, wanted in zip(probes(built), kept, strict=True):
        assert [t for t, _ in found] == [t for t, _ in wanted]
        assert [b for _, b in found] == pytest.approx([b for _, b in wanted])


def test_equal_tokens_are_merged_before_the_budget_counts_them() -> None:
    query = np.repeat(random_unit(100, 16, 7), 12, axis=0)
    built = leg.centroid_query(query, random_unit(300, 16, 8), nprobe=4)
    assert n_clauses(built) == 400


@pytest.mark.parametrize(
    ("query", "nprobe", "message"),
    [
        (np.ones((1, 3), dtype=np.float32), 4, "do not go together"),
        (np.ones(2, dtype=np.float32), 4, "do not go together"),
        (np.full((1, 2), np.nan, dtype=np.float32), 4, "not finite"),
        (np.ones((1, 2), dtype=np.float32), 0, "at least 1"),
    ],
)
def test_bad_input_is_refused(query: np.ndarray, nprobe: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        leg.centroid_query(query, CENTROIDS, nprobe=nprobe)
