# `make book` runs the study and builds the book; `make test` runs all tests. Both set up what they need.
PYTHON ?= python3
VENV := .venv
ifeq ($(OS),Windows_NT)
BIN := $(VENV)/Scripts
else
BIN := $(VENV)/bin
endif
READY := $(VENV)/.ready

.PHONY: setup book run serve test lint format jupyter lock reference clean

setup: $(READY)

$(READY): requirements.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	$(BIN)/python -c "import pathlib; pathlib.Path('$(READY)').touch()"

run: $(READY)
	$(BIN)/wirebound run

book: $(READY)
	$(BIN)/wirebound run
	$(BIN)/wirebound book

serve: $(READY)
	$(BIN)/wirebound serve

test: $(READY)
	$(BIN)/python tests/browser/ensure_browser.py
	$(BIN)/python -m pytest --numprocesses auto --dist loadfile

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m wirebound.study.check_notebooks

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/python -m wirebound.study.check_notebooks --fix

jupyter: $(READY)
	$(BIN)/jupyter lab --ServerApp.root_dir=. --LabApp.default_url=/lab/tree/notebooks $(JUPYTER_FLAGS)

# Maintainers: pin what a fresh environment gets now. Local version suffixes such as +cpu are dropped.
lock:
	$(PYTHON) -m venv $(VENV)-lock
	$(VENV)-lock/bin/python -m pip install --quiet torch==2.13.0 hatchling editables ".[study,dev]"
	$(VENV)-lock/bin/python -m pip freeze --exclude wirebound | sed -E 's/\+[a-z0-9.]+$$//; s/ @ .*//' > requirements.lock
	rm -rf $(VENV)-lock

# Maintainers: take the last quick run as the published one.
reference: $(READY)
	$(BIN)/wirebound compare --accept quick

clean:
	rm -rf runs book/_build
