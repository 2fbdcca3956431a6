# Every verb but `setup` makes what it needs first; nothing but Python 3.11 and make is expected.
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
# lint before test, also under -j
.NOTPARALLEL:

# python3.11 where it runs, else a python3 that is new enough (a pyenv shim may exist and still refuse to run).
PYTHON ?= $(shell for p in python3.11 python3; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
READY := .venv/.ready
# The folders that mypy, deptry and the length check read; a room that is not built yet is left out.
CODE := $(wildcard src tasks flows dashboards examples benchmarks)

.PHONY: help setup demo lint test check bench mutants lock

help: ## print this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) ## make .venv from the hash-pinned requirements

demo: $(READY) ## fourteen days of samples to a corpus, fourteen replayed nights and a site
	$(BIN)/python -m flows.demo

lint: $(READY) ## everything in the check that runs no test: style, lengths, layers, dependencies, types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python tests/house/lengths.py
	$(BIN)/lint-imports --no-logo
	$(BIN)/deptry $(CODE)
	$(BIN)/mypy $(CODE)

test: $(READY) ## run the tests, the fast ones first
	$(BIN)/pytest
	$(BIN)/pytest -m slow

check: lint test ## all that CI runs, cheapest first, stopping at the first red

bench: $(READY) ## run every script in benchmarks/; each ends with one JSON line, and with 1 where its claim does not hold
	@for script in $(filter-out __init__,$(basename $(notdir $(wildcard benchmarks/*.py)))); do $(BIN)/python -m benchmarks.$$script || exit 1; done

mutants: $(READY) ## mutate the modules that decide a verdict; unexplained survivors are red (MODULE=cutpoint takes one, MODULE=replaying/calls one file; an hour for all)
	$(BIN)/python tests/house/mutants.py $(MODULE)

LOCK := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-emit-find-links --custom-compile-command "make lock"

lock: $(READY) ## resolve the dependencies again (UPGRADE=1 takes the newest)
	$(LOCK) $(if $(UPGRADE),--upgrade) --extra pipeline --group test --group lint pyproject.toml -o requirements/all.txt
	echo uv | $(LOCK) $(if $(UPGRADE),--upgrade) - -o requirements/uv.txt

# sync takes out what the lock no longer names (all but pip), so a .venv never remembers an older lock.
$(READY): requirements/uv.txt requirements/all.txt pyproject.toml
	@test -n "$(PYTHON)" || { echo "make: no Python 3.11 or newer found; install it, or name one: make PYTHON=/path/to/python3.11 setup"; exit 1; }
	@test -x $(BIN)/pip || $(PYTHON) -m venv --clear .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/uv.txt
	$(BIN)/uv pip sync --quiet --python $(BIN)/python --require-hashes requirements/all.txt requirements/uv.txt
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@touch $@
