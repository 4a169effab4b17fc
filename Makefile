# make demo and make test do their whole set-up: Python >= 3.11 and make are all they need.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DOCS_READY := $(VENV)/.docs-ready

# real data for tests and benchmarks: the folder that is named, or the one beside this checkout; without one, what needs
# real data is skipped
SOTTOVOCE_DATA ?= $(wildcard $(abspath ../shared/data))
ifneq ($(SOTTOVOCE_DATA),)
export SOTTOVOCE_DATA
else
unexport SOTTOVOCE_DATA
endif

# some images forbid Python to keep bytecode: then each worker compiles all tests again, and each command all modules
unexport PYTHONDONTWRITEBYTECODE

# what runs with other versions of the dependencies, each in an environment of its own
SMOKE := tests/smoke tests/unit/test_compiling.py
EXTRAS := .[tables,vertical,secure,ledger,collector,sign]
TOOLS := pytest pytest-xdist hypothesis httpx
PIP := python -m pip install --quiet --disable-pip-version-check
# which installation `make sbom` describes; SBOM_EXTRAS=tables,collector for one with extras
SBOM_EXTRAS ?=
# the oldest versions have no wheels for the newest Python
PYTHON_OLDEST ?= $(or $(shell command -v python3.11),$(PYTHON))

.PHONY: demo demo-vertical
.PHONY: quick part test test-slow test-vertical recipes outside oldest newest matrix lint docs bench bench-full
.PHONY: dist sbom clean

# what a user installs, and pandas, matplotlib and statsmodels for table and picture: some 850 MB, half a minute on two cores
DEMO := .venv-demo
DEMO_NEEDS := '.[tables]' sqlalchemy pandas matplotlib
DEMO_PIP := $(DEMO)/bin/python -m pip install --no-compile --disable-pip-version-check -c requirements-dev.lock

demo: $(DEMO)/.ready
	@echo "3 of 3: trains 50 private models, some twenty seconds"
	@$(DEMO)/bin/python examples/demo.py

$(DEMO)/.ready: requirements-dev.lock pyproject.toml
	@$(PYTHON) -c "import sys; sys.exit('sottovoce needs Python 3.11 or newer, this is ' + sys.version.split()[0] + ': make PYTHON=python3.12 ...') if sys.version_info < (3, 11) else None"
	@echo "1 of 3: an environment in $(DEMO)"
	@$(PYTHON) -m venv $(DEMO)
	@echo "2 of 3: installs what a user installs, about a minute; nothing outside $(DEMO) is changed"
	@$(DEMO_PIP) $(DEMO_NEEDS) | awk '/^(Collecting|Downloading|Installing)/ { printf "\r\033[K   %.70s", $$0; fflush() } END { print "" }'
	@$(DEMO_PIP) --quiet --no-deps statsmodels
	@$(DEMO)/bin/python -c "import sottovoce, statsmodels, sqlalchemy, pyarrow"
	@touch $@

# four organisations as four processes, from keys to predictions, outside and inside secure computation
demo-vertical: $(READY)
	$(BIN)/python examples/demo_vertical.py

# what a paper prints, beside what is measured now: half a minute each, without any data
PAPERS := dp_scd admm frank_wolfe ldp
.PHONY: papers $(PAPERS:%=paper-%)
papers: $(PAPERS:%=paper-%)

$(PAPERS:%=paper-%): paper-%: $(READY)
	$(BIN)/python -m sottovoce.papers.$*.reproduce

# a minute: what a promise rests on, from the door and the mechanisms to ledger and receipts; `make part` for the rest
QUICK := tests/contracts/test_core.py tests/contracts/test_grey_box.py $(addprefix tests/unit/,privacy central ledger evaluation report)
quick: $(READY)
	$(BIN)/python -m pytest -n auto --dist worksteal -m "not slow and not federation" $(QUICK)

# the part one works on: `make part P=ledger` takes tests/unit/ledger, `make part P="central estimators"` two of them
part: $(READY)
	$(BIN)/python -m pytest -n auto --dist worksteal -m "not slow and not federation" $(addprefix tests/unit/,$(or $(P),$(error say which part: make part P=ledger; the folders of tests/unit are the parts)))

# all tests but the slow ones
test: $(READY)
	$(BIN)/python -m pytest -n auto --dist worksteal -m "not slow and not federation"

# the rest: long audits
test-slow: $(READY)
	$(BIN)/python -m pytest -n auto --dist worksteal -m "slow and not federation"

# break the trusted core on purpose and count what the tests notice: hours for all of it, and a run that was ended goes on
# where it was. `make mutants M="core charge"` takes two parts of .ci/mutants.toml
.PHONY: mutants
mutants: $(READY) .venv-mutants/.ready
	.venv-mutants/bin/python .ci/mutants.py $(abspath $(BIN)/python) $(M)

.venv-mutants/.ready: requirements-mutants.lock
	rm -rf .venv-mutants
	$(PYTHON) -m venv .venv-mutants
	.venv-mutants/bin/$(PIP) -r requirements-mutants.lock
	touch $@

# columns at several organisations for real: sites as processes of their own that fail and attack each other. One after
# the other, since times are waited for; `pytest -m federation tests/federation` has thousands of rounds too
test-vertical: $(READY)
	$(BIN)/python -m pytest -m "federation and not slow" --durations 10 tests/federation

# what a trained model is handed to: skops, ONNX, MLflow, Fairlearn, in an environment of its own
recipes: .venv-recipes/.ready
	.venv-recipes/bin/python -m pytest -n auto --dist worksteal -W default tests/recipes

