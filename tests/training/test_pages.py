"""The pages of docs/training: every block of Python runs, one after the other.

`verifiers.md` runs in `eval_with_verifiers.py`, where verifiers is.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs" / "training"


def program(page: str) -> str:
    """The blocks of a page."""
    blocks = re.findall(r"^```python\n(.*?)^```$", (PAGES / page).read_text(), re.MULTILINE | re.DOTALL)
    assert blocks
    return "\n".join(blocks)


def run(python: str, page: str) -> str:
    """What its blocks print."""
    done = subprocess.run(
        [python, "-c", program(page)],
        capture_output=True, text=True, timeout=110, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error::SyntaxWarning"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def test_every_page_is_tested_and_listed() -> None:
    pages = {path.name for path in PAGES.glob("*.md")} - {"README.md"}
    assert pages == {"gymnasium.md", "trl.md", "harness.md", "verifiers.md", "loop.md"}
    listed = (PAGES / "README.md").read_text()
    assert all(f"({page})" in listed for page in pages)


def test_the_job_for_large_packages_names_files_alone() -> None:
    """pytest passes over a file that is named beside its folder, unless it would find it there anyway."""
    recipe = (ROOT / "Makefile").read_text().partition("\ntraining:")[2].partition("\n\n")[0]
    named = re.findall(r"tests/training\S*", recipe)
    assert all(one.rstrip(")").endswith(".py") for one in named), named
    large = {path.name for path in (ROOT / "tests" / "training").glob("*_with_*.py")}
    assert large == {Path(one).name for one in named} - {"test_*.py)"}


@pytest.mark.parametrize(("page", "said"), [("gymnasium.md", "'clean_calls'"), ("trl.md", "'plan_kept'")])
def test_the_blocks_of_a_page_run(page: str, said: str) -> None:
    assert said in run(sys.executable, page)


def test_the_loop_of_your_own_learns() -> None:
    first, last = map(
        float, re.findall(r"groups (\S+), last ten (\S+)$", run(sys.executable, "loop.md").strip())[0]
    )
    assert first < 0.6 and last > max(0.75, first)


@pytest.mark.openenv
def test_the_harness_page_runs(openenv_python: str) -> None:
    told = run(openenv_python, "harness.md")
    assert "env_reward=1.0" in told
    assert "done=True" in told
