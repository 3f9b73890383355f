"""The gateway's search on a real node: both legs, fusion and MaxSim as defined, freshness, degradation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from half_rows import from_blob, to_blob
from live import Node, http

from pincite.adapters.models_hash import HashEncoder
from pincite.domain.errors import UserError
from pincite.domain.types import SearchFilter, SearchResult
from pincite.ingest.walk import walk
from pincite.kernels import reference
from pincite.rank import fusion
from pincite.rank.fusion import FusionConfig
from pincite.wiring.ingest_flow import IngestOptions
from pincite.wiring.services import Services
from pincite.wiring.sources import extractor_set

TOPICS = ("barn", "boat", "bakery", "bridge", "brewery", "bank", "balloon", "barrel")
QUERY = "who repairs the roof of the bakery before winter"


@pytest.fixture(scope="module")
def app(node: Node, module_prefix: str, tmp_path_factory: pytest.TempPathFactory) -> Services:
    folder = tmp_path_factory.mktemp("leases")
    for n, topic in enumerate(TOPICS):
        lines = [
            f"The tenant of the {topic} repairs the roof before winter number {k}; "
            f"the owner of the {topic} pays {n}{k} dollars of rent to the {TOPICS[(n + k) % len(TOPICS)]}."
            for k in range(30)
        ]
        (folder / f"{topic}.txt").write_text(" ".join(lines), encoding="utf-8")
    made = node.app(module_prefix)
    made.ingest(walk([folder], extractor_set()), IngestOptions())
    return made


def search(app: Services, query: str, **kwargs: Any) -> SearchResult:
    return app.search(query, **{"size": 10, "filters": SearchFilter(), "caller": None, **kwargs})


def stored_tokens(node: Node, alias: str) -> dict[str, np.ndarray]:
    _, reply = http(
        "POST",
        f"{node.url}/{alias}/_search",
        {"size": 1000, "query": {"match_all": {}}, "_source": False, "docvalue_fields": ["tokens"]},
    )
    return {h["_id"]: from_blob(h["fields"]["tokens"][0], 64) for h in reply["hits"]["hits"]}


def test_scores_are_what_the_definitions_say(app: Services, node: Node, module_prefix: str) -> None:
    result = search(app, QUERY, size=50)
    vectors = stored_tokens(node, f"{module_prefix}-chunks")
    assert len(result.passages) == min(50, len(vectors))
    encoded = HashEncoder().encode_query(QUERY)
    config = FusionConfig()
    bm25 = {p.chunk.chunk_id: s for p in result.passages if (s := p.score("bm25")) is not None}
    knn = {p.chunk.chunk_id: s for p in result.passages if (s := p.score("knn")) is not None}
    for passage in result.passages:
        key = passage.chunk.chunk_id
        assert passage.score("maxsim") == pytest.approx(
            reference.maxsim(encoded.tokens, vectors[key]), rel=1e-3, abs=1e-3
        )
        # Lucene's k-NN score is (1 + cos) / 2 of the pooled vectors.
        encoder = HashEncoder()
        pooled = encoder.encode_passages([passage.chunk.text], contexts=[passage.chunk.title])[0].pooled
        assert knn[key] == pytest.approx((1 + float(pooled @ encoded.pooled)) / 2, abs=2e-3)
    order = [p.chunk.chunk_id for p in result.passages]
    first = fusion.first_stage(bm25, knn, order, config)
    late = {key: reference.maxsim(encoded.tokens, vectors[key]) for key in order}
    fused = fusion.with_maxsim(first, late, len(encoded.tokens), config)
    for passage in result.passages:
        assert passage.score("fused") == pytest.approx(fused[passage.chunk.chunk_id], abs=2e-3)
    scores = [p.score("fused") for p in result.passages]
    assert scores == sorted(scores, reverse=True)


def test_both_legs_contribute(app: Services) -> None:
    result = search(app, QUERY)
    assert all(p.score("bm25") is not None for p in result.passages[:3])
    assert all(p.score("knn") is not None for p in result.passages)
    assert {s.name for s in result.stages} >= {"encode_query", "first_stage", "fuse", "fetch_tokens", "maxsim"}


def test_pages_are_disjoint_and_in_order(app: Services) -> None:
    whole = [p.chunk.chunk_id for p in search(app, QUERY, size=30).passages]
    pages = [p.chunk.chunk_id for at in (0, 10, 20) for p in search(app, QUERY, from_=at).passages]
    assert pages == whole
    assert len(set(pages)) == len(pages)


class _ShortestFirst:
    reranker_id = "shortest-first"

    def rerank(self, query: str, texts: Sequence[str]) -> list[float]:
        return [-float(len(text)) for text in texts]


def test_a_cross_encoder_sees_one_window_whatever_page_is_asked(
    node: Node, module_prefix: str, app: Services
) -> None:
    other = node.app(module_prefix)
    other.__dict__["_reranker"] = _ShortestFirst()
    whole = search(other, QUERY, size=40).passages
    assert [len(p.chunk.text) for p in whole] == sorted(len(p.chunk.text) for p in whole)
    assert all(p.score("cross_encoder") is not None for p in whole)
    pages = [p.chunk.chunk_id for at in (0, 10, 20, 30) for p in search(other, QUERY, from_=at).passages]
    assert pages == [p.chunk.chunk_id for p in whole]
    # Five passages for a generator are the best of the window, not of the first five.
    assert [p.chunk.chunk_id for p in search(other, QUERY, size=5).passages] == pages[:5]


def test_past_the_end_is_empty(app: Services) -> None:
    assert search(app, QUERY, from_=900).passages == ()


def test_a_question_of_no_known_word_finds_by_vector_alone(app: Services) -> None:
    result = search(app, "xylophone zeppelin", size=3)
    assert len(result.passages) == 3
    assert all(p.score("bm25") is None for p in result.passages)


def test_filters_hold_inside_the_vector_leg(app: Services) -> None:
    result = search(app, "xylophone zeppelin", size=5, filters=SearchFilter(file_names=("boat.txt",)))
    assert {p.chunk.provenance.file_name for p in result.passages} == {"boat.txt"}
    assert len(result.passages) == 5


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("", "question_empty"),
        ("   \n", "question_empty"),
        ("?!", "question_empty"),
        ("x" * 100_000, "question_too_long"),
        ("caf\udce9 lease", "question_not_unicode"),
    ],
)
def test_bad_questions(app: Services, query: str, code: str) -> None:
    for call in (search, lambda a, q: a.ask(q, filters=SearchFilter(), caller=None)):
        with pytest.raises(UserError) as caught:
            call(app, query)
        assert caught.value.code == code


@pytest.mark.parametrize(
    "query",
    ['"unbalanced (quote', "a AND OR NOT *:* _exists_:x", "roof \\ / + - && || ! ( ) { } [ ] ^", "roof\x00roof"],
)
def test_query_syntax_is_plain_text(app: Services, query: str) -> None:
    search(app, query)


def test_a_long_question_within_the_limit(app: Services) -> None:
    # 1,600 words would be more clauses than Lucene takes.
    result = search(app, "roof of the bakery " * 400)
    assert any(p.score("bm25") is not None for p in result.passages)
    assert "lexical_leg:question_shortened" in result.degraded
    assert search(app, "-".join(["roof"] + ["x"] * 4000)).passages
    assert search(app, "房屋" * 4000) is not None


def test_a_changed_chunk_is_never_scored_from_the_cache(node: Node, prefix: str, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("The barn has a red roof.", encoding="utf-8")
    app = node.app(prefix)
    app.ingest(walk([tmp_path], extractor_set()), IngestOptions())
    before = search(app, "barn roof").passages[0]
    # A full write of the same chunk id with other token vectors: only the version tells.
    other = HashEncoder(seed=9).encode_query("nothing alike").tokens
    _, reply = http(
        "GET",
        f"{node.url}/{prefix}-chunks/_doc/{before.chunk.chunk_id}?routing={before.chunk.provenance.source_id}",
    )
    body = reply["_source"] | {"vector": [1.0] + [0.0] * 63, "tokens": to_blob(other)}
    status, _ = http(
        "PUT",
        f"{node.url}/{prefix}-chunks/_doc/{before.chunk.chunk_id}?routing={before.chunk.provenance.source_id}&refresh=true",
        body,
    )
    assert status == 200
    after = search(app, "barn roof").passages[0]
    expected = reference.maxsim(HashEncoder().encode_query("barn roof").tokens, from_blob(to_blob(other), 64))
    assert after.score("maxsim") == pytest.approx(expected, abs=1e-3)
    assert after.score("maxsim") != pytest.approx(before.score("maxsim"), abs=1e-3)


def test_a_chunk_without_token_vectors_stays_in_and_is_reported(node: Node, prefix: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("The barn has a red roof.", encoding="utf-8")
    app = node.app(prefix)
    app.ingest(walk([tmp_path], extractor_set()), IngestOptions())
    passage = search(app, "barn roof").passages[0]
    url = f"{node.url}/{prefix}-chunks/_doc/{passage.chunk.chunk_id}?routing={passage.chunk.provenance.source_id}"
    source = http("GET", url)[1]["_source"]
    http("PUT", f"{url}&refresh=true", source | {"vector": [1.0] + [0.0] * 63})
    result = search(app, "barn roof")
    assert [p.chunk.chunk_id for p in result.passages] == [passage.chunk.chunk_id]
    assert result.passages[0].score("maxsim") is None
    assert "tokens_missing" in result.degraded


def test_an_encoder_that_cannot_load_degrades_to_words(
    node: Node, prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pincite.domain.errors import ConfigError
    from pincite.wiring import parts

    (tmp_path / "a.txt").write_text("The barn has a red roof.", encoding="utf-8")
    node.app(prefix).ingest(walk([tmp_path], extractor_set()), IngestOptions())
    app = node.app(prefix)
    app._require_index()

    def broken(name: str, **_: Any) -> Any:
        raise ConfigError("encoder_missing", "gone")

    monkeypatch.setattr(parts, "load_encoder", broken)
    result = search(app, "barn roof")
    assert len(result.passages) == 1
    assert result.degraded == ("semantic_stages_skipped:encoder_missing",)
    assert result.passages[0].score("knn") is None
