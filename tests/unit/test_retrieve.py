"""Filters, legs and content words."""

from __future__ import annotations

import pytest

from pincite.domain.errors import UserError
from pincite.domain.types import SearchFilter, TermStat
from pincite.retrieve import legs
from pincite.retrieve.filters import clauses
from pincite.text.scripts import latin_share
from pincite.text.words import content_words


def test_no_filter_is_no_clause() -> None:
    assert clauses(SearchFilter()) == []


def test_filters_become_clauses() -> None:
    found = clauses(
        SearchFilter(
            case_ids=("c1",), file_names=("a.txt", "b/*.pdf"), date_from="2020-01-31", ingested_to="2026-01-01"
        )
    )
    assert {"terms": {"provenance.case_id": ["c1"]}} in found
    assert {"range": {"date": {"gte": "2020-01-31", "format": "strict_date"}}} in found
    assert {"range": {"ingested_at": {"lte": "2026-01-01", "format": "strict_date"}}} in found
    files = next(c["bool"] for c in found if "bool" in c)
    assert files["minimum_should_match"] == 1
    assert {"term": {"provenance.file_name": "a.txt"}} in files["should"]
    assert {"wildcard": {"provenance.file_name": {"value": "b/*.pdf"}}} in files["should"]


@pytest.mark.parametrize("bad", ["2020", "2020-13-01", "01.02.2020", "2020-1-1", "now-1d", ""])
def test_bad_dates_are_named(bad: str) -> None:
    with pytest.raises(UserError) as caught:
        clauses(SearchFilter(date_from=bad))
    assert caught.value.code == "date_invalid"
    assert repr(bad) in caught.value.message


def test_the_filter_is_inside_both_legs() -> None:
    import numpy as np

    where = clauses(SearchFilter(case_ids=("c1",)))
    assert legs.bm25_body("q", where, 10)["query"]["bool"]["filter"] == where
    knn = legs.knn_body(np.ones(2, dtype=np.float32), where, 10)["query"]["knn"]["vector"]
    assert knn["filter"] == {"bool": {"filter": where}}
    assert knn["k"] == 10
    assert "filter" not in legs.knn_body(np.ones(2, dtype=np.float32), [], 10)["query"]["knn"]["vector"]


def test_vectors_and_sources_are_not_fetched_by_the_legs() -> None:
    body = legs.bm25_body("q", [], 10)
    assert body["_source"] is False
    assert body["seq_no_primary_term"] is True


def test_han_questions_search_bigrams() -> None:
    match = legs.bm25_body("个人信息保护", [], 10)["query"]["bool"]["must"][0]["multi_match"]
    assert any(field.startswith("text.cjk") for field in match["fields"])


def test_term_stats_of_a_response() -> None:
    response = {
        "hits": {"total": {"value": 120}},
        "aggregations": {"terms": {"buckets": {"lease": {"doc_count": 7}, "zebra": {"doc_count": 0}}}},
    }
    stats, n_chunks = legs.term_stats(response)
    assert stats == (TermStat(term="lease", n_chunks=7), TermStat(term="zebra", n_chunks=0))
    assert n_chunks == 120


def test_content_words_drop_what_every_question_has() -> None:
    assert content_words("What does the lease say about sub-letting, and whose is the lease?") == [
        "lease",
        "sub-letting",
    ]


def test_a_question_of_function_words_keeps_them() -> None:
    assert content_words("What is it?") == ["what", "is", "it"]


def test_latin_share() -> None:
    assert latin_share("plain English") == 1.0
    assert latin_share("个人信息") == 0.0
    assert latin_share("12 §§") == 1.0
