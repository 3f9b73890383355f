"""Filters as they come over the wire (contracts/schemas/search_filter.schema.json)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pincite.domain.types import SearchFilter


def search_filter(value: Mapping[str, Any] | None) -> SearchFilter:
    """A filter from a checked ``search_filter.schema.json`` document."""
    value = value or {}
    return SearchFilter(
        case_ids=tuple(value.get("case_ids", ())),
        file_names=tuple(value.get("file_names", ())),
        source_ids=tuple(value.get("source_ids", ())),
        date_from=value.get("date_from"),
        date_to=value.get("date_to"),
        ingested_from=value.get("ingested_from"),
        ingested_to=value.get("ingested_to"),
    )
