"""Token rows of chunk documents, through the memory-mapped cache."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from pincite.adapters.opensearch_chunks import version_of
from pincite.adapters.opensearch_indices import Indices
from pincite.adapters.token_cache import TokenRowCache
from pincite.domain.codec import TokenFormat
from pincite.domain.errors import ContractError
from pincite.domain.protocols import LocatedTokens
from pincite.domain.types import ChunkVersion
from pincite.kernels import blobs

if TYPE_CHECKING:
    from pincite.domain.protocols import ByteArray

#: The cluster's limit on hits of one request (index.max_result_window) is far above it.
_FETCH_AT_ONCE = 1000
_FILL_AT_ONCE = 500

_log = logging.getLogger(__name__)


class StoredTokens:
    """Token rows of chunks of one codec.

    Only scores are made from them, so they are read by the configured account; what a caller may see is
    decided by the search that named the chunks. A chunk whose rows are of another codec, or malformed, is
    left out: it keeps its first-stage place, and the search goes on.

    Args:
        indices: The installation.
        cache: Rows of this codec alone.
        form: The index's token format.
        codec_id: The index's codec.
        n_centroids: Of that codec; None for formats without.
    """

    def __init__(
        self, indices: Indices, cache: TokenRowCache, form: TokenFormat, *, codec_id: str, n_centroids: int | None
    ) -> None:
        self._indices, self._cache, self._form = indices, cache, form
        self._codec_id, self._n_centroids = codec_id, n_centroids

    def locate(self, wanted: Mapping[str, ChunkVersion]) -> LocatedTokens:
        """Rows of exactly these versions; what the cache lacks is read in one request a thousand chunks."""
        found = self._cache.locate(wanted)
        if len(found.ids) == len(wanted):
            return found
        held = set(found.ids)
        missing = [key for key in wanted if key not in held]
        read: dict[str, ByteArray] = {}
        for start in range(0, len(missing), _FETCH_AT_ONCE):
            block = missing[start : start + _FETCH_AT_ONCE]
            hits = self._fetch({"ids": {"values": block}}, len(block))
            items = self._items(hits)
            self._cache.put_many(items)
            read |= {key: rows for key, version, rows in items if version == wanted[key]}
        again = self._cache.locate(wanted)
        if len(again.ids) == len(found.ids) + len(read):
            return again
        # The cache cannot hold them all at once: they are put together for this call alone.
        return _private(again, read, list(wanted))

    def fill_cache(self) -> int:
        """Read chunks into the cache until it is full or holds all; returns how many were read."""
        n = 0
        after: list[Any] | None = None
        while not self._cache.full:
            hits = self._fetch({"match_all": {}}, _FILL_AT_ONCE, after=after)
            items = self._items(hits)
            self._cache.put_many(items)
            n += len(items)
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
            "docvalue_fields": ["tokens", "codec_id"],
            "seq_no_primary_term": True,
            "sort": [{"chunk_id": "asc"}],
        }
        if after is not None:
            body["search_after"] = after
        reply = self._indices.cluster.request("POST", f"/{self._indices.alias('chunks')}/_search", body)
        return list(reply["hits"]["hits"])

    def _items(self, hits: list[Mapping[str, Any]]) -> list[tuple[str, ChunkVersion, ByteArray]]:
        """What can be scored of the hits."""
        out = []
        for hit in hits:
            fields = hit.get("fields", {})
            if not fields.get("tokens") or fields.get("codec_id") != [self._codec_id]:
                continue
            try:
                rows = blobs.from_base64(fields["tokens"][0], self._form, n_centroids=self._n_centroids)
            except ContractError as exc:
                _log.warning("the tokens of chunk %s are left out: %s", hit["_id"], exc.message)
                continue
            out.append((hit["_id"], version_of(hit), rows))
        return out


def _private(found: LocatedTokens, read: Mapping[str, ByteArray], order: list[str]) -> LocatedTokens:
    """Rows of both in one array of this call's own."""
    pieces: dict[str, ByteArray] = {
        key: np.array(found.rows[start : start + length])
        for key, start, length in zip(found.ids, found.starts, found.lengths, strict=True)
    }
    if not found.valid():
        pieces = {}
    pieces |= read
    kept = [key for key in order if key in pieces]
    rows, starts, lengths = blobs.joined([pieces[key] for key in kept], found.rows.shape[1])
    return LocatedTokens(ids=tuple(kept), rows=rows, starts=starts, lengths=lengths, valid=lambda: True)
