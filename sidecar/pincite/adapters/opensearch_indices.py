"""Index templates, indices, aliases and pipelines: installed once, checked ever after."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pincite import resources
from pincite.adapters.opensearch import Cluster
from pincite.domain.errors import ConfigError, NotFound, UpstreamError

KINDS = ("chunks", "records", "answers", "kb", "codecs", "dead_letters")
SEARCH_PIPELINE = "pincite"
_PLUGIN_PROCESSOR = "pincite_rerank"


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexModel:
    """What an index was, or is to be, made with. Vectors of another model never mix with these."""

    encoder_id: str
    dim: int
    token_dim: int
    token_format: str
    codec_id: str
    chunker: str
    context: str
    knn_engine: str = "lucene"


@dataclass(frozen=True, slots=True, kw_only=True)
class InitReport:
    """What ``init`` found and made."""

    created: tuple[str, ...]
    existed: tuple[str, ...]
    pipelines: tuple[str, ...]
    warnings: tuple[str, ...]


class Indices:
    """The indices of one Pincite installation, told apart from others by their prefix."""

    def __init__(self, cluster: Cluster, prefix: str) -> None:
        self.cluster = cluster
        self.prefix = prefix

    def alias(self, kind: str) -> str:
        """The alias of a kind of document: ``chunks`` gives ``pincite-chunks``."""
        return f"{self.prefix}-{kind.replace('_', '-')}"

    @property
    def pipeline(self) -> str:
        """The search pipeline's name: ``pincite`` for the default prefix."""
        return SEARCH_PIPELINE if self.prefix == "pincite" else f"{self.prefix}-search"

    def init(self, model: IndexModel) -> InitReport:
        """Install what is missing; change nothing that is there. Running it twice is running it once.

        Raises:
            ConfigError: ``encoder_mismatch``: the chunks index was made with another encoder.
        """
        # What is there stays as it was made: the template goes on to describe it.
        model = self.check_model(model) or model
        created, existed = [], []
        for kind in KINDS:
            template = self.template(kind, model)
            self.cluster.request("PUT", f"/_index_template/{self.alias(kind)}", template)
            if self._exists(kind):
                existed.append(self.alias(kind))
                continue
            index = f"{self.alias(kind)}-v1-000001"
            try:
                self.cluster.request("PUT", f"/{index}", {"aliases": {self.alias(kind): {"is_write_index": True}}})
            except UpstreamError as exc:
                # Two inits at once: the other one made it, which is what was wanted.
                if exc.detail.get("type") != "resource_already_exists_exception":
                    raise
            created.append(self.alias(kind))
        pipelines, warnings = [], []
        if self._plugin_installed():
            self.cluster.request(
                "PUT",
                f"/_search/pipeline/{self.pipeline}",
                resources.load_json("ingest_pipelines/pincite.search.json"),
            )
            pipelines.append(self.pipeline)
        else:
            warnings.append(
                "The Pincite plugin is not installed in this cluster: the search pipeline was left out. "
                "The gateway works without it."
            )
        for kind in KINDS:
            self.cluster.request(
                "GET",
                f"/_cluster/health/{self.alias(kind)}",
                params={"wait_for_status": "yellow", "timeout": "30s"},
                timeout_s=40,
            )
        return InitReport(
            created=tuple(created),
            existed=tuple(existed),
            pipelines=tuple(pipelines),
            warnings=tuple(warnings),
        )

    def template(self, kind: str, model: IndexModel) -> Any:
        """The index template of a kind, filled in."""
        values = {
            "prefix": self.prefix,
            "dim": model.dim,
            "token_dim": model.token_dim,
            "encoder_id": model.encoder_id,
            "token_format": model.token_format,
            "codec_id": model.codec_id,
            "chunker": model.chunker,
            "context": model.context,
            "knn_engine": model.knn_engine,
        }
        return _filled(resources.load_json(f"mappings/{kind}.json"), values)

    def installed_model(self) -> IndexModel | None:
        """What the chunks index was made with; None when there is no index.

        Raises:
            ConfigError: ``index_not_pincite``: something else has the alias's name.
        """
        try:
            reply = self.cluster.request("GET", f"/{self.alias('chunks')}/_mapping")
        except NotFound:
            return None
        models = {}
        for index, body in reply.items():
            meta: Mapping[str, Any] = body["mappings"].get("_meta", {}).get("pincite", {})
            try:
                models[index] = IndexModel(
                    encoder_id=meta["encoder_id"],
                    dim=int(meta["dim"]),
                    token_dim=int(meta["token_dim"]),
                    token_format=meta["token_format"],
                    codec_id=meta["codec_id"],
                    chunker=meta["chunker"],
                    context=meta["context"],
                )
            except KeyError as exc:
                raise ConfigError(
                    "index_not_pincite",
                    f"Pincite did not make the index {index}: its mapping lacks _meta.pincite.{exc.args[0]}.",
                    mend="Choose another PINCITE_INDEX_PREFIX.",
                    subject=index,
                ) from exc
        if len(set(models.values())) > 1:
            raise ConfigError(
                "encoder_mismatch",
                f"The indices behind {self.alias('chunks')} were made with different encoders or codecs: "
                f"{sorted(models)}.",
                mend="Keep one encoder and one codec behind one alias.",
                subject=self.alias("chunks"),
            )
        return next(iter(models.values()))

    def check_model(self, wanted: IndexModel) -> IndexModel | None:
        """What the index was made with, once that is this encoder; None when there is no index.

        Raises:
            ConfigError: ``encoder_mismatch``.
        """
        found = self.installed_model()
        if found is None:
            return None
        if _vectors(found) != _vectors(wanted):
            raise ConfigError(
                "encoder_mismatch",
                f"The index {self.alias('chunks')} was made with encoder {found.encoder_id} "
                f"({found.dim} dimensions, context {found.context}); the configured one is "
                f"{wanted.encoder_id} ({wanted.dim} dimensions, context {wanted.context}).",
                mend="Set PINCITE_ENCODER to the index's encoder, or use another PINCITE_INDEX_PREFIX.",
                subject=self.alias("chunks"),
            )
        return found

    def refresh(self, kind: str) -> None:
        """Make what was written visible to searches."""
        self.cluster.request("POST", f"/{self.alias(kind)}/_refresh")

    def _exists(self, kind: str) -> bool:
        try:
            self.cluster.request("GET", f"/_alias/{self.alias(kind)}")
        except NotFound:
            return False
        return True

    def _plugin_installed(self) -> bool:
        reply = self.cluster.request("GET", "/_nodes/search_pipelines")
        nodes = reply["nodes"].values()
        return bool(nodes) and all(
            any(
                p["type"] == _PLUGIN_PROCESSOR
                for p in node.get("search_pipelines", {}).get("response_processors", [])
            )
            for node in nodes
        )


def _vectors(model: IndexModel) -> tuple[str, int, int, str]:
    """What must be equal for vectors to be compared. The codec is the index's own, whatever is configured."""
    return model.encoder_id, model.dim, model.token_dim, model.context


def _filled(node: Any, values: Mapping[str, Any]) -> Any:
    """The JSON tree with ``{{name}}`` replaced; a string that is one placeholder takes the value's type."""
    if isinstance(node, dict):
        return {key: _filled(value, values) for key, value in node.items()}
    if isinstance(node, list):
        return [_filled(value, values) for value in node]
    if isinstance(node, str) and "{{" in node:
        for name, value in values.items():
            if node == f"{{{{{name}}}}}":
                return value
            node = node.replace(f"{{{{{name}}}}}", str(value))
        if "{{" in node:
            raise ValueError(f"placeholder without a value: {node}")
    return node
