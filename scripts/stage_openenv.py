"""Make a folder for `openenv push`: the sources of the image, a client and a package marker.

    python scripts/stage_openenv.py FOLDER
    openenv push --directory FOLDER --repo-id NAME/cricket

`openenv push` needs `client.py` and `__init__.py` next to `openenv.yaml`. In the repository they would make a
second package of it, so they are written only here. Once installed, `AutoEnv` finds `openenv.yaml` and
`client.py` in the package `spectator`.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

FILES = (
    "openenv.yaml",
    "discovery.json",
    "pyproject.toml",
    "README.md",
    "LICENSE",
    "Dockerfile",
    ".dockerignore",
)
"""Files that are copied unchanged."""

FOLDERS = ("spectator", "server", "static", "templates", "validation")

CLIENT = '''"""The client of this environment, its actions and observations."""

from spectator.client import CricketAction, CricketEnv, CricketObservation

__all__ = ["CricketAction", "CricketEnv", "CricketObservation"]
'''

PACKAGE = '"""Package marker for OpenEnv; the code is in `spectator` and `server`."""\n'


def stage(folder: Path) -> None:
    """Fill ``folder``.



    Raises:
        FileExistsError: The folder exists and is not empty.
    """
    if folder.exists() and any(folder.iterdir()):
        raise FileExistsError(f"{folder} is not empty; name another folder or empty it")
    folder.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        shutil.copy2(ROOT / name, folder / name)
    unwanted = shutil.ignore_patterns("__pycache__", "*.pyc", "*.egg-info")
    for name in FOLDERS:
        shutil.copytree(ROOT / name, folder / name, ignore=unwanted)
    (folder / "client.py").write_text(CLIENT)
    (folder / "__init__.py").write_text(PACKAGE)


def main() -> None:
    """Stage into the folder named on the command line."""
    if len(sys.argv) != 2:
        sys.exit("usage: python scripts/stage_openenv.py FOLDER")
    try:
        stage(Path(sys.argv[1]))
    except OSError as error:
        sys.exit(f"stage_openenv: {error}")


if __name__ == "__main__":
    main()
