#!/usr/bin/env bash
# All checks and tests: lint, types, layers, Java, Python. Prints how many tests of each kind ran.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=.venv/bin
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

step() { printf '\n== %s\n' "$*"; }

step "lint, types, layers"
$bin/ruff check .
$bin/ruff format --check .
$bin/mypy
$bin/lint-imports --no-cache

step "Java: build and test the plugin"
JAVA_HOME=$($bin/python -m pincite.cli.java_home)
export JAVA_HOME
mvn -B -ntp -f plugin/pom.xml clean package >"$out/mvn.log" 2>&1 || { tail -n 80 "$out/mvn.log"; exit 1; }
grep -E 'Tests run:.*Time|Building zip|BUILD' "$out/mvn.log" || true

step "Python"
status=0
$bin/python -m pytest tests --junitxml="$out/pytest.xml" "$@" || status=$?

step "summary"
$bin/python scripts/summary.py "$out/pytest.xml" plugin/target/surefire-reports || status=1
exit $status
