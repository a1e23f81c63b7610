# make demo   set up .venv and watch the bundled experiment: no key, no Docker, no network beyond the package index
# make test   set up .venv and run every test
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
JOBS   ?= $(shell n=$$(nproc 2>/dev/null || sysctl -n hw.ncpu 2>/dev/null || echo 2); [ $$n -gt 8 ] && n=8; echo $$n)

.PHONY: demo test lint bench constraints clean setup

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "swe-memory needs Python 3.11 or newer; $(PYTHON) is older. Try: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 2; }
	@echo "Setting up $(VENV) (once, some minutes: about 160 packages, 1.6 GB, the largest share for the official SWE-bench harness and LanceDB) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[harness,dev]'
	@touch $(STAMP)

demo: $(STAMP)
	@$(BIN)/swe-memory demo

test: $(STAMP)
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Ratios and retrieval quality; ISSUES and RUNS point at data of your own (see benchmarks/README.md).
bench: $(STAMP)
	$(BIN)/python benchmarks/recall_speed.py
	@if [ -n "$(ISSUES)" ]; then $(BIN)/python benchmarks/retrieval.py "$(ISSUES)"; else echo "retrieval quality: make bench ISSUES=path/to/issues.jsonl"; fi

# After a change of dependencies: resolve afresh in an empty environment and write the pins down (names and versions only).
constraints:
	$(PYTHON) -m venv $(VENV)-fresh
	$(VENV)-fresh/bin/python -m pip install --quiet --editable '.[harness,dev]'
	{ sed -n '/^#/p' constraints.txt; $(VENV)-fresh/bin/python -m pip freeze --exclude-editable | grep -v '@' | LC_ALL=C sort -f; } > constraints.new
	mv constraints.new constraints.txt
	rm -rf $(VENV)-fresh

clean:
	rm -rf $(VENV) dist build .pytest_cache .mypy_cache .ruff_cache
