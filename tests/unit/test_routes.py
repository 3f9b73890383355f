"""Multi-route retrieval: which searches are made, how their answers are joined, quotas, ties."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pincite.rank import fusion
from pincite.rank.fusion import FusionConfig
from pincite.retrieve.routes import Merged, Quota, Route, best, merge, plan, routes, select

WHERE = ({"term": {"lang": "en"}},)
LAWS = Quota(field="title.raw", n=50, groups=("Civil Code", "Labour Law", "Civil Code"))


def test_every_leg_for_every_query_once() -> None:
    made = routes(["who pays rent?", "  who pays\nrent? ", "", "rent payer"], ["knn", "bm25"])
    assert [(r.leg, r.query) for r in made] == [
        ("knn", "who pays rent?"),
        ("bm25", "who pays rent?"),
        ("knn", "rent payer"),
        ("bm25", "rent payer"),
    ]


def test_named_groups_are_searched_one_by_one_and_the_rest_once() -> None:
    made = [Route(leg="knn", query="q", quota=LAWS), Route(leg="bm25", query="q", size=1000)]
    first, second, third = plan(made, WHERE)
    assert (first.route, first.group, first.size) == (0, "Civil Code", 50)
    assert first.filter_clauses == (*WHERE, {"term": {"title.raw": "Civil Code"}})
    assert (second.route, second.group) == (0, "Labour Law")
    assert (third.route, third.group, third.size, third.filter_clauses) == (1, None, 1000, WHERE)


def test_a_quota_without_names_is_one_search() -> None:
    (search,) = plan([Route(leg="knn", query="q", size=80, quota=Quota(field="provenance.case_id", n=5))], WHERE)
    assert (search.group, search.size, search.filter_clauses) == (None, 80, WHERE)


def two_routes() -> Merged:
    made = [Route(leg="knn", query="q", quota=LAWS), Route(leg="bm25", query="q")]
    return merge(made, plan(made, ()), [{"a": 0.9, "b": 0.6}, {"c": 0.7}, {"b": 12.0, "d": 12.0}])


def test_each_candidate_is_there_once_with_the_scores_of_its_routes() -> None:
    merged = two_routes()
    assert merged.order == ("a", "c", "b", "d")
    assert merged.scores("b") == {0: 0.6, 1: 12.0}
    assert merged.scores("d") == {1: 12.0}
    assert merged.scores("nobody") == {}
    assert merged.leg("knn", "q") == {"a": 0.9, "c": 0.7, "b": 0.6}
    assert merged.leg("centroids", "q") is None


def test_of_several_scores_in_one_route_the_best_counts() -> None:
    made = [Route(leg="knn", query="q", quota=LAWS)]
    merged = merge(made, plan(made, ()), [{"a": 0.5, "b": 0.6}, {"a": 0.8}])
    assert list(merged.by_route[0].items()) == [("a", 0.8), ("b", 0.6)]


def test_results_must_be_those_of_the_searches() -> None:
    made = [Route(leg="knn", query="q")]
    with pytest.raises(ValueError, match="2 results for 1 searches"):
        merge(made, plan(made, ()), [{}, {}])


def test_queries_are_fused_one_by_one_and_joined_by_the_best() -> None:
    made = routes(["one", "two"], ["bm25", "knn"])
    results = [{"a": 8.0}, {"b": 0.8}, {"b": 4.0}, {"b": 0.8, "c": 0.65}]
    merged = merge(made, plan(made, ()), results)
    config = FusionConfig()
    fused = [
        fusion.first_stage(merged.leg("bm25", q), merged.leg("knn", q), merged.order, config)
        for q in merged.queries()
    ]
    joined = best(fused, merged.order)
    assert joined == pytest.approx({"a": 0.35, "b": 0.65 + 0.35 * 0.5, "c": 0.65 * 0.5})
    assert select(joined) == ["b", "a", "c"]
    assert best([{"a": 0.5}], ["a", "z"]) == {"a": 0.5, "z": 0.0}


def test_ties_go_to_the_earlier_route() -> None:
    merged = two_routes()
    equal = dict.fromkeys(merged.order, 0.5)
    assert select(equal) == ["a", "c", "b", "d"]
    assert select(fusion.rrf(merged.by_route, merged.order), top=1) == ["b"]


def test_a_group_has_no_more_than_its_cap_and_its_best_are_kept() -> None:
    fused = {"a": 0.9, "b": 0.8, "c": 0.7, "d": 0.6, "e": 0.5}
    groups = {"a": "x", "b": "x", "c": "x", "d": "y"}
    assert select(fused, cap=2, groups=groups) == ["a", "b", "d", "e"]
    assert select(fused, cap=1, groups=groups, top=2) == ["a", "d"]
    assert select(fused, groups=groups) == list("abcde")


@pytest.mark.parametrize("kwargs", [{"top": 0}, {"cap": 0, "groups": {}}, {"cap": 3}])
def test_cuts_that_make_no_sense_are_refused(kwargs: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"cap|at least 1"):
        select({"a": 1.0}, **kwargs)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "make", [lambda: Quota(field="f", n=0), lambda: Route(leg="knn", query="q", size=0)], ids=["quota", "route"]
)
def test_empty_routes_and_quotas_are_refused(make: object) -> None:
    with pytest.raises(ValueError, match="finds nothing"):
        make()  # type: ignore[operator]


@given(
    st.lists(st.dictionaries(st.sampled_from("abcdefgh"), st.floats(0, 1)), min_size=4, max_size=4),
    st.integers(1, 4),
    st.integers(1, 10),
)
def test_nothing_is_lost_doubled_or_over_its_cap(results: list[dict[str, float]], cap: int, top: int) -> None:
    made = routes(["one", "two"], ["bm25", "knn"])
    merged = merge(made, plan(made, ()), results)
    assert sorted(merged.order) == sorted({key for scores in results for key in scores})
    fused = fusion.rrf(merged.by_route, merged.order)
    assert select(fused) == fusion.ranked(fused)
    groups = {key: "first" if key in "abcd" else "second" for key in "abcdefgh"}
    chosen = select(fused, top=top, cap=cap, groups=groups)
    assert len(chosen) == len(set(chosen)) <= top
    counts = [sum(groups[key] == group for key in chosen) for group in ("first", "second")]
    assert max(counts) <= cap
