"""All composed flows of one process, built from settings. Thread-safe; parts are made at first use."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Literal

from pincite.adapters.opensearch import Cluster
from pincite.adapters.opensearch_answers import AnswerIndex
from pincite.adapters.opensearch_chunks import ChunkIndex
from pincite.adapters.opensearch_indices import Indices, InitReport
from pincite.adapters.opensearch_sources import SourceIndex, StoredRecord
from pincite.domain.codec import Codec
from pincite.domain.errors import NotFound, PinciteError, UserError
from pincite.domain.protocols import Encoder, Reranker
from pincite.domain.types import SearchFilter, SearchResult
from pincite.ingest import chunk_forensic
from pincite.kernels.maxsim import maxsim_many
from pincite.rank.fusion import FusionConfig
from pincite.wiring.access import open_cluster
from pincite.wiring.answer_flow import AnswerFlow
from pincite.wiring.codec_flow import CodecFlow, TrainOptions
from pincite.wiring.generators import build_answerer
from pincite.wiring.hook_flow import HookFlow
from pincite.wiring.ingest_flow import IngestFlow, IngestOptions, IngestReport, Progress, remove_source
from pincite.wiring.late import LateInteraction, cache_folder, coder_of, ensure_stored, store_codec
from pincite.wiring.parts import LazyEncoder, expected_model, load_reranker, model_of
from pincite.wiring.search_flow import SearchFlow
from pincite.wiring.settings import Settings
from pincite.wiring.sources import extractor_set, tokenizer
from pincite.wiring.views import PassageViews

if TYPE_CHECKING:
    from pincite.adapters.opensearch_indices import IndexModel
    from pincite.answer.compose import Answerer
    from pincite.ingest.walk import Walked


class Services:
    """What the entry points call.

    Args:
        settings: The settings; nothing below reads the environment.
        progress: Told in one line each what takes long (the embedded cluster's start).
    """

    def __init__(self, settings: Settings, *, progress: Callable[[str], None] = lambda _: None) -> None:
        self.settings = settings
        self._progress = progress
        self._encoder = LazyEncoder(
            settings.encoder,
            check=self._check_encoder,
            engine=settings.encoder_engine,
            cache_dir=settings.home / "cache" / "engines",
        )
        self._init_lock = threading.Lock()
        self._ready_model: IndexModel | None = None
        self._warm: str | None = None

    # -- parts -------------------------------------------------------------------------------------

    @cached_property
    def cluster(self) -> Cluster:
        """The cluster; the embedded one is started when none is configured."""
        return open_cluster(self.settings, self._progress)

    @cached_property
    def indices(self) -> Indices:
        """The installation's indices."""
        return Indices(self.cluster, self.settings.index_prefix)

    @cached_property
    def _sources(self) -> SourceIndex:
        return SourceIndex(self.indices)

    @cached_property
    def _late(self) -> LateInteraction:
        return LateInteraction(
            self.indices,
            cache_folder=cache_folder(self.settings.home),
            cache_bytes=self.settings.sidecar.cache_mb * 2**20,
            device=self.settings.sidecar.device,
        )

    @cached_property
    def _reranker(self) -> Reranker:
        return load_reranker(self.settings.reranker)

    @cached_property
    def _search(self) -> SearchFlow:
        r = self.settings.retrieval
        return SearchFlow(
            self.indices,
            encoder=self._encoder,
            late=self._late.get,
            reranker=self._reranker,
            config=FusionConfig(weight_knn=r.weight_knn, weight_maxsim=r.weight_maxsim, method=r.fusion),
            k1=r.k1,
            nprobe=r.nprobe if r.centroids else 0,
        )

    @cached_property
    def _hook(self) -> HookFlow:
        return HookFlow(self._search, encoder=self._encoder)

    @cached_property
    def _answerer(self) -> Answerer:
        return build_answerer(self.settings, self._encoder)

    @cached_property
    def _answers(self) -> AnswerFlow:
        return AnswerFlow(
            self.indices,
            search=self._search,
            answerer=lambda: self._answerer,
            k2=self.settings.retrieval.k2,
            publish=self._publisher(),
        )

    def _publisher(self) -> Callable[[str], None] | None:
        url, queue = self.settings.broker.url, self.settings.broker.queue
        if url is None:
            return None

        def publish(answer_id: str) -> None:
            from pincite.adapters.broker import publish_answer

            publish_answer(url.get_secret_value(), queue, answer_id)

        return publish

    # -- set-up ------------------------------------------------------------------------------------

    def init(self) -> InitReport:
        """Install what is missing in the cluster."""
        report = self.indices.init(self._expected_model())
        self._ready_model = self._installed()
        return report

    def _expected_model(self) -> IndexModel:
        return expected_model(self.settings.encoder, chunk_forensic.CHUNKER, codec=self.settings.codec)

    def _installed(self) -> IndexModel:
        """What the index was made with; its codec is stored beside it, if it is not there yet."""
        model = self.indices.installed_model() or self._expected_model()
        ensure_stored(model.codec_id, model.encoder_id, self.indices)
        return model

    def _require_index(self) -> IndexModel:
        """The index's model; the index is made when there is none.

        Raises:
            ConfigError: ``encoder_mismatch``.
        """
        with self._init_lock:
            if self._ready_model is None:
                model = self._expected_model()
                if not self.indices.check_model(model):
                    self._progress("No Pincite index yet: creating it.")
                    self.indices.init(model)
                self._ready_model = self._installed()
            return self._ready_model

    def _check_encoder(self, encoder: Encoder) -> None:
        self.indices.check_model(model_of(encoder, chunk_forensic.CHUNKER))

    # -- ingest ------------------------------------------------------------------------------------

    def ingest(self, found: Walked, options: IngestOptions, progress: Progress | None = None) -> IngestReport:
        """Take files in."""
        self._require_index()
        # As it is now: another process may have re-encoded the index since this one started.
        model = self._installed()
        coder = lru_cache(maxsize=1)(lambda: coder_of(model, self.indices))
        flow = IngestFlow(
            self._sources,
            extractors=extractor_set(),
            tokenizer=tokenizer(),
            encoder=self._encoder.get,
            encoder_id=model.encoder_id,
            coder=coder,
            codec_id=model.codec_id,
        )
        return flow.run(found, options, progress)

    def sources(self) -> list[dict[str, Any]]:
        """Records of all sources, by file name."""
        self._require_index()
        self.indices.refresh("records")
        return [dict(record) for record in self._sources.records()]

    def delete_source(self, name: str) -> int:
        """Take a source out by file name or id; returns the number of its chunks.

        Raises:
            NotFound: ``source_unknown``.
            UserError: ``source_ambiguous``.
        """
        self._require_index()
        named = self._sources.records_named(name)
        if not named:
            raise NotFound(
                "source_unknown",
                f"There is no source {name!r}.",
                mend="`pincite sources` lists what is in.",
                subject=name,
            )
        if len(named) > 1:
            raise UserError(
                "source_ambiguous",
                f"{len(named)} sources are named {name!r}: {', '.join(r['source_id'] for r in named)}.",
                mend="Name it by its source id.",
                subject=name,
            )
        record = self._sources.get(named[0]["source_id"])
        return remove_source(self._sources, record) if isinstance(record, StoredRecord) else 0

    # -- codec -------------------------------------------------------------------------------------

    @cached_property
    def _codecs(self) -> CodecFlow:
        return CodecFlow(self.indices, encoder=self._encoder.get)

    def codec_status(self) -> dict[str, Any]:
        """The index's codec, the codecs that are stored, and what a migration has left to do."""
        self._require_index()
        return self._codecs.status(self._installed())

    def codec_train(self, options: TrainOptions, progress: Progress) -> Codec:
        """Train a codec on a sample of the index and store it."""
        self._require_index()
        return self._codecs.train(self._installed(), options, progress)

    def codec_store(self, codec: Codec) -> None:
        """Store a codec in the cluster; it is not yet in force."""
        self._require_index()
        store_codec(codec, self.indices)

    def codec_migrate(self, codec_id: str, progress: Progress, *, keep_old: bool) -> dict[str, Any]:
        """Re-encode all chunks with a codec and put it in force."""
        self._require_index()
        return self._codecs.migrate(self._installed(), codec_id, progress, keep_old=keep_old)

    # -- search and answers ------------------------------------------------------------------------

    def search(
        self, query: str, *, size: int = 10, from_: int = 0, filters: SearchFilter, caller: str | None
    ) -> SearchResult:
        """Passages, best first."""
        self._require_index()
        return self._search.search(query, size=size, from_=from_, filters=filters, caller=caller).result

    def ask(self, question: str, *, filters: SearchFilter, caller: str | None) -> dict[str, Any]:
        """The answer document: done when it is made in this process, queued when a worker makes it."""
        self._require_index()
        return self._answers.ask(question, filters=filters, caller=caller)

    def ask_and_wait(
        self, question: str, *, filters: SearchFilter, caller: str | None, wait_s: float
    ) -> dict[str, Any]:
        """The same, but waits for the worker."""
        document = self.ask(question, filters=filters, caller=caller)
        if document["state"] == "done":
            return document
        return self._answers.wait(document["answer_id"], caller=caller, wait_s=wait_s)

    def get_answer(self, answer_id: str, *, caller: str | None) -> dict[str, Any]:
        """The answer document as it is now.

        Raises:
            NotFound: ``answer_unknown``.
        """
        return dict(AnswerIndex(self.indices, caller).get(answer_id).document)

    def run_answer(self, answer_id: str) -> dict[str, Any]:
        """The worker's: generate, validate, persist. Idempotent."""
        return self._answers.run(answer_id)

    def requeue(self, *, older_than_s: float) -> list[str]:
        """Hand unfinished answers to a worker again; returns their ids."""
        return self._answers.requeue(older_than_s=older_than_s)

    def show(self, citation: str, *, context_chars: int, caller: str | None) -> list[dict[str, Any]]:
        """Cited passages in their context."""
        self._require_index()
        return PassageViews(
            ChunkIndex(self.indices, caller), AnswerIndex(self.indices, caller), self._sources
        ).show(citation, context_chars=context_chars)

    # -- the sidecar's -----------------------------------------------------------------------------

    def hook_legs(self, request: dict[str, Any]) -> dict[str, Any]:
        """The legs that the hook is to search for."""
        self._require_index()
        return self._hook.legs(request)

    def hook_rerank(self, request: dict[str, Any]) -> dict[str, Any]:
        """Rerank the hook's candidates."""
        return self._hook.rerank(request)

    def rerank(self, query: str, documents: list[str]) -> list[float]:
        """One finite score a document: the cross-encoder's, else MaxSim over the query's tokens."""
        scores = self._reranker.rerank(query, documents)
        if scores is not None:
            return scores
        encoder = self._encoder.get()
        encoded = self._encoder.encode_query(query)
        passages = encoder.encode_passages(documents)
        n_tokens = max(len(encoded.tokens), 1)
        return [s / n_tokens for s in maxsim_many(encoded.tokens, [p.tokens for p in passages])]

    def embed(self, texts: list[str], *, kind: Literal["passage", "query"]) -> dict[str, Any]:
        """Pooled vectors of texts."""
        encoder = self._encoder.get()
        encoded = (
            encoder.encode_passages(texts) if kind == "passage" else [encoder.encode_query(text) for text in texts]
        )
        return {
            "model": encoder.encoder_id,
            "dim": encoder.dim,
            "vectors": [[float(x) for x in e.pooled] for e in encoded],
        }

    def encoder(self) -> Encoder:
        """The encoder, loaded.

        Raises:
            ConfigError: it cannot be loaded, or the index was made with another.
        """
        return self._encoder.get()

    def n_query_tokens(self, query: str) -> int:
        """How many token vectors a query has: MaxSim is a sum over them."""
        return len(self._encoder.encode_query(query).tokens)

    def readiness(self) -> list[dict[str, Any]]:
        """Checks ``{name, ok, detail}``: the cluster, the index, the encoder, and whether ``warm`` is over."""
        checks: list[tuple[str, Callable[[], str]]] = [
            ("cluster", lambda: f"{self.cluster.info(timeout_s=5)['version']['number']} at {self.cluster.url}"),
            ("index", self._index_state),
            ("encoder", lambda: self._encoder.get().encoder_id),
        ]
        out = []
        for name, check in checks:
            try:
                out.append({"name": name, "ok": True, "detail": check()})
            except PinciteError as exc:
                out.append({"name": name, "ok": False, "detail": f"{exc.code}: {exc.message}"})
        out.append({"name": "warm", "ok": self._warm is not None, "detail": self._warm or "warming up"})
        return out

    def _index_state(self) -> str:
        model = self.indices.installed_model()
        if model is None:
            raise NotFound("index_missing", "There is no Pincite index yet.", mend="Run `pincite init`.")
        return model.encoder_id

    def warm(self) -> None:
        """Do now what the first request would wait for: load the encoder, read token vectors, search once.

        ``readiness`` says ``warm`` when it is over. What fails here fails again, with its error, in the
        request that needs it.
        """
        try:
            self._encoder.get().encode_query("warm up")
            self._require_index()
            n_chunks = self._late.get().store.fill_cache()
            self._search.search("warm up", size=1)
            self._warm = f"{n_chunks} chunks in the cache"
        except PinciteError as exc:
            self._warm = f"{exc.code}: {exc.message}"

    def close(self) -> None:
        """Let go of connections."""
        if "cluster" in self.__dict__:
            self.cluster.close()


def build_services(settings: Settings) -> Services:
    """The services of one process; progress goes to stderr through the logger of the entry point."""
    return Services(settings)
