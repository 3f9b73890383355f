"""What every model adapter does before it loads a checkpoint."""

from __future__ import annotations

import hashlib
import os
from importlib import import_module
from pathlib import Path
from types import ModuleType

from pincite.domain.errors import ConfigError


def model_library(path: str | Path, setting: str) -> ModuleType:
    """sentence-transformers, imported quietly and kept off the hub for a local checkpoint.

    Args:
        path: The checkpoint: a folder, or an id of the hub.
        setting: The setting that asks for it, for the error.

    Raises:
        ConfigError: ``models_missing``.
    """
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    # Threads that spin while they wait starve the search node on the same cores.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    if Path(path).is_dir():
        # A local checkpoint needs no hub; without this a closed network costs minutes of retries.
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
    try:
        library = import_module("sentence_transformers")
        logs = import_module("transformers.utils.logging")
    except ImportError as exc:
        raise ConfigError(
            "models_missing",
            f"{setting} needs {exc.name}, which is not installed.",
            mend="Install the models extra: pip install 'pincite[models]'.",
            subject=setting,
        ) from exc
    logs.disable_progress_bar()
    logs.set_verbosity_error()
    return library


def checkpoint_id(path: Path) -> str:
    """The checkpoint's name, with a hash of its weights where they are local."""
    weights = path / "model.safetensors"
    if not weights.is_file():
        return str(path)
    with weights.open("rb") as file:
        return f"{path.name}@{hashlib.file_digest(file, 'sha256').hexdigest()[:12]}"
