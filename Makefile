PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
SPHINX  = $(BIN)/python -m sphinx -q -W --keep-going -j 2 -d docs/_build/doctrees

.PHONY: run test test-slow lint bench docs docs-quick release-check clean

$(STAMP): pyproject.toml constraints.txt
	@echo "Setting up .venv (some minutes the first time)"
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt torch
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[all,dev]'
	touch $@

run: $(STAMP)  ## the quick start
	$(BIN)/fullrank quickstart

test: $(STAMP)  ## the whole fast suite
	$(BIN)/python -m pytest -n auto

test-slow: $(STAMP)  ## the tests that take minutes
	$(BIN)/python -m pytest -m slow

lint: $(STAMP)
	$(BIN)/ruff format --check src tests docs
	$(BIN)/ruff check src tests docs
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

bench: $(STAMP)  ## every benchmark, in full
	$(BIN)/fullrank bench layers
	$(BIN)/fullrank bench loading
	$(BIN)/fullrank bench train
	$(BIN)/fullrank bench structure

docs: $(STAMP)  ## the site in docs/_build/html: doctests, every notebook run
	$(SPHINX) -b doctest docs docs/_build/doctest
	$(SPHINX) -b html docs docs/_build/html
	@echo "The site: docs/_build/html/index.html"

docs-quick: $(STAMP)  ## the site with the notebooks as they are written
	FULLRANK_DOCS_QUICK=1 $(SPHINX) -b html docs docs/_build/html

release-check: $(STAMP)  ## distributions, each extra in a fresh environment, quick start
	$(BIN)/python -m pytest -m slow -v --durations=0 \
		-o tmp_path_retention_policy=failed \
		tests/release/test_release.py tests/release/test_install.py

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache docs/_build docs/generated
