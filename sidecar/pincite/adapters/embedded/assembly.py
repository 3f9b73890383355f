"""Assembles a node's files from Maven artifacts whose checksums are committed.

A folder of assemblies holds ``base-<pins>`` (OpenSearch, its modules, k-NN) and
``node-<pins>-<plugin>`` (the same files, hard-linked, with one build of our plugin installed).
Both appear by renaming a finished folder and never change afterwards, so that a running node
keeps the files that it was started from while another build is installed beside it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from pincite.adapters.embedded import layout
from pincite.adapters.embedded.jdk import Jdk
from pincite.adapters.embedded.maven import run_maven
from pincite.domain.errors import ConfigError

POM = Path(__file__).with_name("node.pom.xml")
CHECKSUMS = Path(__file__).with_name("artifacts.sha256.json")

# Part of every key: raise it when assembly itself changes.
_FORMAT = "1"
_KEY_CHARS = 12
_CLI_TIMEOUT_S = 300
TEMPORARY = ".making-"

Progress = Callable[[str], None]


def sha256_of(path: Path) -> str:
    """SHA-256 of a file, in hex."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def pins_key() -> str:
    """A short hash of everything that decides what a base holds."""
    digest = hashlib.sha256(_FORMAT.encode())
    for path in (POM, CHECKSUMS):
        digest.update(path.read_bytes())
    for module in layout.MODULES:
        digest.update((module.descriptor() + module.policy()).encode())
    return digest.hexdigest()[:_KEY_CHARS]


def is_assembled(root: Path) -> bool:
    """Whether a base of the present pins is there, so that Maven has nothing to download."""
    return (root / f"base-{pins_key()}").is_dir()


def check_files(folder: Path, sums: Mapping[str, str]) -> None:
    """Compares every file below ``folder`` with its committed checksum.

    Args:
        folder: What Maven filled.
        sums: Relative POSIX path -> SHA-256 in hex.

    Raises:
        ConfigError: ``artifact_checksum_mismatch`` naming the file that differs, lacks, or is not listed.
    """
    found = {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}
    for path in sorted(found | set(sums)):
        if path not in found:
            problem = "is missing after Maven ended"
        elif path not in sums:
            problem = "is not in the list of pinned artifacts"
        elif sha256_of(folder / path) != sums[path]:
            problem = "does not have the pinned checksum"
        else:
            continue
        raise ConfigError(
            "artifact_checksum_mismatch",
            f"{path} {problem}; the embedded cluster was not assembled.",
            mend="Remove this artifact from Maven's local repository (~/.m2/repository) and run the command "
            "again; if it happens again, the repository that Maven uses serves another file.",
            subject=path,
        )


def assemble_base(root: Path, jdk: Jdk, progress: Progress) -> Path:
    """OpenSearch with its modules and k-NN.

    Args:
        root: Folder of assemblies; the caller holds its lock.
        jdk: JDK for Maven and the install tool.
        progress: Told when something takes long.

    Returns:
        The base's folder.

    Raises:
        ConfigError: ``maven_missing``, ``artifact_checksum_mismatch``, ``plugin_install_failed``.
        UpstreamError: ``maven_failed``.
    """
    target = root / f"base-{pins_key()}"
    if target.is_dir():
        return target
    sums: dict[str, str] = json.loads(CHECKSUMS.read_text(encoding="utf-8"))
    making = _fresh(root, target.name)
    progress(
        f"assembling OpenSearch {layout.OPENSEARCH_VERSION} from {len(sums)} Maven artifacts "
        "(about 130 MB to download the first time)"
    )
    node = making / "node"
    # Maven gets a copy: the package's own folder may not be writable.
    pom = Path(shutil.copy(POM, making / "pom.xml"))
    run_maven(["validate", f"-Dnode={node}", "-f", str(pom)], folder=making, java_home=jdk.home)
    check_files(node, sums)
    for module in layout.MODULES:
        folder = node / "modules" / module.name
        (folder / "plugin-descriptor.properties").write_text(module.descriptor(), encoding="utf-8")
        if module.permissions:
            (folder / "plugin-security.policy").write_text(module.policy(), encoding="utf-8")
    # A node insists that these exist, and may not make them itself.
    for name in ("plugins", "config", "bin", "extensions"):
        (node / name).mkdir()
    install_plugin(node, node / layout.KNN_ZIP, layout.KNN_PLUGIN, jdk)
    (node / layout.KNN_ZIP).unlink()
    (node / layout.KNN_ZIP).parent.rmdir()
    return _finish(making, node, target)


