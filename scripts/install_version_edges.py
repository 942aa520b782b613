"""Installs both ends of the ranges of uvicorn and websockets that pyproject.toml allows, each in a folder.

tests/server/transport/test_version_edges.py runs the tests of viewers' connections against each folder.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".venv-edges"
PACKAGES = ("uvicorn", "websockets")


def ranges() -> dict[str, str]:
    """The version range of each package, such as ``>=0.52.1,<0.55``, as the server declares it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    declared = project["optional-dependencies"]["server"]
    found = {name: one.removeprefix(name) for one in declared for name in PACKAGES if one.startswith(name)}
    if missing := set(PACKAGES) - set(found):
        raise SystemExit(f"pyproject.toml declares no range of {', '.join(sorted(missing))} for the server")
    return found


def lowest(version_range: str) -> str:
    """The lowest version of a range.

    >>> lowest(">=0.52.1,<0.55")
    '==0.52.1'
    """
    bound = re.match(r">=([\d.]+),<[\d.]+$", version_range)
    if bound is None:
        raise SystemExit(f"a range has both ends, such as >=1.2,<2, not {version_range!r}")
    return f"=={bound[1]}"


def main() -> None:
    """Install the lowest versions into ``lowest/`` and the newest that are allowed into ``newest/``."""
    for end, wanted in {
        "lowest": [f"{name}{lowest(version_range)}" for name, version_range in ranges().items()],
        "newest": [f"{name}{version_range}" for name, version_range in ranges().items()],
    }.items():
        command = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--no-deps",
        ]
        subprocess.run([*command, "--upgrade", "--target", str(FOLDER / end), *wanted], check=True)


if __name__ == "__main__":
    main()
