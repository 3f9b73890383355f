"""Mint the citation ids of an answer: the closed set that its sentences may cite."""

from __future__ import annotations

from collections.abc import Sequence

from pincite.domain import ids
from pincite.domain.types import Evidence, Passage


def mint(answer_id: str, passages: Sequence[Passage]) -> tuple[Evidence, ...]:
    """Passages as evidence, in their order; rank 1 is the best.

    A chunk that comes twice is kept once, at its better rank. Ids depend on answer and chunk alone, so
    that a task that runs twice mints the same ones.

    Raises:
        ValueError: two chunks got the same id (1 in 4 billion pairs); the answer needs another id.
    """
    first = {passage.chunk.chunk_id: number for number, passage in reversed(list(enumerate(passages)))}
    kept = [p for number, p in enumerate(passages) if first[p.chunk.chunk_id] == number]
    evidence = tuple(
        Evidence(citation_id=ids.citation_id(answer_id, p.chunk.chunk_id), rank=rank, passage=p)
        for rank, p in enumerate(kept, start=1)
    )
    if len({e.citation_id for e in evidence}) != len(evidence):
        raise ValueError(f"citation ids of answer {answer_id} collide")
    return evidence
