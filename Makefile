# One environment for everything: `make app`, `make test` and `make lab` create it on first use and reuse it after.
# Needs Python 3.11.5 or newer and make; nothing else. ZORBA_DATA may name the folder of the real datasets.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PORT ?= 8501

# The stamp's name holds a hash of what is installed, so that a change of pins reinstalls and a fresh checkout with the
# same pins does not.
PINS := $(shell cat pyproject.toml constraints.txt | cksum | tr -d ' ')
STAMP := $(VENV)/.installed-$(PINS)

test quick bench notebooks claims: export OMP_NUM_THREADS ?= 1
# A run of the tests starts many processes. Without .pyc files each would compile the package again.
test: export PYTHONDONTWRITEBYTECODE :=
export TOKENIZERS_PARALLELISM ?= false
export STREAMLIT_BROWSER_GATHER_USAGE_STATS ?= false

.DEFAULT_GOAL := help
.PHONY: help install app lab model federation test quick docs wheel lint bench notebooks claims screenshots clean

help:
	@echo "make app          the dashboard at http://127.0.0.1:$(PORT)"
	@echo "make lab          JupyterLab, open on the first walkthrough"
	@echo "make model        a pretrained model, SmolLM2-135M, into the user's cache"
	@echo "make federation   real client processes over Flower, on loopback: fine-tune and end"
	@echo "make test         unit tests, notebooks, dashboard tests, browser tests"
	@echo "make quick        the tests for people at work: no browser, no pages, no federation, no walkthroughs"
	@echo "make docs         API pages and walkthroughs as a site, into build/docs"
	@echo "make wheel        the wheel and the source archive, into dist"
	@echo "make lint         ruff, and pyright, which takes minutes"
	@echo "make bench        the timings that matter, into artifacts/benchmarks; DECOMFL=FOLDER adds its authors' own code"
	@echo "make notebooks    run every walkthrough and store its outputs"
	@echo "make claims       decide every claim of the paper from what is in artifacts"
	@echo "make screenshots  pictures of every page, into artifacts/screenshots"
	@echo "make clean        remove the environment"

install: $(STAMP)

# torch is named first and with its exact version: a range would bring the newest build with gigabytes of CUDA. pip
# compiles with one core; templates among the packages, which do not compile, are no error.
$(STAMP):
	$(PYTHON) -c 'import sys; sys.exit("zorba needs Python 3.11.5 or newer" if sys.version_info < (3, 11, 5) else 0)'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --no-compile -c constraints.txt torch==2.13.0
	$(BIN)/python -m pip install --quiet --no-compile -c constraints.txt torch==2.13.0 \
	    -e '.[all,dev]'
	$(BIN)/python -m compileall -qq -j 0 $(VENV)/lib || true
	rm -f $(VENV)/.installed-*
	touch $@

app: $(STAMP)
	$(BIN)/zorba app --port $(PORT)

lab: $(STAMP)
	$(BIN)/jupyter lab --ip 127.0.0.1 --ServerApp.root_dir=notebooks --LabApp.default_url=/lab/tree/00_quickstart.ipynb

model: $(STAMP)
	$(BIN)/zorba get-model smollm2-135m

federation: $(STAMP)
	$(BIN)/zorba federate --clients 4

test: $(STAMP)
	$(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder --nbval-lax --nbval-current-env \
	    --nbval-cell-timeout 300 tests notebooks

quick: $(STAMP)
	$(BIN)/python -m pytest -q -p no:nbval -n 2 --dist worksteal -m "not slow and not browser and not data" \
	    tests/test_tables.py tests/test_vram.py tests/test_fleet.py tests/allocation tests/engine tests/data tests/plots \
	    tests/cli/test_options.py tests/test_layers.py tests/test_registry.py tests/test_public_names.py

docs: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --config-file docs/mkdocs.yml
	@echo "build/docs/index.html"

wheel: $(STAMP)
	$(BIN)/python -m hatchling build

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python

# One after another: each needs the machine for itself.
bench: $(STAMP)
	$(BIN)/python -m tests.benchmarks.bench_allocation --out artifacts/benchmarks/allocation.json
	$(BIN)/python -m tests.benchmarks.bench_exact
	$(if $(DECOMFL),$(BIN)/python -m tests.benchmarks.bench_peer $(DECOMFL))
	$(BIN)/python -m tests.benchmarks.bench_real_model
	$(BIN)/python -m tests.benchmarks.bench_page

notebooks: $(STAMP)
	$(BIN)/python notebooks/_execute.py

claims: $(STAMP)
	$(BIN)/python -m notebooks.reproduction claims

screenshots: $(STAMP)
	$(BIN)/python -m tests.app.screenshots

clean:
	rm -rf $(VENV)
