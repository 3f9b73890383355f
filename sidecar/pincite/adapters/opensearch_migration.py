"""A second chunks index beside the one in use, and the switch of the alias from one to the other.

Chunk documents cannot be reindexed by the cluster (their vectors and codes are outside ``_source``), so an
index with another codec is filled by full writes and takes the alias over when it is whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from pincite.adapters.opensearch_indices import IndexModel, Indices
from pincite.domain.errors import ConfigError, NotFound, UpstreamError

_NUMBER = re.compile(r"-v1-(\d{6})$")


class ChunkMigration:
    """The chunks indices of one installation."""

    def __init__(self, indices: Indices) -> None:
        self._indices = indices
        self._cluster = indices.cluster
        self._alias = indices.alias("chunks")

    def current(self) -> str:
        """The index behind the alias.

        Raises:
            NotFound: ``index_missing``.
            ConfigError: ``alias_ambiguous``.
        """
        try:
            found = sorted(self._cluster.request("GET", f"/_alias/{self._alias}"))
        except NotFound as exc:
            raise NotFound("index_missing", "There is no Pincite index yet.", mend="Run `pincite init`.") from exc
        if len(found) != 1:
            raise ConfigError(
                "alias_ambiguous",
                f"{len(found)} indices are behind {self._alias}: {', '.join(found)}.",
                mend="Leave one index behind it.",
                subject=self._alias,
            )
        return str(found[0])

    def open_target(self, model: IndexModel) -> str:
        """The index to fill: one that an interrupted run left for this codec, else a new one."""
        taken = self._all()
        current = self.current()
        for name, codec_id in taken.items():
            if name != current and codec_id == model.codec_id:
                return name
        number = 1 + max(int(found[1]) for name in taken if (found := _NUMBER.search(name)) is not None)
        target = f"{self._alias}-v1-{number:06d}"
        template = self._indices.template("chunks", model)["template"]
        try:
            self._cluster.request("PUT", f"/{target}", template)
        except UpstreamError as exc:
            if exc.detail.get("type") != "resource_already_exists_exception":
                raise
        self._cluster.request(
            "GET",
            f"/_cluster/health/{target}",
            params={"wait_for_status": "yellow", "timeout": "30s"},
            timeout_s=40,
        )
        return target

    def unfinished(self) -> dict[str, str]:
        """Indices that an interrupted run left, with their codec id."""
        current = self.current()
        return {name: codec_id for name, codec_id in self._all().items() if name != current}

    def switch(self, old: str, new: str) -> None:
        """Give the alias to ``new``, in one step."""
        self._cluster.request(
            "POST",
            "/_aliases",
            {
                "actions": [
                    {"remove": {"index": old, "alias": self._alias}},
                    {"add": {"index": new, "alias": self._alias, "is_write_index": True}},
                ]
            },
        )

    def drop(self, index: str) -> None:
        """Delete an index that is no longer behind the alias."""
        self._cluster.request("DELETE", f"/{index}")

    def count(self, index: str) -> int:
        """Documents of an index."""
        return int(self._cluster.request("GET", f"/{index}/_count")["count"])

    def codec_counts(self) -> dict[str, int]:
        """Chunks by the codec that their codes were made with."""
        reply = self._cluster.request(
            "POST",
            f"/{self._alias}/_search",
            {"size": 0, "aggs": {"codecs": {"terms": {"field": "codec_id", "size": 100}}}},
        )
        return {b["key"]: int(b["doc_count"]) for b in reply["aggregations"]["codecs"]["buckets"]}

    def n_tokens(self) -> int:
        """Tokens of all chunks."""
        reply = self._cluster.request(
            "POST", f"/{self._alias}/_search", {"size": 0, "aggs": {"n": {"sum": {"field": "n_tokens"}}}}
        )
        return int(reply["aggregations"]["n"]["value"])

    def sample(self, n: int) -> list[tuple[str, str]]:
        """(text, title) of ``n`` chunks. Chunk ids are hashes, so the first of them are a random sample."""
        hits = self._cluster.request(
            "POST",
            f"/{self._alias}/_search",
            {"size": n, "query": {"match_all": {}}, "_source": ["text", "title"], "sort": [{"chunk_id": "asc"}]},
        )["hits"]["hits"]
        return [(hit["_source"]["text"], hit["_source"]["title"]) for hit in hits]

    def source_ids(self, index: str) -> Iterator[str]:
        """Sources that have chunks in an index."""
        after = None
        while True:
            composite: dict[str, object] = {
                "size": 1000,
                "sources": [{"source": {"terms": {"field": "provenance.source_id"}}}],
            }
            if after is not None:
                composite["after"] = after
            reply = self._cluster.request(
                "POST", f"/{index}/_search", {"size": 0, "aggs": {"all": {"composite": composite}}}
            )["aggregations"]["all"]
            yield from (bucket["key"]["source"] for bucket in reply["buckets"])
            after = reply.get("after_key")
            if after is None:
                return

    def _all(self) -> dict[str, str]:
        reply = self._cluster.request("GET", f"/{self._alias}-v1-*/_mapping")
        return {
            name: str(body["mappings"].get("_meta", {}).get("pincite", {}).get("codec_id"))
            for name, body in sorted(reply.items())
        }
