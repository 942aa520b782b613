"""Owns `spectator cache`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from spectator.cli.environment import read_cast
from spectator.cli.recordings import journal_folder, recorded_episode

if TYPE_CHECKING:
    from spectator.episodes.reasking import Reasked


@click.group()
def cache() -> None:
    """Keep the decisions of a model, to evaluate it again without asking it."""


@cache.command()
@click.argument("episode_ids", nargs=-1, required=True, metavar="EPISODE...")
@click.option(
    "--out",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="File; added to if it exists.",
)
@click.option("--captain", help="Whose decisions, such as llm:hf; needed where several models decided.")
@journal_folder
def build(episode_ids: tuple[str, ...], out: Path, captain: str | None, data_dir: Path) -> None:
    """Make a cache of the decisions that a model made in recorded episodes.

    A captain of the file SPECTATOR_CAPTAINS_FILE plays from it: a table [captains.NAME] with label, cache =
    FILE, and on_miss = "error" or "fallback". Named [captains.cached], it is also llm_cached.

    \b
    Example: spectator cache build ep-01K9ZQ3V5M0000000000000000 --out decisions.ndjson
    """
    episodes = [asyncio.run(_ask_again(episode_id, data_dir)) for episode_id in dict.fromkeys(episode_ids)]
    record(episodes, out, captain)


async def _ask_again(episode_id: str, data_dir: Path) -> Reasked:
    from spectator.episodes.reasking import ask_again

    async with recorded_episode(episode_id, data_dir) as journal:
        return await ask_again([one async for one in journal.stream(episode_id)], read_cast().load)


def record(episodes: Sequence[Reasked], out: Path, captain: str | None) -> None:
    """Add the decisions of one model to the cache ``out``, and tell how many.

    Raises:
        ConfigurationError: They cannot be vouched for, or ``out`` holds those of another model or style.
    """
    from spectator.episodes.caching import head_of, one_captain, record_decisions
    from spectator.errors import ConfigurationError
    from spectator.policies.decision_cache import DecisionCache

    name = one_captain(episodes, captain)
    head = head_of(episodes, name)
    kept = DecisionCache.load(out) if out.exists() else DecisionCache(head, out.name)
    if kept.head != head:
        held, wanted = (f"{one.model} in the style {one.style}" for one in (kept.head, head))
        raise ConfigurationError(f"{out} holds decisions of {held}, not of {wanted}; choose another file")
    told = record_decisions(kept, episodes, name)
    kept.save(out)
    click.echo(
        f"{told.decisions} decisions of {head.model}: {told.new} new, {len(kept)} in {out}; {told.otherwise} "
        "answered a known question otherwise and were left out",
        err=True,
    )
