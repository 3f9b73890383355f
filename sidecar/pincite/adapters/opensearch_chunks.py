"""The chunks index, read: searches as the caller, passages by id and version, token vectors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pincite.adapters.chunk_documents import from_source
from pincite.adapters.opensearch import Cluster, error_by_status, error_of, ndjson
from pincite.adapters.opensearch_indices import Indices
from pincite.adapters.token_cache import TokenCache
from pincite.domain.errors import ContractError
from pincite.domain.types import ChunkVersion, Passage
from pincite.kernels import blobs

if TYPE_CHECKING:
    from pincite.domain.protocols import FloatArray

_FETCH_AT_ONCE = 500
_FILL_AT_ONCE = 100


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


class StoredTokens:
    """Token vectors of chunk documents, through a bounded cache.

    Only scores are made from them, so they are read by the configured account; what a caller may see is
    decided by the search that named the chunks.
    """

    def __init__(self, indices: Indices, cache: TokenCache, token_dim: int) -> None:
        self._indices, self._cache, self._token_dim = indices, cache, token_dim

    def token_vectors(self, wanted: Mapping[str, ChunkVersion]) -> dict[str, FloatArray]:
        """(n_tokens, token_dim) float32 arrays by id; ids without that version are left out.

        One request for what the cache lacks, 500 chunks at a time.
        """
        found = self._cache.get_many(wanted)
        missing = [chunk_id for chunk_id in wanted if chunk_id not in found]
        for block in _blocks(missing, _FETCH_AT_ONCE):
            for hit in self._fetch({"ids": {"values": block}}, len(block)):
                tokens = self._take(hit)
                if tokens is not None and version_of(hit) == wanted[hit["_id"]]:
                    found[hit["_id"]] = tokens
        return found

    def fill_cache(self) -> int:
        """Read chunks into the cache until it is full or holds all; returns how many were read."""
        n = 0
        after: list[Any] | None = None
        while not self._cache.full:
            hits = self._fetch({"match_all": {}}, _FILL_AT_ONCE, after=after)
            n += sum(self._take(hit) is not None for hit in hits)
            if len(hits) < _FILL_AT_ONCE:
                break
            after = hits[-1]["sort"]
        return n

    def _fetch(
        self, query: Mapping[str, Any], size: int, *, after: list[Any] | None = None
    ) -> list[Mapping[str, Any]]:
        body: dict[str, Any] = {
            "size": size,
            "query": query,
            "_source": False,
            "docvalue_fields": ["tokens"],
            "seq_no_primary_term": True,
            "sort": [{"chunk_id": "asc"}],
        }
        if after is not None:
            body["search_after"] = after
        reply = self._indices.cluster.request("POST", f"/{self._indices.alias('chunks')}/_search", body)
        return list(reply["hits"]["hits"])

    def _take(self, hit: Mapping[str, Any]) -> FloatArray | None:
        """The vectors of a hit, into the cache as well; None when it has none."""
        stored = hit.get("fields", {}).get("tokens")
        if not stored:
            return None
        tokens = blobs.unpack(stored[0], self._token_dim)
        self._cache.put(hit["_id"], version_of(hit), tokens)
        return tokens


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
