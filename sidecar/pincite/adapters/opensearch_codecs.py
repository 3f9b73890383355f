"""Codec artefacts in the ``codecs`` index, so that any sidecar can start from the cluster alone.

An artefact is cut into parts that fit any cluster's request limit; each part names the whole's sha256. An
artefact is written once and never changed: its id names its content.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pincite.adapters.opensearch import VersionConflict
from pincite.adapters.opensearch_indices import Indices
from pincite.domain.errors import ConfigError, ContractError, NotFound

#: Raw bytes a part; base64 makes a third more of it.
PART_BYTES = 3 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCodec:
    """What the index knows of an artefact without reading it."""

    codec_id: str
    encoder_id: str
    format: str
    n_centroids: int
    n_bytes: int
    created_at: str
    manifest: Mapping[str, Any]


class CodecIndex:
    """Artefacts by codec id."""

    def __init__(self, indices: Indices) -> None:
        self._cluster = indices.cluster
        self._alias = indices.alias("codecs")
        self._indices = indices

    def put(self, raw: bytes, manifest: Mapping[str, Any], *, created_at: str) -> None:
        """Write an artefact; one that is there already is left as it is.

        Args:
            raw: The artefact.
            manifest: Its ``codec_id``, ``encoder_id``, ``format``, ``dim``, ``nbits``, ``n_centroids``,
                ``bit_order`` and facts.
            created_at: When it was made.
        """
        digest = hashlib.sha256(raw).hexdigest()
        parts = [raw[start : start + PART_BYTES] for start in range(0, len(raw), PART_BYTES)]
        # Part 0 goes last: an artefact that can be listed is whole.
        for number in reversed(range(len(parts))):
            document = {
                "codec_id": manifest["codec_id"],
                "encoder_id": manifest["encoder_id"],
                "format": manifest["format"],
                "dim": manifest["dim"],
                "nbits": manifest["nbits"],
                "n_centroids": manifest["n_centroids"],
                "bit_order": manifest["bit_order"],
                "part": number,
                "n_parts": len(parts),
                "sha256": digest,
                "content": base64.b64encode(parts[number]).decode("ascii"),
                "created_at": created_at,
            } | ({"manifest": dict(manifest) | {"n_bytes": len(raw)}} if number == 0 else {})
            try:
                self._cluster.request(
                    "PUT",
                    f"/{self._alias}/_doc/{_key(manifest['codec_id'], number)}",
                    document,
                    params={"op_type": "create"},
                    timeout_s=120,
                )
            except VersionConflict:
                continue
        self._indices.refresh("codecs")

    def get(self, codec_id: str) -> bytes:
        """The artefact of an id.

        Raises:
            ConfigError: ``codec_missing``.
            ContractError: ``codec_malformed``: its bytes are not those that were written.
        """
        first = self._part(codec_id, 0)
        parts = [first, *(self._part(codec_id, number) for number in range(1, int(first["n_parts"])))]
        raw = b"".join(base64.b64decode(part["content"]) for part in parts)
        if hashlib.sha256(raw).hexdigest() != first["sha256"]:
            raise ContractError(
                "codec_malformed",
                f"The codec {codec_id} in {self._alias} is not what was written there.",
                mend=f"Delete its documents in {self._alias} and store it again.",
                subject=codec_id,
            )
        return raw

    def has(self, codec_id: str) -> bool:
        """Whether the artefact is there."""
        try:
            self._part(codec_id, 0, source=False)
        except ConfigError:
            return False
        return True

    def all(self) -> list[StoredCodec]:
        """All artefacts, the newest first."""
        reply = self._cluster.request(
            "POST",
            f"/{self._alias}/_search",
            {
                "size": 1000,
                "query": {"term": {"part": 0}},
                "_source": {"excludes": ["content"]},
                "sort": [{"created_at": "desc"}, {"codec_id": "asc"}],
            },
        )
        return [
            StoredCodec(
                codec_id=source["codec_id"],
                encoder_id=source["encoder_id"],
                format=source["format"],
                n_centroids=source["n_centroids"],
                n_bytes=source["manifest"]["n_bytes"],
                created_at=source["created_at"],
                manifest=source["manifest"],
            )
            for source in (hit["_source"] for hit in reply["hits"]["hits"])
        ]

    def _part(self, codec_id: str, number: int, *, source: bool = True) -> Mapping[str, Any]:
        try:
            reply = self._cluster.request(
                "GET",
                f"/{self._alias}/_doc/{_key(codec_id, number)}",
                params=None if source else {"_source": "false"},
                timeout_s=60,
            )
        except NotFound as exc:
            raise ConfigError(
                "codec_missing",
                f"The codec {codec_id} is not in {self._alias}.",
                mend="`pincite codec status` lists what is there; restore the index from a snapshot, or re-encode "
                "with `pincite codec migrate`.",
                subject=codec_id,
            ) from exc
        found: Mapping[str, Any] = reply.get("_source") or {}
        return found


def _key(codec_id: str, number: int) -> str:
    return f"{hashlib.sha256(codec_id.encode()).hexdigest()[:32]}-{number}"
