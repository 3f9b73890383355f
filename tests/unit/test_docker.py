"""docker/: every path, variable, port and command in it exists. Nothing is built here."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from pydantic import BaseModel

import pincite
from pincite.cli.main import cli
from pincite.wiring.settings import Settings

ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "docker"
COMPOSE: dict[str, Any] = yaml.safe_load((DOCKER / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
DOCKERFILES = sorted(DOCKER.glob("Dockerfile.*"))
# Made by `make plugin` and by the build stage, not part of a checkout.
BUILT = {f"plugin/target/pincite-plugin-{pincite.__version__}.zip", "/wheels"}


def variables(model: type[BaseModel], prefix: str = "PINCITE_") -> set[str]:
    """The environment variables of the settings."""
    names: set[str] = set()
    for field, info in model.model_fields.items():
        kind = info.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            names |= variables(kind, f"{prefix}{field.upper()}__")
        else:
            names.add(f"{prefix}{field.upper()}")
    return names


KNOWN = variables(Settings)


def instructions(dockerfile: Path) -> list[tuple[str, str]]:
    text = re.sub(r"\\\n\s*", " ", dockerfile.read_text())
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(line.split(None, 1)[0], line.split(None, 1)[1]) for line in lines]


def test_the_list_of_variables_is_what_the_settings_read(monkeypatch: pytest.MonkeyPatch) -> None:
    assert {"PINCITE_HOME", "PINCITE_BROKER__URL", "PINCITE_SIDECAR__TOKEN"} <= KNOWN
    monkeypatch.setenv("PINCITE_SIDECAR__PORT", "9999")
    assert Settings().sidecar.port == 9999


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda p: p.name)
def test_what_is_copied_exists(dockerfile: Path) -> None:
    seen = 0
    for name, rest in instructions(dockerfile):
        if name == "COPY":
            *sources, _target = [word for word in rest.split() if not word.startswith("--")]
            for source in sources:
                assert source in BUILT or (ROOT / source).exists(), source
                seen += 1
    assert seen


def test_the_wheel_gets_all_that_it_packs() -> None:
    copied = " ".join(rest for name, rest in instructions(DOCKER / "Dockerfile.sidecar") if name == "COPY")
    pyproject = (ROOT / "pyproject.toml").read_text()
    packed = re.findall(r'^"([a-z_]+)" = "pincite/_data', pyproject, re.MULTILINE)
    assert packed
    for folder in packed:
        assert f"{folder} {folder}" in copied


def test_the_plugin_is_the_one_that_maven_makes() -> None:
    pom = (ROOT / "plugin/pom.xml").read_text()
    version = re.search(r"<artifactId>pincite-plugin</artifactId>\s*<version>([^<]+)</version>", pom)
    opensearch = re.search(r"<opensearch.version>([^<]+)</opensearch.version>", pom)
    assert version
    assert opensearch
    text = (DOCKER / "Dockerfile.opensearch").read_text()
    assert f"pincite-plugin-{version[1]}.zip" in text
    assert f"FROM opensearchproject/opensearch:{opensearch[1]}\n" in text


def test_variables_are_settings() -> None:
    used: set[str] = set()
    for path in [
        *DOCKERFILES,
        DOCKER / "compose.yaml",
        DOCKER / ".env.example",
        DOCKER / "opensearch-entrypoint.sh",
    ]:
        used |= set(re.findall(r"PINCITE_[A-Z_]+[A-Z]", path.read_text()))
    assert len(used) >= 8
    assert used <= KNOWN


def test_every_variable_of_the_compose_file_is_in_the_example_and_conversely() -> None:
    compose = set(re.findall(r"\$\{([A-Z_]+)", (DOCKER / "compose.yaml").read_text()))
    example = set(re.findall(r"^([A-Z_]+)=", (DOCKER / ".env.example").read_text(), re.MULTILINE))
    assert compose == example


def test_the_containers_settings_are_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("sidecar", "worker"):
        for key, value in SERVICES[name]["environment"].items():
            filled = re.sub(r"\$\{[A-Z_]+:-([^}]*)\}", r"\1", value)
            monkeypatch.setenv(key, re.sub(r"\$\{[A-Z_]+:\?[^}]*\}", "x", filled))
        settings = Settings()
        assert settings.broker.url is not None
        assert settings.sidecar.token is not None
        assert settings.opensearch.url == "http://opensearch:9200"


def test_urls_name_services_and_the_ports_they_listen_on() -> None:
    ports = {
        "opensearch": 9200,
        "rabbitmq": 5672,
        "sidecar": int(SERVICES["sidecar"]["environment"]["PINCITE_SIDECAR__PORT"]),
    }
    exposed = dict(instructions(DOCKER / "Dockerfile.sidecar"))["EXPOSE"]
    assert int(exposed) == ports["sidecar"] == Settings.model_fields["sidecar"].default.port
    seen = 0
    for name, service in SERVICES.items():
        for value in service.get("environment", {}).values():
            for host, port in re.findall(r"(?:://|@)([a-z]+):(\d+)", str(value)):
                assert ports[host] == int(port), (name, value)
                seen += 1
        for published in service.get("ports", []):
            address, outer, inner = published.split(":")
            assert address == "127.0.0.1"
            assert outer == inner == str(ports[name])
    assert seen >= 7


def test_services_wait_for_healthy_services() -> None:
    assert set(SERVICES) == {"opensearch", "rabbitmq", "sidecar", "worker"}
    for service in SERVICES.values():
        assert service["healthcheck"]["test"][0] in {"CMD", "CMD-SHELL"}
        for other, how in service.get("depends_on", {}).items():
            assert how == {"condition": "service_healthy"}
            assert "healthcheck" in SERVICES[other]
        for volume in service.get("volumes", []):
            assert volume.split(":")[0] in COMPOSE["volumes"]
        if "build" in service:
            assert (DOCKER / service["build"]["context"]).resolve() == ROOT
            assert (ROOT / service["build"]["dockerfile"]).is_file()
        else:
            assert re.fullmatch(r"[a-z/]+:\d+\.\d+\.\d+", service["image"])


def test_commands_are_pincites() -> None:
    entry = dict(instructions(DOCKER / "Dockerfile.sidecar"))["ENTRYPOINT"]
    assert entry == '["pincite"]'
    assert 'pincite = "pincite.cli.main:main"' in (ROOT / "pyproject.toml").read_text()
    commands = [SERVICES["sidecar"]["command"], SERVICES["worker"]["command"]]
    commands.append(SERVICES["worker"]["healthcheck"]["test"][2:])
    for command in commands:
        shown = CliRunner().invoke(cli, [command[0], "--help"])
        assert shown.exit_code == 0, shown.output
        for option in command[1:]:
            assert not option.startswith("--") or option in shown.output


def test_the_plugins_settings_are_known_to_it() -> None:
    source = "".join(path.read_text() for path in (ROOT / "plugin/src/main").rglob("*.java"))
    names = [name for name in SERVICES["opensearch"]["environment"] if name.startswith("pincite.")]
    for name in [*names, "pincite.sidecar.token"]:
        assert f'"{name}"' in source
    assert names


def test_the_entrypoint_is_a_shell_script_that_parses() -> None:
    path = DOCKER / "opensearch-entrypoint.sh"
    assert path.stat().st_mode & 0o111
    assert subprocess.run(["bash", "-n", str(path)], check=False).returncode == 0
    last = shlex.split(path.read_text().strip().splitlines()[-1])
    assert last[0] == "exec"


def test_it_says_that_it_was_not_built() -> None:
    assert "Not built here" in (DOCKER / "README.md").read_text()
