"""The sidecar's side of the hook, where it needs neither model nor cluster."""

from __future__ import annotations

from typing import Any, cast

import jsonschema
import pytest

from pincite import resources
from pincite.adapters.models_hash import HashEncoder
from pincite.domain.errors import UserError
from pincite.rank.fusion import FusionConfig
from pincite.rank.identity import IdentityReranker
from pincite.wiring.hook_flow import HookFlow
from pincite.wiring.parts import LazyEncoder
from pincite.wiring.search_flow import SearchFlow


def no_tokens() -> Any:
    raise AssertionError("token vectors must not be read")


def flow(name: str = "minilm") -> HookFlow:
    encoder = LazyEncoder(name)
    search = SearchFlow(
        cast("Any", None),
        encoder=encoder,
        late=no_tokens,
        reranker=IdentityReranker(),
        config=FusionConfig(),
        k1=2,
    )
    return HookFlow(search, encoder=encoder)


def request(query: str, *scores: float) -> dict[str, Any]:
    return {
        "query": query,
        "candidates": [
            {"id": f"d{n}", "seq_no": n, "primary_term": 1, "bm25": score, "knn": None}
            for n, score in enumerate(scores)
        ],
    }


def test_a_query_that_the_encoder_cannot_read_keeps_the_first_stages_order() -> None:
    reply = flow().rerank(request("个人信息处理者的义务", 9.0, 7.0, 3.0))
    jsonschema.validate(reply, resources.load_json("contracts/schemas/hook_rerank_response.schema.json"))
    assert [r["id"] for r in reply["results"]] == ["d0", "d1", "d2"]
    assert all(r["scores"]["maxsim"] is None for r in reply["results"])
    assert reply["model"]["encoder"] == "none"


def test_ties_keep_the_first_stages_order() -> None:
    reply = flow().rerank(request("义务", 5.0, 5.0, 5.0))
    assert [r["id"] for r in reply["results"]] == ["d0", "d1", "d2"]


def test_an_id_that_occurs_twice_is_refused() -> None:
    body = request("义务", 5.0)
    body["candidates"] *= 2
    with pytest.raises(UserError) as caught:
        flow().rerank(body)
    assert caught.value.code == "candidates_repeated"


def test_no_legs_for_a_query_that_the_encoder_cannot_read() -> None:
    reply = flow().legs({"query": "个人信息处理者的义务", "k": 10})
    jsonschema.validate(reply, resources.load_json("contracts/schemas/hook_legs_response.schema.json"))
    assert (reply["knn"], reply["centroids"], reply["reason"]) == (None, None, "encoder_lacks_language")


def test_the_legs_of_a_query() -> None:
    reply = flow("hash").legs({"query": "barn roof", "k": 10})
    jsonschema.validate(reply, resources.load_json("contracts/schemas/hook_legs_response.schema.json"))
    assert reply["knn"]["k"] == 10
    pooled = HashEncoder().encode_query("barn roof").pooled
    assert reply["knn"]["vector"] == pytest.approx([float(x) for x in pooled])
    assert reply["centroids"] is None
