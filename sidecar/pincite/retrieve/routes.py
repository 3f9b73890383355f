"""Multi-route retrieval: several rewritten queries through several legs, with quotas for groups.

After the system that came third in the CCIR Cup 2025: a semantic route takes a fixed number of passages from each
law, so that a long law does not crowd out the others, a lexical one searches all of them, and the best of both
together go on to filtering and reranking. All here is pure: ``plan`` says what to search,
``merge`` puts the answers together, rank/fusion.py fuses them, ``select`` cuts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Leg = Literal["bm25", "knn", "centroids"]

#: Candidates after fusion, and hits of one group, as the CCIR Cup paper sets them.
TOP = 500
GROUP_QUOTA = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """How many hits a group may have.

    Attributes:
        field: A keyword field: ``provenance.case_id``, ``provenance.source_id``, ``title.raw`` …
        n: Hits of each group.
        groups: The groups to search, each by itself. Empty: the groups are not known beforehand; the route is
            one search, and ``select`` holds each group to ``n`` candidates after fusion.
    """

    field: str
    n: int = GROUP_QUOTA
    groups: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.n < 1:
            raise ValueError(f"a quota of {self.n} hits finds nothing")


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A rewritten query through one leg.

    Attributes:
        leg: Which leg.
        query: The text that it searches.
        size: Hits of the route; with named groups the quota says how many, for each of them.
        quota: None: the route takes its hits from wherever they are.
    """

    leg: Leg
    query: str
    size: int = 200
    quota: Quota | None = None

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError(f"a route of {self.size} hits finds nothing")


@dataclass(frozen=True, slots=True, kw_only=True)
class SubSearch:
    """One search of a route.

    Attributes:
        route: The route's place among the routes.
        group: The group it is held to, or None.
        filter_clauses: All must hold; they go inside the leg, so that k hits are k of the group.
        size: Hits.
    """

    route: int
    group: str | None
    filter_clauses: tuple[Mapping[str, Any], ...]
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """All candidates of all routes, each once.

    Attributes:
        routes: The routes.
        order: Every chunk id: by the earliest route that found it, there best first. It breaks ties.
        by_route: For each route its raw scores by chunk id, best first.
    """

    routes: tuple[Route, ...]
    order: tuple[str, ...]
    by_route: tuple[Mapping[str, float], ...]

    def queries(self) -> tuple[str, ...]:
        """The distinct queries, in the routes' order."""
        return tuple(dict.fromkeys(route.query for route in self.routes))

    def leg(self, name: Leg, query: str) -> dict[str, float] | None:
        """Raw scores of a leg for one query; None when no route is that.

        Raw scores of different queries are on different scales, so they are fused query by query
        (``rank.fusion.first_stage``) and the fused ones are joined (``best``).
        """
        found = [
            scores
            for route, scores in zip(self.routes, self.by_route, strict=True)
            if (route.leg, route.query) == (name, query)
        ]
        return _best(found) if found else None

    def scores(self, chunk_id: str) -> dict[int, float]:
        """A chunk's raw scores by the place of the route."""
        return {place: found[chunk_id] for place, found in enumerate(self.by_route) if chunk_id in found}


def routes(
    queries: Iterable[str], legs: Sequence[Leg], *, size: int = 200, quotas: Mapping[Leg, Quota] | None = None
) -> tuple[Route, ...]:
    """Every leg for every query, query by query; a rewritten query that repeats an earlier one, or is empty, is
    left out.

    Args:
        queries: The question as asked first, then its rewritings.
        legs: The legs, in the order that breaks ties.
        size: Hits of a route.
        quotas: Quotas of the legs that have one.
    """
    texts = dict.fromkeys(text for query in queries if (text := " ".join(query.split())))
    return tuple(
        Route(leg=leg, query=text, size=size, quota=(quotas or {}).get(leg))
        for text in texts
        for leg in dict.fromkeys(legs)
    )


def plan(found: Sequence[Route], filter_clauses: Sequence[Mapping[str, Any]]) -> list[SubSearch]:
    """What to search: for a route with named groups one search a group, for any other one search."""
    searches = []
    for place, route in enumerate(found):
        quota = route.quota
        if quota is None or not quota.groups:
            searches.append(
                SubSearch(route=place, group=None, filter_clauses=tuple(filter_clauses), size=route.size)
            )
            continue
        searches += [
            SubSearch(
                route=place,
                group=group,
                filter_clauses=(*filter_clauses, {"term": {quota.field: group}}),
                size=quota.n,
            )
            for group in dict.fromkeys(quota.groups)
        ]
    return searches


def merge(found: Sequence[Route], searches: Sequence[SubSearch], results: Sequence[Mapping[str, float]]) -> Merged:
    """Put the answers together.

    Args:
        found: The routes.
        searches: ``plan`` of them.
        results: For each search its raw scores by chunk id. A chunk that several searches of a route found
            has the best of its scores there.

    Raises:
        ValueError: there are more or fewer results than searches.
    """
    if len(searches) != len(results):
        raise ValueError(f"{len(results)} results for {len(searches)} searches")
    by_route = []
    for place in range(len(found)):
        mine = [scores for search, scores in zip(searches, results, strict=True) if search.route == place]
        by_route.append(_best(mine))
    order = dict.fromkeys(chunk_id for scores in by_route for chunk_id in scores)
    return Merged(routes=tuple(found), order=tuple(order), by_route=tuple(by_route))


def best(fused: Sequence[Mapping[str, float]], order: Sequence[str]) -> dict[str, float]:
    """The best fused score of each id of ``order`` over the queries; an id that none has counts 0."""
    return {key: max((scores[key] for scores in fused if key in scores), default=0.0) for key in order}


def select(
    fused: Mapping[str, float],
    *,
    top: int = TOP,
    cap: int | None = None,
    groups: Mapping[str, str] | None = None,
) -> list[str]:
    """The best ids after fusion, best first; ties keep their place in ``fused``.

    Args:
        fused: Scores by id, in the order that breaks ties.
        top: Ids, at most.
        cap: Ids of one group, at most; None: no cap.
        groups: The group of each id; an id without one is not capped.

    Raises:
        ValueError: ``top`` or ``cap`` is below 1, or a cap has no groups to count.
    """
    if top < 1 or (cap is not None and cap < 1):
        raise ValueError(f"top {top} and cap {cap} must be at least 1")
    if cap is not None and groups is None:
        raise ValueError("a cap needs the group of each id")
    taken: dict[str, int] = {}
    chosen: list[str] = []
    for key in sorted(fused, key=lambda k: -fused[k]):
        group = (groups or {}).get(key)
        if cap is not None and group is not None:
            if taken.get(group, 0) >= cap:
                continue
            taken[group] = taken.get(group, 0) + 1
        chosen.append(key)
        if len(chosen) == top:
            break
    return chosen


def _best(results: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The best score by id, best first; ties keep the order in which they came."""
    joined: dict[str, float] = {}
    for scores in results:
        for key, score in scores.items():
            joined[key] = max(score, joined.get(key, score))
    return dict(sorted(joined.items(), key=lambda item: -item[1]))
