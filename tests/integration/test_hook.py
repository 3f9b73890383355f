"""The hook from a plain HTTP client: real node, real plugin under the Java agent, real sidecar process."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from half_rows import from_blob
from live import Node, Sidecar, http, start_sidecar

from pincite import resources
from pincite.adapters.models_hash import HashEncoder
from pincite.ingest.walk import walk
from pincite.kernels import reference
from pincite.rank import fusion
from pincite.rank.fusion import FusionConfig
from pincite.wiring.ingest_flow import IngestOptions
from pincite.wiring.sources import extractor_set

QUERY = "who repairs the roof of the bakery before the winter"
DEADLINE_S = 1.0
WORDS = ("roof", "bakery", "winter", "repairs", "barn", "cellar", "garden", "fence", "summer", "paint")


@pytest.fixture(scope="module")
def corpus(node: Node, module_prefix: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """260 one-chunk sources, more than the window; the alias to search."""
    folder = tmp_path_factory.mktemp("clauses")
    rng = np.random.default_rng(7)
    for n in range(260):
        picked = rng.choice(WORDS, size=8)
        (folder / f"{n:03}.txt").write_text(
            f"Clause {n}. The {picked[0]} and the {picked[1]}: {' '.join(picked[2:])}.", encoding="utf-8"
        )
    app = node.app(module_prefix)
    assert app.init().pipelines == (f"{module_prefix}-search",)
    report = app.ingest(walk([folder], extractor_set()), IngestOptions())
    assert report.count("indexed") == 260
    return f"{module_prefix}-chunks"


@pytest.fixture(scope="module")
def sidecar(
    node: Node, module_prefix: str, corpus: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Sidecar]:
    started = start_sidecar(node, module_prefix, tmp_path_factory.mktemp("sidecar") / "log")
    yield started
    started.kill()


def search(node: Node, alias: str, body: dict[str, Any], params: str = "") -> tuple[dict[str, Any], float]:
    start = time.monotonic()
    status, reply = http("POST", f"{node.url}/{alias}/_search?{params}", body)
    assert status == 200, reply
    return reply, time.monotonic() - start


def with_hook(node: Node, alias: str, body: dict[str, Any], params: str = "") -> tuple[dict[str, Any], float]:
    return search(node, alias, body, f"search_pipeline={alias.removesuffix('-chunks')}-search&{params}")


def ext_of(reply: dict[str, Any]) -> dict[str, Any]:
    ext = reply["ext"]["pincite"]
    jsonschema.validate(ext, resources.load_json("contracts/schemas/ext_pincite.schema.json"))
    return ext


def ids(reply: dict[str, Any]) -> list[str]:
    return [hit["_id"] for hit in reply["hits"]["hits"]]


def equal_but_for_order(hooked: dict[str, Any], plain: dict[str, Any]) -> None:
    """Everything but the order and choice of hits, ``took`` and ``ext`` (design.md §3)."""
    left = {k: v for k, v in hooked.items() if k not in ("took", "ext", "hits")}
    right = {k: v for k, v in plain.items() if k not in ("took", "hits")}
    assert left == right
    assert {k: v for k, v in hooked["hits"].items() if k != "hits"} == {
        k: v for k, v in plain["hits"].items() if k != "hits"
    }


def match(text: str = QUERY, **more: Any) -> dict[str, Any]:
    return {"query": {"match": {"text": text}}, **more}


def test_the_order_is_what_reference_and_fusion_say(node: Node, corpus: str, sidecar: Sidecar) -> None:
    more = {"size": 200, "docvalue_fields": ["tokens"], "_source": False}
    plain, _ = search(node, corpus, match(**more))
    encoded = HashEncoder().encode_query(QUERY)
    by_vector, _ = search(
        node, corpus, {"query": {"knn": {"vector": {"vector": encoded.pooled.tolist(), "k": 200}}}, **more}
    )
    bm25 = {h["_id"]: h["_score"] for h in plain["hits"]["hits"]}
    knn = {h["_id"]: h["_score"] for h in by_vector["hits"]["hits"]}
    late = {
        h["_id"]: reference.maxsim(encoded.tokens, from_blob(h["fields"]["tokens"][0], 64))
        for h in [*plain["hits"]["hits"], *by_vector["hits"]["hits"]]
    }
    config = FusionConfig()
    first = fusion.first_stage(bm25, knn, list(bm25 | knn), config)
    fused = fusion.with_maxsim(
        {key: first[key] for key in fusion.ranked(first)}, late, len(encoded.tokens), config
    )
    expected = fusion.ranked(fused)

    hooked, _ = with_hook(node, corpus, match(size=200))
    ext = ext_of(hooked)
    assert ext["status"] == "applied"
    assert ext["window"] == 200
    assert ext["n_candidates"] == len(late) > 200
    assert ext["n_knn_only"] == len(knn.keys() - bm25.keys()) > 0
    assert {leg["name"]: leg["reason"] for leg in ext["legs"]} == {
        "bm25": None,
        "knn": None,
        "centroids": "not_in_index",
    }
    assert ext["model"]["encoder"] == "hash-64@0"
    assert ids(hooked) != ids(plain)
    for hit, place in zip(ext["hits"], range(1, 201), strict=True):
        assert hit["rank"] == place
        assert hit["scores"]["maxsim"] == pytest.approx(late[hit["id"]], abs=2e-3)
        assert hit["score"] == pytest.approx(fused[hit["id"]], abs=2e-3)
    # Equal but where two scores are closer than float16 can tell.
    for mine, theirs in zip(ids(hooked), expected[:200], strict=True):
        assert mine == theirs or abs(fused[mine] - fused[theirs]) < 2e-3


def test_pages_come_from_one_window(node: Node, corpus: str, sidecar: Sidecar) -> None:
    whole = ids(with_hook(node, corpus, match(size=250))[0])
    pages = [
        i for at in range(0, 250, 50) for i in ids(with_hook(node, corpus, match(size=50, **{"from": at}))[0])
    ]
    assert pages == whole
    assert len(set(pages)) == 250
    default, _ = with_hook(node, corpus, match())
    assert ids(default) == whole[:10]


def test_all_other_fields_stay(node: Node, corpus: str, sidecar: Sidecar) -> None:
    body = match(
        size=5,
        aggs={"files": {"terms": {"field": "provenance.file_name", "size": 3}}},
        highlight={"fields": {"text": {}}},
        suggest={"s": {"text": "bakerry", "term": {"field": "text"}}},
        docvalue_fields=["provenance.ordinal"],
        _source=["title"],
    )
    plain, _ = search(node, corpus, body)
    hooked, _ = with_hook(node, corpus, body)
    assert ext_of(hooked)["status"] == "applied"
    equal_but_for_order(hooked, plain)
    for hit in hooked["hits"]["hits"]:
        assert set(hit) == set(plain["hits"]["hits"][0])
        assert "_seq_no" not in hit
    asked, _ = with_hook(node, corpus, body | {"seq_no_primary_term": True})
    assert all("_seq_no" in hit for hit in asked["hits"]["hits"])
    exact, _ = with_hook(node, corpus, body | {"track_total_hits": False})
    assert "total" not in exact["hits"]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"query": {"match_all": {}}}, "no_query_text"),
        (match(size=0), "size_zero"),
        (match(sort=[{"provenance.ordinal": "asc"}]), "sorted"),
        (
            {"query": {"bool": {"must": [{"match": {"text": "roof"}}, {"match": {"text": "barn"}}]}}},
            "no_query_text",
        ),
    ],
)
def test_what_is_not_for_us_passes_through(
    node: Node, corpus: str, sidecar: Sidecar, body: dict[str, Any], reason: str
) -> None:
    plain, _ = search(node, corpus, body)
    hooked, _ = with_hook(node, corpus, body)
    ext = ext_of(hooked)
    assert (ext["status"], ext["reason"]) == ("skipped", reason)
    equal_but_for_order(hooked, plain)
    assert ids(hooked) == ids(plain)


def test_the_query_text_can_be_named(node: Node, corpus: str, sidecar: Sidecar) -> None:
    reply, _ = with_hook(node, corpus, {"query": {"match_all": {}}, "ext": {"pincite": {"query": "bakery roof"}}})
    assert ext_of(reply)["status"] == "applied"


def test_an_index_that_is_not_ours(node: Node, corpus: str, sidecar: Sidecar, module_prefix: str) -> None:
    other = f"{module_prefix}-foreign"
    http("PUT", f"{node.url}/{other}/_doc/1?refresh=true", {"text": "a bakery roof"})
    status, reply = http(
        "POST", f"{node.url}/{other}/_search?search_pipeline={module_prefix}-search", match("bakery roof")
    )
    assert status == 200
    assert (ext_of(reply)["status"], ext_of(reply)["reason"]) == ("skipped", "index_not_pincite")
    assert ids(reply) == ["1"]


def test_inline_pipelines_and_endpoints_in_json_are_refused(node: Node, corpus: str) -> None:
    inline = match(search_pipeline={"response_processors": [{"pincite_rerank": {}}]})
    assert http("POST", f"{node.url}/{corpus}/_search", inline)[0] == 400
    endpoint = {"response_processors": [{"pincite_rerank": {"url": "http://127.0.0.1:1"}}]}
    assert http("PUT", f"{node.url}/_search/pipeline/{corpus}-evil", endpoint)[0] == 400


def test_the_sidecar_wants_token_and_contract(node: Node, corpus: str, sidecar: Sidecar) -> None:
    body = json.loads((resources.path("contracts/examples/hook_rerank_request/valid/two.json")).read_text())
    url = f"{sidecar.url}/v1/hook/rerank"
    status, problem = http("POST", url, body, {"Pincite-Contract": "1"})
    assert status == 401
    jsonschema.validate(problem, resources.load_json("contracts/schemas/problem.schema.json"))
    bearer = {"Authorization": "Bearer integration-test-token"}
    assert http("POST", url, body, {**bearer, "Pincite-Contract": "2"})[0] == 409
    status, reply = http("POST", url, body, {**bearer, "Pincite-Contract": "1"})
    assert status == 200
    jsonschema.validate(reply, resources.load_json("contracts/schemas/hook_rerank_response.schema.json"))
    # Chunks that the index does not hold keep the order of the fused first stage and have no MaxSim.
    assert [r["id"] for r in reply["results"]] == ["b2", "a1"]
    assert all(r["scores"]["maxsim"] is None for r in reply["results"])


def test_with_the_sidecar_killed_the_search_goes_on(node: Node, corpus: str, sidecar: Sidecar) -> None:
    """Last in this module: it kills the module's sidecar."""
    body = match(size=7, aggs={"n": {"value_count": {"field": "provenance.file_name"}}}, **{"from": 3})
    assert ext_of(with_hook(node, corpus, body)[0])["status"] == "applied"
    sidecar.kill()
    plain, _ = search(node, corpus, body)
    hooked, took_s = with_hook(node, corpus, body)
    ext = ext_of(hooked)
    assert (ext["status"], ext["reason"]) == ("unavailable", "sidecar_unreachable")
    assert ext["message"]
    assert ids(hooked) == ids(plain)
    assert hooked["hits"]["hits"] == plain["hits"]["hits"]
    equal_but_for_order(hooked, plain)
    assert took_s < DEADLINE_S + 2.0


def test_a_sidecar_that_never_answers_costs_the_deadline_and_no_more(
    node: Node, corpus: str, tmp_path: Path
) -> None:
    import socket

    with socket.socket() as silent:
        silent.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        silent.bind(("127.0.0.1", node.sidecar_port))
        silent.listen(8)
        plain, _ = search(node, corpus, match())
        hooked, took_s = with_hook(node, corpus, match())
    ext = ext_of(hooked)
    assert (ext["status"], ext["reason"]) == ("unavailable", "sidecar_timeout")
    assert ids(hooked) == ids(plain)
    assert 900 <= ext["took_ms"] < 2500
    assert took_s < DEADLINE_S + 2.0
