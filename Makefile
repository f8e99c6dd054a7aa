# Every target sets up what it needs: system packages, a virtual environment, the kernels.
# `make PYTHON=python3.13 …` chooses the interpreter; by default it is the first suitable one.
PYTHON ?=
VENV := .venv
BIN := $(VENV)/bin
SOURCES := pyproject.toml $(wildcard src/fastmosaic/format/*.pyx src/fastmosaic/format/*.pxd vendor/zstd/*.c)

.PHONY: chromium demo test test-all test-torch test-lowest test-pythons test-spark-versions wheel docs lint format bench bench-files bench-kinds bench-datasets bench-threads bench-tables bench-spark bench-tpch bench-training bench-size bench-render fuzz clean

# Made anew whenever a kernel or a dependency changes.
$(VENV)/ready: $(SOURCES)
	@scripts/setup.sh $(VENV) $(PYTHON)

demo: $(VENV)/ready
	$(BIN)/python -m demo

# Classes of Spark, for JVMs that start faster. Without Java, there is none.
$(VENV)/spark.jsa: $(VENV)/ready tests/spark_jvm.py
	-$(BIN)/python tests/spark_jvm.py

test: lint chromium $(VENV)/spark.jsa
	$(BIN)/pytest -n 2 --dist loadgroup

# Also the tests marked `exhaustive`, with many more examples for each property.
test-all: lint chromium $(VENV)/spark.jsa
	HYPOTHESIS_PROFILE=nightly $(BIN)/pytest -n 2 --dist loadgroup -m ""
	scripts/test_torch.sh $(VENV)

# The tests of fastmosaic.torch, with PyTorch 2.13 in build/torch. `make test-torch TORCH=torch==2.12.0` takes
# another version.
test-torch: $(VENV)/ready
	TORCH="$(TORCH)" scripts/test_torch.sh $(VENV)

# The browser of the tests: installed where that is permitted, else an error.
chromium:
	@scripts/chromium.sh

lint: $(VENV)/ready
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy

format: $(VENV)/ready
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

# The site, in build/site. The variable silences an announcement of the theme's authors.
docs: $(VENV)/ready
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

# Writes bench/results/*.json and the pages of docs that are made from them; takes about 50 minutes.
# `make bench ARGS=--quick` takes seven minutes and writes nothing.
bench: bench-files bench-kinds bench-datasets bench-threads bench-tables bench-spark bench-tpch bench-training

# Makes these pages again, without measuring.
bench-render: $(VENV)/ready
	$(BIN)/python -m bench.render

# `make bench-size` is run by hand: it writes docs/size.md, and takes about ten minutes and 10 GB of disk.

# bench.tables makes the tables that the benchmarks have in common.
bench-files bench-kinds bench-datasets bench-threads bench-tables bench-spark bench-tpch bench-size: $(VENV)/ready
	$(BIN)/pip install --quiet --group bench
	$(BIN)/python -m $(patsubst bench.tables,bench.living,$(patsubst bench.files,bench,$(subst -,.,$@))) $(ARGS)

# bench.training needs PyTorch and the loaders of Lance and HF datasets.
bench-training: $(VENV)/ready
	TORCH="$(TORCH)" scripts/test_torch.sh $(VENV) --collect-only
	build/torch/bin/pip install --quiet pylance vortex-data datasets
	build/torch/bin/python -m bench.training $(ARGS)

# Fuzzes on kernels with sanitizers for SECONDS, and writes build/fuzz/report.txt. See docs/fuzzing.md.
SECONDS ?= 60
fuzz: $(VENV)/ready
	@scripts/clang.sh
	@$(BIN)/pip install --quiet --group fuzz
	$(BIN)/python -m fuzz run --seconds $(SECONDS) $(ARGS)

# A selection of the tests with the lowest supported version of each dependency.
test-lowest: $(VENV)/ready
	mkdir -p build
	$(BIN)/python scripts/lowest.py > build/lowest.txt
	scripts/test_in.sh build/lowest $(BIN)/python --constraint build/lowest.txt

# The same selection with each Python from 3.11 to 3.14 that this machine has.
test-pythons:
	scripts/test_pythons.sh

# The tests of Spark with PySpark 3.5 to 4.3, each in an environment of its own in build/.
# `make test-spark-versions VERSIONS=4.0.5` runs them with one version.
test-spark-versions: $(VENV)/ready
	scripts/test_spark_versions.sh $(VENV) $(VERSIONS)

# Builds dist/*.tar.gz and dist/*.whl, and tries the wheel in an empty environment without a compiler.
wheel: $(VENV)/ready
	$(BIN)/pip install --quiet --group release
	scripts/wheel.sh $(VENV)

# Removes everything that was generated: environments, kernels, results, caches.
clean:
	rm -rf $(VENV) build dist src/*.egg-info .hypothesis .mypy_cache .pytest_cache .ruff_cache
	rm -f src/fastmosaic/format/*.so src/fastmosaic/format/*.c
	find . -name __pycache__ -prune -exec rm -rf {} +
