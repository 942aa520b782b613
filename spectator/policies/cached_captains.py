"""Captains that decide from a cache: the tables of the user's file that name a ``cache``."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from spectator.errors import ConfigurationError
from spectator.policies.base import Preset, ScriptedPolicy
from spectator.policies.cached import CachedPolicy, OnMiss
from spectator.policies.captain_table_errors import table_problems
from spectator.policies.captains import PREFIX, read_user_file
from spectator.policies.decision_cache import DecisionCache
from spectator.policies.model_presets import ModelSeat

CACHED: Final = "llm_cached"
"""Name of the captain and opponent that decides from the cache of the table ``[captains.cached]``."""

BEHIND: Final = PREFIX + "cached"
"""The preset behind :data:`CACHED`."""

NO_TABLE: Final = "needs a table [captains.cached] with cache = FILE in the file SPECTATOR_CAPTAINS_FILE"


class CachedTable(BaseModel):
    """One table ``[captains.NAME]`` that names a cache."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    label: str = Field(min_length=1, max_length=80, description="Name shown to people")
    summary: str = Field(default="", max_length=300, description="A sentence on it")
    cache: str = Field(
        min_length=1, description="File made by `spectator cache build`; relative to the file that names it"
    )
    on_miss: OnMiss = Field(
        default="error", description="Where nothing is recorded: end the episode, or let the fallback decide"
    )


@dataclass(frozen=True, slots=True)
class CachedCaptain:
    """A captain that decides from a cache.

    Args:
        table: What the user's file says of it.
        cache: Its decisions; ``None`` where they cannot be read.
        missing: What is needed before it can play; ``None`` when it can.
    """

    table: CachedTable
    cache: DecisionCache | None
    missing: str | None


def load_cached(user_file: Path | None) -> dict[str, CachedCaptain]:
    """The cached captains of the user's file by preset name, their caches read once.

    A cache that cannot be read makes its captain unavailable; it keeps nobody else from playing.

    Raises:
        ConfigurationError: The file cannot be read, or such a table is wrong; every wrong field is named.
    """
    if user_file is None:
        return {}
    tables: Any = tomllib.loads(read_user_file(user_file)).get("captains", {})
    captains: dict[str, CachedCaptain] = {}
    problems: list[str] = []
    for key, table in tables.items():
        if not (isinstance(table, dict) and "cache" in table):
            continue
        try:
            captains[PREFIX + key] = _captain(CachedTable.model_validate(table), user_file.parent)
        except ValidationError as error:
            problems += table_problems(str(user_file), key, error, CachedTable)
    if problems:
        raise ConfigurationError("; ".join(problems))
    return captains


def _captain(table: CachedTable, folder: Path) -> CachedCaptain:
    path = folder / table.cache
    if not path.is_file():
        return CachedCaptain(table, None, f"needs the file {path.name}: spectator cache build ... --out FILE")
    try:
        return CachedCaptain(table, DecisionCache.load(path), None)
    except ConfigurationError as error:
        return CachedCaptain(table, None, f"needs a cache that can be read: {error}")


def cached_presets(captains: Mapping[str, CachedCaptain], seat: ModelSeat) -> dict[str, Preset]:
    """The captains as presets for ``seat``, and the one behind :data:`CACHED`, there or not."""
    presets = {name: _preset(name, captain, seat) for name, captain in captains.items()}
    behind = captains.get(BEHIND)
    if behind is not None:
        return {**presets, CACHED: _preset(CACHED, behind, seat)}
    table = CachedTable(label="A model, recorded", cache="none")
    return {**presets, CACHED: _preset(CACHED, CachedCaptain(table, None, NO_TABLE), seat)}


def _preset(name: str, captain: CachedCaptain, seat: ModelSeat) -> Preset:
    table, cache = captain.table, captain.cache
    held = "Decides as a model did once."
    if cache is not None:
        held = f"Decides as {cache.head.model} did in {len(cache)} situations; in others, {_then(table)}."

    def build(seed: int) -> CachedPolicy:
        fallback = seat.fallback(seed)
        if cache is None:
            raise ConfigurationError(f"{name} {captain.missing}")
        if not isinstance(fallback, ScriptedPolicy):
            raise ConfigurationError("the fallback of a cache must be a scripted policy")
        return CachedPolicy(cache, seat.briefing.task, on_miss=table.on_miss, fallback=fallback)

    return Preset(name, table.label, table.summary or held, "replay", build, missing=captain.missing)


def _then(table: CachedTable) -> str:
    return "the fallback does" if table.on_miss == "fallback" else "the episode ends"
