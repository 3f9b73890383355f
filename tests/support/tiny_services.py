"""A small, complete implementation of the flows behind the sidecar and the worker, in memory.

It searches three passages by shared words, so that the sidecar's own behaviour can be tested without a
cluster or a model. The composed flows are tested against a real node elsewhere.
"""

from __future__ import annotations

import math
import re
import threading
import time
from collections import Counter
from typing import Any, Literal

from pincite.domain.codes import AnswerState
from pincite.domain.errors import NotFound
from pincite.domain.ids import chunk_id, content_hash, new_answer_id
from pincite.domain.types import (
    Chunk,
    ChunkVersion,
    Passage,
    Provenance,
    SearchFilter,
    SearchResult,
    Span,
    StageScore,
    StageTime,
    Versioned,
)

EXTRACTOR = Versioned(id="text", version="1")
CHUNKER = Versioned(id="forensic", version="1")
TEXTS = {
    "lease.txt": "The tenant shall not sublet the premises without consent.",
    "loan.txt": "The borrower repays the loan in twelve instalments.",
    "notice.txt": "未经房东书面同意,租客不得转租。🏠",
}


def words(text: str) -> Counter[str]:
    """The words of a text, counted."""
    return Counter(re.findall(r"\w+", text.lower()))


def overlap(query: str, text: str) -> float:
    """Cosine of the word counts, in [0, 1]."""
    a, b = words(query), words(text)
    norm = math.sqrt(sum(v * v for v in a.values()) * sum(v * v for v in b.values()))
    return sum(a[w] * b[w] for w in a) / norm if norm else 0.0


def passage(file_name: str, text: str) -> Passage:
    """A whole text as one passage."""
    raw, span = content_hash(text.encode()), Span(start=0, end=len(text))
    return Passage(
        chunk=Chunk(
            chunk_id=chunk_id(file_name, raw, EXTRACTOR, span, CHUNKER),
            text=text,
            title=file_name,
            n_tokens=max(1, len(words(text))),
            media_type="text/plain",
            provenance=Provenance(
                source_id=file_name,
                content_hash=raw,
                file_name=file_name,
                case_id=None,
                passage_id="p0",
                ordinal=0,
                token_span=Span(start=0, end=max(1, len(words(text)))),
                char_span=span,
                page_start=None,
                page_end=None,
                page_label_start=None,
                page_label_end=None,
                section_path=(),
                extractor=EXTRACTOR,
                chunker=CHUNKER,
                ingest_run="0" * 16,
            ),
        ),
        version=ChunkVersion(seq_no=0, primary_term=1),
    )


class TinyServices:
    """The flows.

    Args:
        queued: Leave an answer queued, as with a broker; ``finish`` makes it.
    """

    def __init__(self, *, queued: bool = False) -> None:
        self.queued = queued
        self.callers: list[str | None] = []
        self.closed = False
        self._answers: dict[str, dict[str, Any]] = {}
        self._lock = threading.Lock()

    def search(
        self, query: str, *, size: int = 10, from_: int = 0, filters: SearchFilter, caller: str | None
    ) -> SearchResult:
        self.callers.append(caller)
        began = time.perf_counter()
        found = [
            passage(name, text)
            for name, text in TEXTS.items()
            if not filters.file_names or name in filters.file_names
        ]
        found.sort(key=lambda p: -overlap(query, p.chunk.text))
        ranked = tuple(
            Passage(
                chunk=p.chunk,
                version=p.version,
                scores=(StageScore(stage="words", score=overlap(query, p.chunk.text), rank=rank),),
            )
            for rank, p in enumerate(found, start=1)
        )
        return SearchResult(
            query=query,
            passages=ranked[from_ : from_ + size],
            total=len(ranked),
            stages=(StageTime(name="words", took_ms=(time.perf_counter() - began) * 1000),),
            models={"encoder": "words@1"},
        )

    def ask(self, question: str, *, filters: SearchFilter, caller: str | None) -> dict[str, Any]:
        self.callers.append(caller)
        answer_id = new_answer_id()
        document: dict[str, Any] = {
            "contract": 1,
            "answer_id": answer_id,
            "state": str(AnswerState.QUEUED),
            "question": {"text": question, "filters": {}, "terms": [], "n_chunks": len(TEXTS)},
            "outcome": None,
            "text": "",
            "sentences": [],
            "refusal": None,
            "dropped": [],
            "evidence": [],
            "stages": [],
            "models": {},
            "prompt": None,
            "answerability": None,
            "degraded": [],
            "n_generations": 0,
            "n_attempts": 0,
            "created_at": "2026-01-01T00:00:00Z",
            "finished_at": None,
            "acl": [],
        }
        with self._lock:
            self._answers[answer_id] = document
        return document if self.queued else self.run_answer(answer_id)

    def run_answer(self, answer_id: str) -> dict[str, Any]:
        refusal = {"reason": "no_evidence", "message": "Nothing was found.", "detail": None}
        with self._lock:
            old = self._answers[answer_id]
            done = {
                **old,
                "state": str(AnswerState.DONE),
                "outcome": "refusal",
                "text": refusal["message"],
                "refusal": refusal,
                "n_attempts": old["n_attempts"] + 1,
                "finished_at": "2026-01-01T00:00:01Z",
            }
            self._answers[answer_id] = done
        return done

    def get_answer(self, answer_id: str, *, caller: str | None) -> dict[str, Any]:
        self.callers.append(caller)
        try:
            return self._answers[answer_id]
        except KeyError:
            raise NotFound("answer_unknown", "There is no answer of that id.", subject=answer_id) from None

    def hook_legs(self, request: dict[str, Any]) -> dict[str, Any]:
        return {
            "contract": 1,
            "encoder": "words@1",
            "took_ms": 0.0,
            "reason": None,
            "knn": {"field": "vector", "vector": [1.0, 0.0], "k": request["k"]},
            "centroids": None,
        }

    def hook_rerank(self, request: dict[str, Any]) -> dict[str, Any]:
        # Longer ids first: any order that differs from the first stage's will do here.
        scored = sorted(request["candidates"], key=lambda c: -len(c["id"]))
        return {
            "contract": 1,
            "model": {"encoder": "words@1", "reranker": "identity@1"},
            "took_ms": 0.1,
            "stages": [{"name": "words", "took_ms": 0.1}],
            "results": [
                {
                    "id": c["id"],
                    "score": float(len(c["id"])),
                    "scores": {"first_stage": c["bm25"], "maxsim": None, "fused": None, "cross_encoder": None},
                }
                for c in scored
            ],
        }

    def rerank(self, query: str, documents: list[str]) -> list[float]:
        return [overlap(query, text) for text in documents]

    def embed(self, texts: list[str], *, kind: Literal["passage", "query"]) -> dict[str, Any]:
        vectors = []
        for text in texts:
            x, y = 1.0 + len(text), 1.0 + len(words(text))
            vectors.append([x / math.hypot(x, y), y / math.hypot(x, y)])
        return {"model": "words@1", "dim": 2, "vectors": vectors}

    def readiness(self) -> list[dict[str, Any]]:
        return [{"name": "memory", "ok": not self.closed, "detail": "three passages"}]

    def requeue(self, *, older_than_s: float) -> list[str]:
        return [i for i, document in self._answers.items() if document["state"] != AnswerState.DONE]

    def close(self) -> None:
        self.closed = True
