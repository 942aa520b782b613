"""What every test may ask for: outside tools, found or accounted for."""

from __future__ import annotations

import asyncio
import gc
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from inspect import iscoroutinefunction
from pathlib import Path
from typing import Any

# Before numpy is imported, here and in the programs under test: its threads compete for two cores.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import httpx
import pytest
from httpx._transports import default as transports
from hypothesis import HealthCheck, settings

from spectator.narration.neural import model_folder
from tests.postgres import Cluster, find_programs, running_cluster
from tests.process_template import ForkedPopen, RealPopen

settings.register_profile("steady", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("steady")
"""A busy machine must not fail a property that holds; how long drawing takes is no property of ours."""

transports.create_ssl_context = cache(httpx.create_ssl_context)  # type: ignore[attr-defined]
"""Each client would read all certificates again: 17 ms of processor time, thousands of times."""

signal.signal(signal.SIGINT, signal.default_int_handler)
"""What a shell runs in the background has SIGINT ignored, and so would the programs under test."""

subprocess.Popen = ForkedPopen  # type: ignore[misc]

IN_MEMORY = Path("/dev/shm")
MEMORY_BYTES = 8_000_000_000
"""Memory that has to be free for the folders of tests to be in it; a whole run writes a part of this."""


def _has_room() -> bool:
    available = re.search(r"MemAvailable: +(\d+) kB", Path("/proc/meminfo").read_text())
    return (
        available is not None
        and min(1024 * int(available[1]), shutil.disk_usage(IN_MEMORY).free) > MEMORY_BYTES
    )


if IN_MEMORY.is_dir() and not os.statvfs(IN_MEMORY).f_flag & os.ST_NOEXEC and _has_room():
    # thousands of journals wait for a disk otherwise, which takes a tenth of the processor time
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(IN_MEMORY))

ROOT = Path(__file__).resolve().parent.parent

INSTALL = {
    "caddy": "apt-get install caddy",
    "chromium": "apt-get install chromium-headless-shell  # or chromium, at 2.5 times the CPU time",
    "llama.cpp": "make llama-venv",
    "node": "apt-get install nodejs",
    "openenv": "make openenv-venv",
    "pgbouncer": "apt-get install pgbouncer",
    "postgresql": "apt-get install postgresql",
    "psycopg": "make install",
    "inspect_ai": "make openenv-venv",
    "the lowest uvicorn and websockets": "make install",
    "environments of other packages": "make envs-venv",
    "espeak-ng": "apt-get install espeak-ng",
    "hibari-tts": "make install",
    "the compiled loop": "apt-get install gcc python3-dev; touch pyproject.toml; make install",
}

LONGEST = (
    "tests/openenv/test_peers.py",
    "tests/openenv/test_official_server.py",
    "tests/openenv/test_publishing.py",
    "tests/openenv/test_staging.py",
    "tests/rollouts/test_consumers.py",
    "tests/rollouts/test_inspect_log.py",
    "tests/training/test_pages.py",
    "tests/llm/test_real_model.py",
    "tests/server/transport/test_version_edges.py",
    "tests/evaluation/test_sequential.py",
    "tests/test_porting.py",
    "tests/rollouts/test_shared_runs.py",
    "tests/rollouts/test_worker_processes.py",
    "tests/server/test_two_servers.py",
    "tests/watchable/test_real_packages.py",
    "tests/environments/cricket/show/test_words_and_facts.py",
    "tests/test_write_an_environment.py",
    "tests/server/test_rolling_upgrade.py",
    "tests/environments/cricket/show/test_lines.py",
    "tests/test_library.py",
    "tests/server/test_unfit_databases.py",
    "tests/server/test_fleets_beside_servers.py",
    "tests/server/process/test_process.py",
    "tests/server/test_controls_elsewhere.py",
    "tests/server/http/test_fuzz.py",
    "tests/rollouts/test_kills.py",
    "tests/tools/test_install.py",
    "tests/environments/collider/analysis/test_resonance.py",
    "tests/environments/cricket/grading/test_reward.py",
    "tests/server/test_live_notices.py",
    "tests/server/test_trouble.py",
    "tests/deploy/test_container.py",
    "tests/journal/test_sql_journal.py",
    "tests/deploy/test_install_sets.py",
    "tests/rollouts/test_bad_inputs.py",
    "tests/environments/cricket/forecast/test_forecast_report.py",
    "tests/importing/test_importing.py",
    "tests/importing/test_laws.py",
    "tests/importing/test_long_imports.py",
    "tests/rollouts/test_fleet.py",
    "tests/server/http/test_seats.py",
    "tests/test_cli_evaluate.py",
    "tests/watchable/test_watched_loop.py",
    "tests/watchable/test_wrapping.py",
    "tests/watchable/test_never_harmed.py",
    "tests/training/test_tutorial.py",
    "tests/tools/test_realism.py",
    "tests/environments/cricket/captaincy/test_orders.py",
    "tests/episodes/test_fork_checkpoints.py",
    "tests/browser/test_large.py",
    "tests/browser/test_accessibility.py",
    "tests/browser/test_watching.py",
    "tests/browser/test_shifts.py",
    "tests/browser/test_figures.py",
    "tests/browser/test_lobby.py",
    "tests/browser/test_quality.py",
    "tests/browser/test_composition.py",
    "tests/browser/test_sound.py",
    "tests/browser/test_wall.py",
    "tests/browser/test_decisions.py",
    "tests/browser/test_watched_loop.py",
    "tests/browser/test_seat.py",
)
"""Files that take longest, as measured on two cores; those that share a browser stand together."""

