# Targets of the project. Everything they need they create: a virtual environment in .venv.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
SEEDS ?= 50000
HOURS ?= 2
SEED ?= 0
# What the lab takes from npm, it keeps here; it is installed when it is first needed.
export AZLATCH_LAB_HOME ?= $(CURDIR)/.npm-tools

.DEFAULT_GOAL := help
.PHONY: help demo test lint fmt sim conformance soak fairness bench docs clean

help:  ## what there is
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(READY): pyproject.toml constraints-dev.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "azlatch needs Python 3.11 or" \
		"newer; $(PYTHON) is: $$($(PYTHON) --version 2>&1 | head -n 1). Try: make PYTHON=python3.11 ..."; exit 1; }
	@echo "Setting up $(VENV) (about a minute) ..."
	@# pip is asked, not python: a venv whose making was cut short has a python and no pip.
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement constraints-dev.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation \
		--constraint constraints-dev.txt --editable '.[blob,cli,cosmos,lab,servicebus]'
	@touch $@
	@echo "Ready."

demo: $(READY)  ## the same work without a latch and with one, killed and stopped holders included
	@$(BIN)/python -m azlatch.proof.demo

test: $(READY)  ## all tests
	@# Beforehand, so that no test waits for it; the tests that need it say why it is missing.
	@-$(BIN)/python -m azlatch.lab.azurite
	@# What waits for leases runs beside the rest, which stays on one worker, in its order.
	@$(BIN)/python -m pytest --numprocesses 3 --dist loadgroup

lint: $(READY)  ## style, types and the direction of imports
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@echo "lint: passed"

fmt: $(READY)  ## formats the code
	@$(BIN)/ruff check --quiet --fix-only .
	@$(BIN)/ruff format .
	@echo "fmt: done"

sim: $(READY)  ## the simulator on SEEDS worlds (default 50000)
	@$(BIN)/python -m azlatch.testing.simulate --seeds $(SEEDS)

soak: $(READY)  ## 16 processes on Azurite in bad weather for HOURS (default 2); REPORT=docs/evidence/NAME writes it down
	@$(BIN)/python -m azlatch.proof.soak --hours $(HOURS) --seed $(SEED) $(if $(REPORT),--report '$(REPORT)') $(if $(KEEP),--keep '$(KEEP)')

fairness: $(READY)  ## the long form of the fairness test: 16 processes for 10 minutes
	@AZLATCH_FAIRNESS_SECONDS=600 $(BIN)/python -m pytest tests/processes/test_fairness.py --timeout 900

bench: $(READY)  ## side by side with filelock, redis-py and the Blob SDK's own leases; BENCH=--quick for rough numbers
	@# Beforehand, so that nothing is installed between the numbers; without Azurite the bench says why.
	@-$(BIN)/python -m azlatch.lab.azurite
	@$(BIN)/python bench/run.py $(BENCH)

conformance: $(READY)  ## the Cosmos SDK's own test suite against the lab; CONFORMANCE='--files crud' for a part
	@$(BIN)/python conformance/run.py $(CONFORMANCE)

docs: $(READY)  ## runs the code of README and docs
	@test -f tests/test_docs.py || { echo "docs: tests/test_docs.py is missing"; exit 1; }
	@$(BIN)/python -m pytest tests/test_docs.py

clean:  ## removes what the targets made
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache .npm-tools build dist
