"""Sources in the cluster: their records, and the writing and deleting of their chunks.

The order of writes makes every moment consistent for Pincite's own searches: new chunks are written while
the record still names the old version, then the record is switched, then old chunks are deleted. A reader
accepts only chunks of the version that the record names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pincite.adapters.chunk_documents import to_source
from pincite.adapters.opensearch import VersionConflict, blocked_error
from pincite.adapters.opensearch_indices import Indices
from pincite.domain.errors import NotFound, UpstreamError, UserError
from pincite.domain.protocols import EncodedChunk
from pincite.kernels import blobs

_PAGE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRecord:
    """A record with its version in the cluster, for compare-and-set."""

    document: Mapping[str, Any]
    seq_no: int
    primary_term: int


class SourceIndex:
    """Records and chunks of sources.

    Args:
        indices: The installation.
        chunks: The chunks index to read and write; None: the alias, as always but while re-encoding.
    """

    def __init__(self, indices: Indices, *, chunks: str | None = None) -> None:
        self._indices = indices
        self._cluster = indices.cluster
        self._records = indices.alias("records")
        self._chunks = chunks or indices.alias("chunks")

    def get(self, source_id: str) -> StoredRecord | None:
        """The record of a source, or None."""
        try:
            reply = self._cluster.request("GET", f"/{self._records}/_doc/{source_id}")
        except NotFound as exc:
            if exc.code == "index_missing":
                raise
            return None
        return StoredRecord(
            document=reply["_source"], seq_no=reply["_seq_no"], primary_term=reply["_primary_term"]
        )

    def put(self, document: Mapping[str, Any], previous: StoredRecord | None) -> StoredRecord:
        """Write a record over ``previous``, and only over that.

        Raises:
            UserError: ``source_busy``: another ingest of the same source runs.
        """
        params: dict[str, Any] = {"refresh": "false"}
        if previous is None:
            params["op_type"] = "create"
        else:
            params |= {"if_seq_no": previous.seq_no, "if_primary_term": previous.primary_term}
        try:
            reply = self._cluster.request(
                "PUT", f"/{self._records}/_doc/{document['source_id']}", dict(document), params=params
            )
        except VersionConflict as exc:
            raise UserError(
                "source_busy",
                f"Another ingest of {document['file_name']} is running.",
                mend="Wait for it to end, then run this one again.",
                subject=document["file_name"],
            ) from exc
        return StoredRecord(document=document, seq_no=reply["_seq_no"], primary_term=reply["_primary_term"])

    def remove(self, source_id: str) -> None:
        """Delete a record."""
        try:
            self._cluster.request("DELETE", f"/{self._records}/_doc/{source_id}", params={"refresh": "true"})
        except NotFound:
            return

    def records(self) -> Iterator[Mapping[str, Any]]:
        """All records, by file name."""
        yield from self._scan(self._records, {"match_all": {}}, ["file_name", "source_id"], None)

    def records_named(self, name: str) -> list[Mapping[str, Any]]:
        """Records whose source id or file name is ``name``."""
        self._indices.refresh("records")
        query = {
            "bool": {
                "should": [{"term": {"source_id": name}}, {"term": {"file_name": name}}],
                "minimum_should_match": 1,
            }
        }
        return list(self._scan(self._records, query, ["file_name", "source_id"], None))

    def current_versions(self, source_ids: Iterable[str]) -> dict[str, tuple[str, str, str]]:
        """(content_hash, extractor, chunker) of the version that each source's record names.

        Sources without a record, deleted ones and ones not yet wholly indexed are left out.
        """
        wanted = sorted(set(source_ids))
        if not wanted:
            return {}
        reply = self._cluster.request(
            "POST",
            f"/{self._records}/_mget",
            {"ids": wanted},
            params={"_source_includes": "content_hash,extractor,chunker,status"},
        )
        current = {}
        for doc in reply["docs"]:
            source = doc.get("_source") or {}
            if not source.get("content_hash") or source.get("status") == "deleted":
                continue
            current[doc["_id"]] = (
                source["content_hash"],
                _versioned(source["extractor"]),
                _versioned(source["chunker"]),
            )
        return current

    def chunk_stamps(self, source_id: str) -> dict[str, tuple[Any, ...]]:
        """What each stored chunk of a source was written with, by chunk id."""
        self.refresh_chunks()
        stamps = {}
        fields = [
            "chunk_id",
            "title",
            "date",
            "acl",
            "encoder_id",
            "codec_id",
            "provenance.case_id",
            "provenance.file_name",
        ]
        for doc in self._scan(
            self._chunks, {"term": {"provenance.source_id": source_id}}, ["chunk_id"], fields, routing=source_id
        ):
            p = doc["provenance"]
            stamps[doc["chunk_id"]] = (
                doc["title"],
                doc.get("date"),
                tuple(doc.get("acl") or ()),
                doc["encoder_id"],
                doc["codec_id"],
                p.get("case_id"),
                p["file_name"],
            )
        return stamps

    def write_chunks(
        self,
        chunks: Sequence[EncodedChunk],
        *,
        encoder_id: str,
        codec_id: str,
        ingested_at: str | Mapping[str, str],
    ) -> None:
        """Index chunks: full writes, keyed by chunk id, all of a source on one shard.

        Args:
            chunks: What to write.
            encoder_id: Whose vectors these are.
            codec_id: Whose codes.
            ingested_at: When they came in: one time for all, or one by chunk id.

        Raises:
            UpstreamError: a chunk was refused; those before it are written, and a later run resumes.
        """
        lines: list[Mapping[str, Any]] = []
        for item in chunks:
            source_id = item.chunk.provenance.source_id
            lines.append({"index": {"_index": self._chunks, "_id": item.chunk.chunk_id, "routing": source_id}})
            lines.append(
                to_source(
                    item.chunk,
                    encoder_id=encoder_id,
                    codec_id=codec_id,
                    ingested_at=ingested_at if isinstance(ingested_at, str) else ingested_at[item.chunk.chunk_id],
                )
                | {
                    "vector": [float(x) for x in item.pooled],
                    "tokens": blobs.to_base64(item.rows),
                }
                | ({} if item.centroids is None else {"centroids": list(item.centroids)})
            )
        self._bulk(lines)

    def delete_chunks(self, source_id: str, chunk_ids: Iterable[str]) -> None:
        """Delete chunks of a source; ones that are gone already do no harm."""
        lines = [
            {"delete": {"_index": self._chunks, "_id": chunk_id, "routing": source_id}} for chunk_id in chunk_ids
        ]
        for start in range(0, len(lines), _PAGE):
            self._bulk(lines[start : start + _PAGE])

    def refresh(self) -> None:
        """Make records and chunks visible to searches."""
        self._indices.refresh("records")
        self.refresh_chunks()

    def refresh_chunks(self) -> None:
        """Make chunks visible to searches. Records that are read by id are so at once."""
        self._cluster.request("POST", f"/{self._chunks}/_refresh")

    def chunk_documents(self, source_id: str) -> Iterator[Mapping[str, Any]]:
        """The stored documents of a source's chunks, without vector and tokens."""
        query = {"term": {"provenance.source_id": source_id}}
        return self._scan(self._chunks, query, ["chunk_id"], None, routing=source_id)

    def _bulk(self, lines: Sequence[Mapping[str, Any]]) -> None:
        if not lines:
            return
        for item in self._cluster.bulk(lines):
            error = item.get("error")
            if error is None:
                continue
            blocked = blocked_error(error.get("type", ""), error.get("reason", ""), self._cluster.url)
            raise blocked or UpstreamError(
                "chunk_refused",
                f"The cluster refused chunk {item['_id']}: {error.get('type')}: {error.get('reason')}",
                subject=item["_id"],
                retryable=item.get("status") in (429, 503),
            )

    def _scan(
        self,
        alias: str,
        query: Mapping[str, Any],
        sort: Sequence[str],
        fields: Sequence[str] | None,
        *,
        routing: str | None = None,
    ) -> Iterator[Mapping[str, Any]]:
        body: dict[str, Any] = {"size": _PAGE, "query": query, "sort": [{name: "asc"} for name in sort]}
        if fields is not None:
            body["_source"] = list(fields)
        params = {"routing": routing} if routing else None
        while True:
            hits = self._cluster.request("POST", f"/{alias}/_search", body, params=params)["hits"]["hits"]
            for hit in hits:
                yield hit["_source"]
            if len(hits) < _PAGE:
                return
            body["search_after"] = hits[-1]["sort"]


def _versioned(value: Mapping[str, str]) -> str:
    return f"{value['id']}@{value['version']}"
