"""The chunks index, read: searches as the caller, passages by id and version."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pincite.adapters.chunk_documents import from_source
from pincite.adapters.opensearch import Cluster, error_by_status, error_of, ndjson
from pincite.adapters.opensearch_indices import Indices
from pincite.domain.errors import ContractError
from pincite.domain.types import ChunkVersion, Passage

_FETCH_AT_ONCE = 500


class ChunkIndex:
    """Chunks as one caller may see them.

    Args:
        indices: The installation.
        caller: The caller's ``Authorization`` value; None: the configured account.
    """

    def __init__(self, indices: Indices, caller: str | None = None) -> None:
        self._indices = indices
        self._cluster: Cluster = indices.cluster
        self._caller = caller
        self._alias = indices.alias("chunks")

    def search(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """A raw ``_search`` on the chunks alias."""
        reply: Mapping[str, Any] = self._cluster.request(
            "POST", f"/{self._alias}/_search", dict(body), caller=self._caller
        )
        return reply

    def msearch(self, bodies: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """Several searches in one request; one that failed raises, as it would alone."""
        lines: list[Mapping[str, Any]] = []
        for body in bodies:
            lines += [{"index": self._alias}, body]
        reply = self._cluster.request("POST", "/_msearch", ndjson(lines), caller=self._caller)
        for one in reply["responses"]:
            if "error" in one:
                kind, reason = error_of(one)
                raise error_by_status(
                    int(one.get("status", 500)), kind, reason, url=self._cluster.url, what="_msearch"
                )
        return list(reply["responses"])

    def count(self) -> int:
        """How many chunks the caller sees."""
        return int(self._cluster.request("GET", f"/{self._alias}/_count", caller=self._caller)["count"])

    def get_passages(self, ids: Mapping[str, ChunkVersion | None]) -> dict[str, Passage]:
        """The chunks that exist in exactly that version (any version for None), by id."""
        found: dict[str, Passage] = {}
        for block in _blocks(list(ids), _FETCH_AT_ONCE):
            reply = self.search(
                {"size": len(block), "query": {"ids": {"values": block}}, "seq_no_primary_term": True}
            )
            for hit in reply["hits"]["hits"]:
                version = version_of(hit)
                if ids[hit["_id"]] in (None, version):
                    found[hit["_id"]] = Passage(chunk=_chunk(hit), version=version)
        return found


def version_of(hit: Mapping[str, Any]) -> ChunkVersion:
    """The version of a hit of a search with ``seq_no_primary_term``."""
    return ChunkVersion(seq_no=hit["_seq_no"], primary_term=hit["_primary_term"])


def _chunk(hit: Mapping[str, Any]) -> Any:
    try:
        return from_source(hit["_source"])
    except (KeyError, TypeError) as exc:
        raise ContractError(
            "chunk_malformed",
            f"The document {hit['_id']} in {hit['_index']} is not a chunk: {exc} is missing.",
            mend="Something other than Pincite wrote to the chunks index; delete that document.",
            subject=hit["_id"],
        ) from exc


def _blocks(items: list[str], size: int) -> Iterable[list[str]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
