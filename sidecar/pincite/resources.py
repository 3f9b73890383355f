"""The data files that Pincite ships: mappings, pipelines, contracts.

One function serves a checkout (the folders at its root) and an installed wheel (where they are packed
under ``pincite/_data``), so that no other code knows which of the two it runs from.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_PACKAGE = Path(__file__).resolve().parent
_CHECKOUT = _PACKAGE.parents[1]


def path(name: str) -> Path:
    """The path of a shipped file or folder.

    Args:
        name: Path relative to the repository's root, for instance ``mappings/chunks.json``.

    Raises:
        FileNotFoundError: Neither the checkout nor the wheel has it: the installation is damaged.
    """
    for root in (_PACKAGE / "_data", _CHECKOUT):
        candidate = root / name
        if candidate.exists():
            return candidate
    raise FileNotFoundError(f"pincite's own data file {name!r} is missing; install pincite again")


def load_json(name: str) -> Any:
    """A shipped JSON file, parsed."""
    return json.loads(path(name).read_text(encoding="utf-8"))
