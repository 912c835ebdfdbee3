# `make` lists what there is to do. Each target makes its own environment in .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready

TESTS ?= tests
SELECT ?=
FLOOR ?= 98
TORCH ?= torch
PYTHONS ?= python3.10 python3.12 python3.13
PACKAGES := benchkit benchkit/suites launch analysis hydra_plugins
QUICK := -m 'not slow and not cluster'
PARALLEL := -n auto --dist loadgroup

.PHONY: help demo test test-all golden gpu coverage mutants oldest newest pythons lint check docs perf wheel clean

help: ## this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 16

demo: $(READY) ## all-reduce over four sizes on this machine, then its tables and plots
	$(BIN)/python -m benchkit +suite=allreduce -m data_size=1,10,100,1000
	$(BIN)/python -m analysis outputs/latest

test: $(READY) ## all tests that need neither root, nor Debian packages, nor many minutes
	$(BIN)/python -m pytest $(PARALLEL) $(QUICK)

test-all: $(READY) ## all tests: also slow ones, and those of launchers, Slurm and namespaces
	$(BIN)/python -m pytest $(PARALLEL)

golden: $(READY) ## tests/golden, the texts that commands, errors, tables and pages must have: review the diff
	$(BIN)/python -m pytest -q --snapshot-update

EMULATOR ?= $(CURDIR)/build/emulator
gpu: $(READY) ## the tests of GPU paths, on GPUs that are emulated (6 GB once; root, g++)
	$(BIN)/python -m tests.support.emulator.build $(EMULATOR)
	BENCHKIT_EMULATOR=$(EMULATOR) $(BIN)/python -m pytest -n 2 tests/gpu

coverage: $(READY) ## share of statements that the tests run, per package; fails below FLOOR (TESTS="..." chooses tests)
	COVERAGE_FILE=$(CURDIR)/.coverage $(BIN)/python -m pytest $(PARALLEL) $(SELECT) --cov --cov-report= $(TESTS)
	@$(BIN)/coverage combine --append --quiet >/dev/null 2>&1 || true # of processes that outlived pytest
	@rm -f .coverage.* # torn files of killed ones
	@for package in $(PACKAGES); do \
	    printf '%-20s %s %%\n' $$package $$($(BIN)/coverage report --format=total --include="$$package/*"); \
	done
	@printf '%-20s %s %%\n' all $$($(BIN)/coverage report --format=total --include="benchkit/*,launch/*,analysis/*,hydra_plugins/*")
	@$(BIN)/coverage report --include="benchkit/*,launch/*,analysis/*,hydra_plugins/*" --fail-under=$(FLOOR) >/dev/null

mutants: $(READY) ## changes to the pure modules that no test sees
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[mutants]'
	$(BIN)/mutmut run
	$(BIN)/mutmut results

oldest: ## the quick tests with the oldest versions that pyproject.toml allows
	$(PYTHON) -m venv build/oldest
	$(PYTHON) -m tests.oldest > build/oldest/constraints.txt
	build/oldest/bin/python -m pip install --quiet --constraint build/oldest/constraints.txt --editable '.[torch,dev,html]'
	build/oldest/bin/python -m pytest $(PARALLEL) $(QUICK) -W default # the libraries' own deprecations are not ours

newest: ## the quick tests with the newest versions that pyproject.toml allows (TORCH=torch==2.13.0 holds torch back)
	$(PYTHON) -m venv build/newest
	build/newest/bin/python -m pip install --quiet --editable '.[torch,dev,html]' '$(TORCH)'
	build/newest/bin/python -m pytest $(PARALLEL) $(QUICK) -W default

pythons: ## the tests of analysis, without torch, on other versions of Python (PYTHONS="python3.10 python3.13")
	@for python in $(PYTHONS); do \
	    folder=build/$$($$python -c 'import sys; print("python%d.%d" % sys.version_info[:2])'); \
	    $$python -m venv $$folder \
	    && $$folder/bin/python -m pip install --quiet --constraint constraints.txt --editable '.[dev,html]' \
	    && $$folder/bin/python -m pytest $(PARALLEL) $(QUICK) -W default tests/unit/analysis tests/suites/test_*_analysis.py || exit 1; \
	done

lint: $(READY) ## format, style, types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/yamllint --strict conf tests/conf launch
	$(BIN)/hadolint containers/Dockerfile
	$(BIN)/mypy

check: lint test ## all that must pass

perf: $(READY) ## the performance claims of docs/results, measured again here
	$(BIN)/python -m perf.points --parts
	$(BIN)/python -m perf.failures
	$(BIN)/python -m perf.fidelity
	$(BIN)/python -m perf.analysis_scaling
	$(BIN)/python -m perf.page
	$(BIN)/python -m perf.transformer
	$(BIN)/python -m perf.auto_shard

docs: $(READY) ## build/site, the documentation; a broken link fails
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

wheel: $(READY) ## dist/*.whl
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .

clean: ## removes the environment and what was built; outputs stay
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .coverage mutants

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[torch,dev,html]'
	touch $@
