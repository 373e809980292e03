# Two commands on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo serve test check audit papers race clean

demo: $(READY)  ## set everything up and ask every question of the catalog on sample data
	$(BIN)/privod demo

serve: $(READY)  ## a server on this machine with sample data, its tokens printed, ready to click
	$(BIN)/privod serve --sample

test: check  ## set everything up; format, lint, types, floors, tests
	$(BIN)/pytest -n auto

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

audit: $(READY)  ## try long and hard to catch each question breaking its promise
	$(BIN)/privod audit --runs 400000

papers: $(READY)  ## the papers' experiments, as tables and pictures in out/papers (needs PRIVOD_DATA)
	for script in benchmarks/papers/*.py; do $(BIN)/python $$script || exit 1; done

race: $(READY)  ## our times beside the peers', in one run each
	$(BIN)/pip install --quiet '.[race]'
	for script in benchmarks/race_*.py; do $(BIN)/python $$script || exit 1; done

$(READY): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "privod needs Python 3.11 or newer, this is " + sys.version)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[test]'
	touch $(READY)

clean:  ## remove the environment and everything made
	rm -rf $(VENV) out build dist src/*.egg-info
