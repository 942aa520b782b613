from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.usefixtures("real_starts")
def test_importing_the_analysis_brings_none_of_the_heavy_packages() -> None:
    code = (
        "import pkgutil, sys; from spectator.environments.collider import analysis as all;"
        "[__import__(f'{all.__name__}.{one.name}') for one in pkgutil.iter_modules(all.__path__)];"
        "heavy = {'scipy', 'iminuit', 'pyhf', 'particle'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout == "[]\n"
