"""Owns the command line. Heavy rooms are imported by the command that needs them."""

from __future__ import annotations

import asyncio
import json
import random
import secrets
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, TYPE_CHECKING, Any

import click

from spectator import __version__
from spectator.errors import SpectatorError

if TYPE_CHECKING:
    from spectator.episodes.request import EpisodeRequest
    from spectator.events import EpisodeEnded
    from spectator.journal.base import Journal

JOURNAL_FILE = "journal.db"


class _Commands(click.Group):
    """A group whose commands turn this library's errors into one line and exit code 1."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except SpectatorError as error:
            raise click.ClickException(str(error)) from error


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="spectator")
def main() -> None:
    """Spectator: the live cockpit for agents that play."""


@main.command(context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def serve(arguments: tuple[str, ...]) -> None:
    """Serve the cockpit; takes the arguments of `server`.

    \b
    Example: spectator serve --port 8000
    """
    try:
        edge = import_module("spectator.server.app")
    except ModuleNotFoundError as error:
        raise click.ClickException(
            f"{error.name} is not installed; the server needs: pip install 'openenv-spectator[server]'"
        ) from error
    edge.main(list(arguments))


def _parse_options(_: click.Context, __: click.Parameter, pairs: tuple[str, ...]) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator:
            raise click.BadParameter(f"{pair!r} is not NAME=VALUE")
        try:
            options[name] = json.loads(value)
        except json.JSONDecodeError:
            options[name] = value
    return options


@main.command()
@click.argument("environment", default="cricket")
@click.option("--captain", help="Preset for the agent's seat; the world's default when left out.")
@click.option("--opponent", help="Preset for the other seats; the world's default when left out.")
@click.option("--pack", default="default", show_default=True, help="Evaluation pack.")
@click.option("--seed", type=click.IntRange(min=0), help="Drawn, and recorded, when left out.")
@click.option("--pace", type=click.Choice(["broadcast", "fast", "max"]), default="max", show_default=True)
@click.option("--option", "options", multiple=True, callback=_parse_options, help="NAME=VALUE, repeatable.")
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the journal to record into; nothing is kept when left out.",
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
) -> None:
    """Play one episode; its events go to standard output as NDJSON.

    \b
    Example: spectator play cricket --seed 7 --option max_overs=20 > match.ndjson
    """
    from spectator.episodes.pacing import Pace
    from spectator.episodes.request import EpisodeRequest

    request = EpisodeRequest(
        environment, captain, opponent, pack, seed, Pace(pace), narration=False, options=options
    )
    ended = asyncio.run(_play(request, data_dir))
    click.echo(f"{ended.reason}: {ended.result or ended.detail or ''} (score {ended.score})", err=True)
    if ended.reason != "finished":
        sys.exit(1)


async def _play(request: EpisodeRequest, data_dir: Path | None) -> EpisodeEnded:
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
                )
                episode = await supervisor.start(request)
                subscription = bus.subscribe(episode.episode_id, Overflow.CLOSE, capacity=1_000_000)
                for recorded in await journal.read(episode.episode_id, limit=episode.head_seq):
                    click.echo(recorded.text)
                async for batch in subscription:
                    click.echo("\n".join(recorded.text for recorded in batch))
                return await episode.wait()
        except* (SpectatorError, BrokenPipeError) as failures:
            raise failures.exceptions[0] from None
        finally:
            await journal.aclose()


@main.command()
@click.argument("environment", default="cricket")
@click.option(
    "--matches", type=click.IntRange(min=1), default=1, show_default=True, help="How many episodes."
)
@click.option("--overs", type=int, help="Shorthand for --option max_overs=N.")
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True)
@click.option("--option", "options", multiple=True, callback=_parse_options, help="NAME=VALUE, repeatable.")
@click.option(
    "--out", type=click.File("w", encoding="utf-8", lazy=True), default="-", help="File; - is stdout."
)
def simulate(
    environment: str, matches: int, overs: int | None, seed: int, options: dict[str, Any], out: IO[str]
) -> None:
    """Play many episodes as fast as possible and write what happened, one JSON object a line.

    \b
    Example: spectator simulate cricket --matches 800 --overs 20 --seed 1 --out balls.jsonl
    """
    from pydantic import ValidationError

    from spectator.catalog import load_world
    from spectator.errors import InvalidRequest, field_errors
    from spectator.events import encode_json

    world = load_world(environment)
    if world.simulate is None:
        raise click.UsageError(
            f"{environment} has no simulation of its own; use `spectator play {environment}`"
        )
    if overs is not None:
        options = {**options, "max_overs": overs}
    try:
        complete = world.options_type.model_validate(options).model_dump(mode="json")
    except ValidationError as error:
        raise InvalidRequest(field_errors(error.errors(), prefix=["options"])) from error
    with click.progressbar(length=matches, label="matches", file=sys.stderr) as progress:
        for first, row in _marking_matches(world.simulate(matches, seed, complete)):
            out.write(encode_json(row) + "\n")
            progress.update(first)


def _marking_matches(rows: Iterator[Mapping[str, Any]]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Each row, with 1 beside the first of a match and 0 beside the others."""
    match_id: object = None
    for row in rows:
        yield int(row.get("match_id") != match_id), row
        match_id = row.get("match_id")


