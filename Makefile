PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.PHONY: optimize test test-torch prove docs lint clean

optimize: $(INSTALLED)  ## optimize real ONNX models end to end and print what changed
	$(BIN)/python benchmarks/real_models.py

test: $(INSTALLED)  ## the whole suite
	$(BIN)/python -m pytest -n auto --dist worksteal

test-torch: $(INSTALLED)  ## installs PyTorch into .venv, too, and runs the tests that need it
	$(BIN)/python -c 'import torch' 2>/dev/null || $(BIN)/python -m pip install --quiet torch==2.13.0
	$(BIN)/python -m pytest tests/torch

prove: $(INSTALLED)  ## prove all rules; one that was proved must still be
	$(BIN)/eqsat rules prove --no-cache --expect rules/prove/proved.json

docs: $(INSTALLED)  ## build the documents as a site, in build/site; a warning is an error
	$(BIN)/python -c 'import mkdocstrings' 2>/dev/null || $(BIN)/python -m pip install --quiet --editable '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

$(INSTALLED): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	$(BIN)/python -m compileall -q src rules extraction  # each process starts faster, also with PYTHONDONTWRITEBYTECODE
	touch $@

clean:
	rm -rf build $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis
