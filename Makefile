# Two commands on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# Many tests wait (for servers, release times, a process to end): two more workers than cores use that. A worker keeps
# the tests of a module, and with them what the module started, unless another has nothing left to do (worksteal).
# Servers let their own workers give way to everything else: so tests give way, too, or they would wait for those.
WORKERS ?= $(shell echo $$(( $$(getconf _NPROCESSORS_ONLN) + 2 )))
PYTEST = nice -n 19 $(BIN)/pytest -n $(WORKERS) --dist worksteal
export PYTHONDONTWRITEBYTECODE =  # tests start hundreds of processes, which need not compile every module anew
PAIRS ?= 10000
ARGS ?=  # for papers, race and soak: --quick makes each script a matter of a minute; for dist: --release

.PHONY: demo serve test tests quick check lint types system audit papers figures race soak docs dist stub capabilities clean

demo: $(VENV)/ready-demo  ## set up and tell a story on sample data, with pictures
	$(BIN)/privod demo

serve: $(VENV)/ready-demo $(VENV)/ready-server  ## a server on this machine with sample data, its tokens printed
	$(BIN)/privod serve --sample $(ARGS)

test: lint system  ## set everything up; format, lint, floors, then types beside the tests
	@$(MAKE) --no-print-directory --jobs 2 types tests

tests: $(VENV)/ready-test
	$(PYTEST)

quick: $(VENV)/ready-test  ## the fast subset of the tests
	$(PYTEST) -m "not slow"

check: lint types  ## all that `make test` does but the tests

lint: $(VENV)/ready-test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports

types: $(VENV)/ready-test
	$(BIN)/mypy

# What the tests of browsers, databases, proxies and exact joint runs need; where we may not install it, they say what they skip.
system: $(VENV)/ready-test
	@if [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; then \
	  wanted=""; \
	  command -v chromium-headless-shell > /dev/null || wanted="$$wanted chromium-headless-shell"; \
	  ls /usr/lib/postgresql/*/bin/initdb > /dev/null 2>&1 || wanted="$$wanted postgresql"; \
	  command -v java > /dev/null || wanted="$$wanted openjdk-17-jre-headless"; \
	  command -v nginx > /dev/null || wanted="$$wanted nginx-light"; \
	  command -v caddy > /dev/null || wanted="$$wanted caddy"; \
	  if [ -n "$$wanted" ]; then \
	    apt-get update -qq; \
	    for one in $$wanted; do \
	      DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $$one > /dev/null \
	      || echo "not installed: $$one"; \
	    done; \
	  fi; \
	fi
	@test -e out/axe/node_modules || ! command -v npm > /dev/null \
	|| npm install --silent --no-fund --no-audit --prefix out/axe axe-core@4 > /dev/null \
	|| echo "not installed: axe-core"
	@$(BIN)/privod engine install spu || echo "not installed: SPU"

audit: $(VENV)/ready-test  ## try long and hard to catch each question breaking its promise
	$(BIN)/privod audit --pairs $(PAIRS)

papers: $(VENV)/ready-test  ## the papers' experiments as tables and pictures in out/papers
	@test -n "$$PRIVOD_DATA" || { echo "Let PRIVOD_DATA name the folder of data sets."; exit 1; }
	for script in benchmarks/papers/[a-z]*.py; do $(BIN)/python $$script $(ARGS) || exit 1; done
	$(BIN)/python -m scripts.write_figures --take out/papers

figures: $(VENV)/ready-test  ## write the figures of docs/figures into the pages that show them
	$(BIN)/python -m scripts.write_figures

race: $(VENV)/ready-test  ## our times beside the peers', in one run each
	for script in benchmarks/race_*.py; do $(BIN)/python -m scripts.run_benchmark $$script $(ARGS) || exit 1; done
	$(BIN)/python -m scripts.write_figures --take out/benchmarks

soak: $(VENV)/ready-test system  ## load, crashes and tampering, for minutes
	for script in benchmarks/soak_*.py; do $(BIN)/python $$script $(ARGS) || exit 1; done

$(VENV)/ready-%: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "privod needs Python 3.11 or newer, this is " + sys.version)'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[$*]'
	touch $@

docs: $(VENV)/ready-docs  ## the documentation site in out/site; a broken link fails
	$(BIN)/python -m mkdocs build --strict

dist: $(VENV)/ready-dist  ## sdist, wheel and bill of materials in dist/, tried in an empty environment
	$(BIN)/python -m scripts.check_distribution $(ARGS)

stub: $(VENV)/ready-test  ## tell type checkers of the public names, after adding one
	$(BIN)/python scripts/write_root_stub.py

capabilities: $(VENV)/ready-test  ## list what people can use, after adding or removing something
	$(BIN)/python -m scripts.write_capabilities

clean:  ## remove the environment and everything made
	rm -rf $(VENV) out build dist src/*.egg-info
	find src tests benchmarks scripts -name __pycache__ -prune -exec rm -rf {} +
