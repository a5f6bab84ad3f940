# Every target sets up .venv itself.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist worksteal

.DEFAULT_GOAL := help
.PHONY: help setup bench test test-data test-all lint speed leaderboard docs

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) ## create .venv and install fedbench with everything it needs

$(READY): pyproject.toml $(wildcard bench/c/*)
	@echo "Setting up .venv (some minutes, once; details in .venv/install.log) ..."
	@$(PYTHON) -m venv .venv
	@$(BIN)/pip install -e '.[dev]' > .venv/install.log 2>&1 || { tail -n 20 .venv/install.log; exit 1; }
	@touch $(READY)

bench: $(READY) ## every algorithm on the bundled digits: a leaderboard and its learning curves
	@$(BIN)/python bench.py -m 'algo=glob(*)' dataset=digits

test: $(READY) ## the tests that need no data and no network
	$(PYTEST) -m "not slow and not data"

test-data: $(READY) ## the regression on real data (FEDBENCH_DATA or the system's packages)
	$(PYTEST) -m data

test-all: $(READY) ## everything, slow tests too
	$(PYTEST)

lint: $(READY) ## ruff, mypy, import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

speed: $(READY) ## local training against a plain loop (PEERS=venv/bin/python: and other simulators); run nothing else
	@mkdir -p runs
	@$(BIN)/python -m bench speed --json runs/speed.json --plot runs/speed.png $(if $(PEERS),--peers $(PEERS))

leaderboard: $(READY) ## the ledger as Markdown, CSV and a static site, in build/leaderboard
	@$(BIN)/python -m leaderboards build --out build/leaderboard

docs: $(READY) ## the documentation site, in build/docs
	@NO_MKDOCS_2_WARNING=1 PYTHONPATH=. $(BIN)/mkdocs build --strict -q -d build/docs
