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
        permissions: What the module may do when the Java agent is on. Distributions have these in a
            policy file beside the jar; the published artifact is the jar alone.
    """

    name: str
    artifact: str
    classname: str
    extends: tuple[str, ...] = ()
    permissions: tuple[str, ...] = ()

    def policy(self) -> str:
        """The text of the module's ``plugin-security.policy``; empty when it needs none."""
        if not self.permissions:
            return ""
        return "grant {\n" + "".join(f"  permission {one};\n" for one in self.permissions) + "};\n"

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


def _module(
    name: str, classname: str, *, artifact: str = "", painless: bool = False, permissions: tuple[str, ...] = ()
) -> Module:
    return Module(
        name=name,
        artifact=artifact or name,
        classname=f"org.opensearch.{classname}",
        extends=("lang-painless",) if painless else (),
        permissions=permissions,
    )


MODULES: tuple[Module, ...] = (
    _module(
        "aggs-matrix-stats",
        "search.aggregations.matrix.MatrixAggregationModulePlugin",
        artifact="aggs-matrix-stats-client",
    ),
    _module("analysis-common", "analysis.common.CommonAnalysisModulePlugin", painless=True),
    _module("geo", "geo.GeoModulePlugin"),
    _module("ingest-common", "ingest.common.IngestCommonModulePlugin", painless=True),
    _module("lang-mustache", "script.mustache.MustacheModulePlugin", artifact="lang-mustache-client"),
    _module("lang-painless", "painless.PainlessModulePlugin"),
    _module("mapper-extras", "index.mapper.MapperExtrasModulePlugin", artifact="mapper-extras-client"),
    _module("parent-join", "join.ParentJoinModulePlugin", artifact="parent-join-client"),
    _module(
        "reindex",
        "index.reindex.ReindexModulePlugin",
        artifact="reindex-client",
        # Reindexing from another cluster opens connections.
        permissions=('java.net.SocketPermission "*", "connect,resolve"',),
    ),
    _module("search-pipeline-common", "search.pipeline.common.SearchPipelineCommonModulePlugin"),
    _module("transport-grpc", "transport.grpc.GrpcPlugin"),
    _module(
        "transport-netty4",
        "transport.Netty4ModulePlugin",
        artifact="transport-netty4-client",
        # Without it nodes cannot reach each other once the agent is on.
        permissions=(
            'java.net.SocketPermission "*", "accept,connect,resolve"',
            'java.io.FilePermission "/proc/sys/net/core/somaxconn", "read"',
        ),
    ),
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

# The install tool checks every module and plugin against its own class path. It does without these
# two, which a module (reindex) and k-NN bring as well; with them it would refuse any plugin.
LEFT_OUT: dict[str, frozenset[str]] = {
    "tools/plugin-cli": frozenset({"commons-codec", "commons-lang3"}),
}