_journal_folder = click.option(
    "--data-dir",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default="data",
    show_default=True,
    help="Folder of the journal.",
)


@main.command()
@click.argument("episode_id")
@_journal_folder
@click.option("--after-seq", type=click.IntRange(min=0), default=0, show_default=True)
def export(episode_id: str, data_dir: Path, after_seq: int) -> None:
    """Write a recorded episode's events to standard output as NDJSON, byte for byte as recorded.

    \b
    Example: spectator export ep-01K9ZQ3V5M0000000000000000 > match.ndjson
    """

    async def write() -> None:
        async with _recorded(episode_id, data_dir) as journal:
            async for recorded in journal.stream(episode_id, after_seq=after_seq):
                click.echo(recorded.text)

    asyncio.run(write())


@asynccontextmanager
async def _recorded(episode_id: str, data_dir: Path) -> AsyncIterator[Journal]:
    """The journal in ``data_dir``, for reading, once it is known to hold the episode."""
    from spectator.errors import EpisodeNotFound
    from spectator.journal.sql import SqlJournal

    path = data_dir / JOURNAL_FILE
    if not await asyncio.to_thread(path.exists):
        raise click.ClickException(f"there is no journal at {path}; name its folder with --data-dir")
    journal = await SqlJournal.open(f"sqlite:///{path}", writable=False)
    try:
        if await journal.episode(episode_id) is None:
            raise EpisodeNotFound(episode_id)
        yield journal
    finally:
        await journal.aclose()


@main.command()
@click.argument("episode_id")
@_journal_folder
def verify(episode_id: str, data_dir: Path) -> None:
    """Play a recorded episode again from its seed and decisions, and compare every event.

    \b
    Example: spectator verify ep-01K9ZQ3V5M0000000000000000
    """
    from spectator.episodes.verify import verify as replay_and_compare

    async def check() -> None:
        async with _recorded(episode_id, data_dir) as journal:
            found = await replay_and_compare(journal.stream(episode_id))
        for discrepancy in found:
            click.echo(f"event {discrepancy.seq}: {discrepancy.message}", err=True)
        if found:
            raise click.ClickException(f"{episode_id} is not what its seed and decisions give")
        click.echo(f"{episode_id}: every event is what its seed and decisions give")

    asyncio.run(check())


@main.command()
@click.argument("source")
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    default="data",
    show_default=True,
    help="Folder of the journal, for a recorded episode.",
)
@click.option("--turn-seconds", type=click.FloatRange(min=0), default=0.5, show_default=True)
def watch(source: str, data_dir: Path, turn_seconds: float) -> None:
    """Watch an episode in the terminal: SOURCE is a server's address, a page's, or a recorded episode's id.

    \b
    Example: spectator watch http://localhost:8000
    Example: spectator watch ep-01K9ZQ3V5M0000000000000000 --turn-seconds 0.2
    """
    try:
        from rich.console import Console
        from rich.live import Live

        from spectator import terminal, watching
    except ModuleNotFoundError as error:
        raise click.ClickException(
            f"{error.name} is not installed; watching needs: pip install 'openenv-spectator[watch]'"
        ) from error

    async def show(sights: AsyncIterator[watching.Sight]) -> None:
        with Live(console=Console(), auto_refresh=False, vertical_overflow="crop") as screen:
            async for sight in sights:
                screen.update(terminal.draw(sight.state, sight.connection), refresh=True)

    async def recorded() -> None:
        async with _recorded(source, data_dir) as journal:
            await show(watching.watch_recorded(journal, source, wait_s=turn_seconds))

    try:
        if "://" in source:
            asyncio.run(show(watching.watch_live(watching.live_url(source), rng=random.Random())))
        else:
            asyncio.run(recorded())
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
    except KeyboardInterrupt:
        sys.exit(130)


@main.command()
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def catalog(as_json: bool) -> None:
    """List the worlds, and who and what can be chosen in each.

    \b
    Example: spectator catalog --json | jq '.[].name'
    """
    from spectator.catalog import load_world, world_names

    worlds = [load_world(name) for name in world_names()]
    if as_json:
        listing = [
            {
                "name": world.name,
                "version": world.version,
                "title": world.title,
                "summary": world.summary,
                "captains": sorted(world.captains),
                "opponents": sorted(world.opponents),
                "packs": sorted(world.packs),
                "options": world.options_type.model_json_schema(),
            }
            for world in worlds
        ]
        click.echo(json.dumps(listing, indent=2))
        return
    for world in worlds:
        click.secho(f"{world.name} {world.version}", bold=True)
        click.echo(f"  {world.summary}")
        for kind, names in (
            ("captains", world.captains),
            ("opponents", world.opponents),
            ("packs", world.packs),
        ):
            if names:
                click.echo(f"  {kind}: {', '.join(names)}")


if __name__ == "__main__":
    main()
