# `make run` and `make test` need Python 3.11+ and nothing else: they set up .venv by themselves.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
SCRIPTS := src/coterie/dashboard/static
JOBS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 2)
MINUTES ?= 60
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS) --dist worksteal
PURE := tests/core tests/federation tests/plugins tests/storage $(wildcard tests/test_*.py)
# What needs no tool of developers: neither Sphinx, nor a driver of browsers, nor the compiler of protocol buffers.
LEAN := $(filter-out tests/test_site.py,$(PURE)) tests/cli tests/runs tests/peer --ignore=tests/peer/test_codec.py
LEAN_EXTRAS := peer,dashboard,mlflow,tensorboard,wandb,test
GATED := core experiment federation plugins schedule storage

.DEFAULT_GOAL := help
.PHONY: help run test coverage test-peers test-versions test-pinned test-newest test-oldest soak check docs wheel wheel-test bench format clean

help:  ## List the targets.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: $(VENV)/installed  ## Run the quickstart: table and pictures in runs/.
	$(BIN)/coterie run quickstart

# Coverage is gated where tests need no process of their own: counted everywhere, it would take half as long again.
test: check  ## Check everything and run all tests.
	$(PYTEST) $(PURE) $(addprefix --cov=coterie.,$(GATED)) --cov-report=term:skip-covered --cov-fail-under=97
	$(PYTEST) $(addprefix --ignore=,$(PURE))

coverage: $(VENV)/installed-dev  ## All tests, and which lines they reach (processes of their own are not counted).
	$(PYTEST) --cov=coterie --cov-report=term:skip-covered

test-peers: $(VENV)/installed-dev  ## Only what concerns real peers: every attack and fault they must survive.
	COTERIE_JOINERS=50 $(PYTEST) tests/peer tests/threats tests/swarm tests/replay

# What is not on the PATH is named at the end as not tested. 30 GB where pip takes torch with all that a GPU needs.
test-versions:  ## Tests with Python 3.11 to 3.13, the oldest and the newest dependencies (PARTS="3.12 oldest" for some).
	.ci/versions $(PARTS)

test-pinned:  ## `make test` with another Python, in build/ (PYTHON=python3.12).
	$(MAKE) test VENV=build/python$$($(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')

# Hugging Face's data sets are tried only here: with Arrow they take 190 MB, and change what pandas makes of words.
test-newest:  ## Tests with the newest dependencies there are, in build/newest (as PYTHON).
	$(PYTHON) -m venv --clear build/newest
	build/newest/bin/python -m pip install --quiet -e '.[$(LEAN_EXTRAS)]' datasets
	OMP_NUM_THREADS=1 build/newest/bin/python -m pytest -n $(JOBS) $(LEAN)

# Beside the pins: trackers and tools of the tests at their newest, as a user of old libraries would have them.
test-oldest:  ## Tests with the oldest dependencies that pyproject.toml admits, in build/oldest (as PYTHON).
	$(PYTHON) -m venv --clear build/oldest
	build/oldest/bin/python -m pip install --quiet -c constraints-oldest.txt -e '.[$(LEAN_EXTRAS)]'
	OMP_NUM_THREADS=1 build/oldest/bin/python -m pytest -n $(JOBS) $(LEAN)

soak: $(VENV)/installed-dev  ## Ten peers under the nemesis for an hour (as root; MINUTES=10 for less).
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.peers.soak --minutes $(MINUTES) --out runs/soak-$$(date +%Y%m%d-%H%M%S)

check: $(VENV)/installed-dev  ## Style, types, layers.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/oxlint --deny-warnings $(SCRIPTS)
	$(BIN)/oxfmt --check '$(SCRIPTS)/*.js'

docs: $(VENV)/installed-dev  ## Build the documentation as a site in build/site.
	$(BIN)/python docs/site/make_site.py build/site
	@echo "open build/site/index.html"

wheel: $(VENV)/installed-dev  ## Build wheel and source archive into dist/, and check them.
	rm -rf dist build/lib
	$(BIN)/python -m build
	$(BIN)/twine check --strict dist/*

wheel-test: wheel  ## Use the wheel in an empty environment, build/wheel, as somebody who installs it.
	rm -rf build/wheel
	$(PYTHON) -m venv build/wheel
	build/wheel/bin/python -m pip install --quiet -c constraints.txt "$$(echo dist/*.whl)[peer,dashboard]"
	cp examples/start.py examples/start.toml build/wheel
	cd build/wheel && PATH=$$PWD/bin:$$PATH sh ../../deploy/try-wheel.sh

bench: $(VENV)/installed  ## Compare the engine with a plain loop over clients.
	$(BIN)/coterie bench engine

format: $(VENV)/installed-dev  ## Mend the style.
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/oxfmt '$(SCRIPTS)/*.js'

clean:  ## Remove the environment and what tools left behind (not runs/).
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis

$(VENV)/installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "coterie needs Python 3.11 or newer; name one: make run PYTHON=python3.12"; exit 2; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[peer,dashboard]'
	@touch $@

$(VENV)/installed-dev: $(VENV)/installed
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev]'
	@touch $@
