"""Verified results on a server's leaderboard, one file per bundle in the data folder.

The package ships one evaluation of the built-in captains; ``make board`` plays it again. The matches of a
bundle do not enter the journal: a file contains the claims of the manifest, after all were verified.
"""

from __future__ import annotations

import json
import logging
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from pydantic import BaseModel, Field, ValidationError

from spectator.core_events import FailedDecisions
from spectator.journal.encoding import atomic_file

if TYPE_CHECKING:
    from spectator.evaluation.bundles.bundle import BundleManifest

logger = logging.getLogger(__name__)

FOLDER: Final = "board"
"""Subfolder of the data folder with the verified results."""

MOST: Final = 200
"""Most results that a board shows; the newest come first."""

SHIPPED: Final = Path(__file__).with_name("shipped")
"""Folder of the manifests of the shipped bundles; a test plays their matches again."""

_FORMAT: Final = 1


class VerifiedFigure(BaseModel):
    """A figure with its 95 % interval, as the evaluation computes it."""

    value: float
    low: float
    high: float


class VerifiedCaptain(BaseModel):
    """One captain of a verified result."""

    name: str
    label: str
    source: str = Field(description="Kind of decision maker")
    anchor: bool = Field(description="Whether it is in every bundle of this world")
    rank: int | None = Field(description="1 is the best; null if not ranked")
    own_share: float | None = Field(description="Share of its decisions that it made itself")
    share: VerifiedFigure | None = Field(description="Share of matches won, ties half; null if not ranked")
    rating: VerifiedFigure | None = Field(description="Elo points against the mean of the field")
    fingerprints: list[str] = Field(
        description="Of a model: digests of its settings and of the models that answered"
    )
    models: list[str] = Field(description="The models that answered, as they named themselves")


class VerifiedBundle(BaseModel):
    """The results of a fully verified bundle."""

    format: int = _FORMAT
    digest: str = Field(
        pattern=r"^[0-9a-f]{64}$", description="Digest of the bundle: SHA-256 of its manifest"
    )
    published_at: str = Field(description="RFC 3339, as stated by its publisher")
    verified_at: str = Field(description="RFC 3339")
    verified_by: str = Field(description="Version of Spectator that verified it")
    environment: str
    environment_version: str
    title: str
    pack: str
    options: dict[str, Any]
    failed_decisions: FailedDecisions
    seeds: int
    seeds_made: Literal["sealed", "pack", "derived"]
    commitment: str | None = Field(description="Of sealed seeds")
    matches: int = Field(description="Number of matches")
    captains: list[VerifiedCaptain] = Field(description="Best first, then those that are not ranked")
    shipped: bool = Field(default=False, description="Whether Spectator ships it")


def verified_result(
    manifest: BundleManifest, digest: str, *, verified_at: str, verified_by: str
) -> VerifiedBundle:
    """Return what a board shows of a verified bundle.

    Args:
        digest: The bundle's digest.
        verified_at: RFC 3339.
        verified_by: Version of this software.
    """
    stated = {one.name: one for one in manifest.captains}
    captains = [
        VerifiedCaptain(
            name=one.name,
            label=one.label,
            source=one.source,
            anchor=stated[one.name].anchor,
            rank=one.rank,
            own_share=one.asked.own_share,
            share=None if one.share is None else VerifiedFigure(**one.share.model_dump(exclude={"n"})),
            rating=None if one.rating is None else VerifiedFigure(**one.rating.model_dump(exclude={"n"})),
            fingerprints=stated[one.name].entrants,
            models=stated[one.name].models,
        )
        for one in manifest.results.captains
    ]
    return VerifiedBundle(
        digest=digest,
        published_at=manifest.published_at,
        verified_at=verified_at,
        verified_by=verified_by,
        environment=manifest.environment,
        environment_version=manifest.environment_version,
        title=manifest.results.title,
        pack=manifest.pack.name,
        options=manifest.options,
        failed_decisions=manifest.failed_decisions,
        seeds=manifest.seeds.count,
        seeds_made=manifest.seeds.made,
        commitment=manifest.seeds.commitment,
        matches=len(manifest.results.matches),
        captains=captains,
    )


@cache
def shipped_results() -> list[VerifiedBundle]:
    """The results of the built-in captains, verified when this version was released."""
    from spectator.evaluation.bundles.bundle import BundleManifest

    found = []
    for path in sorted(SHIPPED.glob("*.json")):
        text = path.read_bytes()
        manifest = BundleManifest.model_validate_json(text)
        result = verified_result(
            manifest,
            sha256(text).hexdigest(),
            verified_at=manifest.published_at,
            verified_by=manifest.spectator_version,
        )
        found.append(result.model_copy(update={"shipped": True}))
    return found


def keep_verified(data_dir: Path, result: VerifiedBundle) -> Path:
    """Put a verified result on the board of a server, atomically.

    Raises:
        ConfigurationError: Something that is no ordinary file is in its place.
        OSError: It cannot be written.
    """
    folder = data_dir / FOLDER
    path = folder / f"{result.digest}.json"
    with atomic_file(path) as file:
        file.write(result.model_dump_json(indent=1))
    return path


def remove_result(data_dir: Path, digest: str) -> VerifiedBundle | None:
    """Remove the result whose digest begins with ``digest``; ``None`` if none or several match.

    Args:
        data_dir: The server's data folder.
        digest: First digits of the digest.
    """
    found = [one for one in verified_results(data_dir) if one.digest.startswith(digest.lower())]
    if len(found) != 1:
        return None
    (data_dir / FOLDER / f"{found[0].digest}.json").unlink(missing_ok=True)
    return found[0]


def verified_results(data_dir: Path) -> list[VerifiedBundle]:
    """The results on the board, latest verification first; unreadable files are skipped.

    Args:
        data_dir: The server's data folder; it may lack a board.
    """
    found = []
    for path in sorted((data_dir / FOLDER).glob("*.json")):
        try:
            result = VerifiedBundle.model_validate(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, ValidationError) as error:
            logger.warning("the board skips %s: %s", path, error)
            continue
        if result.digest == path.stem and result.format == _FORMAT:
            found.append(result)
    return sorted(found, key=lambda one: (one.verified_at, one.digest), reverse=True)[:MOST]
