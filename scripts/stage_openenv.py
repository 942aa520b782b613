"""Makes a folder that `openenv push` takes: what the image is built from, a client and a package marker.

    python scripts/stage_openenv.py FOLDER
    openenv push --directory FOLDER --repo-id NAME/cricket

`openenv push` wants `client.py` and `__init__.py` beside `openenv.yaml`. In the repository itself they would
make a second package of it, so they are written here only. Once installed, `AutoEnv` finds `openenv.yaml` and
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
"""What is copied as it is, beside the folders."""

FOLDERS = ("spectator", "server", "static", "templates", "validation")

CLIENT = '''"""The client of this environment, and what it sends and hears."""

from spectator.client import CricketAction, CricketEnv, CricketObservation

__all__ = ["CricketAction", "CricketEnv", "CricketObservation"]
'''

PACKAGE = '"""The environment as OpenEnv names it; all of it is in `spectator` and `server`."""\n'


def stage(folder: Path) -> None:
    """Fill ``folder``.

    Raises:
        FileExistsError: It is there and not empty.
    """
    if folder.exists() and any(folder.iterdir()):
        raise FileExistsError(f"{folder} is not empty")
    folder.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        shutil.copy2(ROOT / name, folder / name)
    unwanted = shutil.ignore_patterns("__pycache__", "*.pyc", "*.egg-info")
    for name in FOLDERS:
        shutil.copytree(ROOT / name, folder / name, ignore=unwanted)
    (folder / "client.py").write_text(CLIENT)
    (folder / "__init__.py").write_text(PACKAGE)


def main() -> None:
    """Stage into the folder that is named."""
    if len(sys.argv) != 2:
        sys.exit("usage: python scripts/stage_openenv.py FOLDER")
    try:
        stage(Path(sys.argv[1]))
    except OSError as error:
        sys.exit(f"stage_openenv: {error}")


if __name__ == "__main__":
    main()
