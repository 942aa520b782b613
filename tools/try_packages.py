"""Play environments by others' packages that `make test` lacks: ``python -m tools.try_packages [SET...]``.

Each set of packages is installed into an environment of its own under ``build/packages``; the sets with torch
and jax take gigabytes. The forms of ``tests/watchable`` are then played, and what was recorded is compared
with what their loops counted. The results become the second table of docs/conformance.md.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from scripts.make_conformance_doc import PAGE, ROOT, TRIED, tried_page
from tests.watchable.recorded import judged

PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
SMALL: Final[list[str]] = PROJECT["optional-dependencies"]["environments"]


@dataclass(frozen=True, slots=True)
class PackageSet:
    """Packages that are tried together.

    Args:
        needs: Requirements and options of the installation.
        alone: Requirements that are installed without their dependencies.
        packages: Packages whose forms are played.
    """

    needs: Sequence[str]
    packages: Sequence[str]
    alone: Sequence[str] = ()


def _names(requirements: Sequence[str]) -> list[str]:
    """Return requirements without versions."""
    return [re.split(r"[<>=\[;! ]", one)[0] for one in requirements]


SETS: Final = {
    "lowest": PackageSet(
        ["--resolution", "lowest-direct", *SMALL],
        [one for one in _names(SMALL) if one != "pygame-ce"],
    ),
    "newest": PackageSet(
        ["--upgrade", *_names(SMALL)],
        [*(one for one in _names(SMALL) if one != "pygame-ce"), "envpool"],
        ["envpool", "optree"],
    ),
    "stable-baselines3": PackageSet(["stable-baselines3"], ["stable-baselines3"]),
    "jumanji": PackageSet(["jumanji"], ["jumanji"]),
    "brax": PackageSet(["brax", "gym"], ["brax"]),
    "verifiers": PackageSet(["verifiers"], ["verifiers"]),
    "openenv": PackageSet(["openenv", "uvicorn"], ["openenv"]),
}
"""The sets; none but ``lowest`` limits the releases."""


def try_set(name: str) -> list[dict[str, Any]]:
    """Install a set, play its forms, and return what was found."""
    wanted, folder = SETS[name], ROOT / "build" / "packages" / name
    for arguments in (wanted.needs, PROJECT["dependencies"], ["--no-deps", *wanted.alone]):
        if arguments[-1] != "--no-deps":
            subprocess.run(
                [sys.executable, "scripts/install.py", str(folder), *arguments], cwd=ROOT, check=True
            )
    runs = folder / f"run-{datetime.now(UTC):%H%M%S}"
    done = subprocess.run(
        [folder / "bin" / "python", "-m", "tests.watchable.large_packages", runs, *wanted.packages],
        env={**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"},
        stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT,
    )  # fmt: skip
    found = judged(json.loads(done.stdout.splitlines()[-1]), runs)
    for one in found:
        print(name, one["version"], one["form"], one.get("refused") or ("held" if one["held"] else one))
    return found


def main() -> None:
    """Try the named sets, or all, and write the page."""
    unknown = [name for name in sys.argv[1:] if name not in SETS]
    if unknown:
        sys.exit(f"try_packages: unknown set {unknown[0]!r}; use {', '.join(SETS)}")
    TRIED.parent.mkdir(exist_ok=True)
    tried = json.loads(TRIED.read_text(encoding="utf-8")) if TRIED.exists() else {}
    for name in sys.argv[1:] or SETS:
        tried[name] = try_set(name)
        TRIED.write_text(json.dumps(tried, indent=1), encoding="utf-8")
    rows = [one for name in SETS for one in tried.get(name, ())]
    page = tried_page(PAGE.read_text(encoding="utf-8"), rows, datetime.now(UTC).date())
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
