"""The commands ``captain``, ``catalog`` and ``train``."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import click

from spectator.process_environment import read_captain, read_cast, read_key

if TYPE_CHECKING:
    from spectator.policies.captain_check import CheckFinding
    from spectator.policies.captains import ModelCaptain
    from spectator.policies.policy import Preset


UNFIT: Final = 3
"""The exit code if the captain cannot play with its current settings."""

_MARKS: Final = {True: "works", False: "fails", None: "note"}


@click.group()
def captain() -> None:
    """Manage language-model captains."""


@captain.command()
@click.argument("name", metavar="NAME")
@click.option("--no-context", is_flag=True, help="Skip the test with a prompt of the longest allowed length.")
@click.option(
    "--record",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder that receives every request and raw response, without keys.",
)
@click.option(
    "--replay",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder of an earlier --record to test instead of the endpoint; needs no key.",
)
def check(name: str, no_context: bool, record: Path | None, replay: Path | None) -> None:
    """Test a captain's endpoint; report what works and what to change.

    Sends a few short requests and one with a long prompt, which the endpoint may charge for.

    \b
    Exit code: 0 the captain can play
               3 it cannot play with its current settings

    \b
    Example: spectator captain check llm:hf
             spectator captain check llm:hf --record lab
             spectator captain check llm:hf --replay lab
    """
    if record is not None and replay is not None:
        raise click.UsageError("--record and --replay exclude each other; use one of them")
    model = read_captain(name)
    fit = asyncio.run(_check(name, model, context=not no_context, record=record, replay=replay))
    if record is not None:
        click.echo(f"recorded in {record}; test it again with --replay {record}", err=True)
    if not fit:
        click.echo(f"{name} cannot play with its current settings; see the lines marked fails", err=True)
        raise SystemExit(UNFIT)
    click.echo(f"{name} can play", err=True)


async def _check(
    name: str, model: ModelCaptain, *, context: bool, record: Path | None, replay: Path | None
) -> bool:
    import random

    from spectator.clock import SystemClock
    from spectator.llm.recorded_responses import RecordingTransport, write_responses
    from spectator.llm.transport import HttpTransport
    from spectator.policies.captain_check import CaptainCheck
    from spectator.policies.model_presets import captain_client

    async with AsyncExitStack() as stack:
        key = None
        if replay is None:
            key = read_key(model.api_key_env)
        else:
            model = await stack.enter_async_context(_replaying(model, replay))
        transport = RecordingTransport(HttpTransport(max_connections=4), key)
        rng = random.SystemRandom()
        client = captain_client(model, key, clock=SystemClock(), rng=rng, transport=transport)
        stack.push_async_callback(client.aclose)
        fit = True
        async for found in CaptainCheck(model, client, transport.limits, context=context).findings():
            _show(found)
            fit &= found.works is not False or not found.needed
        if record is not None:
            write_responses(record, transport.responses)
    return fit


@asynccontextmanager
async def _replaying(model: ModelCaptain, folder: Path) -> AsyncIterator[ModelCaptain]:
    """Serve a recording; yield the captain with its address."""
    from spectator.llm.playback_server import serving_playback
    from spectator.llm.recorded_responses import ResponsePlayback, read_responses

    playback = ResponsePlayback(read_responses(folder))
    async with serving_playback(playback, "127.0.0.1", 0) as url:
        yield model.model_copy(update={"base_url": url + urlsplit(model.base_url).path})


def _show(found: CheckFinding) -> None:
    click.echo(f"{_MARKS[found.works]:<6} {found.about:<10} {found.message}")
    if found.change and found.works is False:
        click.echo(f"{'':<6} {'':<10} → {found.change}")


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON, with the options of each world.")
def catalog(as_json: bool) -> None:
    """List worlds and their captains, opponents and packs.

    \b
    Example: spectator catalog --json | jq '.[].name'
    """
    from spectator.catalog import world_names

    cast = read_cast()
    worlds = [cast.load(name) for name in world_names()]
    if as_json:
        listing = [
            {
                "name": world.name,
                "version": world.version,
                "title": world.title,
                "summary": world.summary,
                "captains": sorted(world.captains),
                "opponents": sorted(world.opponents),
                "missing": _missing({**world.captains, **world.opponents}),
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
        for name, what in _missing({**world.captains, **world.opponents}).items():
            click.echo(f"  {name} {what}")


def _missing(presets: Mapping[str, Preset]) -> dict[str, str]:
    """Return, by name, what each unusable preset needs."""
    return {name: preset.missing for name, preset in presets.items() if preset.missing is not None}


@click.command()
@click.argument("recipe", type=click.Choice(["cricket-captain"]))
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="Folder of the training run; an existing run resumes.",
)
@click.option("--workers", type=click.IntRange(min=1), default=2, help="Processes that play matches.")
@click.option(
    "--examples",
    "examples_s",
    type=click.FloatRange(min=0),
    default=170.0,
    help="Seconds spent on generating examples.",
)
@click.option(
    "--supervised",
    "supervised_s",
    type=click.FloatRange(min=1),
    default=220.0,
    help="Seconds of supervised training.",
)
@click.option(
    "--self-play",
    "self_play_s",
    type=click.FloatRange(min=0),
    default=280.0,
    help="Seconds of self-play; 0 = none.",
)
@click.option(
    "--seeds",
    type=click.IntRange(min=0),
    default=400,
    help="Held-out seeds of each evaluation; 0 = no evaluation.",
)
@click.option(
    "--start",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Folder of a captain to start from; its width, layers and vocabulary are kept. Default: none.",
)
@click.option(
    "--width", type=click.IntRange(min=16), default=256, help="Width of the network; a multiple of 32."
)
@click.option("--layers", type=click.IntRange(min=1), default=8, help="Layers of the network.")
@click.option(
    "--tokens",
    type=click.IntRange(min=512),
    default=48_000,
    help="Tokens per training step of supervised training; fewer without a GPU.",
)
@click.option(
    "--decisions", type=click.IntRange(min=8), default=8_000, help="Decisions per training step of self-play."
)
@click.option(
    "--matches", type=click.IntRange(min=1), default=64, help="Matches that each worker plays concurrently."
)
@click.option(
    "--vocabulary",
    "words",
    type=click.IntRange(min=1),
    default=300,
    help="Matches that the vocabulary is built from.",
)
def train(recipe: str, start: Path | None, width: int, decisions: int, **settings: Any) -> None:
    """Train a small captain, from scratch or from another's weights.

    The steps are: generate examples, supervised training, self-play, evaluation. The folder receives the log,
    the results with the learning curve, and the captain's weights. The defaults take about 12 minutes on one
    GPU with 16 CPU cores. To resume an interrupted run, repeat the command.

    \b
    Example: spectator train cricket-captain --folder captain --workers 15
    """
    if find_spec("torch") is None:
        raise click.ClickException("training needs torch: pip install 'openenv-spectator[train]'")
    if width % 32:
        raise click.BadParameter(f"{width} is not a multiple of 32; use 32, 64, ...", param_hint="--width")
    if start is not None and not (start / "captain.npz").is_file():
        raise click.BadParameter(
            f"{start} has no captain.npz; give the folder captain/ that a training wrote",
            param_hint="--start",
        )
    from spectator.environments.cricket.recipe.pipeline import Recipe, run

    run(
        Recipe(
            start=start,
            rate=1.5e-3 if start is None else 3e-4,
            width=width,
            heads=width // 32,
            decisions=decisions,
            minibatch=max(8, decisions // 4),
            **settings,
        ),
        click.echo,
    )
