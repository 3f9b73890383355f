"""The late-interaction stage: candidates to MaxSim scores, over token vectors stored with the chunk."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pincite.domain.types import ChunkVersion, StageTime
from pincite.kernels.maxsim import maxsim_many

if TYPE_CHECKING:
    from pincite.domain.protocols import FloatArray, TokenStore


@dataclass(frozen=True, slots=True, kw_only=True)
class LateInteraction:
    """MaxSim by chunk id; candidates without vectors of their version have none."""

    scores: Mapping[str, float]
    stages: tuple[StageTime, ...]


def late_interaction(
    query_tokens: FloatArray, candidates: Mapping[str, ChunkVersion], store: TokenStore
) -> LateInteraction:
    """Score candidates.

    Args:
        query_tokens: (n_query_tokens, token_dim) float32, normalised.
        candidates: Chunk ids with the version that the first stage saw.
        store: Where the token vectors are.
    """
    start = time.perf_counter()
    vectors = store.token_vectors(candidates)
    fetched = time.perf_counter()
    ids = [chunk_id for chunk_id in candidates if chunk_id in vectors]
    scores = maxsim_many(query_tokens, [vectors[chunk_id] for chunk_id in ids])
    done = time.perf_counter()
    return LateInteraction(
        scores=dict(zip(ids, scores, strict=True)),
        stages=(
            StageTime(name="fetch_tokens", took_ms=(fetched - start) * 1e3),
            StageTime(name="maxsim", took_ms=(done - fetched) * 1e3),
        ),
    )
