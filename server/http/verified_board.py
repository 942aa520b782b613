"""The verified results of published evaluations, as the leaderboard shows them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from spectator.catalog import load_world, world_names
from spectator.evaluation.bundles.board import (
    VerifiedBundle,
    VerifiedCaptain,
    shipped_results,
    verified_results,
)

from .option_words import unusual_options


def results_shown(
    data_dir: Path, mask: Callable[[str], str], environment: str | None, pack: str | None, captain: str | None
) -> list[VerifiedBundle]:
    """What is on the board and was asked for, the newest first, what came with Spectator last.

    Args:
        data_dir: The server's data folder.
        mask: Hides the names that the operator had hidden.
        environment: Only of this world.
        pack: Only of this pack.
        captain: Only with this captain in it.
    """
    return [
        one.model_copy(update={"captains": [_masked(captain, mask) for captain in one.captains]})
        for one in [*verified_results(data_dir), *shipped_results()]
        if environment in (None, "", one.environment)
        and pack in (None, "", one.pack)
        and (not captain or any(captain == played.name for played in one.captains))
    ]


def with_options(results: Sequence[VerifiedBundle]) -> list[tuple[VerifiedBundle, Sequence[str], str]]:
    """Each result with its options that are not the default, in words, and the version that plays here now.

    That version is empty where it is the one that the result was played with, or no such world is here.
    """
    return [(one, unusual_options(one.environment, one.options), _other_version(one)) for one in results]


def _other_version(result: VerifiedBundle) -> str:
    if result.environment not in world_names():
        return ""
    now = load_world(result.environment).version
    return "" if now == result.environment_version else now


def _masked(captain: VerifiedCaptain, mask: Callable[[str], str]) -> VerifiedCaptain:
    return captain.model_copy(
        update={"label": mask(captain.label), "models": [mask(model) for model in captain.models]}
    )
