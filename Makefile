# One command each; every target makes what it needs. `make help` lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
unexport PYTHONDONTWRITEBYTECODE   # or every process compiles every module anew
# Modules are compiled when they are first imported: most of what wheels bring never is.
PIP_INSTALL := $(BIN)/pip install -q --disable-pip-version-check --no-compile

.PHONY: help demo test test-slow check bench papers peers results docs release clean
help:            ## list the tasks
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

$(VENV)/.demo: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Spinney needs Python 3.11 or newer. Name one: make demo PYTHON=python3.13")'
	$(PYTHON) -m venv $(VENV)
	$(PIP_INSTALL) --upgrade "pip>=25.1"
	$(PIP_INSTALL) -e '.[demo,frames]'
	@touch $@

$(VENV)/.dev: $(VENV)/.demo
	$(PIP_INSTALL) --group dev
	@touch $@

$(VENV)/.bench: $(VENV)/.dev
	$(PIP_INSTALL) --group bench
	@touch $@

demo: $(VENV)/.demo   ## five simulated organisations grow one forest
	$(BIN)/spinney demo

check: $(VENV)/.dev   ## lint, format, types, import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

WORKERS ?= 3   # one more than cores: some tests wait for processes of their own
test: check   ## everything CI runs: the checks and the fast tests, WORKERS=3 files at a time
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

$(VENV)/.release: $(VENV)/.dev
	$(PIP_INSTALL) --group release
	@touch $@

release: $(VENV)/.release   ## packages, checks, changelog, parts list, site and checksums, into dist/
	$(BIN)/python tools/release.py

clean:           ## remove what the targets made
	rm -rf $(VENV) site dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis
