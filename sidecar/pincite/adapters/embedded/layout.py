"""What an embedded node consists of: the roots that are pinned by hand.

Everything else follows from them: ``pin.py`` lets Maven resolve their runtime dependencies and writes
``node.pom.xml`` (each file of the node with its exact coordinates) and ``artifacts.sha256.json``
(each file with its checksum). Assembly reads those two alone, so that no node ever holds a file
that was not reviewed.
"""

from __future__ import annotations

from dataclasses import dataclass

OPENSEARCH_VERSION = "3.6.0"
KNN_VERSION = "3.6.0.0"
DEPENDENCY_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1"
MIN_JAVA = 21

KNN_PLUGIN = "opensearch-knn"
OUR_PLUGIN = "pincite"
KNN_ZIP = f"downloads/{KNN_PLUGIN}-{KNN_VERSION}.zip"


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """A module of OpenSearch: a plugin that every distribution has built in.

    Args:
        name: Folder below ``modules/`` and name in the descriptor.
        artifact: Maven artifact id in the group ``org.opensearch.plugin``.
        classname: The plugin's class.
        extends: Names of the modules whose classes it sees.
    """

    name: str
    artifact: str
    classname: str
    extends: tuple[str, ...] = ()

    def descriptor(self) -> str:
        """The text of the module's ``plugin-descriptor.properties``."""
        lines = [
            f"description=Module {self.name}",
            f"version={OPENSEARCH_VERSION}",
            f"name={self.name}",
            f"classname={self.classname}",
            f"java.version={MIN_JAVA}",
            f"opensearch.version={OPENSEARCH_VERSION}",
        ]
        if self.extends:
            lines.append(f"extended.plugins={','.join(self.extends)}")
        return "\n".join(lines) + "\n"


def _module(name: str, artifact: str, classname: str, extends: tuple[str, ...] = ()) -> Module:
    return Module(name=name, artifact=artifact, classname=f"org.opensearch{classname}", extends=extends)


MODULES: tuple[Module, ...] = (
    _module("aggs-matrix-stats", "aggs-matrix-stats-client", ".search.aggregations.matrix.MatrixAggregationModulePlugin"),
    _module("analysis-common", "analysis-common", ".analysis.common.CommonAnalysisModulePlugin", extends=("lang-painless",)),
    _module("geo", "geo", ".geo.GeoModulePlugin"),
    _module("ingest-common", "ingest-common", ".ingest.common.IngestCommonModulePlugin", extends=("lang-painless",)),
    _module("lang-mustache", "lang-mustache-client", ".script.mustache.MustacheModulePlugin"),
    _module("lang-painless", "lang-painless", ".painless.PainlessModulePlugin"),
    _module("mapper-extras", "mapper-extras-client", ".index.mapper.MapperExtrasModulePlugin"),
    _module("parent-join", "parent-join-client", ".join.ParentJoinModulePlugin"),
    _module("reindex", "reindex-client", ".index.reindex.ReindexModulePlugin"),
    _module("search-pipeline-common", "search-pipeline-common", ".search.pipeline.common.SearchPipelineCommonModulePlugin"),
    _module("transport-grpc", "transport-grpc", ".transport.grpc.GrpcPlugin"),
    _module("transport-netty4", "transport-netty4-client", ".transport.Netty4ModulePlugin"),
)

# Folder -> roots as group:artifact:version. Log4j's core is no dependency of the published server
# jar; it must have the version of the log4j-api that the server brings.
ROOTS: dict[str, tuple[str, ...]] = {
    "lib": (
        f"org.opensearch:opensearch:{OPENSEARCH_VERSION}",
        f"org.opensearch:opensearch-plugin-classloader:{OPENSEARCH_VERSION}",
        f"org.opensearch:opensearch-agent-bootstrap:{OPENSEARCH_VERSION}",
        "org.apache.logging.log4j:log4j-core:2.25.3",
    ),
    **{f"modules/{m.name}": (f"org.opensearch.plugin:{m.artifact}:{OPENSEARCH_VERSION}",) for m in MODULES},
    "tools/plugin-cli": (f"org.opensearch:opensearch-plugin-cli:{OPENSEARCH_VERSION}",),
    # The agent looks for its companions by these exact file names beside itself.
    "agent": (f"org.opensearch:opensearch-agent:{OPENSEARCH_VERSION}",),
}
