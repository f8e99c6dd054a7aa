# Every target sets up what it needs: a virtual environment, the dependencies, the kernels.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := pyproject.toml $(wildcard src/fastmosaic/format/*.pyx src/fastmosaic/format/*.pxd)

.PHONY: demo test wheel test-all docs lint format bench bench-files bench-datasets bench-spark clean

# Made anew whenever a kernel or a dependency changes.
$(VENV)/ready: $(SOURCES)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet --group dev --editable ".[duckdb,pandas,polars,s3]"
	touch $@

demo: $(VENV)/ready
	$(BIN)/python -m demo

test: lint
	$(BIN)/pytest -n 2 --dist loadgroup

# Also the tests marked `exhaustive`, with many more examples for each property.
test-all: lint
	HYPOTHESIS_PROFILE=nightly $(BIN)/pytest -n 2 --dist loadgroup -m ""

lint: $(VENV)/ready
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy

format: $(VENV)/ready
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

# The site, in build/site. The variable silences an announcement of the theme's authors.
docs: $(VENV)/ready
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

# Writes docs/benchmarks.md, docs/datasets.md and docs/spark-benchmarks.md; takes three quarters of an
# hour. `make bench ARGS=--quick` takes five minutes and writes nothing.
bench: bench-files bench-datasets bench-spark

bench-files bench-datasets bench-spark: $(VENV)/ready
	$(BIN)/pip install --quiet --group bench
	$(BIN)/python -m $(patsubst bench.files,bench,$(subst -,.,$@)) $(ARGS)

# Builds dist/*.tar.gz and dist/*.whl, and tries the wheel in an empty environment without a compiler.
wheel: $(VENV)/ready
	$(BIN)/pip install --quiet --group release
	scripts/wheel.sh $(VENV)

clean:
	rm -rf $(VENV) build src/*.egg-info
	find src tests -name '*.so' -o -name '__pycache__' -prune -exec rm -rf {} +
	rm -f src/fastmosaic/format/*.c
