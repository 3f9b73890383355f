# Two commands do all the set-up: `make demo` and `make test`. Everything else is for daily work.
.DEFAULT_GOAL := help
SHELL := /bin/bash
PY := .venv/bin/python

.PHONY: help setup demo test lint format plugin bench-refusal bench-fusion bench-codec bench-encode bench-first-stage \
        bench-late-interaction bench-maxsim clean

help: ## This list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

setup: ## Install what is missing, into .venv
	@scripts/setup.sh demo

demo: ## Real licences into a real cluster, three cited answers, one refusal, verified
	@scripts/setup.sh demo
	@$(PY) -m pincite.evals.demo

test: ## Lint, types, layers, Java and Python tests
	@scripts/setup.sh test
	@scripts/test.sh

lint: ## Format, lint, types, layers
	@scripts/setup.sh demo
	@.venv/bin/ruff format . && .venv/bin/ruff check --fix . && .venv/bin/mypy && .venv/bin/lint-imports

plugin: ## Build the OpenSearch plugin's zip
	@scripts/setup.sh demo
	@JAVA_HOME=$$($(PY) -m pincite.cli.java_home) mvn -B -ntp -q -f plugin/pom.xml -DskipTests package
	@ls plugin/target/pincite-plugin-*.zip

bench-refusal: ## Refusals on questions that the licence corpus can and cannot answer
	@scripts/setup.sh demo
	@$(PY) -m pincite.evals.refusal

bench-fusion: ## What each leg, their fusion and MaxSim find
	@scripts/setup.sh demo
	@$(PY) -m pincite.evals.fusion

bench-codec: ## What the projection and the codes of the MiniLM codec cost in quality
	@scripts/setup.sh demo
	@$(PY) -m pincite.evals.codec_quality

bench-encode: ## Encoding speed and accuracy beside plain sentence-transformers
	@scripts/setup.sh demo
	@$(PY) -m pincite.evals.encode

bench-late-interaction: ## The hook beside the engine's own late interaction: speed, bytes, quality
	@scripts/setup.sh demo
	@$(PY) -m pincite.evals.late_interaction

bench-maxsim: ## MaxSim over residual codes beside numpy and torch, two threads
	@scripts/setup.sh demo
	@OMP_NUM_THREADS=2 OPENBLAS_NUM_THREADS=2 $(PY) -m pincite.evals.maxsim

bench-first-stage: ## Recall and speed of centroids, BM25, k-NN and their fusion (CHUNKS=20000)
	@scripts/setup.sh demo
	@$(PY) -m pincite.evals.first_stage

clean: ## Remove what was built here (not the cluster's data)
	@rm -rf plugin/target build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
