"""What a run plays and how, as its journal keeps it for each worker."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from spectator import __version__
from spectator.episodes.controls import EpisodeLimits
from spectator.episodes.plan import SPARE_S
from spectator.errors import FieldError, InvalidRequest
from spectator.journal.coordination import FleetRow, FleetRuns, rows
from spectator.journal.sql_journal import SqlJournal
from spectator.policies.spending import Caps
from spectator.rollouts.model_seat import STARTUP_JITTER_S
from spectator.rollouts.request import FORMAT, RolloutRequest, RolloutRun
from spectator.runs.actors import PATIENCE_S
from spectator.runs.run_folder import RUN_NAME


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Seconds; the model's own deadline for a decision is part of the request (``timeout_s``).

    Args:
        episode_s: For one episode; looked at between turns, so that its last decision may end later.
        env_s: For one step of its environment, or another question to it.
        env_start_s: For its beginning, which may load data.
        env_wait_s: How long a server of environments may be gone, or have no room, while none of them is
            being played in; then the run is halted.
        model_wait_s: How long the model's endpoint may be gone; then the run is halted.
        startup_jitter_s: The first requests to the model are spread over this time.

    Raises:
        ValueError: One of the deadlines is not greater than 0, or one of the others is less.
    """

    episode_s: float = 6 * 3600.0
    env_s: float = 30.0
    env_start_s: float = 60.0
    env_wait_s: float = PATIENCE_S
    model_wait_s: float = PATIENCE_S
    startup_jitter_s: float = STARTUP_JITTER_S

    def __post_init__(self) -> None:
        if not (self.episode_s > 0 and self.env_s > 0 and self.env_start_s > 0):
            raise ValueError("episode_s, env_s and env_start_s are greater than 0")
        if not (self.env_wait_s >= 0 and self.model_wait_s >= 0 and self.startup_jitter_s >= 0):
            raise ValueError("env_wait_s, model_wait_s and startup_jitter_s are at least 0")

    def limits(self, call_s: float) -> EpisodeLimits:
        """The limits of an episode whose model has ``call_s`` seconds for a decision."""
        return EpisodeLimits(
            decision_s=min(call_s + self.model_wait_s + SPARE_S, self.episode_s),
            step_s=self.env_s,
            reset_s=self.env_start_s,
            episode_s=self.episode_s,
        )


IN_FOLDER: Final = "rollouts"
"""Name of the run in a folder, whose journal holds no other."""

MAX_RUNS: Final = 20
"""Runs that a sentence names."""


