# make demo and make test do their whole set-up: Python >= 3.11 and make are all they need.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

# real data for tests and benchmarks, where this checkout has some beside it
SOTTOVOCE_DATA ?= $(wildcard $(abspath ../shared/data))
export SOTTOVOCE_DATA

.PHONY: demo test lint bench clean

demo: $(READY)
	$(BIN)/python examples/demo.py

test: $(READY)
	$(BIN)/python -m pytest -n auto --dist worksteal

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(READY)
	$(BIN)/python benchmarks/run_all.py --quick

# pinned versions of everything, then the package itself in place
$(READY): requirements-dev.lock pyproject.toml
	$(PYTHON) -c "import sys; sys.exit('sottovoce needs Python 3.11 or newer, this is ' + sys.version.split()[0] + ': make PYTHON=python3.12 ...') if sys.version_info < (3, 11) else None"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $(READY)

clean:
	rm -rf $(VENV) demo
