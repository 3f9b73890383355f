"""The composed search: legs → fusion → late interaction → cross-encoder → current passages.

Retrieval fails open: a stage that cannot run is left out and named in ``degraded``. A stage is never
skipped silently.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pincite.adapters.opensearch_chunks import ChunkIndex
from pincite.adapters.opensearch_indices import Indices
from pincite.adapters.opensearch_sources import SourceIndex
from pincite.domain.errors import ConfigError, UserError
from pincite.domain.protocols import Encoded, Reranker
from pincite.domain.types import (
    ChunkVersion,
    Passage,
    SearchFilter,
    SearchResult,
    StageScore,
    TermStat,
)
from pincite.rank import fusion
from pincite.rank.late_interaction import late_interaction
from pincite.retrieve import legs
from pincite.retrieve.centroids import centroid_query
from pincite.retrieve.filters import clauses
from pincite.text.words import content_words
from pincite.wiring.clock import Clock
from pincite.wiring.late import LateParts
from pincite.wiring.parts import LazyEncoder

MAX_QUERY_CHARS = 8192
_CROSS_ENCODE = 50
_FETCH_MARGIN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """Candidate ids, best first, with every score that was given."""

    order: tuple[str, ...]
    versions: Mapping[str, ChunkVersion]
    scores: Mapping[str, Mapping[str, float]]
    n_without_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedSearch:
    """A search result with the question's term statistics, when they were asked for."""

    result: SearchResult
    terms: tuple[TermStat, ...]
    n_chunks: int


def checked_query(query: str) -> str:
    """The query without surrounding white space.

    Raises:
        UserError: ``question_empty`` or ``question_too_long``.
    """
    text = query.strip()
    try:
        text.encode()
    except UnicodeEncodeError as exc:
        raise UserError(
            "question_not_unicode",
            f"The question holds a character that is no Unicode text, at place {exc.start + 1}.",
            mend="Send it as UTF-8.",
        ) from None
    if not text:
        raise UserError("question_empty", "The question is empty.", mend="Ask something.")
    if len(text) > MAX_QUERY_CHARS:
        raise UserError(
            "question_too_long",
            f"The question has {len(text)} characters; the limit is {MAX_QUERY_CHARS}.",
            mend="Shorten it to what you want to know.",
        )
    if not any(ch.isalnum() for ch in text):
        raise UserError("question_empty", "The question holds no word.", mend="Ask something in words.")
    return text


