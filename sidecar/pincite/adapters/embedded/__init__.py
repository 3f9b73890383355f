"""The embedded cluster: a real OpenSearch with k-NN and Pincite's plugin, in its own processes.

Files, in the order in which a start uses them: ``access`` (who runs the node, what that user can
reach), ``jdk``, ``maven``, ``layout`` and ``assembly`` (the node's files), ``plugin`` (our own),
``ports``, ``config`` (settings, keystore, command line), ``processes`` and ``state`` (what runs),
``cluster`` (all of it together). ``pin`` is run by maintainers when a version changes.
"""

from pincite.adapters.embedded.cluster import EmbeddedCluster
from pincite.adapters.embedded.config import sidecar_token
from pincite.adapters.embedded.jdk import Jdk, find_jdk
from pincite.adapters.embedded.status import ClusterStatus, NodeStatus

__all__ = ["ClusterStatus", "EmbeddedCluster", "Jdk", "NodeStatus", "find_jdk", "sidecar_token"]