class FleetPlan(BaseModel):
    """What a run plays and how: all that a worker needs, but for the endpoint's key.

    ``environment_version`` and ``pack_version`` are those that the run began with: with others the same seeds
    would be other episodes.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    request: RolloutRequest
    deadlines: dict[str, float] = {}
    stepper: Literal["inline", "thread"] = "inline"
    max_tokens: int = 0
    max_cost: float = 0.0
    max_in_flight: int = 0
    handler: str = "none"
    experiences: str = ""
    environment_version: str = ""
    pack_version: str = ""
    spectator_version: str = __version__

    @classmethod
    def of(
        cls, request: RolloutRequest, *, deadlines: Deadlines | None = None, whole: Caps | None = None,
        **more: Any,
    ) -> FleetPlan:  # fmt: skip
        """The plan of a run that is about to begin.

        Args:
            request: What it plays.
            deadlines: How long anything may take.
            whole: What asking the model may take in all.
            more: ``stepper``, where worlds of the catalogue run; ``max_in_flight``, episodes that all workers
                may play at once (0 means no limit); ``handler`` and the path of its ``experiences``.
        """
        caps, times = whole or Caps(), asdict(deadlines or Deadlines())
        spending = {"max_tokens": caps.tokens, "max_cost": caps.cost}
        return cls.model_validate({"request": request, "deadlines": times, **spending, **more})

    @property
    def limits(self) -> Deadlines:
        """How long anything may take."""
        return Deadlines(**self.deadlines)

    @property
    def whole(self) -> Caps:
        """What asking the model may take in all, over all workers."""
        return Caps(self.max_tokens, self.max_cost)

    def of_world(self, planned: RolloutRun) -> FleetPlan:
        """The same plan, with the versions of what is played."""
        job = planned.run.jobs[0]
        return self.model_copy(update={"environment_version": job.version, "pack_version": job.pack_version})

    def check_world_version(self, name: str, planned: RolloutRun) -> None:
        """Make sure that this process has the world that the run began with.

        Raises:
            InvalidRequest: It is of another version.
        """
        job = planned.run.jobs[0]
        for what, then, now in (
            (job.environment, self.environment_version, job.version),
            (f"pack {job.pack}", self.pack_version, job.pack_version),
        ):
            if then != now:
                raise wrong(f"run {name} began with {what} of version {then}, and here it is {now}")


async def keep_plan(journal: SqlJournal, name: str, plan: FleetPlan, now_ms: int) -> FleetRow:
    """Keep what the run called ``name`` plays, or check that it is still the same.

    Args:
        journal: Where it is kept.
        name: The run.
        plan: What it plays; more episodes, another endpoint or other caps hold for workers that join from
            now on.
        now_ms: Unix time in milliseconds.

    Raises:
        InvalidRequest: The name is invalid, or that of another run, or of one of another version.
        JournalError: The database cannot be written.
    """
    check_run_name(name)
    runs = FleetRuns(journal)
    row = await runs.begin(FleetRow(name, plan.model_dump_json(), now_ms))
    kept = read_plan(row)
    if shown := kept.request.differences(plan.request):
        raise wrong(f"{name} is another run ({shown}); choose another name")
    most = max(plan.request.episodes, kept.request.episodes)
    longer = plan.model_copy(update={"request": plan.request.model_copy(update={"episodes": most})})
    versions = {"environment_version": kept.environment_version, "pack_version": kept.pack_version}
    longer = longer.model_copy(update=versions)
    if longer != kept:
        await runs.change(name, longer.model_dump_json())
    return FleetRow(name, longer.model_dump_json(), row.began_ms)


async def find_rows(journal: SqlJournal, name: str | None = None) -> list[FleetRow]:
    """The runs in a journal, or the one of this name, oldest first.

    Raises:
        InvalidRequest: There is none; the message lists those that exist.
        JournalError: The database cannot be read.
    """
    kept = [one for one in await journal.look(rows) if RUN_NAME.fullmatch(one.name)]
    found = [one for one in kept if name in (None, one.name)]
    if found:
        return found
    others = [] if name is None else kept
    if not others:
        raise wrong("this database holds no run of rollouts")
    names = [one.name for one in others[-MAX_RUNS:]]
    raise wrong(f"there is no run {name!r} in this database; there are {', '.join(names)}")


def read_plan(row: FleetRow) -> FleetPlan:
    """What a run plays.

    Raises:
        InvalidRequest: It is of another version, or not described at all.
    """
    try:
        kept: Any = json.loads(row.plan)
        version = kept["request"].get("format")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise wrong(f"what is kept of {row.name} does not describe a run of rollouts") from error
    if version != FORMAT:
        raise wrong(f"run {row.name} is of version {version!r}; this program reads {FORMAT}")
    try:
        return FleetPlan.model_validate(kept)
    except ValidationError as error:
        by = kept.get("spectator_version")
        raise wrong(
            f"run {row.name} was started by Spectator {by}, whose plan Spectator {__version__} cannot read: "
            f"{error.errors()[0]['loc'][-1]}"
        ) from error


def check_run_name(name: str) -> None:
    """Make sure that a run's name can be part of an address.

    Raises:
        InvalidRequest: It cannot.
    """
    if not RUN_NAME.fullmatch(name):
        raise wrong(
            f"{name[:64]!r} is not a valid run name: use letters, digits, '.', '_' and '-', at most 64"
        )


def wrong(rule: str) -> InvalidRequest:
    """The error of a run that cannot be played."""
    return InvalidRequest([FieldError("run", rule)])
