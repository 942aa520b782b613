"""The plan of a run, which its journal stores for all workers."""

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
    """Time limits in seconds; that for a model's decision is in the request (``timeout_s``).

    Args:
        episode_s: For one episode; checked between turns, so its last decision may end later.
        env_s: For one step of its environment, or another call to it.
        env_start_s: For its reset, which may load data.
        env_wait_s: How long a server of environments may be unreachable or full while none of them is in
            use, before the run is halted.
        model_wait_s: How long the model's endpoint may be unreachable before the run is halted.
        startup_jitter_s: Time over which the first requests to the model are spread.

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
            raise ValueError("episode_s, env_s and env_start_s must be greater than 0")
        if not (self.env_wait_s >= 0 and self.model_wait_s >= 0 and self.startup_jitter_s >= 0):
            raise ValueError("env_wait_s, model_wait_s and startup_jitter_s must be at least 0")

    def limits(self, call_s: float) -> EpisodeLimits:
        """Return the limits of an episode whose model has ``call_s`` seconds for a decision."""
        return EpisodeLimits(
            decision_s=min(call_s + self.model_wait_s + SPARE_S, self.episode_s),
            step_s=self.env_s,
            reset_s=self.env_start_s,
            episode_s=self.episode_s,
        )


IN_FOLDER: Final = "rollouts"
"""Name of the run in a folder, the only one in its journal."""

MAX_RUNS: Final = 20
"""Runs that a message lists."""


class FleetPlan(BaseModel):
    """The plan of a run: all that a worker needs except the endpoint's key.

    ``environment_version`` and ``pack_version`` are those that the run began with: with others, the same
    seeds would give other episodes.
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
    sink: str = ""
    environment_version: str = ""
    pack_version: str = ""
    spectator_version: str = __version__

    @classmethod
    def of(
        cls, request: RolloutRequest, *, deadlines: Deadlines | None = None, whole: Caps | None = None,
        **more: Any,
    ) -> FleetPlan:  # fmt: skip
        """Make the plan of a new run.

        Args:
            whole: Total budget for the model.
            more: ``stepper``, where worlds of the catalogue run; ``max_in_flight``, episodes that all workers
                may play at once (0 means no limit); ``handler`` and the path of its ``experiences``;
                ``sink``, as ``module:name``.
        """
        caps, times = whole or Caps(), asdict(deadlines or Deadlines())
        spending = {"max_tokens": caps.tokens, "max_cost": caps.cost}
        return cls.model_validate({"request": request, "deadlines": times, **spending, **more})

    @property
    def limits(self) -> Deadlines:
        """Time limits."""
        return Deadlines(**self.deadlines)

    @property
    def whole(self) -> Caps:
        """Total budget for the model, over all workers."""
        return Caps(self.max_tokens, self.max_cost)

    def of_world(self, planned: RolloutRun) -> FleetPlan:
        """Return the same plan with the versions of its world and pack."""
        job = planned.run.jobs[0]
        return self.model_copy(update={"environment_version": job.version, "pack_version": job.pack_version})

    def check_world_version(self, name: str, planned: RolloutRun) -> None:
        """Check that this process has the world that the run began with.

        Raises:
            InvalidRequest: It is of another version.
        """
        job = planned.run.jobs[0]
        for what, then, now in (
            (job.environment, self.environment_version, job.version),
            (f"pack {job.pack}", self.pack_version, job.pack_version),
        ):
            if then != now:
                raise wrong(f"run {name} began with version {then} of {what}, but this process has {now}")


async def keep_plan(journal: SqlJournal, name: str, plan: FleetPlan, now_ms: int) -> FleetRow:
    """Store the plan of the run ``name``, or check that the stored one is of the same run.

    Args:
        plan: Its plan; more episodes, another endpoint or other caps apply to workers that join later.
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
    """List the runs in a journal, or only the one with this name, oldest first.

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
        raise wrong("this database does not hold a run of rollouts")
    names = [one.name for one in others[-MAX_RUNS:]]
    raise wrong(f"there is no run {name!r} in this database; its runs are {', '.join(names)}")


def read_plan(row: FleetRow) -> FleetPlan:
    """Read the plan of a run.

    Raises:
        InvalidRequest: It is of another version, or not a plan.
    """
    try:
        kept: Any = json.loads(row.plan)
        version = kept["request"].get("format")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise wrong(f"the stored plan of {row.name} does not describe a run of rollouts") from error
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
    """Check that a run's name can be part of a URL.

    Raises:
        InvalidRequest: It cannot.
    """
    if not RUN_NAME.fullmatch(name):
        raise wrong(
            f"{name[:64]!r} is not a valid run name: use letters, digits, '.', '_' and '-', at most 64"
        )


def wrong(rule: str) -> InvalidRequest:
    """Make the error for a run that cannot be played."""
    return InvalidRequest([FieldError("run", rule)])
