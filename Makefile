# One command each; every target makes what it needs. `make help` lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
unexport PYTHONDONTWRITEBYTECODE   # or every process compiles every module anew

.PHONY: help demo test test-slow check bench papers peers results docs clean
help:            ## list the tasks
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

$(VENV)/.demo: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q --disable-pip-version-check --upgrade "pip>=25.1"
	$(BIN)/pip install -q --disable-pip-version-check -e '.[demo,frames]'
	@touch $@

$(VENV)/.dev: $(VENV)/.demo
	$(BIN)/pip install -q --disable-pip-version-check --group dev
	@touch $@

$(VENV)/.bench: $(VENV)/.dev
	$(BIN)/pip install -q --disable-pip-version-check --group bench
	@touch $@

demo: $(VENV)/.demo   ## five simulated organisations grow one forest
	$(BIN)/spinney demo

check: $(VENV)/.dev   ## lint, format, types, import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

WORKERS ?= 2
test: check   ## everything CI runs: the checks and the fast tests, WORKERS=2 files at a time
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

test-slow: $(VENV)/.bench   ## the slow tests: papers, quality on ../shared/data, long statistics
	$(BIN)/python -m pytest -m slow

bench: $(VENV)/.bench   ## every benchmark, as tables and JSON in benchmarks/results
	$(BIN)/python benchmarks/run_all.py

PAPER ?= all
papers: $(VENV)/.bench   ## the papers' experiments: PAPER=s1..s5 or all, FAST=1 for minutes; resumes
	cd benchmarks && $(CURDIR)/$(BIN)/python -m papers $(PAPER) $(if $(FAST),--fast)

peers: $(VENV)/.bench   ## the peers on the same rows; INSTALL=1 makes their environments
	cd benchmarks && $(CURDIR)/$(BIN)/python -m peers $(if $(INSTALL),--install)

results: $(VENV)/.bench   ## docs/results.md from the published files in docs/results/
	cd benchmarks && $(CURDIR)/$(BIN)/python -m papers page

docs: $(VENV)/.dev   ## the documentation site, into site/
	$(BIN)/mkdocs build --strict

clean:           ## remove what the targets made
	rm -rf $(VENV) site .pytest_cache .mypy_cache .ruff_cache .hypothesis
