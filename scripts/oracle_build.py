"""Compiles colbert-ai's C++ extensions, two at a time, where its own loader looks for them.

Run by scripts/oracle.sh with the folder's Python. colbert-ai would compile them one after the other at first use.
The arguments must be those of colbert-ai's own calls of ``load``: else it compiles again.
"""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

SOURCES = (
    "modeling/segmented_maxsim",
    "search/filter_pids",
    "search/decompress_residuals",
    "search/segmented_lookup",
)


def build(source: str) -> None:
    """Compile and load one extension."""
    from torch.utils.cpp_extension import load

    spec = find_spec("colbert")
    if spec is None or spec.origin is None:
        raise SystemExit("colbert is not importable")
    path = Path(spec.origin).resolve().parent / f"{source}.cpp"
    load(name=f"{path.stem}_cpp", sources=[str(path)], extra_cflags=["-O3"])


def main() -> int:
    """Build all, each in a process of its own."""
    warnings.simplefilter("ignore")
    if len(sys.argv) > 1:
        build(sys.argv[1])
        return 0
    with ThreadPoolExecutor(min(len(SOURCES), os.cpu_count() or 1)) as pool:
        commands = [[sys.executable, __file__, source] for source in SOURCES]
        done = pool.map(subprocess.run, commands)
        return max(p.returncode != 0 for p in done)


if __name__ == "__main__":
    sys.exit(main())
