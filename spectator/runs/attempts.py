"""Play one attempt at an episode in this process, or resume it from its record.

An attempt that was left at any turn can be resumed. A run halts when its model cannot be asked, so that no
fallback is judged in its place.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from spectator.bus import MemoryBus
from spectator.catalog import LoadWorld
from spectator.clock import Clock
from spectator.core_events import EpisodeEnded, EpisodeRecovered, OnFailure, core_fact
from spectator.environments.contract import Stepper
from spectator.episodes.controls import EndRequest, EpisodeLimits, Pace
from spectator.episodes.decisions import FailureRule, InvalidEnd
from spectator.episodes.derived_stream import Stream, open_stream
from spectator.episodes.driver import Past
from spectator.episodes.handle import prepare
from spectator.episodes.plan import EpisodePlan
from spectator.episodes.recovery import interrupted
from spectator.episodes.restore import RestoreFailed, UnfinishedRecord, rebuild
from spectator.episodes.stream import RecordPosition
from spectator.errors import ENDPOINT_FAILURES, INVALID_ANSWERS, StepTimeout
from spectator.events import EventData, RecordedEvent
from spectator.journal.contract import EpisodeFilter, EpisodeLog, Journal
from spectator.journal.outline import OwnCount
from spectator.llm.retry import PERMANENT_STATUSES
from spectator.policies.invalid_answers import InvalidAnswers
from spectator.policies.policy import Decision
from spectator.policies.spending import SpendLedger
from spectator.steppers.local import OpenStepper, on_a_thread, preferred_stepper

UNANSWERED: Final = 5
"""Unanswered decisions in a row in one episode after which an endpoint is given up."""


class Halt:
    """Whether a run is halted, and why: the first reason counts.

    Args:
        ledger: The budget for models; a spent daily or total budget is a reason to halt.
    """

    def __init__(self, ledger: SpendLedger) -> None:
        self.ledger = ledger
        self.reason: str | None = None
        self._raised = asyncio.Event()
        self.wait = self._raised.wait
        """Waits until the run is halted."""

    def because(self, reason: str) -> None:
        """Halt the run; returns at once."""
        self.reason = self.reason or reason
        self._raised.set()


class HaltingRule:
    """Suspends an episode, and halts its run, when the endpoint of a model is given up.

    It is given up at once when it refuses every request or is paused after failures, else after
    :data:`UNANSWERED` decisions in a row; or when the budget is spent (but not that of this episode alone).
    The decision is then never made: the episode is resumed at this point when the run is resumed. Any other
    failure does what the plan says.
    """

    def __init__(self, plan: EpisodePlan, halt: Halt) -> None:
        self._plan = plan
        self._halt = halt
        self._unanswered: Counter[str] = Counter()

    def __call__(self, actor: str, decision: Decision) -> OnFailure:
        """See :data:`~spectator.episodes.decisions.FailureRule`."""
        if self._plan.preset(actor).source != "model":
            return self._plan.on_failed_decision
        why = self._why_not(actor, decision)
        if why is None:
            return self._plan.on_failed_decision
        self._halt.because(why)
        return "suspend"

    def _why_not(self, actor: str, decision: Decision) -> str | None:
        """Why a decision does not count; ``None`` if it does."""
        row = self._unanswered[actor] = self._unanswered[actor] + 1 if _unanswered(decision) else 0
        if row and (row >= UNANSWERED or _hopeless(decision)):
            hint = ", with so many episodes at once" if decision.failure_class == "rate_limited" else ""
            return f"{self._plan.preset(actor).name} cannot be asked: {decision.fallback_reason}{hint}"
        return self._halt.ledger.known_refusal() if decision.failure_class == "spent" else None


class AgentRule:
    """Decides what a failed decision of the agent does to an episode of a run that samples a model.

    An unreachable endpoint ends the attempt, so that another follows. For an answer that is not an action the
    run's rule applies. Invalid answers of other seats are left to their fallback, unless any failure ends the
    episode; where the model plays them too, an unreachable endpoint ends the attempt as well.

    Args:
        invalid: What an answer that is not an action does.
        halting: Suspends the episode when the endpoint is given up or the budget is spent.
    """

    def __init__(
        self, plan: EpisodePlan, invalid: InvalidAnswers, halting: FailureRule | None = None
    ) -> None:
        self._agent = plan.agent
        self._rivals = plan.rivals
        self._invalid = invalid
        self._halting = halting

    def __call__(self, actor: str, decision: Decision) -> OnFailure | InvalidEnd:
        """See :data:`~spectator.episodes.decisions.FailureRule`."""
        if self._halting is not None and self._halting(actor, decision) == "suspend":
            return "suspend"
        rule = self._invalid.on_invalid
        if actor != self._agent:
            unreachable = actor in self._rivals and decision.failure_class in ENDPOINT_FAILURES
            return "end" if rule == "end" or unreachable else "fallback"
        if rule == "fallback":
            return "end" if decision.failure_class in ENDPOINT_FAILURES else "fallback"
        if rule != "end" and decision.failure_class in INVALID_ANSWERS:
            return InvalidEnd(self._invalid.penalty)
        return "end"


def _unanswered(decision: Decision) -> bool:
    """Whether a fallback decided because the endpoint did not answer at all."""
    if decision.failure_class not in ENDPOINT_FAILURES:
        return False
    return decision.failure_class == "model_resting" or any(one.get("failure") for one in decision.exchanges)


def _hopeless(decision: Decision) -> bool:
    if decision.failure_class == "model_resting":
        return True
    failures = [one["failure"] for one in decision.exchanges if one.get("failure")]
    return any(one["kind"] == "refused" and one["status"] in {*PERMANENT_STATUSES, 429} for one in failures)


logger = logging.getLogger(__name__)

REBUILD_S: Final = 600.0
"""Seconds that restoring an unfinished episode may take."""


def no_failure_rule(plan: EpisodePlan) -> FailureRule | None:
    """Use the plan's own rule for failures."""
    return None


