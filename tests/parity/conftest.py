from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
JOBS = ROOT / "tests" / "support" / "colbert_oracle.py"

Oracle = Callable[[str, Mapping[str, Any]], dict[str, np.ndarray]]


@pytest.fixture(scope="session")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Oracle:
    """Runs a job of colbert_oracle.py with colbert-ai: (job, arguments) to arrays."""
    folder = Path(os.environ.get("PINCITE_COLBERT_ORACLE", ROOT / ".cache" / "colbert-oracle"))
    python = folder / "bin" / "oracle-python"
    if not (folder / ".pincite-oracle").is_file():
        # Not a skip: a run without the oracle would pass without having compared anything.
        pytest.fail(f"colbert-ai is not installed in {folder}: run scripts/oracle.sh", pytrace=False)
    work = tmp_path_factory.mktemp("oracle")

    def run(job: str, arguments: Mapping[str, Any]) -> dict[str, np.ndarray]:
        source, target = work / f"{job}.json", work / f"{job}.npz"
        source.write_text(json.dumps(arguments), encoding="utf-8")
        command = [python, JOBS, job, source, target]
        done = subprocess.run(command, cwd=work, capture_output=True, text=True, timeout=240, check=False)
        assert done.returncode == 0, f"{job}: {done.stdout[-2000:]}\n{done.stderr[-4000:]}"
        with np.load(target) as found:
            arrays = {name: found[name] for name in found.files}
        assert not any((folder / "home").iterdir()), "colbert-ai wrote to its home"
        return arrays

    return run
