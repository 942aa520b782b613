"""Options that several commands share: worlds, journals, spending caps, runs in a database."""

from __future__ import annotations

import asyncio
import json
import math
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from spectator.errors import ConfigurationError
from spectator.journal import JOURNAL_FILE
from spectator.process_environment import journal_url

if TYPE_CHECKING:
    from spectator.environments.world import World
    from spectator.events import Event, RecordedEvent
    from spectator.journal.contract import EpisodeSummary, Journal
    from spectator.journal.sql_journal import SqlJournal
    from spectator.policies.policy import Preset
    from spectator.rollouts.request import RolloutRequest


Command = TypeVar("Command", bound=Callable[..., Any])


def parse_options(_: click.Context, __: click.Parameter, pairs: tuple[str, ...]) -> dict[str, Any]:
    """Parse NAME=VALUE pairs; a value that is not JSON is taken as text.

    >>> parse_options(None, None, ("max_overs=5", "start=chase"))
    {'max_overs': 5, 'start': 'chase'}
    """
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


world_options = click.option(
    "--option",
    "options",
    multiple=True,
    metavar="NAME=VALUE",
    callback=parse_options,
    help="Option of the world, repeatable; `spectator catalog --json` lists them.",
)
"""``--option``: values of the world's options, by name."""

overs_option = click.option("--overs", type=int, help="Shorthand for --option max_overs=N.")

rest_option = click.option(
    "--waits-for-rest", is_flag=True,
    help="Let decisions wait, within their time limit, for an endpoint that is paused after failures.",
)  # fmt: skip


def seconds_option(
    flag: str, name: str, default: float, says: str, *, zero: bool = False
) -> Callable[[Command], Command]:
    """Return an option in seconds, greater than 0, or at least 0 if ``zero``."""
    allowed = click.FloatRange(min=0, min_open=not zero)
    return click.option(flag, name, type=allowed, default=default, help=says)


def environment_options(command: Command) -> Command:
    """Add ``--environment-url`` and ``--environment-protocol``; see :func:`world_at`."""
    protocol = click.option(
        "--environment-protocol",
        type=click.Choice(["openenv", "http"]),
        default="openenv",
        help="Protocol of the server at --environment-url.",
    )
    url = click.option(
        "--environment-url",
        metavar="URL",
        help="Environment on another server: http://HOST:8000/envs/NAME of an OpenEnv server, or "
        "http://HOST:36663/ENV_NAME/ENV_ID of a pooled rollout server.",
    )
    return url(protocol(command))


def world_at(url: str, protocol: str) -> World:
    """Return the world of an environment on another server; see docs/steppers.md.

    Raises:
        ConfigurationError: The address is invalid, the server does not answer, or its answer does not fit
            the protocol.
    """
    from spectator.steppers.http import HttpEnvironment
    from spectator.steppers.remote_world import http_world, remote_world

    if protocol == "openenv":
        return remote_world(url)
    base, _, env_id = url.rstrip("/").rpartition("/")
    base, _, env_name = base.rpartition("/")
    if not base.startswith(("http://", "https://")) or not env_name or not env_id:
        raise ConfigurationError(f"{url[:200]!r} is not an address such as http://host:36663/ENV_NAME/ENV_ID")
    return http_world(HttpEnvironment(base, env_name, env_id))


journal_folder = click.option(
    "--data-dir",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=lambda: "data" if journal_url() is None else ".",
    show_default="data",
    help="Folder of the journal. If omitted, the journal is SPECTATOR_JOURNAL_URL, if that is set.",
)


@asynccontextmanager
async def recorded_journal(data_dir: Path, *, writable: bool = False) -> AsyncIterator[SqlJournal]:
    """Open the journal in ``data_dir``, or by default SPECTATOR_JOURNAL_URL."""
    from spectator.journal.sql_journal import SqlJournal

    path, server = data_dir / JOURNAL_FILE, None if _folder_is_given() else journal_url()
    if server is None and not await asyncio.to_thread(path.exists):
        raise click.ClickException(f"there is no journal at {path}; set --data-dir to its folder")
    journal = await SqlJournal.open(server or f"sqlite:///{path}", writable=writable)
    try:
        yield journal
    finally:
        await journal.aclose()


