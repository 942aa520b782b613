"""Every documented installation of the server can ask a language model.

Each set of extras with a server that the README, the Makefile, the Dockerfile and the page on model captains
name is installed in a new environment, from the wheel of this checkout. The server of that environment then
plays a match with a model captain over HTTP and over HTTPS; the image's set does so in the image that
``test_container.py`` builds. This protects against an image or a `make run` in
which no model can play because a package is missing.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.deploy.conftest import Models, play_with_both
from tests.openenv.dockerfile import Context, read
from tests.serving import PATIENCE_S, ROOT, serve_process

pytestmark = pytest.mark.timeout(300)

SOURCES = ("README.md", "Makefile", "Dockerfile", "docs/captains.md")


def install_sets() -> list[str]:
    """The sets of extras with a server that are documented, such as ``server,collider``."""
    texts = "\n".join((ROOT / name).read_text(encoding="utf-8") for name in SOURCES)
    found = re.findall(r"(?:\.|openenv-spectator)\[([a-z,-]+)\]", texts)
    return sorted({extras for extras in found if "server" in extras.split(",")})


def image_set() -> str:
    """The set of the image, in which ``test_container.py`` plays."""
    [extras] = re.findall(r"'\.\[([a-z,-]+)\]'", (ROOT / "Dockerfile").read_text(encoding="utf-8"))
    return str(extras)


def uv(*arguments: str | Path) -> None:
    """Run uv; without a package index the test is skipped, or fails under ``REQUIRE_ALL=1``."""
    command = [sys.executable, "-m", "uv", "--quiet", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    if "error sending request" in done.stderr or "dns error" in done.stderr:
        reason = "no package index can be reached"
        pytest.fail(reason) if os.environ.get("REQUIRE_ALL") == "1" else pytest.skip(reason)
    assert done.returncode == 0, done.stderr[-4000:]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of what the image is built from."""
    source, built = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for instruction in read(ROOT / "Dockerfile")[0].all("COPY"):
        *names, _target = instruction.words()
        for name in names:
            Context(ROOT).copy(name, source / name)
    uv("build", "--wheel", "--out-dir", built, source)
    [wheel] = built.glob("*.whl")
    return wheel


def installed(extras: str, wheel: Path, folder: Path) -> tuple[Path, dict[str, str]]:
    """The ``server`` command where ``extras`` are installed, and its variables.

    With `test`, that is where this test runs, which has its bytecode. The other environments stand at one
    path after the other, and share a folder of bytecode.
    """
    if "test" in extras.split(","):
        return Path(sys.executable).with_name("server"), {}
    uv("venv", "--clear", "--python", sys.executable, folder / "venv")
    uv("pip", "install", "--python", folder / "venv", f"openenv-spectator[{extras}] @ {wheel.as_uri()}")
    return folder / "venv" / "bin" / "server", {"PYTHONPYCACHEPREFIX": str(folder / "bytecode")}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where one new environment after another stands: at one path, so that bytecode is compiled once."""
    return tmp_path_factory.mktemp("installed")


@pytest.mark.parametrize("extras", [one for one in install_sets() if one != image_set()])
def test_a_model_plays_over_http_and_https(
    extras: str, wheel: Path, folder: Path, models: Models, tmp_path: Path
) -> None:
    command, variables = installed(extras, wheel, folder)
    variables |= {"PYTHONPATH": "", **models.variables()}
    with (
        serve_process(
            tmp_path / "data", variables=variables, command=[str(command)], cwd=tmp_path
        ) as process,
        httpx.Client(base_url=process.base_url, timeout=PATIENCE_S) as client,
    ):
        play_with_both(client)


def test_the_sets_of_the_makefile_and_the_image_are_found() -> None:
    sets = install_sets()
    assert "server,collider" in sets
    assert image_set() in sets
