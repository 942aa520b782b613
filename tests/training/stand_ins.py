"""The module of the harness, on stand-ins for OpenEnv's own classes where OpenEnv is not installed."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest import mock


@dataclass
class ToolResult:
    data: Any
    done: bool
    metadata: Mapping[str, Any]
    error: str | None


def harness_sessions() -> Any:
    """Return ``spectator.training.openenv_session``."""
    modules: dict[str, ModuleType] = {}
    if find_spec("openenv") is None:
        names = ("openenv", "openenv.core", "openenv.core.env_server", "openenv.core.env_server.mcp_types",
                 "openenv.core.harness")  # fmt: skip
        modules = {name: ModuleType(name) for name in names}
        modules["openenv.core.env_server.mcp_types"].__dict__["Tool"] = SimpleNamespace
        modules["openenv.core.harness"].__dict__.update(
            ResourceSession=object,
            ResourceSessionFactory=object,
            ToolResult=ToolResult,
            VerifyResult=SimpleNamespace,
        )
    with mock.patch.dict(sys.modules, modules):
        sys.modules.pop("spectator.training.openenv_session", None)
        return import_module("spectator.training.openenv_session")
