"""The wheel, installed beside the official package: `AutoEnv` finds the environment, and it plays."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.openenv.conftest import HERE
from tests.serving import Serving

pytestmark = [pytest.mark.openenv, pytest.mark.timeout(300)]

ROOT = HERE.parents[1]
UV = (sys.executable, "-m", "uv", "--quiet")


def done(*command: str | Path, **how: Any) -> str:
    """What a command prints."""
    told = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, check=False, timeout=280, **how
    )
    assert told.returncode == 0, told.stderr[-4000:]
    return str(told.stdout)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from the folder that is pushed, which has a client and a package marker at its root."""
    folder = tmp_path_factory.mktemp("built")
    done(sys.executable, ROOT / "scripts" / "stage_openenv.py", folder / "pushed")
    build = (*UV, "build", "--wheel", "--no-build-isolation", "--python", sys.executable)
    done(*build, "--out-dir", folder, folder / "pushed")
    [built] = folder.glob("openenv_spectator-*.whl")
    return built


@pytest.fixture(scope="module")
def python(wheel: Path, openenv_python: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a new environment with the wheel, in which the official package is seen as well."""
    folder = tmp_path_factory.mktemp("fresh") / "venv"
    done(openenv_python, "-m", "venv", "--without-pip", folder)
    new = folder / "bin" / "python"
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    beside, own = done(openenv_python, "-c", where).strip(), Path(done(new, "-c", where).strip())
    (own / "official.pth").write_text(f"{beside}\n")
    done(*UV, "pip", "install", "--python", new, "--no-deps", "--offline", wheel)
    return new


def test_auto_env_finds_the_installed_environment_and_plays(
    python: Path, shared: Serving, tmp_path: Path
) -> None:
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    environment.pop("PYTHONPATH", None)
    told = json.loads(
        done(python, HERE / "peer_installed.py", shared.base_url, cwd=tmp_path, env=environment).splitlines()[
            -1
        ]
    )
    info = told["info"]
    assert (info["env_class"], info["action_class"]) == ("CricketEnv", "CricketAction")
    assert (info["module"], info["package"]) == ("spectator.client", "openenv-spectator")
    assert (info["spec_version"], info["env_key"]) == (1, "cricket")
    assert info["description"].startswith("Captain a T20 side")
    assert told["class"] and told["observation"] == "CricketObservation"
    assert told["top"] == ["spectator"], "users import nothing else"
    assert Path(told["from"]).is_relative_to(python.parents[1])
    assert "LudoEnv" in told["unknown"]
    assert told["played"] == {
        "legal": "call_toss",
        "stepped": None,
        "malformed": "action.shape",
        "counted": [1.0, True],
    }


def test_the_packages_manifest_is_that_of_the_repository() -> None:
    assert (ROOT / "spectator" / "openenv.yaml").read_bytes() == (ROOT / "openenv.yaml").read_bytes()