@dataclass(frozen=True, slots=True)
class EpisodeSetup:
    """What this process needs to play the episodes of a run.

    Args:
        ledger: The budget for models.
        rule_of: Makes the rule of one episode for failed decisions.
        open_stepper: Makes the stepper of each episode's environment. If omitted, the world's preferred one;
            resumed episodes, which are replayed first, then run on a separate thread.
        limits: How long an episode may wait for whom; if omitted, as its plan's patience says.
    """

    journal: EpisodeLog
    clock: Clock
    load: LoadWorld
    ledger: SpendLedger
    rule_of: Callable[[EpisodePlan], FailureRule | None] = no_failure_rule
    open_stepper: OpenStepper | None = None
    limits: EpisodeLimits | None = None


async def play_episode(plan: EpisodePlan, episode_id: str, venue: EpisodeSetup) -> EpisodeEnded | None:
    """Play an episode from its beginning.

    Its steps are recorded as its plan says (``EpisodePlan.commit``). When cancelled the episode is left
    without an end, for :func:`play_on`.

    Returns:
        Its end; ``None`` when it was suspended.
    """
    stream = _stream(episode_id, episode_id[-8:].lower(), plan, venue)
    if venue.open_stepper is None:
        stepper = preferred_stepper(plan.world, episode_id, plan.options)
    else:
        stepper = venue.open_stepper(plan.world, episode_id)
    return await _play(plan, stream, venue, stepper, plan.started())


async def play_on(recorded: Sequence[RecordedEvent], venue: EpisodeSetup) -> EpisodeEnded | None:
    """Resume an episode that was left without an end.

    Returns:
        Its end; ``None`` when it was suspended.

    Raises:
        RestoreFailed: Replaying the record does not lead to where it stops.
        StepTimeout: Replaying it took too long.
        JournalError: A model's reply that is too long for an event cannot be read.
    """
    rebuilt = await rebuild(
        UnfinishedRecord.of(recorded, venue.journal),
        limit_s=REBUILD_S,
        load=venue.load,
        attempts=math.inf,
        open_stepper=venue.open_stepper or on_a_thread,
    )
    past = replace(rebuilt.past, own=OwnCount.of(one.event for one in recorded))
    stream = _stream(rebuilt.episode_id, rebuilt.epoch, rebuilt.plan, venue, rebuilt.left)
    opening = EpisodeRecovered(attempt=rebuilt.attempt)
    return await _play(rebuilt.plan, stream, venue, rebuilt.stepper, opening, past)


async def resume(left: Sequence[RecordedEvent], venue: EpisodeSetup) -> EpisodeEnded | None:
    """Resume an episode, or end it as ``interrupted`` (class ``killed``) if that fails.

    Args:
        left: All events of an episode without an end.

    Returns:
        Its end; ``None`` when it was suspended again.

    Raises:
        JournalError: Its record cannot be read or written.
    """
    try:
        return await play_on(left, venue)
    except (RestoreFailed, StepTimeout) as error:
        logger.warning("%s cannot be resumed: %s", left[0].episode_id, error)
        end = interrupted(left[0].event, left[-1].event, venue.clock, f"it could not be played on: {error}")
        await venue.journal.append([end])
        return EpisodeEnded.model_validate(end.event.data)


def _stream(
    episode_id: str, epoch: str, plan: EpisodePlan, venue: EpisodeSetup, left: RecordPosition | None = None
) -> Stream:
    return open_stream(
        plan, episode_id, epoch, journal=venue.journal, bus=MemoryBus(), clock=venue.clock, left=left
    )


async def _play(
    plan: EpisodePlan,
    stream: Stream,
    venue: EpisodeSetup,
    stepper: Stepper,
    opening: EventData,
    past: Past | None = None,
) -> EpisodeEnded | None:
    driver = prepare(
        plan,
        stream,
        stepper,
        clock=venue.clock,
        limits=venue.limits or EpisodeLimits.patient(plan.patience_s),
        ledger=venue.ledger,
        pace=Pace.MAX,
        past=past,
        rule=venue.rule_of(plan),
    )
    try:
        await stream.emit(driver.turn, [core_fact(opening)])
    except BaseException:
        await driver.let_go()
        raise
    del opening  # 3 kB for each of a fleet's many episodes
    driving = asyncio.get_running_loop().create_task(driver.run())
    try:
        return await asyncio.shield(driving)
    except asyncio.CancelledError:
        driver.control.request_end(EndRequest("suspended", None))
        await driving
        raise
    finally:
        await stream.settle()


PROCESS_DIED: Final = "the process that played it went away"

PAGE: Final = 1000
"""Episodes that are read per query."""


async def end_unfinished(journal: Journal, clock: Clock) -> set[str]:
    """End every unfinished episode as interrupted; no process may be playing one.

    Returns:
        The groups of all episodes in the journal.

    Raises:
        JournalError: The journal cannot be read or written.
    """
    before, groups = None, set()
    while found := await journal.episodes(EpisodeFilter(before=before, limit=PAGE)):
        before = found[-1].episode_id
        for one in found:
            if one.group_id is not None:
                groups.add(one.group_id)
            if one.reason is None:
                (first,) = await journal.read(one.episode_id, limit=1, checked=False)
                (last,) = await journal.read(one.episode_id, after_seq=one.head_seq - 1, checked=False)
                await journal.append([interrupted(first.event, last.event, clock, PROCESS_DIED)])
    return groups