def add_plugin(root: Path, base: Path, zip_file: Path, jdk: Jdk, progress: Progress) -> tuple[Path, str]:
    """The base with one build of our plugin.

    Args:
        root: Folder of assemblies; the caller holds its lock.
        base: What ``assemble_base`` returned.
        zip_file: The plugin's zip.
        jdk: JDK for the install tool.
        progress: Told when something takes long.

    Returns:
        The assembly's folder and the build's key, a short hash of the zip.

    Raises:
        ConfigError: ``plugin_install_failed``.
    """
    key = sha256_of(zip_file)[:_KEY_CHARS]
    target = root / f"node-{base.name.removeprefix('base-')}-{key}"
    if target.is_dir():
        return target, key
    progress(f"installing the plugin {zip_file.name}")
    making = _fresh(root, target.name)
    node = making / "node"
    shutil.copytree(base, node, copy_function=_link_or_copy)
    install_plugin(node, zip_file, layout.OUR_PLUGIN, jdk)
    return _finish(making, node, target), key


def install_plugin(node: Path, zip_file: Path, name: str, jdk: Jdk) -> None:
    """Installs a plugin's zip with OpenSearch's own install tool, which checks it.

    Raises:
        ConfigError: ``plugin_install_failed`` with the tool's last words.
    """
    command = [
        str(jdk.java),
        "-Xmx256m",
        f"-Dopensearch.path.home={node}",
        f"-Dopensearch.path.conf={node / 'config'}",
        "-Dopensearch.distribution.type=tar",
        "-Dopensearch.bundled_jdk=false",
        "-cp",
        f"{node / 'lib'}/*:{node / 'tools/plugin-cli'}/*",
        "org.opensearch.tools.cli.plugin.PluginCli",
        "install",
        # Batch: the tool asks about a plugin's permissions, and nobody is there to answer.
        "-b",
        zip_file.absolute().as_uri(),
    ]
    try:
        done = subprocess.run(  # noqa: S603 - fixed program, no shell
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=_CLI_TIMEOUT_S,
            check=False,
        )
        status, words = done.returncode, "\n".join(done.stdout.splitlines()[-15:])
    except subprocess.TimeoutExpired:
        status, words = 124, f"the install tool did not end within {_CLI_TIMEOUT_S} s"
    if status == 0 and not (node / "plugins" / name).is_dir():
        status, words = 1, f"the zip holds another plugin than {name}"
    if status != 0:
        raise ConfigError(
            "plugin_install_failed",
            f"OpenSearch's install tool did not take {zip_file}:\n{words}",
            mend=f"The zip must be built for OpenSearch {layout.OPENSEARCH_VERSION}; build it anew.",
            subject=str(zip_file),
        )


def prune(root: Path, keep: Path) -> None:
    """Removes assemblies other than ``keep`` and its base. Only while no node runs from them."""
    base = f"base-{pins_key()}"
    for folder in root.iterdir():
        ours = folder.is_dir() and folder.name.startswith(("base-", "node-", TEMPORARY))
        if ours and folder.name not in (base, keep.name):
            shutil.rmtree(folder, ignore_errors=True)


def _fresh(root: Path, name: str) -> Path:
    # The caller holds the lock: a folder of this name was left by a process that died.
    folder = root / f"{TEMPORARY}{name}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder


def _finish(making: Path, node: Path, target: Path) -> Path:
    """Opens the tree to the node's user and moves it to its place in one step."""
    for parent, folders, files in os.walk(node):
        for name in folders:
            (Path(parent) / name).chmod(0o755)
        for name in files:
            (Path(parent) / name).chmod(0o644)
    node.chmod(0o755)
    node.rename(target)
    shutil.rmtree(making, ignore_errors=True)
    return target


def _link_or_copy(source: str, target: str) -> str:
    try:
        os.link(source, target)
    except OSError:  # a file system without hard links
        shutil.copy2(source, target)
    return target
