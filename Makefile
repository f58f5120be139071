# Everything a newcomer or CI runs. Each target creates the environment it needs.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
CONSTRAINTS ?= constraints.txt
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c $(CONSTRAINTS)
LINTED := src tests benchmarks studies examples hatch_build.py
FAST := -m "not slow and not stan and not torch"
# What every version of a dependency must pass: formulas, problems, reports, files and whole diagnoses; neither studies of laws and
# rates, nor frameworks, nor several devices.
CORE := tests/formulas tests/problem tests/report tests/chains/test_checkpoint.py tests/cli/test_demo.py tests/test_diagnosis.py \
	tests/test_bad_input.py tests/test_testing.py

.PHONY: help demo test test-slow test-core test-oldest test-newest test-interop test-torch test-stan lint format docs docs-version dist schema \
	bench bench-rivals bench-repair bench-scale frameworks soak accelerator calibrate paper clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.core ## run a real diagnosis and show its report
	$(BIN)/taddaa demo

test: $(VENV)/.test ## run the tests
	$(BIN)/python -m pytest -rs -n 2 --dist loadfile --no-loadscope-reorder $(FAST)

test-slow: $(VENV)/.test ## the slow statistical tests
	$(BIN)/python -m pytest -m slow

test-core: $(VENV)/.test ## formulas, problems, reports, files and whole diagnoses: what every version of a dependency must pass
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder $(FAST) $(CORE)

test-oldest: ## test-core with the oldest versions that pyproject.toml allows, in .venv-oldest
	$(MAKE) test-core VENV=.venv-oldest CONSTRAINTS=constraints-oldest.txt

test-newest: ## test-core with the newest that can be had, in .venv-newest
	$(MAKE) test-core VENV=.venv-newest CONSTRAINTS=/dev/null

test-interop: $(VENV)/.interop ## adapters and examples with every framework installed; a missing one fails
	TADDAA_REQUIRE_ALL=1 $(BIN)/python -m pytest tests/interop tests/problem/test_distribution.py tests/report/test_datatree.py tests/report/test_repair.py tests/test_examples.py 'tests/test_docs.py::test_code_runs[docs/howto.md]' $(FAST)

test-torch: $(VENV)/.torch ## the same for PyTorch (where pip finds only PyTorch's builds for GPUs, a download of some gigabytes)
	TADDAA_REQUIRE_ALL=1 $(BIN)/python -m pytest tests/interop/test_torch.py tests/interop/test_pyro.py tests/problem/test_distribution.py tests/test_examples.py -m torch

test-stan: $(VENV)/.interop ## the same for Stan, with programs compiled by g++ (minutes the first time)
	TADDAA_REQUIRE_ALL=1 $(BIN)/python -m pytest tests/interop tests/test_examples.py -m stan

lint: $(VENV)/.lint ## style and types
	$(BIN)/ruff check $(LINTED)
	$(BIN)/ruff format --check $(LINTED)
	$(BIN)/mypy

format: $(VENV)/.lint ## mend what can be mended of it
	$(BIN)/ruff check --fix $(LINTED)
	$(BIN)/ruff format $(LINTED)

docs: $(VENV)/.docs ## these pages, in site/; a dead link fails
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

docs-version: $(VENV)/.docs ## the same as a version of its own beside the older ones, on the branch gh-pages: AS=dev, AS="0.1.0 stable"
	PATH="$(abspath $(BIN)):$$PATH" NO_MKDOCS_2_WARNING=1 mike deploy --update-aliases --alias-type=copy $(AS)
	if git cat-file -e gh-pages:stable/index.html 2> /dev/null; then $(BIN)/mike set-default stable; else $(BIN)/mike set-default $(firstword $(AS)); fi

