#!/usr/bin/env bash
# Installs colbert-ai, the oracle of the parity tests, into a folder of its own and prints that folder.
# FOLDER/bin/oracle-python is our Python with that folder first: colbert-ai works there, writes nothing
# to the user's home and asks no model hub.
# Usage: scripts/oracle.sh [FOLDER]        (default: .cache/colbert-oracle in the checkout)
set -euo pipefail
cd "$(dirname "$0")/.."
me=oracle
. scripts/common.sh

folder=${1:-$PWD/.cache/colbert-oracle}
mkdir -p "$(dirname "$folder")"
folder=$(cd "$(dirname "$folder")" && pwd)/$(basename "$folder")
python=$PWD/.venv/bin/python
[ -x "$python" ] || die ".venv is missing. Run scripts/setup.sh first."
pins=requirements/colbert-oracle.txt

# Compiled parts belong to one Python and one torch.
versions=$("$python" -c 'import importlib.metadata as m, sys; print(sys.executable, sys.version, m.version("torch"))') \
  || die "torch is missing in .venv. Run scripts/setup.sh first."
wanted=$({ cat "$pins" scripts/oracle.sh scripts/oracle_build.py; echo "$versions"; } | sha256sum | cut -d' ' -f1)
stamp=$folder/.pincite-oracle
current() { [ "$(cat "$stamp" 2>/dev/null || true)" = "$wanted" ]; }

# colbert-ai compiles, and asks for the compiler again whenever it loads what was compiled.
need g++ g++
if ! current; then
  header=$("$python" -c 'import sysconfig; print(sysconfig.get_paths()["include"] + "/Python.h")')
  if [ ! -f "$header" ]; then
    may_install || die "$header is missing. Install Python's headers (Debian: sudo apt-get install python3-dev)."
    apt_install python3-dev
    [ -f "$header" ] || die "$header is missing, also after installing python3-dev. Install this Python's headers."
  fi

  # Two at once: the second waits, and finds it done.
  exec 9>"$folder.lock"
  if command -v flock >/dev/null 2>&1; then flock 9; fi
fi
if ! current; then
  say "installing colbert-ai into $folder"
  rm -rf "$folder".new.* "$folder".old.*
  new=$folder.new.$$
  trap 'rm -rf "$new" "$folder".old.*' EXIT
  "$python" -m pip install -q --no-deps --only-binary=:all: --disable-pip-version-check --no-warn-conflicts \
    --target "$new" -r "$pins" >&2 || die "pip could not install colbert-ai; the lines above say why"
  cat >"$new/bin/oracle-python" <<RUN
#!/bin/sh
# Written by scripts/oracle.sh.
here=$(printf %q "$folder")
export PYTHONPATH="\$here" PYTHONNOUSERSITE=1 PATH="\$here/bin:\$PATH" TORCH_EXTENSIONS_DIR="\$here/torch_extensions"
export HOME="\$here/home" XDG_CACHE_HOME="\$here/home/.cache" HF_HOME="\$here/home/.cache/huggingface"
export HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 TOKENIZERS_PARALLELISM=false CUDA_VISIBLE_DEVICES=
exec $(printf %q "$python") "\$@"
RUN
  chmod +x "$new/bin/oracle-python"
  mkdir "$new/home"
  [ ! -e "$folder" ] || mv "$folder" "$folder.old.$$"
  mv "$new" "$folder"
  say "compiling colbert-ai's extensions (about a minute)"
  "$folder/bin/oracle-python" scripts/oracle_build.py >&2 || die "colbert-ai's extensions could not be compiled"
  printf '%s' "$wanted" >"$stamp"
fi
printf '%s\n' "$folder"
