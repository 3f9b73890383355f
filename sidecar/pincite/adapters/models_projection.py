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
        n_near: Candidates of a query in a step from its best ``near``, which decide the top 10.
        n_far: And from the best ``far``.
        temperature: Of the teacher's distribution over a step's documents, in units of a MaxSim score.
        token_weight: Of the squared error of single question tokens' maxima beside the divergence.
        noise: Length of the random error put on a document vector, as a code's would be; 0: none.
        seed: Same input, same seed, same machine: same projection.
    """

    steps: int = 1500
    rate: float = 2e-3
    n_queries: int = 8
    n_near: int = 12
    near: int = 24
    n_far: int = 12
    far: int = 200
    temperature: float = 0.15
    token_weight: float = 5.0
    noise: float = 0.0
    seed: int = 0


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
        progress: Told of the candidates and the steps.

    Cost: once n_query_tokens × n_document_tokens × dim multiply-adds for the candidates; a step some
    n_queries × (n_near + n_far) documents' tokens × token_dim × dim × 3.
    """
    how = options or Distillation()
    rng = np.random.default_rng(how.seed)
    torch.manual_seed(how.seed)
    best = _candidates(documents, queries, start, how.far, progress)
    first = torch.from_numpy(np.ascontiguousarray(start, dtype=np.float32))
    document, query = (torch.nn.Parameter(first.clone()) for _ in range(2))
    scale = torch.nn.Parameter(torch.ones(()))
    optimiser = torch.optim.Adam([document, query, scale], lr=how.rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, how.steps)
    for step in range(how.steps):
        chosen = rng.choice(len(queries), size=how.n_queries, replace=False)
        near, far = best[chosen, : how.near], best[chosen, how.near :]
        docs = np.unique(
            np.concatenate(
                [rng.choice(row, size=how.n_near, replace=False) for row in near]
                + [rng.choice(row, size=how.n_far, replace=False) for row in far]
            )
        )
        lengths = [len(documents[i]) for i in docs]
        x = _rows([documents[i] for i in docs])
        q = _rows([queries[i] for i in chosen])
        with torch.no_grad():
            wanted = _maxima(q @ x.T, lengths)
        projected = normalize(x @ document, dim=1)
        if how.noise:
            error = torch.randn_like(projected) * (how.noise / projected.shape[1] ** 0.5)
            projected = normalize(projected + error, dim=1)
        got = _maxima(normalize(q @ query, dim=1) @ projected.T, lengths) * scale
        loss = _loss(got, wanted, [len(queries[i]) for i in chosen], how)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        schedule.step()
        progress(f"projection, loss {loss.item():.4f}", step + 1, how.steps)
    return document.detach().numpy(), query.detach().numpy()


def _loss(got: Tensor, wanted: Tensor, lengths: Sequence[int], how: Distillation) -> Tensor:
    """Divergence of each query's distribution over the documents, and the error of its tokens' maxima."""
    loss = torch.zeros(())
    for ours, theirs in zip(got.split(list(lengths)), wanted.split(list(lengths)), strict=True):
        loss = loss + kl_div(
            log_softmax(ours.sum(0) / how.temperature, 0),
            softmax(theirs.sum(0) / how.temperature, 0),
            reduction="sum",
        )
    off = (got - got.mean(1, keepdim=True)) - (wanted - wanted.mean(1, keepdim=True))
    return loss / len(lengths) + how.token_weight * (off**2).mean()


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