dist: $(VENV)/.dist ## wheel and sdist in dist/, checked, and the wheel tried in a fresh environment
	rm -rf dist
	$(BIN)/python -m build --quiet
	$(BIN)/twine check --strict dist/*
	$(PYTHON) -m venv --clear $(VENV)-wheel
	$(VENV)-wheel/bin/python -m pip install --quiet --disable-pip-version-check -c $(CONSTRAINTS) dist/*.whl
	$(VENV)-wheel/bin/taddaa demo
	$(VENV)-wheel/bin/python tests/smoke.py

schema: $(VENV)/.core ## docs/report.schema.json, after a change of what reports store
	$(BIN)/python docs/schema.py

bench: $(VENV)/.test ## time and memory, written to docs/performance.md (minutes; NUTS is run beside it)
	$(BIN)/python benchmarks/loop.py --page
	$(BIN)/python benchmarks/whole.py --page
	$(BIN)/python benchmarks/progress.py
	$(MAKE) bench-rivals

bench-rivals: $(VENV)/.test ## the same beside NUTS, nutpie (if installed) and MEADS, for MODELS="ordinal logistic …" or all (an hour; resumable)
	$(BIN)/python benchmarks/rivals.py $(MODELS) --page

bench-repair: $(VENV)/.test ## posterior draws by repair beside NUTS, for MODELS="ordinal logistic …" or all, printed (resumable)
	$(BIN)/python benchmarks/repair.py $(MODELS)

bench-scale: $(VENV)/.test ## memory, traffic and time of large problems, predicted and found; written to docs/scaling.md
	$(BIN)/python benchmarks/scale.py --page

frameworks: $(VENV)/.interop ## every example of a framework that is installed, written to the table of docs/examples.md (minutes)
	$(BIN)/python benchmarks/frameworks.py --page

soak: $(VENV)/.test ## a thousand small diagnoses in one process: memory, programs and threads must not grow (minutes)
	$(BIN)/python benchmarks/soak.py

accelerator: $(VENV)/.test ## time and numbers on a GPU or TPU, beside those of the CPU
	$(BIN)/python benchmarks/accelerator.py

calibrate: $(VENV)/.test ## operating characteristics, written to docs/calibration.md and docs/first-look.md (minutes; resumable)
	$(BIN)/python studies/calibrate.py
	$(BIN)/python studies/glance.py

paper: $(VENV)/.test ## the paper's studies again, written to docs/paper.md (an hour; resumable)
	$(BIN)/taddaa reproduce all --out .paper --page docs/paper.md

clean: ## remove environments and results
	rm -rf $(VENV) $(VENV)-* .calibration .rivals .paper .pytest_cache dist site

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.core: pyproject.toml $(CONSTRAINTS) | $(VENV)/bin/python
	$(INSTALL) -e .
	touch $@

$(VENV)/.test: pyproject.toml $(CONSTRAINTS) | $(VENV)/bin/python
	$(INSTALL) -e '.[test]'
	touch $@ $(VENV)/.core

$(VENV)/.interop: pyproject.toml $(CONSTRAINTS) | $(VENV)/bin/python
	$(INSTALL) -e '.[test,test-interop]'
	touch $@ $(VENV)/.test $(VENV)/.core

# The constraint `torch==X` is also met by PyTorch's CPU build `X+cpu`, which pip prefers where one of its indexes has it.
$(VENV)/.torch: pyproject.toml $(CONSTRAINTS) | $(VENV)/bin/python
	$(INSTALL) -e '.[test,test-torch]'
	touch $@ $(VENV)/.test $(VENV)/.core

$(VENV)/.docs: pyproject.toml $(CONSTRAINTS) | $(VENV)/bin/python
	$(INSTALL) -e '.[docs]'
	touch $@ $(VENV)/.core

$(VENV)/.lint: pyproject.toml $(CONSTRAINTS) | $(VENV)/bin/python
	$(INSTALL) -e '.[test,lint]'
	touch $@

$(VENV)/.dist: pyproject.toml $(CONSTRAINTS) | $(VENV)/bin/python
	$(INSTALL) -e '.[dist]'
	touch $@ $(VENV)/.core
