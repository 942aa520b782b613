"""Wiring an episode for play: its control, what its captains think aloud, and the driver of all of it."""

from __future__ import annotations

from dataclasses import dataclass

from spectator.clock import Clock
from spectator.episodes.record.opening import Stream
from spectator.episodes.run.controls import Control
from spectator.episodes.run.driver import Driver
from spectator.episodes.run.failing import FailureRule
from spectator.episodes.run.limits import EpisodeLimits
from spectator.episodes.run.pacing import Pace
from spectator.episodes.run.partial_decision import Thinking
from spectator.episodes.run.plan import EpisodePlan
from spectator.episodes.run.ports import Checkpoints, Past
from spectator.policies.spending import EpisodeBudget, SpendLedger, Spent
from spectator.steppers.base import Stepper


@dataclass(frozen=True, slots=True)
class PreparedEpisode:
    """An episode that is ready to be driven.

    Args:
        driver: Its loop.
        control: What is asked of it from outside.
        thinking: What its captains think at the moment.
    """

    driver: Driver
    control: Control
    thinking: Thinking


def prepare(
    plan: EpisodePlan,
    stream: Stream,
    stepper: Stepper,
    *,
    clock: Clock,
    limits: EpisodeLimits,
    ledger: SpendLedger,
    pace: Pace | None = None,
    paused: bool = False,
    past: Past | None = None,
    rule: FailureRule | None = None,
    checkpoints: Checkpoints | None = None,
) -> PreparedEpisode:
    """Put together what plays an episode, wherever that is: in a server or in a run.

    Args:
        plan: What is played, by whom.
        stream: Takes what happens, and holds what was spent before.
        stepper: Its environment, closed by the driver.
        clock: Time.
        limits: How long it may wait for whom.
        ledger: What asking models may take.
        pace: How fast it goes on; the plan's pace when left out.
        paused: Whether it stands still at first.
        past: Where another process left it; ``None`` to begin.
        rule: What a decision that failed does to it; the plan's ``on_failure`` when left out.
        checkpoints: Keeps where it stands; nobody does when left out.
    """
    control = Control(pace or plan.pace, clock)
    if paused:
        control.pause()
    thinking = Thinking(clock)
    spent = {
        actor: Spent(used["tokens_in"] + used["tokens_out"], used["cost"], used["latency_s"])
        for actor, used in stream.state.get("usage", {}).items()
    }
    driver = Driver(
        plan,
        stream.episode_id,
        stepper=stepper,
        emit=stream.take_steps,
        control=control,
        clock=clock,
        limits=limits,
        past=past,
        thinking=thinking,
        budget=EpisodeBudget(ledger, spent),
        rule=rule,
        checkpoints=checkpoints,
    )
    return PreparedEpisode(driver, control, thinking)
