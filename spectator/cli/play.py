"""Owns `spectator play`."""

from __future__ import annotations

import asyncio
import secrets
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from spectator.cli.cache import record
from spectator.cli.environment import read_cast
from spectator.cli.options import parse_options
from spectator.cli.recordings import JOURNAL_FILE
from spectator.errors import SpectatorError

if TYPE_CHECKING:
    from spectator.cast import Cast
    from spectator.episodes.request import EpisodeRequest
    from spectator.events import EpisodeEnded


@click.command()
@click.argument("environment", default="cricket")
@click.option("--captain", help="Preset for the agent's seat; the world's default when left out.")
@click.option("--opponent", help="Preset for the other seats; the world's default when left out.")
@click.option("--pack", default="default", show_default=True, help="Evaluation pack.")
@click.option("--seed", type=click.IntRange(min=0), help="Drawn, and recorded, when left out.")
@click.option("--pace", type=click.Choice(["broadcast", "fast", "max"]), default="max", show_default=True)
@click.option("--option", "options", multiple=True, callback=parse_options, help="NAME=VALUE, repeatable.")
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the journal to record into; nothing is kept when left out.",
)
@click.option(
    "--record-decisions",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Cache to add the model captain's decisions to; see `spectator cache build`.",
)
def play(
    environment: str,
    captain: str | None,
    opponent: str | None,
    pack: str,
    seed: int | None,
    pace: str,
    options: dict[str, Any],
    data_dir: Path | None,
    record_decisions: Path | None,
) -> None:
    """Play one episode; its events go to standard output as NDJSON.

    \b
    Example: spectator play cricket --seed 7 --option max_overs=20 > match.ndjson
             HF_TOKEN=... spectator play cricket --captain llm:hf > match.ndjson
    """
    from spectator.episodes.pacing import Pace
    from spectator.episodes.request import EpisodeRequest

    request = EpisodeRequest(
        environment, captain, opponent, pack, seed, Pace(pace), narration=False, options=options
    )
    ended = asyncio.run(_play(request, data_dir, read_cast(), record_decisions))
    click.echo(f"{ended.reason}: {ended.result or ended.detail or ''} (score {ended.score})", err=True)
    if ended.reason != "finished":
        sys.exit(1)


async def _play(
    request: EpisodeRequest, data_dir: Path | None, cast: Cast, decisions: Path | None
) -> EpisodeEnded:
    from ulid import ULID

    from spectator.bus.base import Overflow
    from spectator.bus.memory import MemoryBus
    from spectator.clock import SystemClock
    from spectator.episodes.driver import EpisodeLimits
    from spectator.episodes.supervisor import Supervisor
    from spectator.journal.sql import SqlJournal

    with TemporaryDirectory(prefix="spectator-") as scratch:
        journal = await SqlJournal.open(f"sqlite:///{(data_dir or Path(scratch)) / JOURNAL_FILE}")
        bus = MemoryBus()
        try:
            async with asyncio.TaskGroup() as tasks:
                supervisor = Supervisor(
                    journal=journal,
                    bus=bus,
                    clock=SystemClock(),
                    tasks=tasks,
                    slots=1,
                    limits=EpisodeLimits(),
                    new_id=lambda: f"ep-{ULID()}",
                    new_epoch=lambda: secrets.token_hex(4),
                    draw_seed=lambda: secrets.randbelow(2**32),
                    load=cast.load,
                )
                episode = await supervisor.start(request)
                subscription = bus.subscribe(episode.episode_id, Overflow.CLOSE, capacity=1_000_000)
                for recorded in await journal.read(episode.episode_id, limit=episode.head_seq):
                    click.echo(recorded.text)
                async for batch in subscription:
                    click.echo("\n".join(recorded.text for recorded in batch))
                ended = await episode.wait()
            if decisions is not None:
                await record(journal, [episode.episode_id], cast, decisions, request.captain)
            return ended
        except* (SpectatorError, BrokenPipeError) as failures:
            raise failures.exceptions[0] from None
        finally:
            await journal.aclose()