OFFICIAL = frozenset(
    f"tests/{name}.py"
    for name in (
        "openenv/test_official_server",
        "openenv/test_peers",
        "openenv/test_publishing",
        "openenv/test_staging",
        "rollouts/test_consumers",
        "rollouts/test_inspect_log",
        "training/test_pages",
    )
)
"""Files that fork programs with the official ``openenv``; they share a worker, and so a template."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Distribute by file, but give all of :data:`OFFICIAL` to one worker."""

    class Scheduling(import_module("xdist.scheduler").LoadFileScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            file: str = super()._split_scope(nodeid)
            return "official" if file in OFFICIAL else file

    return Scheduling(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Longest files first: one that began last would keep a worker while the others have nothing to do."""
    places = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.nodeid.partition("::")[0], len(places)))


def pytest_collection_finish() -> None:
    """Collect cycles rarely, and never among what stays until the end: a tenth of the processor time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an async test on an event loop of its own."""
    if not iscoroutinefunction(pyfuncitem.obj):
        return None
    asyncio.run(
        pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames})
    )
    return True


def require(tool: str, path: str | None) -> str:
    """The path of an outside tool; without it the test is skipped, or fails under ``REQUIRE_ALL=1``."""
    if path is not None:
        return path
    reason = f"{tool} is not here; install it with: {INSTALL[tool]}"
    if os.environ.get("REQUIRE_ALL") == "1":
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture
def real_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs are started, not forked from a template."""
    monkeypatch.setattr(subprocess, "Popen", RealPopen)


@pytest.fixture(scope="session")
def chromium() -> str:
    """A Chromium to drive."""
    names = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
    return require("chromium", next(filter(None, map(shutil.which, names)), None))


@pytest.fixture(scope="session")
def caddy() -> str:
    """A Caddy, the proxy before several servers."""
    return require("caddy", shutil.which("caddy"))


@pytest.fixture(scope="session")
def node() -> str:
    """Node, for the pure modules of the page."""
    return require("node", shutil.which("node"))


@pytest.fixture(scope="session")
def openenv_python() -> str:
    """The interpreter of the virtual environment that holds the official ``openenv`` package."""
    python = ROOT / ".venv-openenv" / "bin" / "python"
    return require("openenv", str(python) if python.exists() else None)


@pytest.fixture(scope="session")
def inspect_python(openenv_python: str) -> str:
    """The same, where it holds inspect_ai too."""
    there = list((ROOT / ".venv-openenv").glob("lib/python*/site-packages/inspect_ai"))
    return require("inspect_ai", openenv_python if there else None)


@pytest.fixture(scope="session")
def envs_python() -> str:
    """The interpreter of the virtual environment that holds environments of other packages."""
    folder = ROOT / ".venv-envs"
    there = (folder / ".installed").exists()
    return require("environments of other packages", str(folder / "bin" / "python") if there else None)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Cluster]:
    """A PostgreSQL server that is thrown away after the tests."""
    driver = find_spec("psycopg")
    require("psycopg", None if driver is None else driver.origin)
    with running_cluster(require("postgresql", find_programs())) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def url(postgres: Cluster) -> str:
    """A database for the tests of one file."""
    return postgres.url(postgres.make())


@pytest.fixture
def scratch(postgres: Cluster) -> Iterator[str]:
    """A database without a journal, which the test may leave as it likes."""
    name = postgres.make()
    yield name
    postgres.execute("postgres", f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(scope="session")
def espeak() -> str:
    """The espeak-ng program."""
    return require("espeak-ng", shutil.which("espeak-ng"))


@pytest.fixture(scope="session")
def neural_model() -> Path:
    """The folder with the model of the neural voice."""
    folder = model_folder()
    return Path(require("hibari-tts", None if folder is None else str(folder)))
