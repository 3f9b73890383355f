"""Settings: environment variables ``PINCITE_*`` (nested with ``__``) and their defaults.

Only entry points read them (``Settings()``); everything below receives plain values.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict, SettingsError

from pincite.domain.errors import ConfigError


def default_home() -> Path:
    """Where data lives: a folder that the unprivileged user of the embedded node can reach.

    Root's own home is closed to other users, so root gets ``/var/lib/pincite``.
    """
    if os.geteuid() == 0:
        return Path("/var/lib/pincite")
    base = os.environ.get("XDG_DATA_HOME")
    return (Path(base) if base else Path.home() / ".local" / "share") / "pincite"


class OpenSearchSettings(BaseModel):
    """How to reach the cluster. Without a URL the embedded cluster is used."""

    url: str | None = None
    user: str | None = None
    password: SecretStr | None = None
    api_token: SecretStr | None = None
    ca: Path | None = None
    timeout_s: float = Field(default=30.0, gt=0)


class ClusterSettings(BaseModel):
    """The embedded cluster."""

    port: int | None = Field(default=None, ge=1024, le=65000)
    nodes: int | None = Field(default=None, ge=1, le=9)
    heap_mb: int = Field(default=1024, ge=256)
    agent: bool = False
    jvm_options: str = Field(default="", description="further options of the JVM, separated by spaces")
    plugin_zip: Path | None = None


class BrokerSettings(BaseModel):
    """RabbitMQ. Without a URL the worker's tasks run in the process that asks."""

    url: SecretStr | None = None
    queue: str = "pincite.answers"


class SidecarSettings(BaseModel):
    """The sidecar: where it listens, and how others reach it."""

    url: str | None = None
    token: SecretStr | None = None
    host: str = "127.0.0.1"
    port: int = Field(default=9280, ge=1, le=65535)
    max_queue: int = Field(default=32, ge=1)
    threads: int = Field(default=8, ge=1)
    cache_mb: int = Field(default=1024, ge=1)
    device: Literal["auto", "cpu", "cuda"] = "auto"


class OpenAISettings(BaseModel):
    """Any server that speaks the OpenAI chat API."""

    base_url: str | None = None
    model: str | None = None
    api_key: SecretStr | None = None
    timeout_s: float = Field(default=60.0, gt=0)
    max_tokens: int = Field(default=800, ge=16)


class RetrievalSettings(BaseModel):
    """Candidates, fusion weights and cut-offs (design.md §3)."""

    k1: int = Field(default=200, ge=1, le=1000)
    k2: int = Field(default=5, ge=1, le=50)
    fusion: Literal["minmax", "rrf"] = "minmax"
    weight_knn: float = Field(default=0.65, ge=0, le=1)
    weight_maxsim: float = Field(default=0.6, ge=0, le=1)
    centroids: bool = True
    nprobe: int = Field(default=4, ge=1, le=32)


class Settings(BaseSettings):
    """All settings of Pincite."""

    model_config = SettingsConfigDict(env_prefix="PINCITE_", env_nested_delimiter="__", extra="ignore")

    home: Path = Field(default_factory=default_home)
    index_prefix: str = Field(default="pincite", pattern=r"^[a-z0-9][a-z0-9_-]{0,60}$")
    java_home: Path | None = None
    opensearch: OpenSearchSettings = OpenSearchSettings()
    cluster: ClusterSettings = ClusterSettings()
    broker: BrokerSettings = BrokerSettings()
    sidecar: SidecarSettings = SidecarSettings()
    openai: OpenAISettings = OpenAISettings()
    retrieval: RetrievalSettings = RetrievalSettings()
    encoder: str = "minilm"
    encoder_engine: Literal["auto", "fp32", "bf16", "int8", "sentence-transformers"] = "auto"
    codec: Literal["auto", "none"] = "auto"
    reranker: str = "identity"
    generator: str = "extractive"
    answerability_threshold: float = Field(default=0.6, ge=0, le=1)

    @field_validator("home", mode="before")
    @classmethod
    def _empty_is_unset(cls, value: Any) -> Any:
        return value if value != "" else default_home()

    @field_validator("home", mode="after")
    @classmethod
    def _absolute(cls, value: Path) -> Path:
        return value.expanduser().absolute()


def load_settings(**overrides: Any) -> Settings:
    """Read the settings from the environment.

    Raises:
        ConfigError: ``setting_invalid``, naming the variable and what it must be.
    """
    try:
        return Settings(**overrides)
    except SettingsError as exc:
        # pydantic-settings names the field only in its message: 'error parsing value for field "opensearch" …'
        found = re.search(r'field "(\w+)"', str(exc))
        name = f"PINCITE_{found[1].upper() if found else '*'}"
        raise ConfigError(
            "setting_invalid",
            f"{name} is not a setting of its own; its parts are set one by one, as {name}__….",
            mend=f"Unset {name}; docs/operations.md lists all settings.",
            subject=name,
        ) from None
    except ValidationError as exc:
        first = exc.errors()[0]
        name = "PINCITE_" + "__".join(str(part).upper() for part in first["loc"])
        raise ConfigError(
            "setting_invalid",
            f"{name} is not valid: {first['msg']}",
            mend=f"Set {name} to an allowed value or unset it; docs/operations.md lists all settings.",
            subject=name,
        ) from None
