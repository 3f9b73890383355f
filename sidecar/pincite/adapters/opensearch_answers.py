"""The answers index: create, read, and compare-and-set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pincite.adapters.opensearch import VersionConflict
from pincite.adapters.opensearch_indices import Indices
from pincite.domain.codes import AnswerState
from pincite.domain.errors import NotFound
from pincite.domain.types import AnswerRecord


class AnswerIndex:
    """Answer documents (contracts/schemas/answer.schema.json), keyed by answer id.

    Args:
        indices: The installation.
        caller: The caller's ``Authorization`` value for reads; None: the configured account.
    """

    def __init__(self, indices: Indices, caller: str | None = None) -> None:
        self._cluster = indices.cluster
        self._alias = indices.alias("answers")
        self._caller = caller

    def create(self, document: Mapping[str, Any]) -> AnswerRecord:
        """Store a new answer document.

        Raises:
            VersionConflict: there is one of that id.
        """
        return self._put(document, {"op_type": "create"})

    def replace(self, record: AnswerRecord, document: Mapping[str, Any]) -> AnswerRecord:
        """Write a document over exactly this version of it.

        Raises:
            VersionConflict: someone else wrote it meanwhile.
        """
        return self._put(document, {"if_seq_no": record.seq_no, "if_primary_term": record.primary_term})

    def get(self, answer_id: str) -> AnswerRecord:
        """The answer document.

        Raises:
            NotFound: ``answer_unknown``.
        """
        try:
            reply = self._cluster.request("GET", f"/{self._alias}/_doc/{answer_id}", caller=self._caller)
        except NotFound as exc:
            if exc.code == "index_missing":
                raise
            raise NotFound("answer_unknown", f"There is no answer {answer_id}.", subject=answer_id) from exc
        return _record(reply["_source"], reply)

    def by_citation(self, citation_id: str) -> list[Mapping[str, Any]]:
        """Answer documents whose evidence holds a citation id, newest first."""
        reply = self._cluster.request(
            "POST",
            f"/{self._alias}/_search",
            {
                "size": 10,
                "query": {"term": {"evidence.citation_id": citation_id}},
                "sort": [{"created_at": "desc"}],
            },
            caller=self._caller,
        )
        return [hit["_source"] for hit in reply["hits"]["hits"]]

    def unfinished(self, before: str) -> list[str]:
        """Ids of answers created before a time (ISO 8601) that are not done, oldest first."""
        reply = self._cluster.request(
            "POST",
            f"/{self._alias}/_search",
            {
                "size": 1000,
                "_source": False,
                "query": {
                    "bool": {
                        "filter": [
                            {"terms": {"state": [AnswerState.QUEUED.value, AnswerState.RUNNING.value]}},
                            {"range": {"created_at": {"lt": before}}},
                        ]
                    }
                },
                "sort": [{"created_at": "asc"}],
            },
        )
        return [hit["_id"] for hit in reply["hits"]["hits"]]

    def _put(self, document: Mapping[str, Any], params: Mapping[str, Any]) -> AnswerRecord:
        # wait_for would cost a refresh interval; readers by id see the document at once anyway.
        reply = self._cluster.request(
            "PUT", f"/{self._alias}/_doc/{document['answer_id']}", dict(document), params=params
        )
        return _record(document, reply)


def _record(document: Mapping[str, Any], reply: Mapping[str, Any]) -> AnswerRecord:
    return AnswerRecord(
        answer_id=document["answer_id"],
        state=AnswerState(document["state"]),
        document=document,
        seq_no=reply["_seq_no"],
        primary_term=reply["_primary_term"],
    )


__all__ = ["AnswerIndex", "VersionConflict"]
