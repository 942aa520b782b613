"""`make run` from a fresh checkout: with uv, without it, without a network, and with an old Python."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from scripts.install import uv_variables
from tests.conftest import ROOT
from tests.serving import free_port

PYTHON = str(Path(sys.executable).resolve())
OUTER = {"MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "PORT", "SPECTATOR_PORT", "PYTHONPATH"}
READY_S = 100.0

TINY_PROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]

[project]
name = "tiny"
version = "1"
"""

TINY_BACKEND = """
import zipfile

FILES = {
    "METADATA": "Metadata-Version: 2.1\\nName: tiny\\nVersion: 1\\n",
    "WHEEL": "Wheel-Version: 1.0\\nGenerator: tiny\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
    "RECORD": "",
}


def build_editable(folder, config_settings=None, metadata_directory=None):
    name = "tiny-1-py3-none-any.whl"
    with zipfile.ZipFile(f"{folder}/{name}", "w") as wheel:
        for file, text in FILES.items():
            wheel.writestr(f"tiny-1.dist-info/{file}", text)
    return name
"""
"""A project without dependencies, which any installer can install without a network."""

TINY_SERVER = """
import importlib.metadata, sys

print("served with tiny", importlib.metadata.version("tiny"), "in", sys.prefix)
"""


def environment(**changes: str) -> dict[str, str]:
    """This process's environment without make's own variables, where no uv is found on the PATH."""
    inherited = {name: value for name, value in os.environ.items() if name not in OUTER}
    folders = [one for one in os.environ["PATH"].split(os.pathsep) if not (Path(one) / "uv").exists()]
    return inherited | {"PATH": os.pathsep.join(folders)} | changes


