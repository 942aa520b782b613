"""The manifest of a bundle: what was played, on which seeds, by whom, and what is claimed of it."""

from __future__ import annotations

import hashlib
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from spectator.environments.world import MAX_SEED, Pack, World
from spectator.evaluation.result_types import Results
from spectator.events import DecisionSource, FailedDecisions, encode_json

MANIFEST: Final = "manifest.json"
"""Name of the manifest in a bundle."""

JOURNAL: Final = "journal.db"
"""Name of the journal in a bundle."""

SCHEMA: Final = 1
"""Version of the manifest; a bundle of a later one is not read."""

ANCHORS: Final = ("random", "heuristic", "planner", "reference")
"""Captains that are in every bundle, as far as a world has them: results of different bundles meet there."""

_DIGEST: Final = r"^[0-9a-f]{64}$"


class _Part(BaseModel):
    """Base of the parts of a manifest: frozen, with no field beyond those declared."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class BundledPack(_Part):
    """The evaluation pack."""

    name: str
    version: str


class SeedSource(_Part):
    """Where the seeds come from, so that anybody can make them again."""

    made: Literal["sealed", "pack", "derived"] = Field(
        description="`sealed`: from a secret phrase; `pack`: the development seeds of the pack; `derived`: "
        "development seeds made from `seed`"
    )
    count: int = Field(ge=1, description="How many; always the first ones, in order")
    seed: int | None = Field(default=None, ge=0, le=MAX_SEED, description="Where `derived`")
    phrase: str | None = Field(
        default=None, description="Where `sealed`: told in the bundle, because the journal tells the seeds"
    )
    commitment: str | None = Field(
        default=None,
        pattern=_DIGEST,
        description="Where `sealed`: digest of phrase, world and pack; it names the rotation, and may be "
        "published before a match is played",
    )


class BundledCaptain(_Part):
    """One captain."""

    name: str = Field(min_length=1, max_length=100)
    label: str = Field(max_length=200)
    source: DecisionSource
    anchor: bool = Field(description="Whether it is in every bundle of this world")
    fingerprint: str | None = Field(
        default=None,
        description="Of a model: a digest of endpoint, model, style and sampling, as each match has it",
    )
    entrants: list[str] = Field(
        default_factory=list,
        description="Of a model: the fingerprints under which the leaderboard knows it, with what answered",
    )
    models: list[str] = Field(
        default_factory=list, description="The models that answered, by their own account"
    )
    asked: dict[str, Any] | None = Field(
        default=None, description="Of a model: how it was asked; neither key nor address nor further fields"
    )


class BundledEpisode(_Part):
    """One recorded episode."""

    id: str
    events: int = Field(ge=1)
    digest: str = Field(pattern=_DIGEST, description="Of its last event, which covers all before it")


class BundledFile(_Part):
    """One file of the bundle beside the manifest."""

    sha256: str = Field(pattern=_DIGEST)
    bytes: int = Field(ge=0)


class BundleManifest(_Part):
    """What a bundle says of itself. Its own SHA-256 is the digest of the bundle."""

    schema_version: int = Field(ge=1)
    spectator_version: str
    environment: str
    environment_version: str
    pack: BundledPack
    options: dict[str, Any] = Field(description="Every option of the world")
    failed_decisions: FailedDecisions
    matches: int = Field(ge=2, description="Matches of each pair of captains")
    seeds: SeedSource
    captains: list[BundledCaptain] = Field(min_length=2)
    began_ms: int = Field(ge=0, description="Unix time in milliseconds; part of every episode's id")
    run_id: str | None
    published_at: str = Field(description="RFC 3339")
    results: Results = Field(description="What is claimed, with its intervals, as in results.json")
    episodes: list[BundledEpisode] = Field(description="All of them, those that were played once more too")
    files: dict[str, BundledFile]


def commitment(world: str, pack: Pack, phrase: str) -> str:
    """The digest that binds whoever states it to a phrase, without telling it.

    Args:
        world: Name of the world.
        pack: The pack whose seeds the phrase makes.
        phrase: The secret.

    Returns:
        SHA-256, 64 hexadecimal digits.
    """
    stated = ["spectator sealed seeds", world, pack.name, pack.version, phrase]
    return hashlib.sha256(encode_json(stated).encode()).hexdigest()


def anchors_of(world: World) -> tuple[str, ...]:
    """The captains of ``world`` that belong into every bundle: those of :data:`ANCHORS` that it has.

    >>> from spectator.catalog import load_world
    >>> anchors_of(load_world("counting"))
    ('random', 'heuristic')
    """
    there = [name for name in ANCHORS if name in world.captains]
    return tuple(name for name in there if not world.opponents or name in world.opponents)
