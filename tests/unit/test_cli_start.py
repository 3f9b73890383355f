"""The command line starts without the heavy libraries, and ends every error with one clear message."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from pincite.wiring.embedded import sidecar_url
from pincite.wiring.settings import default_home, load_settings

HEAVY = ("torch", "transformers", "sentence_transformers", "celery", "flask", "opensearchpy", "openai", "numpy")


def run(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pincite.cli.main", *args], capture_output=True, text=True, timeout=60, check=False
    )


def test_no_heavy_library_is_imported_to_start() -> None:
    code = (
        "import sys, pincite.cli.main as m\n"
        "m.cli.main(args=['--help'], standalone_mode=False)\n"
        f"print(sorted(set({HEAVY!r}) & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr.strip() == "[]"


@pytest.mark.parametrize(
    "name",
    "ask cluster delete doctor ingest init search serve show sources up verify version worker".split(),
)
def test_every_command_explains_itself(name: str) -> None:
    done = run(name, "--help")
    assert done.returncode == 0, done.stderr
    assert "Usage: pincite" in done.stdout


def test_version_as_json() -> None:
    assert json.loads(run("version", "--json").stdout)["contract"] == 1


@pytest.mark.parametrize("args", [["nonsense"], ["ask"], ["search", "x", "--size", "0"], ["ingest"]])
def test_wrong_usage_exits_2(args: list[str]) -> None:
    done = run(*args)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", ["PINCITE_OPENSEARCH", "PINCITE_SIDECAR"])
def test_a_setting_without_its_part_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "http://127.0.0.1:9200")
    done = run("search", "x", "--json")
    assert done.returncode == 3, done.stderr
    error = json.loads(done.stdout)["error"]
    assert error["code"] == "setting_invalid"
    assert name in error["message"]


def test_an_empty_home_is_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PINCITE_HOME", "")
    assert load_settings().home == default_home()


def test_an_ipv6_sidecar_has_brackets_in_its_url(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PINCITE_SIDECAR__HOST", "::1")
    assert sidecar_url(load_settings()) == "http://[::1]:9280"


def test_a_bad_setting_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PINCITE_RETRIEVAL__K1", "many")
    done = run("search", "x", "--json")
    assert done.returncode == 3
    error = json.loads(done.stdout)["error"]
    assert error["code"] == "setting_invalid"
    assert "PINCITE_RETRIEVAL__K1" in error["message"]
