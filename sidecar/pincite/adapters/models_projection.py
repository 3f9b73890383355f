"""A projection of token vectors that keeps what MaxSim ranks by, distilled from MaxSim in all dimensions.

PCA keeps the vectors; a ranking needs the inner products of question tokens with the few document tokens
that win the maximum. So the document's and the question's projection are learned apart, each linear, to
give the order that float MaxSim over the whole vectors gives (the teacher) among hard candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import kl_div, log_softmax, normalize, softmax

if TYPE_CHECKING:
    from pincite.domain.protocols import FloatArray

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Distillation:
    """How the projection is trained.

    Attributes:
        steps: Of Adam, its rate falling as a cosine to 0.
        rate: At the start.
        n_queries: In a step.
        near: A query's best documents, all of them its candidates: they decide the top 10.
        n_far: Further candidates, of its best ``far``.
        far: See ``n_far``.
        n_winners: Tokens of a candidate that are kept for a question token: those the teacher likes best.
        temperature: Of the teacher's distribution over a query's candidates, in units of a MaxSim score.
        token_weight: Of the squared error of single question tokens' maxima beside the divergence.
        seed: Same input, same seed, same machine: same projection.
    """

    steps: int = 600
    rate: float = 3e-4
    n_queries: int = 12
    near: int = 30
    n_far: int = 30
    far: int = 200
    n_winners: int = 3
    temperature: float = 0.3
    token_weight: float = 20.0
    seed: int = 0


@dataclass(frozen=True, slots=True)
class _Example:
    """A query, the candidates' tokens that matter to it, and the teacher's maxima."""

    query: Tensor
    tokens: Tensor
    lengths: list[int]
    wanted: Tensor


def distil_projection(
    documents: Sequence[FloatArray],
    queries: Sequence[FloatArray],
    start: FloatArray,
    *,
    options: Distillation | None = None,
    progress: Progress = lambda *_: None,
) -> tuple[FloatArray, FloatArray]:
    """(document, query) projections, each (token_dim, dim) float32.

    Args:
        documents: Token vectors (n_i, token_dim) of each document, L2-normalised, none empty.
        queries: Token vectors of each query, likewise.
        start: (token_dim, dim): where both begin, for instance PCA.
        options: None: the defaults.
        progress: Told of the candidates, the examples and the steps.

    Cost: once n_query_tokens × n_document_tokens × dim multiply-adds for the candidates; memory of some
    5 MB an example in half precision.
    """
    how = options or Distillation()
    rng = np.random.default_rng(how.seed)
    torch.manual_seed(how.seed)
    best = _candidates(documents, queries, start, min(how.far, len(documents)), progress)
    examples = []
    for number, query in enumerate(queries):
        far = rng.choice(best[number, how.near :], size=how.n_far, replace=False)
        chosen = [documents[i] for i in [*best[number, : how.near], *far]]
        examples.append(_example(query, chosen, how.n_winners))
        progress("examples", number + 1, len(queries))
    first = torch.from_numpy(np.ascontiguousarray(start, dtype=np.float32))
    document, query_side = (torch.nn.Parameter(first.clone()) for _ in range(2))
    scale = torch.nn.Parameter(torch.ones(()))
    optimiser = torch.optim.Adam([document, query_side, scale], lr=how.rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, how.steps)
    for step in range(how.steps):
        optimiser.zero_grad()
        total = 0.0
        for number in rng.choice(len(examples), size=how.n_queries, replace=False):
            example = examples[number]
            projected = normalize(example.tokens.float() @ document, dim=1)
            asked = normalize(example.query @ query_side, dim=1)
            loss = _loss(_maxima(asked @ projected.T, example.lengths) * scale, example.wanted, how)
            (loss / how.n_queries).backward()
            total += loss.item()
        optimiser.step()
        schedule.step()
        progress(f"projection, loss {total / how.n_queries:.4f}", step + 1, how.steps)
    return document.detach().numpy(), query_side.detach().numpy()


def _example(query: FloatArray, documents: Sequence[FloatArray], n_winners: int) -> _Example:
    """The tokens of each document that the teacher likes best for one of the query's tokens."""
    q = torch.from_numpy(query.astype(np.float32))
    tokens, wanted = [], []
    for document in documents:
        products = q @ torch.from_numpy(document.astype(np.float32)).T
        best = products.topk(min(n_winners, len(document)), dim=1)
        wanted.append(best.values[:, 0])
        tokens.append(torch.from_numpy(document[best.indices.unique().numpy()].astype(np.float16)))
    return _Example(q, torch.cat(tokens), [len(t) for t in tokens], torch.stack(wanted, dim=1))


def _loss(got: Tensor, wanted: Tensor, how: Distillation) -> Tensor:
    """Divergence of the distributions over the candidates, and the error of the tokens' maxima."""
    divergence = kl_div(
        log_softmax(got.sum(0) / how.temperature, 0),
        softmax(wanted.sum(0) / how.temperature, 0),
        reduction="sum",
    )
    off = (got - got.mean(1, keepdim=True)) - (wanted - wanted.mean(1, keepdim=True))
    return divergence + how.token_weight * (off**2).mean()


def _maxima(products: Tensor, lengths: Sequence[int]) -> Tensor:
    """(n_query_tokens, n_documents): the largest product of each document's tokens."""
    return torch.stack([part.amax(dim=1) for part in products.split(list(lengths), dim=1)], dim=1)


def _rows(arrays: Sequence[FloatArray]) -> Tensor:
    return torch.from_numpy(np.concatenate(arrays).astype(np.float32, copy=False))


def _candidates(
    documents: Sequence[FloatArray], queries: Sequence[FloatArray], start: FloatArray, n: int, progress: Progress
) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """(n_queries, n) numbers of the best documents, best first, by the starting projection in bfloat16."""
    first = torch.from_numpy(np.ascontiguousarray(start, dtype=np.float32))
    q = normalize(_rows(queries) @ first, dim=1).bfloat16()
    owners = torch.from_numpy(np.repeat(np.arange(len(queries)), [len(query) for query in queries]))
    scores = torch.zeros(len(queries), len(documents))
    block = 64
    with torch.inference_mode():
        for begin in range(0, len(documents), block):
            some = documents[begin : begin + block]
            x = normalize(_rows(some) @ first, dim=1).bfloat16()
            best = _maxima(q @ x.T, [len(document) for document in some]).float()
            scores[:, begin : begin + len(some)].index_add_(0, owners, best)
            progress("candidates", min(begin + block, len(documents)), len(documents))
        found: np.ndarray[tuple[int, int], np.dtype[np.int64]] = scores.topk(n, dim=1).indices.numpy()
    return found
