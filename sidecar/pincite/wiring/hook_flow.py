"""The sidecar's side of the search-pipeline hook: candidates in, a permutation with scores out."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from pincite.domain.errors import UserError
from pincite.domain.types import ChunkVersion
from pincite.wiring.clock import Clock
from pincite.wiring.parts import LazyEncoder
from pincite.wiring.search_flow import SearchFlow, checked_query

CONTRACT = 1


class HookFlow:
    """Reranks the hook's candidates by what the search flow ranks its own with.

    The fused order is the final one: a cross-encoder would need the candidates' texts, which the hook
    does not send; it stays the gateway's until the hook fetches them.
    """

    def __init__(
        self,
        search: SearchFlow,
        *,
        encoder: LazyEncoder,
    ) -> None:
        self._search, self._encoder = search, encoder

    def legs(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """What the plugin is to search for beside the client's query (contracts/schemas/hook_legs_*.json).

        Raises:
            UserError: the query is not valid.
            ConfigError: the encoder cannot be loaded or is not the index's.
        """
        start = time.perf_counter()
        query = checked_query(request["query"])
        k = int(request["k"])
        legs: dict[str, Any] = {"knn": None, "centroids": None}
        reason = None
        if self._encoder.reads(query):
            encoded = self._encoder.encode_query(query)
            legs["knn"] = {"field": "vector", "vector": [float(x) for x in encoded.pooled], "k": k}
            centroids = self._search.centroid_query(encoded)
            if centroids is not None:
                legs["centroids"] = {"query": centroids, "k": k}
        else:
            reason = "encoder_lacks_language"
        return {
            "contract": CONTRACT,
            "encoder": self._encoder.id_if_loaded or "none",
            "took_ms": (time.perf_counter() - start) * 1e3,
            "reason": reason,
            **legs,
        }

    def rerank(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Answer one request (contracts/schemas/hook_rerank_request.schema.json).

        Raises:
            UserError: ``candidates_repeated``, or the query is not valid.
            ConfigError: the encoder cannot be loaded or is not the index's.
            UpstreamError: the cluster failed.
        """
        start = time.perf_counter()
        clock = Clock()
        candidates = request["candidates"]
        versions = {c["id"]: ChunkVersion(seq_no=c["seq_no"], primary_term=c["primary_term"]) for c in candidates}
        if len(versions) != len(candidates):
            raise UserError("candidates_repeated", "A candidate's id occurs twice.", mend="Send each id once.")
        query = checked_query(request["query"])
        bm25 = {c["id"]: float(c["bm25"]) for c in candidates if c["bm25"] is not None}
        knn = {c["id"]: float(c["knn"]) for c in candidates if c["knn"] is not None}
        centroids = {c["id"]: float(c["centroids"]) for c in candidates if c.get("centroids") is not None}
        encoded = None
        # A query that the encoder cannot read would be ranked by noise: it keeps the first stage's order.
        if self._encoder.reads(query):
            with clock.measure("encode_query"):
                encoded = self._encoder.encode_query(query)
        ranking = self._search.rank(
            bm25, knn or None, versions, encoded, clock, k1=len(versions), centroids=centroids or None
        )
        return {
            "contract": CONTRACT,
            "model": {"encoder": self._encoder.id_if_loaded or "none", "reranker": "identity"},
            "took_ms": (time.perf_counter() - start) * 1e3,
            "stages": [{"name": s.name, "took_ms": s.took_ms} for s in clock.stages],
            "results": [
                {
                    "id": key,
                    "score": ranking.scores[key].get("fused", ranking.scores[key]["first_stage"]),
                    "scores": {
                        name: ranking.scores[key].get(name)
                        for name in ("first_stage", "maxsim", "fused", "cross_encoder")
                    },
                }
                for key in ranking.order
            ],
        }
