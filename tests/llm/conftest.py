"""What the tests of the client share."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest


@pytest.fixture
def run_python(real_starts: None) -> Callable[[str], str]:
    """Runs code in a fresh interpreter; returns what it printed."""

    def run(code: str) -> str:
        return subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
        ).stdout

    return run
