"""Install packages into a virtual environment, with uv if possible, else with pip.

The script creates the environment, if it is missing, for the Python that runs it. A uv on the PATH is used
with its own configuration. Otherwise pip installs uv into `.uv/`, and pip's configuration applies to it.
"""

from __future__ import annotations

import argparse
import ast
import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
UV_FOLDER: Final = ROOT / ".uv"
OWN_UV: Final = UV_FOLDER / "bin" / "uv"

PIP: Final = ("-m", "pip", "--disable-pip-version-check")
BOOTSTRAP: Final = (
    "install",
    "--quiet",
    "--no-compile",
    "--no-deps",
    "--upgrade",
    "--target",
    str(UV_FOLDER),
    "uv",
)

UV_VARIABLES: Final = {
    "cert": "SSL_CERT_FILE",
    "constraint": "UV_CONSTRAINT",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "index-url": "UV_DEFAULT_INDEX",
    "no-index": "UV_OFFLINE",
    "proxy": "ALL_PROXY",
}
"""Options of pip, each with the variable that means the same to uv."""

SECTIONS: Final = ("global", "install", ":env:")
"""Sections of pip's configuration that apply to `pip install`; a later one overrides."""


def uv_variables(pip_config: str) -> dict[str, str]:
    """Translate the output of ``pip config list`` into environment variables of uv.

    >>> uv_variables("global.index-url='https://a.example/simple'\\nglobal.find-links='/a /b'")
    {'UV_DEFAULT_INDEX': 'https://a.example/simple', 'UV_FIND_LINKS': '/a,/b'}
    """
    values = {}
    for line in pip_config.splitlines():
        name, _, value = line.partition("=")
        section, _, option = name.rpartition(".")
        values[section, option] = str(ast.literal_eval(value))
    found = {}
    for section in SECTIONS:
        for option, variable in UV_VARIABLES.items():
            if (section, option) in values:
                separator = "," if option == "find-links" else " "
                found[variable] = separator.join(values[section, option].split())
    return found


def find_uv() -> tuple[str, dict[str, str]] | None:
    """Return the path of uv and its environment variables, or ``None`` if unavailable."""
    environ = os.environ | {"UV_PYTHON_DOWNLOADS": "never"}
    on_path = shutil.which("uv")
    if on_path and subprocess.run([on_path, "--version"], capture_output=True, check=False).returncode == 0:
        return on_path, environ
    listing = subprocess.Popen(
        [sys.executable, *PIP, "config", "list"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    with Path(__file__).open() as lock:  # make may install several environments at once
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not OWN_UV.exists():
            subprocess.run([sys.executable, *PIP, *BOOTSTRAP], capture_output=True, check=False)
    config = listing.communicate()[0]
    if not OWN_UV.exists():
        return None
    # pip looks for a package in all of its indexes; uv would stop at the first that has it.
    return str(OWN_UV), {"UV_INDEX_STRATEGY": "unsafe-best-match"} | uv_variables(config) | environ


def install_with_uv(uv: str, environ: dict[str, str], folder: Path, arguments: Sequence[str]) -> bool:
    """Create the environment if needed and install into it; returns whether both worked."""
    python = folder / "bin" / "python"
    # pip too, as `python -m venv` would put it there
    commands = [[uv, "pip", "install", "--quiet", "--python", str(python), "pip", *arguments]]
    if not python.exists():
        commands.insert(
            0, [uv, "venv", "--quiet", "--allow-existing", "--python", sys.executable, str(folder)]
        )
    return all(subprocess.run(command, env=environ, check=False).returncode == 0 for command in commands)


def install_with_pip(folder: Path, arguments: Sequence[str]) -> int:
    """Create the environment if needed and install with pip; returns the exit status."""
    python = str(folder / "bin" / "python")
    probe = [python, "-c", "import pip"]
    if not Path(python).exists() or subprocess.run(probe, capture_output=True, check=False).returncode:
        created = subprocess.run([sys.executable, "-m", "venv", str(folder)], check=False)
        if created.returncode:
            return created.returncode
    command = [python, *PIP, "install", "--quiet", "--no-compile", *arguments]
    return subprocess.run(command, check=False).returncode


def main() -> int:
    """Install the packages named on the command line; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="the virtual environment, such as .venv")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="arguments of `pip install`")
    given = parser.parse_args()
    if found := find_uv():
        if install_with_uv(*found, given.folder, given.arguments):
            return 0
        print("uv could not install the packages; trying with pip.", file=sys.stderr)
    else:
        print("uv is not available; installing with pip, which takes longer.", file=sys.stderr)
    return install_with_pip(given.folder, given.arguments)


if __name__ == "__main__":
    sys.exit(main())
