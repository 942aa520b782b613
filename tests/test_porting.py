"""docs/porting.md: each program after its change runs, and each name exists."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from pkgutil import resolve_name

import pytest

from tests.commands import spectator
from tests.llm.endpoints import endpoint
from tests.rollouts.test_prompt_environments import BareServer
from tests.rollouts.test_remote_fleet import pooled, sayer

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "porting.md").read_text(encoding="utf-8")


def program(title: str) -> str:
    """The program after the change, in the section of this title."""
    section = PAGE.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]
    before, after = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    assert before != after
    return str(after)


def ran(folder: Path, title: str, **addresses: str) -> str:
    """What it prints, with its addresses replaced by others."""
    text = program(title)
    for port, address in addresses.items():
        assert f"http://localhost:{port[1:]}" in text
        text = text.replace(f"http://localhost:{port[1:]}", address)
    script = folder / "program.py"
    script.write_text(text)
    done = subprocess.run(
        [sys.executable, str(script)], cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT), "PATH": ""},
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_run_against_a_server_with_a_handler_and_a_sink(tmp_path: Path) -> None:
    with pooled(BareServer(turns=3)) as url, endpoint(sayer) as fake:
        said = ran(
            tmp_path, "B: a run against a server of environments", p36663=url, p8001=fake.base_url[:-3]
        )
        paths, bodies = {one.path for one in fake.received}, list(fake.bodies)
    assert said.splitlines()[-1] == "True 12.0"
    assert len(paths) == 8, "each session has an address of its own"
    assert {body["top_p"] for body in bodies} == {0.9}
    assert {body["messages"][0]["content"] for body in bodies} == {
        f"This is step {step}." for step in (1, 2, 3)
    }
    stored = [line.split()[0] for line in (tmp_path / "steps.txt").read_text().splitlines()]
    assert (stored.count("session"), stored.count("step")) == (8, 24)


def test_objects_of_this_process_and_what_to_train_on(tmp_path: Path) -> None:
    with endpoint(sayer) as fake:
        said = ran(tmp_path, "B: objects in this process", p8001=fake.base_url[:-3])
    assert said == "True [1.0, 1.0, 1.0, 1.0]\n"
    rows = ran(tmp_path, "B: reading what to train on").splitlines()
    assert rows and all(row.startswith("g-00000") and row.endswith("0.5") for row in rows)


def test_collecting_episodes(tmp_path: Path) -> None:
    pytest.importorskip("scipy")
    assert ran(tmp_path, "C: collecting episodes") == "0.03 [0.0, 0.0, 0.0, 0.03] step_cap\n"
    file = str(tmp_path / "episodes.jsonl")
    done = spectator("import", file, "--into", tmp_path / "collected")
    assert done.exit_code == 0 and "1 episode imported" in done.output


def test_every_name_and_option_of_the_page_exists() -> None:
    names = set(re.findall(r"`(spectator(?:\.\w+)+)", PAGE))
    assert len(names) > 20
    for name in names:
        resolve_name(name)
    shown = spectator("rollouts", "run", "--help", terminal_width=200).output
    tables = PAGE.split("## Every name", 1)[1]
    flags = set(re.findall(r"`(--[a-z-]+)", tables))
    assert len(flags) > 20 and [flag for flag in flags if flag not in shown] == []


def test_every_row_says_what_became_of_it() -> None:
    rows = re.findall(r"^\| (?!---)(.+) \|$", PAGE.split("## Every name", 1)[1], re.MULTILINE)
    fates = [row.rsplit(" | ", 1)[1] for row in rows if not row.startswith(("B |", "C |"))]
    assert len(fates) > 90
    assert [one for one in fates if not one.startswith(("kept", "renamed", "better", "gone"))] == []
