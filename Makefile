# Every target first makes .venv ready (scripts/bootstrap.py); nothing else has to be installed by hand.
SHELL := /bin/sh
ifeq ($(OS),Windows_NT)
BIN := .venv/Scripts
else
BIN := .venv/bin
endif
PYTHON := $(BIN)/python
DISPLAYED := $(PYTHON) scripts/with_display.py
# Options for the tool behind a target: make test ARGS="-k zip -x"
ARGS :=

.DEFAULT_GOAL := help
.PHONY: help ready demo test test-long lint style types contracts manifest schema docs bench screenshots trial format clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' Makefile | expand -t 20

ready: ## make .venv with everything the project needs
	@sh scripts/bootstrap.sh

demo: ready ## archive a real image, check it, restore it, compare, and show it in napari
	@$(DISPLAYED) $(BIN)/napari-decant demo -o demo-output $(ARGS)

test: ready ## run the tests
	@$(DISPLAYED) $(PYTHON) -m pytest $(ARGS)

test-long: ready ## run the tests that take many minutes
	@$(DISPLAYED) $(PYTHON) -m pytest tests/long -m "" $(ARGS)

lint: style types contracts manifest schema ## style, types, import contracts, plugin manifest, schema

style: ready
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check

types: ready
	@$(BIN)/mypy

contracts: ready
	@$(BIN)/lint-imports

manifest: ready
	@$(BIN)/npe2 validate napari-decant --imports

schema: ready
	@$(PYTHON) -m napari_decant.archive.schema --check spec/manifest.schema.json

docs: ready ## build the documentation into site/
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict $(ARGS)

bench: ready ## run the benchmarks
	@set -e; for script in benchmarks/[a-z]*.py; do echo "== $$script"; $(PYTHON) "$$script" $(ARGS); done

screenshots: ready ## make the pictures of the documentation from the running program
	@$(DISPLAYED) $(PYTHON) scripts/screenshots.py $(ARGS)
	@$(DISPLAYED) $(PYTHON) scripts/crop_pictures.py $(ARGS)

trial: ready ## try the window with mouse and keyboard, as a new user does
	@$(PYTHON) scripts/trial_window.py $(ARGS)

format: ready ## put the code into the project's style
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format

clean: ## remove what the targets made, the environment too
	rm -rf .venv .bootstrap site dist build demo-output .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
