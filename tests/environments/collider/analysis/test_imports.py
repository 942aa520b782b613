from __future__ import annotations

import subprocess
import sys

import pytest

from spectator.environments.collider import analysis


@pytest.mark.usefixtures("real_starts")
def test_importing_the_analysis_brings_none_of_the_heavy_packages() -> None:
    code = (
        "import sys, spectator.environments.collider.analysis;"
        "heavy = {'scipy', 'iminuit', 'pyhf', 'particle'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout == "[]\n"


def test_every_public_name_is_there() -> None:
    assert all(getattr(analysis, name) is not None for name in analysis.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = analysis.nothing
