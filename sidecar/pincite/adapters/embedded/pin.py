"""Writes ``node.pom.xml`` and ``artifacts.sha256.json`` anew from the roots in ``layout.py``.

Run it after changing a version there, and review the difference::

    python -m pincite.adapters.embedded.pin

It needs Maven and a JDK, and takes about two minutes. An ordinary start never runs it.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from xml.sax.saxutils import escape

from pincite.adapters.embedded import layout
from pincite.adapters.embedded.assembly import CHECKSUMS, POM, sha256_of
from pincite.adapters.embedded.jdk import find_jdk
from pincite.adapters.embedded.maven import run_maven

_HEAD = """<?xml version="1.0" encoding="UTF-8"?>
<!-- Written by `python -m pincite.adapters.embedded.pin` from layout.py. Do not edit. -->
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>pincite.node</groupId>
  <artifactId>{artifact}</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
"""


def _gav(coordinates: str) -> str:
    group, artifact, version = coordinates.split(":")
    return f"<groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>"


def resolve(work: Path, java_home: Path) -> dict[str, str]:
    """Resolves the roots' runtime dependencies.

    Args:
        work: An empty folder.
        java_home: JDK for Maven.

    Returns:
        Path within the node -> ``group:artifact:version:type[:classifier]``.
    """
    modules = []
    for folder, roots in layout.ROOTS.items():
        name = folder.replace("/", "-")
        modules.append(f"<module>{name}</module>")
        dependencies = "".join(f"<dependency>{_gav(root)}</dependency>" for root in roots)
        project = work / name
        project.mkdir()
        (project / "pom.xml").write_text(
            _HEAD.format(artifact=escape(name)) + f"  <dependencies>{dependencies}</dependencies>\n</project>\n",
            encoding="utf-8",
        )
    (work / "pom.xml").write_text(
        _HEAD.format(artifact="all") + f"  <modules>{''.join(modules)}</modules>\n</project>\n", encoding="utf-8"
    )
    run_maven(
        [f"{layout.DEPENDENCY_PLUGIN}:list", "-DincludeScope=runtime", "-DoutputFile=resolved.txt"],
        folder=work,
        java_home=java_home,
    )
    files: dict[str, str] = {}
    in_lib: set[str] = set()
    for folder in layout.ROOTS:
        listing = (work / folder.replace("/", "-") / "resolved.txt").read_text(encoding="utf-8")
        for line in listing.splitlines():
            parts = line.strip().split(" ")[0].split(":")
            if len(parts) not in (5, 6):
                continue
            group, artifact, kind, *classifier, version, _scope = parts
            key = ":".join([group, artifact, kind, *classifier])
            if folder == "lib":
                in_lib.add(key)
            elif folder != "agent" and key in in_lib:
                # What lib/ has is on the parent's class path; twice is what OpenSearch calls jar hell.
                continue
            if artifact in layout.LEFT_OUT.get(folder, frozenset()):
                continue
            suffix = "".join(f"-{c}" for c in classifier)
            name = f"{artifact}-{version}{suffix}.{kind}"
            if artifact == "opensearch-agent":
                name = "opensearch-agent.jar"
            files[f"{folder}/{name}"] = ":".join([group, artifact, version, kind, *classifier])
    files[layout.KNN_ZIP] = f"org.opensearch.plugin:opensearch-knn:{layout.KNN_VERSION}:zip"
    return dict(sorted(files.items()))


def write_pom(files: dict[str, str], target: Path) -> None:
    """Writes the pom that copies each file to its place below ``${node}``."""
    items = []
    for path, coordinates in files.items():
        group, artifact, version, kind, *classifier = coordinates.split(":")
        folder, name = path.rsplit("/", 1)
        items.append(
            "            <artifactItem>"
            f"<groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>"
            f"<type>{kind}</type>"
            + "".join(f"<classifier>{c}</classifier>" for c in classifier)
            + f"<outputDirectory>${{node}}/{folder}</outputDirectory>"
            f"<destFileName>{name}</destFileName></artifactItem>\n"
        )
    target.write_text(
        _HEAD.format(artifact="node")
        + "  <build>\n    <plugins>\n      <plugin>\n"
        + f"        {_gav(layout.DEPENDENCY_PLUGIN)}\n"
        + "        <executions><execution>\n"
        + "          <id>assemble</id><phase>validate</phase><goals><goal>copy</goal></goals>\n"
        + "          <configuration><artifactItems>\n"
        + "".join(items)
        + "          </artifactItems></configuration>\n"
        + "        </execution></executions>\n      </plugin>\n    </plugins>\n  </build>\n</project>\n",
        encoding="utf-8",
    )


def main() -> None:
    """Resolves, writes the pom, downloads every file once and writes its checksum."""
    java_home = find_jdk(None).home
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        (work / "resolve").mkdir()
        files = resolve(work / "resolve", java_home)
        write_pom(files, POM)
        node = work / "node"
        run_maven(["validate", f"-Dnode={node}", "-f", str(POM)], folder=work, java_home=java_home)
        sums = {path: sha256_of(node / path) for path in files}
    CHECKSUMS.write_text(json.dumps(sums, indent=2) + "\n", encoding="utf-8")
    sys.stdout.write(f"{len(sums)} files pinned in {POM.name} and {CHECKSUMS.name}\n")


if __name__ == "__main__":
    main()
