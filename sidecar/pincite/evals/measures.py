"""Measures of a ranking, with binary relevance."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence, Set

_TOP = 10


def ndcg10(order: Sequence[Hashable], gold: Set[Hashable]) -> float:
    """nDCG@10 (Järvelin and Kekäläinen 2002); 0.0 where nothing is relevant."""
    gain = sum(1 / math.log2(rank + 1) for rank, key in enumerate(order[:_TOP], start=1) if key in gold)
    ideal = sum(1 / math.log2(rank + 1) for rank in range(1, min(len(gold), _TOP) + 1))
    return gain / ideal if ideal else 0.0


def rr10(order: Sequence[Hashable], gold: Set[Hashable]) -> float:
    """The reciprocal rank of the first relevant one of the first ten, else 0.0. Its mean is MRR@10."""
    return next((1 / rank for rank, key in enumerate(order[:_TOP], start=1) if key in gold), 0.0)
