"""``POST /v1/rerank`` tested against the documented wire format of stock rerank connectors.

No connector runs here: each case is the body that its documentation says it sends, put together from the
documented template, and the paths that its documentation says it reads from the reply. What the documents say:

- OpenSearch ml-commons, Cohere Rerank (blueprint and tutorial): ``documents``, ``query``, ``model``, ``top_n``;
  ``connector.post_process.cohere.rerank`` reads ``$.results`` and puts the scores back in the documents' order.
- OpenSearch ml-commons, Cohere Rerank on Amazon Bedrock (blueprint): ``documents``, ``query``, ``api_version``,
  read by the same function.
- Cohere's own API, versions 1 and 2: also ``return_documents``, ``max_chunks_per_doc``, ``max_tokens_per_doc``,
  ``rank_fields`` and documents as objects with ``text``.
- Elasticsearch inference, service ``custom``, task ``rerank`` (the documented template for Cohere and for Jina on
  one's own machines): ``documents``, ``query``, ``model``, with or without ``top_n`` and ``return_documents``; it
  reads ``$.results[*].index``, ``$.results[*].relevance_score`` and, if asked, the document's text.

Connectors of another shape (``queries`` and ``sources`` of Bedrock's agent runtime, ``text_docs`` of OpenSearch's
local cross-encoders, ``texts`` of text-embeddings-inference) are not served.
"""

from __future__ import annotations

from typing import Any

import pytest
from flask.testing import FlaskClient
from tiny_services import TinyServices

from pincite.serve.app import create_app
from pincite.wiring import contracts

QUERY = "may the tenant sublet"
DOCUMENTS = [
    "rent is due monthly",
    "the tenant may sublet with consent",
    "the tenant pays",
    "may the tenant sublet",
]
OBJECTS = [{"text": text, "title": f"clause {i}"} for i, text in enumerate(DOCUMENTS)]

REQUESTS: dict[str, dict[str, Any]] = {
    "ml-commons, Cohere": {"documents": DOCUMENTS, "query": QUERY, "model": "rerank-english-v2.0", "top_n": 4},
    "ml-commons, Cohere on Bedrock": {"documents": DOCUMENTS, "query": QUERY, "api_version": 2},
    "Cohere v1": {
        "model": "rerank-english-v3.0",
        "query": QUERY,
        "documents": DOCUMENTS,
        "top_n": 4,
        "return_documents": False,
        "max_chunks_per_doc": 10,
    },
    "Cohere v1, objects": {
        "model": "rerank-english-v3.0",
        "query": QUERY,
        "documents": OBJECTS,
        "rank_fields": ["text"],
        "return_documents": True,
    },
    "Cohere v2": {"model": "rerank-v3.5", "query": QUERY, "documents": DOCUMENTS, "max_tokens_per_doc": 4096},
    "Elasticsearch custom, Cohere": {
        "documents": DOCUMENTS,
        "query": QUERY,
        "model": "rerank-english-v3.0",
        "top_n": 4,
        "return_documents": True,
    },
    "Elasticsearch custom, Jina": {
        "model": "jina-reranker-v2-base-multilingual",
        "query": QUERY,
        "documents": DOCUMENTS,
    },
}


@pytest.fixture
def client() -> FlaskClient:
    return create_app(TinyServices()).test_client()


def post(client: FlaskClient, body: dict[str, Any]) -> dict[str, Any]:
    response = client.post("/v1/rerank", json=body)
    assert response.status_code == 200, response.get_data(as_text=True)
    reply: dict[str, Any] = response.get_json()
    assert contracts.violation("rerank_response", reply) is None
    return reply


@pytest.mark.parametrize("name", REQUESTS)
def test_the_reply_has_what_the_documented_paths_read(client: FlaskClient, name: str) -> None:
    results = post(client, REQUESTS[name])["results"]
    assert sorted(r["index"] for r in results) == [0, 1, 2, 3]
    assert all(type(r["index"]) is int and type(r["relevance_score"]) is float for r in results)
    scores = [r["relevance_score"] for r in results]
    assert scores == sorted(scores, reverse=True)
    assert results[0]["index"] == 3
    # The post-processing of ml-commons: the scores in the order of the documents, one for each.
    by_document = [r["relevance_score"] for r in sorted(results, key=lambda r: int(r["index"]))]
    assert len(by_document) == len(DOCUMENTS)
    assert max(by_document) == by_document[3]
    if REQUESTS[name].get("return_documents"):
        assert [r["document"]["text"] for r in results] == [DOCUMENTS[r["index"]] for r in results]
    else:
        assert all("document" not in r for r in results)


def test_every_connector_gets_the_same_scores(client: FlaskClient) -> None:
    replies = [
        [(r["index"], r["relevance_score"]) for r in post(client, body)["results"]] for body in REQUESTS.values()
    ]
    assert all(reply == replies[0] for reply in replies)


def test_top_n_cuts_after_ranking(client: FlaskClient) -> None:
    full = post(client, REQUESTS["Elasticsearch custom, Jina"])["results"]
    for top_n in (1, 3, 4, 100):
        body = REQUESTS["ml-commons, Cohere"] | {"top_n": top_n}
        assert post(client, body)["results"] == full[:top_n]


@pytest.mark.parametrize("extra", [{"top_n": None}, {"return_documents": None}, {"model": None}])
def test_a_template_with_an_empty_parameter(client: FlaskClient, extra: dict[str, Any]) -> None:
    assert len(post(client, REQUESTS["Cohere v2"] | extra)["results"]) == len(DOCUMENTS)
