"""Environments of real packages are watched: what is recorded is what their own loops counted, or a refusal.

The packages are in an environment of their own, `make envs-venv`. The results are what the page of the
conformance matrix is made from: ``python -m scripts.make_conformance_doc``.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from scripts.make_conformance_doc import PAGE, RESULTS, conformance_page, rows_of
from tests.watchable.real_packages import FORMS
from tests.watchable.recorded import judged

ROOT = Path(__file__).resolve().parents[2]

REFUSED = {
    "envpool: in parts (batch_size < num_envs)": "make it with batch_size = num_envs",
    "open-spiel: pyspiel": "use open_spiel.python.rl_environment.Environment",
}
"""Forms that cannot be watched, with what the refusal says to do."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("real") / "packages"


@pytest.fixture(scope="module")
def played(envs_python: str, folder: Path) -> dict[str, Any]:
    """What each form counted, by its name."""
    done = subprocess.run(
        [envs_python, "-m", "tests.watchable.real_packages", str(folder)],
        capture_output=True, text=True, check=False, cwd=ROOT, timeout=110,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYGAME_HIDE_SUPPORT_PROMPT": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    assert "recorded completely" not in done.stderr, done.stderr
    results: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    judged(results, folder)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(results, indent=1))
    return {one["form"]: one for one in results}


@pytest.mark.parametrize("name", FORMS)
def test_what_is_recorded_is_what_the_loop_counted(name: str, played: dict[str, Any]) -> None:
    found = played[name]
    if name in REFUSED:
        assert REFUSED[name] in found["refused"] and not found["recorded"]
    else:
        assert found["counted"] and found["recorded"] == found["counted"] and found["held"]


def test_the_page_names_what_is_tested(played: dict[str, Any]) -> None:
    page = PAGE.read_text(encoding="utf-8")
    written, now = rows_of(page), rows_of(conformance_page(page, [*played.values()]))
    assert written == now, "run `python -m scripts.make_conformance_doc`"
