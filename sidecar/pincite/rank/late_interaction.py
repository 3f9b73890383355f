"""The late-interaction stage: candidates to MaxSim scores, over token rows stored with the chunk."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pincite.domain.types import ChunkVersion, StageTime
from pincite.kernels.blobs import joined

if TYPE_CHECKING:
    from pincite.domain.protocols import FloatArray, MaxSimScorer, TokenStore


@dataclass(frozen=True, slots=True, kw_only=True)
class LateInteraction:
    """MaxSim by chunk id; candidates without rows of their version have none."""

    scores: Mapping[str, float]
    stages: tuple[StageTime, ...]


def late_interaction(
    query_tokens: FloatArray,
    candidates: Mapping[str, ChunkVersion],
    store: TokenStore,
    scorer: MaxSimScorer,
) -> LateInteraction:
    """Score candidates.

    Rows are read where the cache holds them, and another process may overwrite them meanwhile: then the
    scores are thrown away and it is done again, at last on a copy.

    Args:
        query_tokens: (n_query_tokens, dim) float32, projected and normalised.
        candidates: Chunk ids with the version that the first stage saw.
        store: Where the rows are.
        scorer: MaxSim over rows of the store's format.
    """
    fetch_s = score_s = 0.0
    for on_copy in (False, False, True):
        began = time.perf_counter()
        found = store.locate(candidates)
        rows, starts = found.rows, found.starts
        if on_copy:
            pieces = [rows[s : s + n] for s, n in zip(starts, found.lengths, strict=True)]
            rows, starts, _ = joined(pieces, rows.shape[1])
        fetched = time.perf_counter()
        fetch_s += fetched - began
        if on_copy and not found.valid():
            break
        scores = scorer.score(query_tokens, rows, starts, found.lengths)
        score_s += time.perf_counter() - fetched
        if on_copy or found.valid():
            return _result(dict(zip(found.ids, map(float, scores), strict=True)), fetch_s, score_s)
    return _result({}, fetch_s, score_s)


def _result(scores: Mapping[str, float], fetch_s: float, score_s: float) -> LateInteraction:
    return LateInteraction(
        scores=scores,
        stages=(
            StageTime(name="fetch_tokens", took_ms=fetch_s * 1e3),
            StageTime(name="maxsim", took_ms=score_s * 1e3),
        ),
    )