def program(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def make(folder: Path, *words: str, **changes: str) -> subprocess.CompletedProcess[str]:
    command = ["make", "--no-print-directory", *words]
    return subprocess.run(
        command, cwd=folder, env=environment(**changes), capture_output=True, text=True, check=False
    )


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """The Makefile and its script beside a project without dependencies, in a path with a space."""
    folder = tmp_path / "a checkout"
    (folder / "scripts").mkdir(parents=True)
    (folder / "server").mkdir()
    shutil.copy(ROOT / "Makefile", folder)
    shutil.copy(ROOT / "scripts" / "install.py", folder / "scripts")
    (folder / "pyproject.toml").write_text(TINY_PROJECT)
    (folder / "backend.py").write_text(TINY_BACKEND)
    (folder / "server" / "app.py").write_text(TINY_SERVER)
    return folder


def test_pip_installs_where_no_uv_can_be_had_or_where_it_fails(tiny: Path) -> None:
    """A uv fails where it has no route to the index, and pip has."""
    broken = program(tiny.parent / "programs" / "uv", "exit 127")  # as a shim for another Python's uv
    path = f"{broken.parent}{os.pathsep}{environment()['PATH']}"
    changes = {"PATH": path, "PIP_NO_INDEX": "1"}  # pip finds no uv either
    first = make(tiny, "run", f"PYTHON={PYTHON}", **changes)
    assert first.returncode == 0, first.stderr
    assert first.stderr.count("uv is not available; installing with pip, which takes longer.\n") == 1
    assert f"served with tiny 1 in {tiny / '.venv'}" in first.stdout
    again = make(tiny, "run", f"PYTHON={PYTHON}", **changes)
    assert (again.returncode, again.stderr) == (0, ""), "installed once"
    program(broken, '[ "$1" = --version ] && exit 0\necho "uv: no route" >&2; exit 2')
    [package] = tiny.glob(".venv/lib/python*/site-packages/tiny-1.dist-info")
    shutil.rmtree(package)
    (tiny / "pyproject.toml").touch()
    ran = make(tiny, "run", f"PYTHON={PYTHON}", **changes)
    assert ran.returncode == 0, ran.stderr
    assert "uv: no route\nuv could not install the packages; trying with pip.\n" in ran.stderr
    assert "served with tiny 1" in ran.stdout


def test_an_old_python_is_rejected_before_anything_is_installed(tiny: Path) -> None:
    pretend = "import sys; sys.version_info = (3, 10, 9); exec(sys.argv[1])"
    old = program(tiny.parent / "python3.10", f"exec '{PYTHON}' -c '{pretend}' \"$2\"")
    ran = make(tiny, "run", f"PYTHON={old}")
    assert ran.returncode != 0
    assert "Spectator needs Python 3.11 or newer; set PYTHON=" in ran.stderr
    assert not (tiny / ".venv").exists()


@contextmanager
def running(folder: Path, **changes: str) -> Iterator[bytes]:
    """The first page of `make run`."""
    port = free_port()
    command = ["make", "run", f"PYTHON={PYTHON}", f"PORT={port}"]
    with (folder / "make.log").open("w") as log:
        process = subprocess.Popen(
            command, cwd=folder, env=environment(**changes), stdout=log, stderr=log, start_new_session=True
        )
    try:
        yield first_page(process, port, folder / "make.log")
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(20)


def first_page(process: subprocess.Popen[bytes], port: int, log: Path) -> bytes:
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline:
        assert process.poll() is None, log.read_text()
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        try:
            connection.request("GET", "/")
            return connection.getresponse().read()
        except ConnectionError:
            time.sleep(0.05)
        finally:
            connection.close()
    pytest.fail(f"no page within {READY_S:g} s: {log.read_text()}")


@pytest.mark.timeout(240)
def test_a_checkout_shows_its_first_page_and_later_needs_no_network(tmp_path: Path) -> None:
    checkout = tmp_path / "a checkout"
    checkout.mkdir()
    ignored = shutil.ignore_patterns("__pycache__", "*.so")
    for name in ("scripts", "server", "spectator", "static", "templates"):
        shutil.copytree(ROOT / name, checkout / name, ignore=ignored)
    for name in ("LICENSE", "Makefile", "README.md", "pyproject.toml"):
        shutil.copy(ROOT / name, checkout)
    no_compiler = {"CC": "/bin/false"}
    with running(checkout, **no_compiler) as page:
        assert b"<html" in page
    assert (checkout / ".uv" / "bin" / "uv").exists(), "installed by uv, not by pip"
    assert not list((checkout / "server" / "transport").glob("*.so"))
    offline = {"PIP_NO_INDEX": "1", "UV_OFFLINE": "1"}
    with running(checkout, **offline) as page:
        assert b"<html" in page
    assert not list(checkout.glob("*.lock")), "a lock file would record download addresses"
    [package] = checkout.glob(".venv/lib/python*/site-packages/openenv_spectator-*.dist-info")
    assert json.loads((package / "direct_url.json").read_text())["url"] == checkout.as_uri()
    seen = subprocess.run(
        [checkout / ".venv/bin/python", "-c", "import sys, pip; print(sys.base_prefix)"],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert seen.stdout.strip() == sys.base_prefix, "PYTHON= chose the interpreter"


@pytest.mark.parametrize(
    ("listing", "variables"),
    [
        ("", {}),
        ("global.index-url='https://a.example/simple'", {"UV_DEFAULT_INDEX": "https://a.example/simple"}),
        (
            ":env:.index-url='https://b.example'\nglobal.index-url='https://a.example'",
            {"UV_DEFAULT_INDEX": "https://b.example"},
        ),
        (
            "global.extra-index-url='https://a.example https://b.example'\nglobal.find-links='\\n/a\\n/b'",
            {"UV_INDEX": "https://a.example https://b.example", "UV_FIND_LINKS": "/a,/b"},
        ),
        ("freeze.timeout='10'\nglobal.timeout='180'\nglobal.quiet='1'", {}),
    ],
)
def test_indexes_of_pip_apply_to_uv(listing: str, variables: dict[str, str]) -> None:
    assert uv_variables(listing) == variables