def _folder_is_given() -> bool:
    context = click.get_current_context(silent=True)
    source = None if context is None else context.get_parameter_source("data_dir")
    return source not in (None, ParameterSource.DEFAULT)


@asynccontextmanager
async def recorded_episode(episode_id: str, data_dir: Path) -> AsyncIterator[Journal]:
    """Open the journal for reading, after checking that it has the episode."""
    async with recorded_journal(data_dir) as journal:
        await summary_of(journal, episode_id)
        yield journal


async def summary_of(journal: Journal, episode_id: str) -> EpisodeSummary:
    """Return the episode's summary."""
    from spectator.errors import EpisodeNotFound

    summary = await journal.episode(episode_id)
    if summary is None:
        raise EpisodeNotFound(episode_id)
    return summary


def spending_options(what: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that adds ``--max-tokens`` and ``--max-cost``.

    Args:
        what: What they limit, for the help.
    """
    tokens = click.option(
        "--max-tokens",
        type=click.IntRange(min=0),
        help=f"Token limit for all models of {what}; 0 = no limit.",
    )
    cost = click.option(
        "--max-cost",
        type=click.FloatRange(min=0),
        callback=finite,
        help=f"Cost limit for all models of {what} in US dollars; 0 = no limit. All caps: docs/captains.md.",
    )
    return lambda command: tokens(cost(command))


def finite(_: click.Context, __: click.Parameter, value: float | None) -> float | None:
    """Reject NaN and infinity, which ``FloatRange`` may let through."""
    if value is not None and not math.isfinite(value):
        raise click.BadParameter(f"{value} is not a finite number; use one, or omit the option")
    return value


def refuse_unpriced(presets: Iterable[Preset]) -> None:
    """Reject ``--max-cost`` if a model's price is unknown."""
    from spectator.errors import FieldError, InvalidRequest
    from spectator.policies.model_presets import ModelBuild

    unpriced = [
        preset.name
        for preset in presets
        if isinstance(preset.build, ModelBuild) and preset.build.captain.price is None
    ]
    if unpriced:
        rule = (
            f"cannot limit the cost of {', '.join(unpriced)}: the price is unknown. Set price_in and "
            "price_out in the captain's table, set its provider, or use --max-tokens"
        )
        raise InvalidRequest([FieldError("max_cost", rule)])


class SpendingReport:
    """Counts decisions, tokens and costs of an episode's models."""

    def __init__(self) -> None:
        self._reached: set[tuple[str, str]] = set()
        self._asked: Counter[str] = Counter()
        self._reasons: dict[str, Counter[str]] = {}
        self._tokens: Counter[str] = Counter()
        self._cost: dict[str, float] = {}
        self._captains: dict[str, str] = {}

    def show(self, recorded: Sequence[RecordedEvent]) -> None:
        """Print and count events of the episode; print a line when a cap is first reached."""
        click.echo("\n".join(one.text for one in recorded))
        for one in recorded:
            self._take(one.event)

    def _take(self, event: Event) -> None:
        from spectator.core_events import UNDECIDED_IN

        if event.type == "episode.started":
            seats = event.data["seats"].items()
            self._captains = {actor: seat["policy"] for actor, seat in seats if seat["source"] == "model"}
        elif event.type == "decision.made" and event.data["actor"] in self._captains:
            self._asked[event.data["actor"]] += 1
            self._decided(event.data, event.data["fallback_reason"])
        elif event.type in UNDECIDED_IN and "undecided" in event.data:
            self._decided(event.data["undecided"], None)

    def _decided(self, data: Mapping[str, Any], reason: str | None) -> None:
        actor = data["actor"]
        self._tokens[actor] += (data["tokens_in"] or 0) + (data["tokens_out"] or 0)
        self._cost[actor] = self._cost.get(actor, 0.0) + (data.get("cost") or 0.0)
        if reason is None:
            return
        self._reasons.setdefault(actor, Counter())[reason] += 1
        if data.get("failure_class") == "spent" and (actor, reason) not in self._reached:
            self._reached.add((actor, reason))
            click.echo(f"{reason}: its fallback decides for {self._captains[actor]} from here on", err=True)

    @property
    def unreached(self) -> list[str]:
        """Models for which the fallback made every decision."""
        return [
            captain
            for actor, captain in self._captains.items()
            if self._asked[actor] and self._reasons.get(actor, Counter()).total() == self._asked[actor]
        ]

    def report(self) -> None:
        """Print each model's usage, and the most frequent reasons for its fallback."""
        for actor, captain in self._captains.items():
            cost = f", US${self._cost.get(actor, 0.0):.4g}" if self._cost.get(actor) else ""
            reasons = self._reasons.get(actor, Counter())
            helped = f", {reasons.total()} of them by its fallback" if reasons else ""
            click.echo(
                f"{captain} ({actor}): {self._asked[actor]} decisions{helped}, "
                f"{self._tokens[actor]:,} tokens{cost}",
                err=True,
            )
            for reason, times in reasons.most_common(3):
                click.echo(f"  {times} times {reason}", err=True)


RUN_FOLDER = click.argument("folder", required=False, type=click.Path(file_okay=False, path_type=Path))
"""The folder of a run; ``None`` for a run in a database."""


def journal_options(command: Command) -> Command:
    """Add ``--journal`` and ``--run``, for runs in a database."""
    journal = click.option(
        "--journal", metavar="URL",
        help="Journal on a database server, postgresql://... [default: SPECTATOR_JOURNAL_URL]",
    )  # fmt: skip
    run = click.option("--run", "run_name", metavar="NAME", help="Name of the run in that journal.")
    return journal(run(command))


def is_in_database(journal: str | None, run_name: str | None) -> bool:
    """Whether the options are for a run in a database, not in a folder."""
    return journal is not None or run_name is not None


def server_url(journal: str | None) -> str:
    """Return the URL of the journal on a database server.

    Raises:
        ConfigurationError: It is missing or not on a server; the message does not repeat it.
    """
    from spectator.journal.postgres import is_server

    url = journal or journal_url()
    if url is None:
        raise ConfigurationError("no journal; set --journal or SPECTATOR_JOURNAL_URL to postgresql://...")
    if not is_server(url):
        raise ConfigurationError(
            "--journal must be on a database server, postgresql://...; for a run in a folder, give the folder"
        )
    return url


def required_run_name(run_name: str | None) -> str:
    """Return the run's name."""
    if run_name is None:
        raise click.UsageError("--journal needs --run NAME, the name of the run in that journal")
    return run_name


def run_place(folder: Path | None, journal: str | None, run_name: str | None) -> Path | None:
    """Return the folder of a run; ``None`` if it is in a database."""
    if is_in_database(journal, run_name) == (folder is not None):
        raise click.UsageError("give either the run's folder, or --journal URL and --run NAME")
    return folder


@asynccontextmanager
async def recorded_run(
    journal: str | None, run_name: str | None
) -> AsyncIterator[tuple[RolloutRequest, SqlJournal]]:
    """Open the journal of a run in a database; yield the run and the journal."""
    from spectator.journal.sql_journal import SqlJournal
    from spectator.rollouts.fleet_plan import find_rows, read_plan

    name = required_run_name(run_name)
    opened = await SqlJournal.open(server_url(journal), writable=False)
    try:
        (row,) = await find_rows(opened, name)
        yield read_plan(row).request, opened
    finally:
        await opened.aclose()
