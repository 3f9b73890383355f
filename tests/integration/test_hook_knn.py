"""The hook's k-NN leg on the real k-NN plugin, under the Java agent; a stub says the legs and keeps the order."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from live import Node, http

N_DOCS = 40
SEARCH = {
    "query": {
        "bool": {
            "must": [{"match": {"text": "tenant"}}],
            "filter": [{"term": {"acl": "open"}}],
            "must_not": [{"term": {"page": 3}}],
        }
    },
    "post_filter": {"range": {"page": {"lte": 35}}},
    "size": 40,
}


class _Stub(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        reply: dict[str, Any] = {"contract": 1, "took_ms": 0.1}
        if self.path == "/v1/hook/legs":
            clause = {"constant_score": {"filter": {"term": {"centroids": "1"}}, "boost": 0.5}}
            dis_max = {"dis_max": {"tie_breaker": 0.0, "queries": [clause]}}
            reply |= {
                "encoder": "stub",
                "reason": None,
                "knn": {"field": "vector", "vector": [1.0, 0.0], "k": 5},
                "centroids": {"query": {"bool": {"should": [dis_max]}}, "k": body["k"]},
            }
        else:
            scores = {"first_stage": None, "maxsim": 0.5, "fused": None, "cross_encoder": None}
            n = len(body["candidates"])
            reply |= {
                "model": {"encoder": "stub", "reranker": "none"},
                "stages": [],
                "results": [
                    {"id": c["id"], "score": n - i, "scores": scores} for i, c in enumerate(body["candidates"])
                ],
            }
        raw = json.dumps(reply).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def stub(node: Node) -> Iterator[None]:
    server = ThreadingHTTPServer(("127.0.0.1", node.sidecar_port), _Stub)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def index(node: Node, prefix: str) -> Iterator[str]:
    """Two shards; the vector of document i turns away from the query's as i grows; even ones are about tenants."""
    name = f"{prefix}-knn"
    vector = {
        "type": "knn_vector",
        "dimension": 2,
        "method": {"name": "hnsw", "engine": "lucene", "space_type": "cosinesimil"},
    }
    fields = {
        "text": {"type": "text"},
        "acl": {"type": "keyword"},
        "page": {"type": "integer"},
        "centroids": {"type": "keyword"},
        "vector": vector,
    }
    body = {
        "settings": {"index": {"knn": True, "number_of_shards": 2, "number_of_replicas": 0}},
        "mappings": {"_meta": {"pincite": {"encoder": "stub"}}, "properties": fields},
    }
    assert http("PUT", f"{node.url}/{name}", body)[0] == 200
    pipeline: dict[str, Any] = {
        "request_processors": [{"pincite_window": {}}],
        "response_processors": [{"pincite_rerank": {}}],
    }
    assert http("PUT", f"{node.url}/_search/pipeline/{name}", pipeline)[0] == 200
    for i in range(N_DOCS):
        document = {
            "text": "the tenant pays" if i % 2 == 0 else "a landlord waits",
            "acl": "open" if i % 4 < 2 else "closed",
            "page": i,
            "centroids": [str(i % 10)],
            "vector": [1.0, i / 10],
        }
        assert http("PUT", f"{node.url}/{name}/_doc/d{i}", document)[0] == 201
    assert http("POST", f"{node.url}/{name}/_refresh", {})[0] == 200
    yield name
    http("DELETE", f"{node.url}/{name}", None)


@pytest.mark.usefixtures("stub")
def test_the_filters_stand_inside_the_knn_clause(node: Node, index: str) -> None:
    # A deadline that a cold node keeps.
    assert http("PUT", f"{node.url}/_cluster/settings", {"persistent": {"pincite.deadline_ms": 20000}})[0] == 200
    try:
        status, reply = http("POST", f"{node.url}/{index}/_search?search_pipeline={index}", SEARCH)
    finally:
        http("PUT", f"{node.url}/_cluster/settings", {"persistent": {"pincite.deadline_ms": None}})
    assert status == 200, reply
    ext = reply["ext"]["pincite"]
    assert (ext["status"], ext["reason"]) == ("applied", None)
    legs = {leg["name"]: leg for leg in ext["legs"]}
    assert [leg["reason"] for leg in legs.values()] == [None, None, None]
    passing = [i for i in range(N_DOCS) if i % 4 < 2 and i != 3 and i <= 35]
    found = {hit["_id"] for hit in reply["hits"]["hits"]}
    assert found <= {f"d{i}" for i in passing}
    # k is for each shard: the five nearest that pass are found though most of the nearest do not.
    assert {f"d{i}" for i in passing[:5]} <= found
    assert 5 <= legs["knn"]["n_hits"] <= 10
    assert "d21" in found and legs["centroids"]["n_hits"] >= 2
    assert not any("vector" in hit["_source"] or "centroids" in hit["_source"] for hit in reply["hits"]["hits"])
    plain = http("POST", f"{node.url}/{index}/_search", SEARCH)[1]
    assert reply["hits"]["total"] == plain["hits"]["total"]
    knn_only = next(hit for hit in ext["hits"] if hit["id"] == "d1")
    assert 0.5 < knn_only["scores"]["knn"] <= 1.0
