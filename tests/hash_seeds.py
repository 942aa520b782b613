"""Programs run under a given hash seed, for what must not depend on the order of a set."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def printed(code: str, hash_seed: int, *arguments: str, given: str = "") -> str:
    """What a program prints in a process of its own.

    Args:
        code: The program.
        hash_seed: Decides the order of sets of strings.
        arguments: Its arguments.
        given: Its standard input.
    """
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        input=given,
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": str(ROOT)},
    ).stdout
