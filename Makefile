# Every target sets up what it needs; `make help` lists them.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
ifndef OUT
OUT := runs/mmva-mnist-$(shell date +%Y%m%d-%H%M%S)
endif

.DEFAULT_GOAL := help
.PHONY: help setup train test lint types docs check bench clean

help:  ## List the targets.
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

setup: $(READY)  ## Make the virtual environment in .venv and install everything.

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $(READY)

train: $(READY)  ## Get MNIST and train the default recipe (two to four minutes on two cores).
	$(BIN)/mmdgm train mmva-mnist --out $(OUT)
	$(BIN)/mmdgm evaluate $(OUT)

test: $(READY)  ## Run the tests.
	$(BIN)/python -m pytest

lint: $(READY)  ## Check style and formatting.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)  ## Check the types, strictly.
	$(BIN)/mypy

docs: $(READY)  ## Write the tables of the docs again from experiments/results.
	$(BIN)/mmdgm results

check: lint types test  ## All that CI checks.
	$(BIN)/mmdgm results --check

bench: $(READY)  ## Measure the training speed on this machine.
	$(BIN)/mmdgm bench train

clean:  ## Remove what was built; runs stay.
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
