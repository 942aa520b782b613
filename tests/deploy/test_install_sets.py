"""Every documented installation of the server can ask a language model.

Each set of extras with a server that the README, the Makefile, the Dockerfile and the page on model captains
name is installed in a new environment, from the wheel of this checkout. The server of that environment then
plays a match with a model captain over HTTP and over HTTPS. This protects against an image or a `make run` in
which no model can play because a package is missing.
"""

from __future__ import annotations

import json
import os
import re
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import trustme

from tests.llm.brains import counter
from tests.llm.endpoints import endpoint, write_captains
from tests.openenv.dockerfile import Context, read
from tests.serving import PATIENCE_S, ROOT, serve_process

pytestmark = pytest.mark.timeout(300)

SOURCES = ("README.md", "Makefile", "Dockerfile", "docs/captains.md")


def install_sets() -> list[str]:
    """The sets of extras with a server that are documented, such as ``server,collider``."""
    texts = "\n".join((ROOT / name).read_text(encoding="utf-8") for name in SOURCES)
    found = re.findall(r"(?:\.|openenv-spectator)\[([a-z,-]+)\]", texts)
    return sorted({extras for extras in found if "server" in extras.split(",")})


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


def installed(extras: str, wheel: Path, folder: Path) -> Path:
    """The ``server`` command where ``extras`` are installed; with `test`, that is where this test runs."""
    if "test" in extras.split(","):
        return Path(sys.executable).with_name("server")
    uv("venv", "--python", sys.executable, folder)
    uv("pip", "install", "--python", folder, f"openenv-spectator[{extras}] @ {wheel.as_uri()}")
    return folder / "bin" / "server"


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def captains(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A captains file with a model behind HTTP and one behind HTTPS."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    with endpoint(counter) as plain, endpoint(counter, tls=tls) as encrypted:
        yield write_captains(
            tmp_path_factory.mktemp("captains") / "captains.toml",
            plain={"base_url": plain.base_url, "style": "xml"},
            encrypted={"base_url": encrypted.base_url, "style": "xml"},
        )


def play(client: httpx.Client, captain: str) -> list[dict[str, Any]]:
    """Play the smallest world with ``captain``; returns the events of the whole episode."""
    body = {"environment": "counting", "captain_preset": captain, "pace": "max"}
    started = client.post("/custom/start_episode", json=body)
    assert started.status_code == 202, started.text
    episode_id = started.json()["episode_id"]
    client.get(f"/live/{episode_id}/events")  # which ends with the episode
    return [json.loads(line) for line in client.get(f"/api/episodes/{episode_id}/events").text.splitlines()]


@pytest.mark.parametrize("extras", install_sets())
def test_a_model_plays_over_http_and_https(
    extras: str, wheel: Path, captains: Path, authority: trustme.CA, tmp_path: Path
) -> None:
    command = installed(extras, wheel, tmp_path / "venv")
    certificate = tmp_path / "authority.pem"
    authority.cert_pem.write_to_path(certificate)
    variables = {"SPECTATOR_CAPTAINS_FILE": str(captains), "SSL_CERT_FILE": str(certificate)}
    variables["PYTHONPATH"] = ""
    with (
        serve_process(
            tmp_path / "data", variables=variables, command=[str(command)], cwd=tmp_path
        ) as process,
        httpx.Client(base_url=process.base_url, timeout=PATIENCE_S) as client,
    ):
        for name in ("llm:plain", "llm:encrypted"):
            events = play(client, name)
            ended, made = events[-1]["data"], [one for one in events if one["type"] == "decision.made"]
            assert (ended["reason"], ended["score"]) == ("finished", 1.0)
            assert {one["data"]["source"] for one in made} == {"model"}
        catalog = client.get("/custom/catalog").text
    assert "pip install" not in catalog


def test_the_sets_of_the_makefile_and_the_image_are_found() -> None:
    sets = install_sets()
    assert "server,collider" in sets
    assert any("postgres" in extras for extras in sets), "the Dockerfile's"
