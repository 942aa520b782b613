"""The verified results of published evaluations, as the leaderboard shows them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from spectator.evaluation.bundles.board import VerifiedBundle, VerifiedCaptain, verified_results

from .option_words import unusual_options


def results_shown(
    data_dir: Path, mask: Callable[[str], str], environment: str | None, pack: str | None, captain: str | None
) -> list[VerifiedBundle]:
    """What is on the board and was asked for, the newest first.

    Args:
        data_dir: The server's data folder.
        mask: Hides the names that the operator had hidden.
        environment: Only of this world.
        pack: Only of this pack.
        captain: Only with this captain in it.
    """
    return [
        one.model_copy(update={"captains": [_masked(captain, mask) for captain in one.captains]})
        for one in verified_results(data_dir)
        if environment in (None, "", one.environment)
        and pack in (None, "", one.pack)
        and (not captain or any(captain == played.name for played in one.captains))
    ]


def with_options(results: Sequence[VerifiedBundle]) -> list[tuple[VerifiedBundle, Sequence[str]]]:
    """Each result with those of its options that are not the default, in words."""
    return [(one, unusual_options(one.environment, one.options)) for one in results]


def _masked(captain: VerifiedCaptain, mask: Callable[[str], str]) -> VerifiedCaptain:
    return captain.model_copy(
        update={"label": mask(captain.label), "models": [mask(model) for model in captain.models]}
    )
