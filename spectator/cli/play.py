"""The commands ``play`` (one episode) and ``simulate`` (many, without a record)."""

from __future__ import annotations

import asyncio
import secrets
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

import click

from spectator.cli.options import (
    SpendingReport,
    environment_options,
    overs_option,
    refuse_unpriced,
    rest_option,
    spending_options,
    world_at,
    world_options,
)
from spectator.process_environment import read_caps, read_cast

if TYPE_CHECKING:
    from spectator.cast import Cast
    from spectator.core_events import EpisodeEnded, OnFailure
    from spectator.episodes.plan import EpisodePlan
    from spectator.policies.cap_settings import CapSettings


DEFAULT_ENVIRONMENT: Final = "cricket"
"""The world to play if none is given."""

NOT_FINISHED: Final = 1
"""The exit code if the episode did not finish."""

NO_OWN_DECISION: Final = 3
"""The exit code if the episode finished, but a model made no decision of its own."""


@click.command()
@click.argument("environment", required=False)
@environment_options
@click.option(
    "--captain", metavar="PRESET", help="Preset for the agent's seat; default: the world's default."
)
@click.option(
    "--opponent", metavar="PRESET", help="Preset for the other seats; default: the world's default."
)
@click.option("--pack", default="default", help="Evaluation pack.")
@click.option("--seed", type=click.IntRange(min=0), help="Seed of the episode; default: a random seed.")
@click.option(
    "--pace",
    type=click.Choice(["broadcast", "fast", "max"]),
    default="max",
    help="Speed: broadcast and fast pause between turns, max does not.",
)
@world_options
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the journal to record the episode in. If omitted, nothing is kept.",
)
@click.option(
    "--on-failure",
    type=click.Choice(["fallback", "suspend", "end"]),
    default="fallback",
    help="What to do after a failed decision; see docs/failures.md.",
)
@rest_option
@spending_options("the episode")
def play(
    environment: str | None,
    environment_url: str | None,
    environment_protocol: str,
    captain: str | None,
    opponent: str | None,
    pack: str,
    seed: int | None,
    pace: str,
    options: dict[str, Any],
    data_dir: Path | None,
    on_failure: OnFailure,
    waits_for_rest: bool,
    max_tokens: int | None,
    max_cost: float | None,
) -> None:
    """Play one episode; print its events as NDJSON.

    ENVIRONMENT is a world of `spectator catalog`; the default is cricket. Progress and results of the models
    are printed to standard error.

    Language models may spend at most what SPECTATOR_MODEL_EPISODE_* and SPECTATOR_MODEL_DAY_* allow; the
    day's spending is counted in the journal in --data-dir. After that, scripted captains decide, and their
    decisions are marked.

    With --on-failure suspend, a failed decision suspends the episode in --data-dir; `spectator serve` with
    that folder resumes it.

    \b
    Exit code: 0 finished, and every model decided at least once
               1 not finished
               3 finished, but a model gave no usable answer: its fallback played

    \b
    Example: spectator play cricket --seed 7 --option max_overs=20 > match.ndjson
             HF_TOKEN=... spectator play cricket --captain llm:hf --max-cost 0.5 > match.ndjson
             spectator play --environment-url http://localhost:8000/envs/counting --option turns=3
    """
    from spectator.clock import SystemClock
    from spectator.episodes.controls import Pace
    from spectator.episodes.plan import EpisodeRequest, plan_episode
    from spectator.local_episode import play_plan

    cast, world = _cast_and_world(environment, environment_url, environment_protocol, data_dir)
    request = EpisodeRequest(
        world, captain, opponent, pack, seed, Pace(pace), narration=False, options=options,
        on_failure=on_failure, view="derived" if pace == Pace.MAX else "live", waits_for_rest=waits_for_rest,
    )  # fmt: skip
    if on_failure == "suspend" and data_dir is None:
        raise click.UsageError("--on-failure suspend needs --data-dir, to keep the suspended episode")
    caps, clock, spent = _caps(max_tokens, max_cost), SystemClock(), SpendingReport()
    plan = plan_episode(request, draw_seed=lambda: secrets.randbelow(2**32), load=cast.load)
    ledger = caps.ledger(clock) if _asks_models(plan, max_cost) else None
    playing = play_plan(plan, load=cast.load, clock=clock, ledger=ledger, data_dir=data_dir, show=spent.show)
    _conclude(asyncio.run(playing).end, spent)


def _asks_models(plan: EpisodePlan, max_cost: float | None) -> bool:
    """Whether a model that costs money plays."""
    models = [preset for preset in (plan.captain, plan.opponent) if preset is not None and preset.costs_money]
    if max_cost:
        refuse_unpriced(models)
    return bool(models)


def _cast_and_world(
    environment: str | None, url: str | None, protocol: str, data_dir: Path | None
) -> tuple[Cast, str]:
    """Return the cast, and the name of the given, remote or default world."""
    if environment is not None and url is not None:
        raise click.UsageError("give either ENVIRONMENT or --environment-url, not both")
    cast = read_cast(data_dir)
    if url is None:
        return cast, environment or DEFAULT_ENVIRONMENT
    remote = world_at(url, protocol)
    cast.include(remote)
    return cast, remote.name


def _caps(max_tokens: int | None, max_cost: float | None) -> CapSettings:
    given = {"model_episode_tokens": max_tokens, "model_episode_cost": max_cost}
    return read_caps().model_copy(update={name: value for name, value in given.items() if value is not None})


def _conclude(ended: EpisodeEnded, spent: SpendingReport) -> None:
    spent.report()
    failed = "" if ended.failure_class is None else f" [{ended.failure_class}]"
    result = ended.result or ended.detail or ""
    click.echo(f"{ended.reason}: {result} (score {ended.score}){failed}", err=True)
    if ended.reason != "finished":
        sys.exit(NOT_FINISHED)
    for captain in spent.unreached:
        click.echo(f"{captain} made no decision of its own; its fallback played", err=True)
    if spent.unreached:
        sys.exit(NO_OWN_DECISION)


@click.command()
@click.argument("environment", default="cricket")
@click.option("--matches", type=click.IntRange(min=1), default=1, help="Number of matches.")
@overs_option
@click.option("--seed", type=click.IntRange(min=0), default=1, help="Seed of all matches.")
@world_options
@click.option(
    "--out",
    type=click.File("w", encoding="utf-8", lazy=True),
    default="-",
    help="Output file; - = standard output.",
)
def simulate(
    environment: str, matches: int, overs: int | None, seed: int, options: dict[str, Any], out: IO[str]
) -> None:
    """Play scripted matches at full speed; write JSON lines.

    Only worlds with a simulation of their own support this; cricket writes one line per ball. Nothing is
    recorded in a journal.

    \b
    Example: spectator simulate cricket --matches 800 --overs 20 --seed 1 --out balls.jsonl
    """
    from pydantic import ValidationError

    from spectator.catalog import load_world
    from spectator.errors import InvalidRequest, field_errors
    from spectator.events import encode_json

    world = load_world(environment)
    if world.simulate is None:
        raise click.UsageError(f"{environment} does not support simulate; use `spectator play {environment}`")
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
    """Yield each row with 1 if it is the first of its match, otherwise 0."""
    match_id: object = None
    for row in rows:
        yield int(row.get("match_id") != match_id), row
        match_id = row.get("match_id")