.venv-recipes/.ready: requirements-recipes.lock pyproject.toml
	rm -rf .venv-recipes
	$(PYTHON) -m venv .venv-recipes
	.venv-recipes/bin/$(PIP) -r requirements-recipes.lock
	.venv-recipes/bin/$(PIP) --no-deps -e .
	touch $@

# checkers of privacy that others wrote, each at one commit of its own repository (the folders that are needed), on our
# mechanisms and solvers
CHECKERS := ObliviousAI/dp-recorder@85d189ebd7ff81a52984708322ee2c2d8c479db4 \
  eth-sri/Delta-Siege@358377f41932cd94e1050cd9670dd7baf1b7eb89 \
  google/differential-privacy@b5b0286e313b64a692abfc8c528d54ef47d960a0
CHECKERS_FROM ?= https://github.com
CHECKED := $(CURDIR)/.venv-outside/src
outside: .venv-outside/.ready
	PYTHONPATH="$(CHECKED)/dp-recorder/src:$(CHECKED)/Delta-Siege:$(CHECKED)/differential-privacy/python/dp_auditorium" \
	  .venv-outside/bin/python -m pytest -n auto --dist worksteal tests/outside

.venv-outside/.ready: requirements-dev.lock pyproject.toml
	rm -rf .venv-outside
	$(PYTHON) -m venv .venv-outside
	.venv-outside/bin/$(PIP) -r requirements-dev.lock absl-py etils graphviz optuna seaborn
	.venv-outside/bin/$(PIP) --no-deps --no-build-isolation -e .
	for each in $(CHECKERS); do \
	  name=$${each%@*}; at=.venv-outside/src/$${name#*/}; \
	  git clone --quiet --no-checkout --filter=blob:none $(CHECKERS_FROM)/$$name $$at && \
	  git -C $$at sparse-checkout set src deltasiege python/dp_auditorium && \
	  git -C $$at checkout --quiet $${each#*@} || exit 1; \
	done
	touch $@

# the lowest versions that pyproject.toml allows, run by the smoke tests; tools are those of the lock
oldest: .venv-oldest/.ready
	.venv-oldest/bin/python -m pytest -n auto --dist worksteal -W default $(SMOKE)

.venv-oldest/.ready: .ci/lowest.py pyproject.toml requirements-dev.lock
	rm -rf .venv-oldest
	$(PYTHON_OLDEST) -m venv .venv-oldest
	.venv-oldest/bin/python .ci/lowest.py pyproject.toml > .venv-oldest/constraints.txt
	.venv-oldest/bin/$(PIP) -c .venv-oldest/constraints.txt -e '$(EXTRAS)' \
	  $(foreach tool,$(TOOLS),$$(grep -E '^$(tool)==' requirements-dev.lock)) pandas
	touch $@

# the newest versions that pyproject.toml allows, whatever the lock says
newest:
	rm -rf .venv-newest
	$(PYTHON) -m venv .venv-newest
	.venv-newest/bin/$(PIP) -e '$(EXTRAS)' $(TOOLS) pandas
	.venv-newest/bin/python -m pytest -n auto --dist worksteal -W default $(SMOKE)

# sdist and wheel in empty environments, on every Python that is here; archives and table end in dist/
matrix:
	$(PYTHON) .ci/matrix.py

# what an installation is made of, as CycloneDX: of the wheel with all that it needs, and of nothing else
sbom:
	PYTHON='$(PYTHON)' .ci/sbom.sh '$(SBOM_EXTRAS)'

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python .ci/trusted.py
	$(BIN)/python .ci/budget.py

# the site, into site/: warnings are errors, then links, anchors and outside addresses of all pages are checked, then what
# tutorials print and how pages look. `make docs TUTORIALS=` does not run the tutorials
docs: $(DOCS_READY)
	rm -rf site
	$(BIN)/python -m sphinx -b html -n -W --keep-going -q -d $(VENV)/.doctrees docs site
	$(BIN)/python docs/check_site.py site
	$(BIN)/python -m pytest -q tests/end_to_end/test_site_in_browser.py

# benchmarks in their short form, as many as fit into ten minutes on two cores; all of them in full take many hours
bench: $(READY)
	$(BIN)/python -m benchmarks --quick --within 9.5

bench-full: $(READY)
	$(BIN)/python -m benchmarks

# what a registry gets: source and wheel in dist/, checked. The address of the project must be a real one, or ADDRESS=anyway
.PHONY: dist
dist: $(READY)
	$(BIN)/python .ci/address.py pyproject.toml $(ADDRESS)
	rm -rf dist
	$(BIN)/python -m build --no-isolation --outdir dist .
	$(BIN)/twine check --strict dist/*

# pinned versions of everything, then the package itself in place
$(READY): requirements-dev.lock pyproject.toml
	$(PYTHON) -c "import sys; sys.exit('sottovoce needs Python 3.11 or newer, this is ' + sys.version.split()[0] + ': make PYTHON=python3.12 ...') if sys.version_info < (3, 11) else None"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/$(PIP) -r requirements-dev.lock
	$(BIN)/$(PIP) --no-deps --no-build-isolation -e .
	touch $(READY)

# the lock of the site fits that of the rest, so that both are one environment
$(DOCS_READY): $(READY) requirements-docs.lock
	$(BIN)/$(PIP) -r requirements-docs.lock
	touch $(DOCS_READY)

clean:
	rm -rf $(VENV) $(DEMO) .venv-recipes .venv-outside .venv-oldest .venv-newest .venv-mutants .mutants demo demo-vertical dist site docs/tutorials docs/api/generated docs/api/commands src/sottovoce/__pycache__/sottovoce-*
