# The two commands of the README are `make run` and `make test`; each does its own set-up.
PYTHON ?= python3
WORKERS ?= 2
VENV := .venv
BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest
PIP := -m pip install --quiet --disable-pip-version-check --no-compile

.PHONY: install run test test-failed check format board openenv-venv edges-venv trl-venv verifiers-venv training days bench clean

# All that development needs. `make run` makes do with less, so that a first page is soon there.
install: $(VENV)/.test

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Spectator needs Python 3.11 or newer; set PYTHON=")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.server: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python $(PIP) --editable '.[server,collider]'
	touch $@

# At once: after $(VENV)/.server all that it installed would be looked up again.
$(VENV)/.test: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python $(PIP) --editable '.[server,watch,voice,voice-neural,collider,test]'
	touch $(VENV)/.server $@

# The official OpenEnv package and the readers of exports bring over a hundred others: they run in an environment of
# their own.
openenv-venv: .venv-openenv/.installed

.venv-openenv/.installed: pyproject.toml
	test -x .venv-openenv/bin/python || $(PYTHON) -m venv .venv-openenv
	.venv-openenv/bin/python $(PIP) \
	  $$($(PYTHON) -c 'import tomllib; extras = tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]; print(*extras["openenv"], *extras["consumers"])')
	touch $@

# TRL and torch take some gigabytes, so what trains with them is a job of its own, not one of `make test`.
trl-venv: .venv-trl/.installed

.venv-trl/.installed: pyproject.toml
	test -x .venv-trl/bin/python || $(PYTHON) -m venv .venv-trl
	.venv-trl/bin/python $(PIP) --editable '.[trl]'
	touch $@

# Without torch, yet with transformers and most of Prime Intellect's libraries.
verifiers-venv: .venv-verifiers/.installed

.venv-verifiers/.installed: pyproject.toml
	test -x .venv-verifiers/bin/python || $(PYTHON) -m venv .venv-verifiers
	.venv-verifiers/bin/python $(PIP) --editable '.[verifiers]'
	touch $@

training: $(VENV)/.test openenv-venv trl-venv verifiers-venv
	$(BIN)/python -m pytest $(wildcard tests/training/test_*.py) tests/training/grpo_with_trl.py \
	  tests/training/watched_with_trl.py tests/training/eval_with_verifiers.py

# Simulated days of a server, under schedules that a seed decides. The simulator needs Python 3.12, so this is a job of
# its own, which says why where there is none. DAYS=10000 is the extended run.
DAYS ?= 480
PYTHON_3_12 ?= $(shell for python in python3.14 python3.13 python3.12 $(PYTHON) $(HOME)/.pyenv/versions/3.1[2-9].*/bin/python; do \
  $$python -c 'import sys; sys.exit(sys.version_info < (3, 12))' 2>/dev/null && echo $$python && break; done)

ifeq ($(PYTHON_3_12),)
days:
	@echo 'skipped: the simulated days need Python 3.12 or newer: apt-get install python3.12 python3.12-venv, or set PYTHON_3_12='
else
days: .venv-days/.installed
	.venv-days/bin/python -m tests.simulated $(DAYS)
endif

.venv-days/.installed: pyproject.toml
	test -x .venv-days/bin/python || $(PYTHON_3_12) -m venv .venv-days
	.venv-days/bin/python $(PIP) --editable '.[server,simulation]'
	touch $@

# Both ends of the ranges of uvicorn and websockets, whose private names viewers' connections use.
edges-venv: .venv-edges/.installed

.venv-edges/.installed: pyproject.toml $(VENV)/.test
	$(BIN)/python scripts/install_version_edges.py
	touch $@

# The port is PORT, else SPECTATOR_PORT, else 8000.
run: $(VENV)/.server
	$(BIN)/python -m server.app $(if $(PORT),--port $(PORT))

check: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

test: check openenv-venv edges-venv
	rm -rf .pytest_cache
	$(PYTEST) --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder || { code=$$?; [ $$code = 1 ] || rm -rf .pytest_cache; exit $$code; }

# What failed in the last `make test` that came to its end, once more, one after the other: does it fail by itself too?
test-failed:
	$(PYTEST) --last-failed --last-failed-no-failures none --maxfail 1

format: install
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# The evaluation that the leaderboard ships with, played and verified again: after a change of a world or a captain.
BOARD ?= match_ups,blocker
board: install
	rm -rf build/board
	$(BIN)/spectator evaluate cricket --captains $(BOARD) --matches 40 --seed 1 --out build/board --publish build/board/bundle
	$(BIN)/spectator verify-bundle build/board/bundle
	cp build/board/bundle/manifest.json spectator/evaluation/bundles/shipped/cricket.json

bench: install
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) .venv-openenv .venv-edges .venv-trl .venv-verifiers .venv-days build *.egg-info
