"""What a start imports, and what it leaves for whoever needs it."""

from __future__ import annotations

import subprocess
import sys

import pytest

LATE = {
    "PIL": "a picture is drawn",
    "aiohttp": "a captain with a model is asked",
    "authlib": "a visitor signs in",
    "dotenv": "nobody: settings are read from the environment",
    "fastmcp": "nobody: the protocol is spoken natively",
    "httpx": "a paid voice speaks",
    "mcp": "nobody: the protocol is spoken natively",
    "numpy": "a world or an evaluation computes",
    "openenv": "nobody: the protocol is spoken natively",
    "opentelemetry.sdk": "traces are sent",
    "pyarrow": "an export is written as Parquet",
    "resvg_py": "a picture is drawn",
    "scipy": "a world computes",
    "spectator.environments.cricket": "its world is played",
    "sqlalchemy.dialects.postgresql": "the journal is in PostgreSQL",
    "sqlalchemy.orm": "nobody",
}
"""Modules that a server imports later, and when."""


@pytest.mark.usefixtures("real_starts")
def test_a_start_imports_nothing_that_only_some_need() -> None:
    code = "import sys, server.app; print(*sorted(sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(found.stdout.split()) & set(LATE) == set()
