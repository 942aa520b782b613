"""An environment that was begun ahead: taken as it is while it is fresh, begun anew when it is not."""

from __future__ import annotations

from typing import Any

import pytest

from spectator.environments.contract import Stepped
from spectator.errors import EnvironmentFault, EnvironmentUnavailable
from spectator.observations import Observation
from spectator.rollouts.environments import FRESH_S, PreparedStepper
from tests.fakes import ManualClock

ASKED: dict[str, Any] = {"seed": 7, "episode_id": "ep-1", "options": {"level": 2}, "limit_s": 5.0}


class Counted:
    """A stepper that counts, and fails in the order of ``fails``."""

    given_up = False

    def __init__(self, *fails: Exception | None) -> None:
        self.fails = list(fails)
        self.resets = self.closed = 0

    async def reset(self, **asked: Any) -> Stepped:
        self.resets += 1
        error = self.fails.pop(0) if self.fails else None
        if error is not None:
            raise error
        return Stepped(Observation("agent", (), {"begun": self.resets}), [], {})

    async def aclose(self) -> None:
        self.closed += 1


def readied(*made: Any) -> tuple[PreparedStepper, ManualClock]:
    clock, steppers = ManualClock(), list(made)
    return PreparedStepper(lambda: steppers.pop(0), clock), clock


async def test_a_fresh_beginning_is_taken_once_and_a_stale_one_is_made_anew_in_its_place() -> None:
    one = Counted()
    stepper, clock = readied(one)
    await stepper.make_ready(**ASKED)
    clock.advance(FRESH_S)
    assert (await stepper.reset(**ASKED)).observation.content == {"begun": 1}
    assert (await stepper.reset(**ASKED)).observation.content == {"begun": 2}, "only once"
    await stepper.make_ready(**ASKED)
    clock.advance(FRESH_S + 1)
    assert (await stepper.reset(**ASKED)).observation.content == {"begun": 4}
    assert one.closed == 0, "its place is kept: another might not find one"


async def test_other_options_are_not_answered_from_memory() -> None:
    one = Counted()
    stepper, _ = readied(one)
    await stepper.make_ready(**ASKED)
    assert (await stepper.reset(**{**ASKED, "seed": 8})).observation.content == {"begun": 2}


async def test_one_that_its_server_let_go_is_replaced() -> None:
    silent, other = Counted(None, EnvironmentUnavailable("silent for too long")), Counted()
    stepper, clock = readied(silent, other)
    await stepper.make_ready(**ASKED)
    clock.advance(FRESH_S + 1)
    assert (await stepper.reset(**ASKED)).observation.content == {"begun": 1}
    assert (silent.closed, other.resets) == (1, 1)


async def test_a_failure_is_kept_for_the_record_and_a_server_that_is_gone_is_told_at_once() -> None:
    failing, gone = Counted(EnvironmentFault("no such level")), Counted(EnvironmentUnavailable("refused"))
    stepper, _ = readied(failing)
    await stepper.make_ready(**ASKED)
    with pytest.raises(EnvironmentFault, match="no such level"):
        await stepper.reset(**ASKED)
    assert failing.resets == 1
    stepper, _ = readied(gone)
    with pytest.raises(EnvironmentUnavailable):
        await stepper.make_ready(**ASKED)
    assert gone.closed == 1, "nothing is left open"
