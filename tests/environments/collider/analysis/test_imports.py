from __future__ import annotations

import subprocess
import sys


def test_importing_the_analysis_brings_none_of_the_heavy_packages() -> None:
    code = (
        "import sys, spectator.environments.collider.analysis;"
        "heavy = {'scipy', 'iminuit', 'pyhf', 'particle'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout == "[]\n"
