"""The search for a JDK, on fake trees of folders."""

from __future__ import annotations

from pathlib import Path

import pytest

from pincite.adapters.embedded.jdk import NEEDED_MODULES, find_jdk, probe, standard_folders
from pincite.domain.errors import ConfigError

_FULL = " ".join(["java.base", *sorted(NEEDED_MODULES)])


def fake_jdk(home: Path, version: str = "21.0.4", modules: str = _FULL, *, javac: bool = True) -> Path:
    (home / "bin").mkdir(parents=True)
    for name in ("java", "javac") if javac else ("java",):
        (home / "bin" / name).write_text("#!/bin/sh\nexit 1\n")
        (home / "bin" / name).chmod(0o755)
    (home / "release").write_text(f'IMPLEMENTOR="Someone"\nJAVA_VERSION="{version}"\nMODULES="{modules}"\n')
    return home


def search(tmp_path: Path, environ: dict[str, str] | None = None, explicit: Path | None = None, **kwargs):
    return find_jdk(
        explicit,
        environ=environ or {},
        folders=lambda: standard_folders(tmp_path / "root", tmp_path / "user"),
        **kwargs,
    )


def test_explicit_wins(tmp_path):
    mine = fake_jdk(tmp_path / "mine")
    other = fake_jdk(tmp_path / "other", "25.0.1")
    found = search(tmp_path, {"JAVA_HOME": str(other)}, mine)
    assert (found.home, found.version, found.found_by) == (mine, "21.0.4", "PINCITE_JAVA_HOME")


@pytest.mark.parametrize(
    ("version", "modules", "javac", "word"),
    [
        ("17.0.15", _FULL, True, "older than 21"),
        ("1.8.0_402", _FULL, True, "older than 21"),
        ("21.0.1", "java.base jdk.localedata jdk.compiler", True, "jdk.incubator.vector"),
        ("21.0.1", "java.base jdk.incubator.vector jdk.compiler", True, "jdk.localedata"),
        ("21.0.1", _FULL, False, "bin/javac"),
    ],
)
def test_unfit_explicit_is_an_error_that_names_it(tmp_path, version, modules, javac, word):
    unfit = fake_jdk(tmp_path / "unfit", version, modules, javac=javac)
    fake_jdk(tmp_path / "root/usr/lib/jvm/temurin-25")
    with pytest.raises(ConfigError) as caught:
        search(tmp_path, explicit=unfit)
    error = caught.value
    assert error.code == "jdk_missing"
    assert error.subject == str(unfit)
    assert word in error.message
    assert "Temurin 21+" in error.mend
    assert "openjdk-21" in error.mend


def test_explicit_that_is_not_there(tmp_path):
    with pytest.raises(ConfigError, match="no bin/java"):
        search(tmp_path, explicit=tmp_path / "nothing")


def test_unfit_java_home_is_passed_over(tmp_path):
    old = fake_jdk(tmp_path / "old", "17.0.1")
    good = fake_jdk(tmp_path / "root/usr/lib/jvm/temurin-25-jdk", "25.0.3")
    assert search(tmp_path, {"JAVA_HOME": str(old)}).home == good


def test_path_is_followed_to_the_end_of_its_links(tmp_path):
    good = fake_jdk(tmp_path / "somewhere/jdk")
    (tmp_path / "usrbin").mkdir()
    (tmp_path / "alternatives").symlink_to(good / "bin/java")
    (tmp_path / "usrbin/java").symlink_to(tmp_path / "alternatives")
    found = search(tmp_path, {"PATH": str(tmp_path / "usrbin")})
    assert (found.home, found.found_by) == (good, "PATH")


@pytest.mark.parametrize(
    "place",
    [
        "root/usr/lib/jvm/java-21-openjdk-amd64",
        "root/opt/java-23",
        "root/opt/java/openjdk",
        "user/.sdkman/candidates/java/22.0.1-tem",
        "root/Library/Java/JavaVirtualMachines/temurin-21.jdk/Contents/Home",
    ],
)
def test_usual_folders(tmp_path, place):
    good = fake_jdk(tmp_path / place)
    assert search(tmp_path).home == good


def test_order_is_java_home_then_path_then_folders(tmp_path):
    by_env = fake_jdk(tmp_path / "env")
    by_path = fake_jdk(tmp_path / "path")
    fake_jdk(tmp_path / "root/usr/lib/jvm/x")
    environ = {"JAVA_HOME": str(by_env), "PATH": str(by_path / "bin")}
    assert search(tmp_path, environ).home == by_env
    del environ["JAVA_HOME"]
    assert search(tmp_path, environ).home == by_path


def test_none_lists_what_was_looked_at(tmp_path):
    old = fake_jdk(tmp_path / "root/usr/lib/jvm/java-17", "17.0.2")
    with pytest.raises(ConfigError) as caught:
        search(tmp_path)
    assert caught.value.code == "jdk_missing"
    assert "older than 21" in caught.value.detail["looked_at"][str(old)]
    assert "Temurin 21+" in caught.value.mend
    assert "openjdk-21" in caught.value.mend
    assert "PINCITE_JAVA_HOME" in caught.value.mend


def test_one_that_the_nodes_user_cannot_reach_is_passed_over(tmp_path):
    closed = fake_jdk(tmp_path / "closed")
    good = fake_jdk(tmp_path / "root/usr/lib/jvm/x")
    found = search(tmp_path, {"JAVA_HOME": str(closed)}, usable=lambda home: home != closed)
    assert found.home == good


def test_without_a_release_file_the_launcher_is_asked(tmp_path):
    home = tmp_path / "odd"
    (home / "bin").mkdir(parents=True)
    modules = "\\n".join(f"{name}@21" for name in _FULL.split())
    (home / "bin/java").write_text(
        "#!/bin/sh\n"
        f'if [ "$1" = --list-modules ]; then printf "{modules}\\n"; '
        "else echo 'openjdk version \"21.0.9\" 2026-01-01' >&2; fi\n"
    )
    (home / "bin/javac").write_text("")
    (home / "bin/java").chmod(0o755)
    assert probe(home) == ("21.0.9", "")
