# Everything a newcomer or CI runs. Each target creates the environment it needs.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo test test-slow test-interop test-torch test-stan lint docs schema bench bench-scale calibrate paper clean

demo: $(VENV)/.core ## run a real diagnosis and show its report
	$(BIN)/taddaa demo

test: $(VENV)/.test ## run the tests
	$(BIN)/python -m pytest -rs -n 2 --dist loadfile -m "not slow and not stan and not torch"

test-slow: $(VENV)/.test ## the slow statistical tests
	$(BIN)/python -m pytest -m slow

test-interop: $(VENV)/.interop ## adapters and examples with every framework installed; a missing one fails
	TADDAA_REQUIRE_ALL=1 $(BIN)/python -m pytest tests/interop tests/report/test_datatree.py tests/test_examples.py -m "not slow and not stan and not torch"

test-torch: $(VENV)/.torch ## the same for PyTorch (where pip finds only PyTorch's builds for GPUs, a download of some gigabytes)
	TADDAA_REQUIRE_ALL=1 $(BIN)/python -m pytest tests/interop/test_torch.py tests/problem/test_distribution.py tests/test_examples.py -m torch

test-stan: $(VENV)/.interop ## the same for Stan, with programs compiled by g++ (minutes the first time)
	TADDAA_REQUIRE_ALL=1 $(BIN)/python -m pytest tests/interop tests/test_examples.py -m stan

lint: $(VENV)/.lint ## style and types
	$(BIN)/ruff check src tests benchmarks studies examples
	$(BIN)/ruff format --check src tests benchmarks studies examples
	$(BIN)/mypy

docs: $(VENV)/.docs ## these pages, in site/; a dead link fails
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

schema: $(VENV)/.core ## docs/report.schema.json, after a change of what reports store
	$(BIN)/python docs/schema.py

bench: $(VENV)/.test ## time and memory, written to docs/performance.md (minutes; NUTS is run beside it)
	$(BIN)/python benchmarks/loop.py --page
	$(BIN)/python benchmarks/whole.py --page
	$(BIN)/python benchmarks/progress.py

bench-scale: $(VENV)/.test ## memory, traffic and time of large problems, predicted and found; written to docs/scaling.md
	$(BIN)/python benchmarks/scale.py --page

calibrate: $(VENV)/.test ## operating characteristics, written to docs/calibration.md (minutes; resumable)
	$(BIN)/python studies/calibrate.py

paper: $(VENV)/.test ## the paper's studies again, written to docs/paper.md (an hour; resumable)
	$(BIN)/taddaa reproduce all --out .paper --page docs/paper.md

clean:
	rm -rf $(VENV) .calibration .paper

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.core: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(INSTALL) -e .
	touch $@

$(VENV)/.test: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(INSTALL) -e '.[test]'
	touch $@ $(VENV)/.core

$(VENV)/.interop: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(INSTALL) -e '.[test,test-interop]'
	touch $@ $(VENV)/.test $(VENV)/.core

# The constraint `torch==X` is also met by PyTorch's CPU build `X+cpu`, which pip prefers where one of its indexes has it.
$(VENV)/.torch: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(INSTALL) -e '.[test,test-torch]'
	touch $@ $(VENV)/.test $(VENV)/.core

$(VENV)/.docs: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(INSTALL) -e '.[docs]'
	touch $@ $(VENV)/.core

$(VENV)/.lint: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(INSTALL) -e '.[test,lint]'
	touch $@
