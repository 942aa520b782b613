"""The folder that `scripts/stage_openenv.py` makes is one that `openenv push` takes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "stage_openenv.py"

CHECK = """
import importlib.util, sys
from pathlib import Path
from openenv.cli._cli_utils import validate_env_structure
folder = Path(sys.argv[1])
print(validate_env_structure(folder))
spec = importlib.util.spec_from_file_location("client", folder / "client.py")
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
print(module.CricketEnv.__mro__[1].__name__, module.CricketAction(tool="call_toss").tool)
"""


def stage(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPT), str(folder)], capture_output=True, text=True, check=False, timeout=110
    )


def test_it_holds_what_the_image_is_built_from_and_leaves_a_full_folder_alone(tmp_path: Path) -> None:
    folder = tmp_path / "pushed"
    assert stage(folder).returncode == 0
    copied = (folder / "Dockerfile").read_text().split()
    assert copied.count("COPY")
    for name in (
        "spectator/__init__.py",
        "server/app.py",
        "static",
        "templates",
        "pyproject.toml",
        "client.py",
    ):
        assert (folder / name).exists(), name
    assert not list(folder.rglob("__pycache__"))
    assert not (folder / "tests").exists()
    again = stage(folder)
    assert again.returncode == 1
    assert "is not empty" in again.stderr


@pytest.mark.openenv
def test_the_official_command_finds_all_that_it_wants(openenv_python: str, tmp_path: Path) -> None:
    folder = tmp_path / "pushed"
    assert stage(folder).returncode == 0
    told = subprocess.run(
        [openenv_python, "-c", CHECK, str(folder)],
        capture_output=True, text=True, check=False, timeout=110, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(folder)},
    )  # fmt: skip
    assert told.returncode == 0, told.stderr[-2000:]
    assert told.stdout.splitlines()[-1] == "WorldClient call_toss"
