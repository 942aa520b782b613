"""The command ``spectator cache``."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from spectator.cli.environment import read_cast
from spectator.cli.recordings import every_episode, journal_folder, recorded_journal, summary_of

if TYPE_CHECKING:
    from spectator.cast import Cast
    from spectator.journal.base import Journal


@click.group()
def cache() -> None:
    """Keep the decisions of a model, to evaluate it again without asking it."""


@cache.command()
@click.argument("episode_ids", nargs=-1, metavar="[EPISODE]...")
@click.option("--all", "every", is_flag=True, help="Every ended episode of the journal that a model played.")
@click.option(
    "--out",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="File; added to if it exists.",
)
@click.option("--captain", help="Whose decisions, such as llm:hf; needed where several models decided.")
@journal_folder
def build(episode_ids: tuple[str, ...], every: bool, out: Path, captain: str | None, data_dir: Path) -> None:
    """Make a cache of the decisions that a model made in recorded episodes.

    A captain of the file SPECTATOR_CAPTAINS_FILE plays from it: a table [captains.NAME] with label, cache =
    FILE, and on_miss = "error" or "fallback". Named [captains.cached], it is also llm_cached.

    \b
    Example: spectator cache build ep-01K9ZQ3V5M0000000000000000 --out decisions.ndjson
             spectator cache build --all --data-dir evaluation --out decisions.ndjson
    """
    if every == bool(episode_ids):
        raise click.UsageError("name episodes, or --all of them")
    asyncio.run(_build(list(dict.fromkeys(episode_ids)), out, captain, data_dir))


async def _build(episode_ids: list[str], out: Path, captain: str | None, data_dir: Path) -> None:
    from spectator.journal.base import EpisodeFilter

    async with recorded_journal(data_dir) as journal:
        if episode_ids:
            for episode_id in episode_ids:
                await summary_of(journal, episode_id)
        else:
            found = await every_episode(journal, EpisodeFilter(ended=True))
            episode_ids = [summary.episode_id for summary in found]
        await record(journal, episode_ids, read_cast(), out, captain)


async def record(
    journal: Journal, episode_ids: Sequence[str], cast: Cast, out: Path, captain: str | None
) -> None:
    """Add the decisions of one model to the cache ``out``, and tell how many.

    Episodes that it did not play are passed over.

    Raises:
        ConfigurationError: They cannot be vouched for, or ``out`` holds those of another model or style.
    """
    from spectator.episodes.replay.decision_caching import (
        Recording,
        head_of,
        models_in,
        one_captain,
        record_decisions,
    )
    from spectator.episodes.replay.prompts import rebuild_prompts
    from spectator.episodes.replay.recorded_calls import calls_of
    from spectator.errors import ConfigurationError
    from spectator.policies.decision_cache import DecisionCache

    first = {
        episode_id: (await journal.read(episode_id, limit=1))[0].event.data for episode_id in episode_ids
    }
    name = one_captain({model for started in first.values() for model in models_in(started)}, captain)
    played = [episode_id for episode_id, started in first.items() if name in models_in(started)]
    head = head_of(cast.load(first[played[0]]["environment"]), name)
    known = await asyncio.to_thread(out.exists)
    kept = DecisionCache.load(out) if known else DecisionCache(head, out.name)
    if kept.head != head:
        held, wanted = (f"{one.model} in the style {one.style}" for one in (kept.head, head))
        raise ConfigurationError(f"{out} holds decisions of {held}, not of {wanted}; choose another file")
    told = Recording()
    with click.progressbar(played, label="Asking again", file=sys.stderr) as progress:
        for episode_id in progress:
            recorded = [one async for one in journal.stream(episode_id)]
            asked = await rebuild_prompts(recorded, cast.load, await calls_of(journal, episode_id))
            told += record_decisions(kept, asked, name)
    kept.save(out)
    click.echo(
        f"{told.decisions} decisions of {head.model}: {told.new} new, {len(kept)} in {out}; {told.otherwise} "
        "answered a known question otherwise and were left out",
        err=True,
    )
