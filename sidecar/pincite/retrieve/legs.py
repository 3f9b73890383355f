"""The legs of the first stage, as OpenSearch queries: BM25, k-NN, and the question's term statistics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import regex

from pincite.domain.types import ChunkVersion, TermStat
from pincite.text.words import has_han

if TYPE_CHECKING:
    from pincite.domain.protocols import FloatArray

#: Lucene's cap on clauses is 1,024; a question's first content words carry it.
MAX_TERMS = 64
MAX_WORDS = 300

_TOKEN = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}]|[\p{L}\p{N}\p{M}_]+")


def lexical_text(query: str) -> tuple[str, bool]:
    """The text that the lexical leg searches, and whether it is shorter than the query.

    Lucene takes 1,024 clauses a query, and each word is one in each field. A text of more words than that
    allows is searched by its distinct words (Han: by its beginning); the vector leg still reads all of it.
    """
    found = _TOKEN.findall(query)
    if len(found) <= MAX_WORDS:
        return query, False
    if has_han(query):
        return "".join(found[:MAX_WORDS]), True
    return " ".join(list(dict.fromkeys(word.lower() for word in found))[:MAX_WORDS]), True


def bm25_body(query: str, filter_clauses: Sequence[Mapping[str, Any]], size: int) -> dict[str, Any]:
    """The lexical leg: BM25 on the text and, with less weight, the title.

    The title (of the document) is what tells two contracts with the same clauses apart. Han text is
    matched by bigrams, everything else by its words and their stems.
    """
    fields = ["text.cjk", "title.cjk^0.5"] if has_han(query) else ["text", "text.en", "title.en"]
    return _body(
        {
            "bool": {
                "must": [{"multi_match": {"query": query, "fields": fields, "type": "most_fields"}}],
                "filter": list(filter_clauses),
            }
        },
        size,
    )


def knn_body(vector: FloatArray, filter_clauses: Sequence[Mapping[str, Any]], size: int) -> dict[str, Any]:
    """The semantic leg. The filter is inside it, so k means k that pass. Score: (1 + cos) / 2."""
    leg: dict[str, Any] = {"vector": [float(x) for x in vector], "k": size}
    if filter_clauses:
        leg["filter"] = {"bool": {"filter": list(filter_clauses)}}
    return _body({"knn": {"vector": leg}}, size)


def filtered_body(query: dict[str, Any], filter_clauses: Sequence[Mapping[str, Any]], size: int) -> dict[str, Any]:
    """Any query as a leg, with the filters beside it."""
    return _body({"bool": {"must": [query], "filter": list(filter_clauses)}}, size)


def terms_body(terms: Sequence[str], filter_clauses: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Counts of chunks that hold each term, by one aggregation; no hits."""
    return {
        "size": 0,
        "track_total_hits": True,
        "query": {"bool": {"filter": list(filter_clauses)}},
        "aggs": {
            "terms": {
                "filters": {
                    "filters": {
                        term: {
                            "multi_match": {
                                "query": term,
                                "fields": ["text.cjk"] if has_han(term) else ["text.en", "title.en"],
                                "type": "best_fields",
                                "operator": "and",
                            }
                        }
                        for term in terms[:MAX_TERMS]
                    }
                }
            }
        },
    }


def term_stats(response: Mapping[str, Any]) -> tuple[tuple[TermStat, ...], int]:
    """Term statistics and the number of chunks, from the response to ``terms_body``."""
    buckets = response.get("aggregations", {}).get("terms", {}).get("buckets", {})
    stats = tuple(TermStat(term=term, n_chunks=bucket["doc_count"]) for term, bucket in buckets.items())
    return stats, int(response["hits"]["total"]["value"])


def scored(response: Mapping[str, Any]) -> tuple[dict[str, float], dict[str, ChunkVersion]]:
    """Scores and versions by chunk id, in the leg's order."""
    scores, versions = {}, {}
    for hit in response["hits"]["hits"]:
        scores[hit["_id"]] = float(hit["_score"])
        versions[hit["_id"]] = ChunkVersion(seq_no=hit["_seq_no"], primary_term=hit["_primary_term"])
    return scores, versions


def _body(query: dict[str, Any], size: int) -> dict[str, Any]:
    return {"size": size, "_source": False, "seq_no_primary_term": True, "query": query}