class SearchFlow:
    """Searches the chunks index as a caller.

    Args:
        indices: The installation.
        encoder: For the semantic stages.
        late: The late-interaction parts of the index.
        reranker: The cross-encoder or ``identity``.
        config: Fusion weights and bounds.
        k1: Candidates that late interaction sees.
        nprobe: Centroids that the centroid leg probes for each query token; 0: no such leg.
    """

    def __init__(
        self,
        indices: Indices,
        *,
        encoder: LazyEncoder,
        late: Callable[[], LateParts],
        reranker: Reranker,
        config: fusion.FusionConfig,
        k1: int,
        nprobe: int = 0,
    ) -> None:
        self._indices, self._encoder, self._late = indices, encoder, late
        self._reranker, self._config, self._k1, self._nprobe = reranker, config, k1, nprobe

    def search(
        self,
        query: str,
        *,
        size: int = 10,
        from_: int = 0,
        filters: SearchFilter | None = None,
        caller: str | None = None,
        with_terms: bool = False,
    ) -> PreparedSearch:
        """Search.

        Raises:
            UserError: the query or a filter is not valid.
            ConfigError: the index was made with another encoder.
            UpstreamError: the cluster failed.
        """
        text = checked_query(query)
        where = clauses(filters or SearchFilter())
        clock, degraded = Clock(), list[str]()
        encoded = self._encoded(text, clock, degraded)
        chunks = ChunkIndex(self._indices, caller)
        window = max(self._k1, from_ + size)

        lexical, shortened = legs.lexical_text(text)
        if shortened:
            degraded.append("lexical_leg:question_shortened")
        bodies = [legs.bm25_body(lexical, where, window)]
        by_centroids = None
        if encoded is not None:
            bodies.append(legs.knn_body(encoded.pooled, where, window))
            by_centroids = self.centroid_query(encoded)
        if by_centroids is not None:
            bodies.append(legs.filtered_body(by_centroids, where, window))
        if with_terms:
            bodies.append(legs.terms_body(content_words(text), where))
        with clock.measure("first_stage"):
            replies = chunks.msearch(bodies)
        bm25, versions = legs.scored(replies[0])
        knn: dict[str, float] | None = None
        if encoded is not None:
            knn, knn_versions = legs.scored(replies[1])
            versions |= knn_versions
        centroids: dict[str, float] | None = None
        if by_centroids is not None:
            centroids, centroid_versions = legs.scored(replies[2])
            versions |= centroid_versions
        terms, n_chunks = legs.term_stats(replies[-1]) if with_terms else ((), 0)

        ranking = self.rank(bm25, knn, versions, encoded, clock, centroids=centroids)
        if ranking.n_without_tokens:
            degraded.append("tokens_missing")
        with clock.measure("fetch_passages"):
            # A cross-encoder sees the same window whatever page is asked, so that pages are disjoint.
            reranks = self._reranker.reranker_id != "identity"
            passages = self._current(chunks, ranking, max(from_ + size, _CROSS_ENCODE if reranks else 0))
        passages = self._cross_encoded(text, passages, clock)
        return PreparedSearch(
            result=SearchResult(
                query=text,
                passages=tuple(passages[from_ : from_ + size]),
                total=int(replies[0]["hits"]["total"]["value"]),
                stages=tuple(clock.stages),
                models=self.models(),
                degraded=tuple(degraded),
            ),
            terms=terms,
            n_chunks=n_chunks,
        )

    def models(self) -> dict[str, str]:
        """Ids of what ranks."""
        return {"encoder": self._encoder.id_if_loaded or "none", "reranker": self._reranker.reranker_id}

    def rank(
        self,
        bm25: Mapping[str, float],
        knn: Mapping[str, float] | None,
        versions: Mapping[str, ChunkVersion],
        encoded: Encoded | None,
        clock: Clock,
        *,
        k1: int | None = None,
        centroids: Mapping[str, float] | None = None,
    ) -> Ranking:
        """First-stage scores to the final order; late interaction sees the best ``k1`` of each leg.

        ``versions`` holds every candidate; its order breaks ties. What the centroid leg alone found has no
        score in the fused first stage that would bring it to the top: it is MaxSim's to judge, so the leg's
        own best are among the candidates whatever their place.
        """
        with clock.measure("fuse"):
            first = fusion.first_stage(bm25, knn, list(versions), self._config)
            order = fusion.ranked(first)
        n_head = k1 or self._k1
        chosen = {*order[:n_head], *fusion.ranked(centroids or {})[:n_head]}
        head, tail = [key for key in order if key in chosen], [key for key in order if key not in chosen]
        late: Mapping[str, float] = {}
        fused = {key: first[key] for key in head}
        if encoded is not None and head:
            parts = self._late()
            outcome = late_interaction(
                parts.coder.query(encoded.tokens),
                {key: versions[key] for key in head},
                parts.store,
                parts.scorer,
            )
            clock.stages.extend(outcome.stages)
            late = outcome.scores
            fused = fusion.with_maxsim(fused, late, len(encoded.tokens), self._config)
        scores: dict[str, dict[str, float]] = {}
        for key in order:
            scores[key] = {"first_stage": first[key]}
            for name, leg in (
                ("bm25", bm25),
                ("knn", knn or {}),
                ("centroids", centroids or {}),
                ("maxsim", late),
                ("fused", fused),
            ):
                if key in leg:
                    scores[key][name] = leg[key]
        missing = sum(1 for key in head if key not in late) if encoded is not None else 0
        return Ranking(
            order=(*fusion.ranked(fused), *tail), versions=versions, scores=scores, n_without_tokens=missing
        )

    def centroid_query(self, encoded: Encoded) -> dict[str, Any] | None:
        """The centroid leg's query; None where it is switched off or the index has no residual codes."""
        if not self._nprobe:
            return None
        coder = self._late().coder
        if coder.codec is None:
            return None
        return centroid_query(coder.query(encoded.tokens), coder.codec.centroids, nprobe=self._nprobe)

    def _encoded(self, text: str, clock: Clock, degraded: list[str]) -> Encoded | None:
        if not self._encoder.reads(text):
            degraded.append("semantic_stages_skipped:encoder_lacks_language")
            return None
        try:
            with clock.measure("encode_query"):
                encoded = self._encoder.encode_query(text)
        except ConfigError as exc:
            if exc.code == "encoder_mismatch":
                raise
            degraded.append(f"semantic_stages_skipped:{exc.code}")
            return None
        return encoded

    def _current(self, chunks: ChunkIndex, ranking: Ranking, wanted: int) -> list[Passage]:
        """The best ``wanted`` passages of their sources' current versions, in the versions that were scored."""
        sources = SourceIndex(self._indices)
        out: list[Passage] = []
        position = 0
        while len(out) < wanted and position < len(ranking.order):
            block = ranking.order[position : position + wanted - len(out) + _FETCH_MARGIN]
            position += len(block)
            found = chunks.get_passages({key: ranking.versions[key] for key in block})
            current = sources.current_versions(p.chunk.provenance.source_id for p in found.values())
            for key in block:
                passage = found.get(key)
                if passage is not None and is_current(passage, current):
                    out.append(passage)
        place = {key: i + 1 for i, key in enumerate(ranking.order)}
        return [
            replace(
                passage,
                scores=tuple(
                    StageScore(stage=stage, score=score, rank=place[passage.chunk.chunk_id])
                    for stage, score in ranking.scores[passage.chunk.chunk_id].items()
                ),
            )
            for passage in out[:wanted]
        ]

    def _cross_encoded(self, text: str, passages: Sequence[Passage], clock: Clock) -> list[Passage]:
        head = list(passages[:_CROSS_ENCODE])
        with clock.measure("cross_encode"):
            scores = self._reranker.rerank(text, [p.chunk.text for p in head]) if head else None
        if scores is None:
            return list(passages)
        by_id = {p.chunk.chunk_id: score for p, score in zip(head, scores, strict=True)}
        rank = {key: i + 1 for i, key in enumerate(fusion.ranked(by_id))}
        scored = [
            replace(p, scores=(*p.scores, StageScore(stage="cross_encoder", score=by_id[k], rank=rank[k])))
            for p in head
            for k in [p.chunk.chunk_id]
        ]
        return [*sorted(scored, key=lambda p: rank[p.chunk.chunk_id]), *passages[_CROSS_ENCODE:]]


def is_current(passage: Passage, current: Mapping[str, tuple[str, str, str]]) -> bool:
    """Whether a passage belongs to the version that its source's record names."""
    p = passage.chunk.provenance
    return current.get(p.source_id) == p.version
