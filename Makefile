PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/installed
AXE := $(VENV)/node_modules/axe-core/axe.min.js

SOAK_ROUNDS ?= 60
SOAK_MINUTES ?= 30

# Compiled code stays out of the checkout, and is there for the many processes that tests start.
PYTHON_HERE := env -u PYTHONDONTWRITEBYTECODE PYTHONPYCACHEPREFIX=$(CURDIR)/$(VENV)/compiled $(BIN)/python
PYTEST := $(PYTHON_HERE) -m pytest -n auto --maxprocesses=4 --dist=worksteal

.PHONY: leaderboard test test-all axe bench soak docs read lint clean

leaderboard: $(STAMP)  ## run the quickstart suite and print its answer
	@echo "==> dataeff run quickstart (finished cells are skipped)"
	@$(BIN)/dataeff run quickstart

test: $(STAMP)  ## run the tests (no network, no GPU needed); pairs of strategies and long tests are drawn by commit
	@echo "==> pytest"
	@$(PYTEST)

test-all: $(STAMP) axe  ## run all tests
	@echo "==> pytest, everything"
	@DATAEFF_ALL=1 $(PYTEST)

axe:  ## fetch what looks for barriers on pages, where npm is installed; tests without it are skipped
	@test -e $(AXE) || ! command -v npm >/dev/null || \
	  npm install --silent --no-save --prefix $(VENV) axe-core@4.14.0 || true

bench: $(STAMP)  ## measure the trainer against hand-written loops, interleaved
	@echo "==> pytest benchmarks/perf"
	@$(PYTHON_HERE) -m pytest -s benchmarks/perf

soak: $(STAMP)  ## kill runs again and again, until their cells end with the numbers of one that was not
	@echo "==> $(SOAK_ROUNDS) rounds, at most $(SOAK_MINUTES) minutes"
	@$(PYTHON_HERE) benchmarks/soak.py $(SOAK_ROUNDS) $(SOAK_MINUTES)

docs: $(STAMP)  ## build the documentation as a site, in build/docs
	@$(BIN)/python -m pip install --quiet --editable '.[docs]'
	@echo "==> mkdocs"
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo "build/docs/index.html"

read: $(STAMP)  ## build dataeff-read, which reads results without torch, in build/read
	@echo "==> build/read"
	@$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir build/read ./read
	@ls build/read/*.whl

lint: $(STAMP)  ## check style, format and types
	@echo "==> ruff"
	@$(BIN)/ruff check --no-cache .
	@$(BIN)/ruff format --no-cache --check .
	@echo "==> mypy"
	@$(BIN)/mypy --cache-dir $(VENV)/mypy

clean:
	rm -rf $(VENV) build dist *.egg-info read/build read/*.egg-info

$(STAMP): pyproject.toml
	@echo "==> creating $(VENV) and installing dataeff with its dependencies"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "dataeff needs Python 3.11 or newer: make PYTHON=python3.12")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@
