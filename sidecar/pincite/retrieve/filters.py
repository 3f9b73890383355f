"""Search filters as query clauses; they go inside every leg, so that k results mean k that pass."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date
from typing import Any

from pincite.domain.errors import UserError
from pincite.domain.types import SearchFilter

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


def clauses(filters: SearchFilter) -> list[dict[str, Any]]:
    """Filter clauses, all of which must hold.

    Raises:
        UserError: ``date_invalid``.
    """
    out: list[dict[str, Any]] = []
    if filters.case_ids:
        out.append({"terms": {"provenance.case_id": list(filters.case_ids)}})
    if filters.source_ids:
        out.append({"terms": {"provenance.source_id": list(filters.source_ids)}})
    if filters.file_names:
        out.append(_any([_file(name) for name in filters.file_names]))
    for field, low, high in (
        ("date", filters.date_from, filters.date_to),
        ("ingested_at", filters.ingested_from, filters.ingested_to),
    ):
        if low is not None or high is not None:
            bounds = {}
            if low is not None:
                bounds["gte"] = day(low)
            if high is not None:
                bounds["lte"] = day(high)
            out.append({"range": {field: bounds | {"format": "strict_date"}}})
    return out


def _file(name: str) -> dict[str, Any]:
    if "*" in name:
        return {"wildcard": {"provenance.file_name": {"value": name.replace("?", "\\?")}}}
    return {"term": {"provenance.file_name": name}}


def _any(options: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return options[0] if len(options) == 1 else {"bool": {"should": options, "minimum_should_match": 1}}


def day(value: str) -> str:
    """A date as ``YYYY-MM-DD``.

    Raises:
        UserError: ``date_invalid``.
    """
    try:
        if not _DAY.fullmatch(value):
            raise ValueError(value)
        return date.fromisoformat(value).isoformat()
    except ValueError as exc:
        raise UserError(
            "date_invalid",
            f"{value!r} is not a date.",
            mend="Write dates as YYYY-MM-DD.",
            subject=value,
        ) from exc
