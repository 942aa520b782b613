"""Every stepper in this process keeps the port's promises, whatever the environment does."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from spectator.catalog import load_world
from spectator.environments.contract import Environment, Stepped, Stepper
from spectator.environments.counting.world import CountingEnvironment
from spectator.errors import EnvironmentFault, StepTimeout
from spectator.steppers.local import InlineStepper, ThreadStepper, preferred_stepper
from tests.fakes import HeldEnvironment, LyingEnvironment, failing, until

Open = Callable[[Callable[[], Environment]], Stepper]
KINDS: list[Open] = [InlineStepper, ThreadStepper]


@pytest.fixture(params=KINDS, ids=lambda kind: kind.__name__)
def open_with(request: pytest.FixtureRequest) -> Open:
    """A way to open a stepper."""
    kind: Open = request.param
    return kind


async def begun(stepper: Stepper, turns: int = 2) -> Stepped:
    """Begin a count."""
    options = {"turns": turns, "payload_bytes": 0}
    return await stepper.reset(seed=1, episode_id="ep-1", options=options, limit_s=20)


def say(number: int) -> dict[str, Any]:
    return {"text": f"ACTION: {number}"}


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(scenario(), 30))


async def test_a_whole_episode(open_with: Open) -> None:
    stepper = open_with(CountingEnvironment)
    first = await begun(stepper)
    assert (first.observation.actor, list(first.facts)) == ("counter", [])
    second = await stepper.step(say(1), limit_s=20)
    assert [fact.type for fact in second.facts] == ["counting.number_said"]
    assert first.state == second.state == {}, "the state is read only when it is asked for"
    assert (await stepper.state(limit_s=20))["correct"] == 1
    kept = await stepper.snapshot(limit_s=20)
    last = await stepper.step(say(2), limit_s=20)
    assert (last.observation.done, last.observation.reward) == (True, 1.0)
    assert last.state["result"] == "2 of 2 right"
    assert await stepper.truth(limit_s=20) == {}
    again = await stepper.restore(kept, limit_s=20)
    assert (again.observation.content["next"], again.observation.done) == (2, False)
    await stepper.aclose()


@pytest.mark.parametrize(
    ("raised", "said"),
    [
        (ValueError("no"), "ValueError: no"),
        (StopIteration("x"), "StopIteration: x"),
        (TimeoutError("mine"), "TimeoutError: mine"),
        (SystemExit(3), "SystemExit: 3"),
        (asyncio.CancelledError("own"), "CancelledError: own"),
        (GeneratorExit(), "GeneratorExit"),
    ],
)
async def test_whatever_it_raises_is_a_fault(open_with: Open, raised: BaseException, said: str) -> None:
    stepper = open_with(lambda: LyingEnvironment(failing(raised)))
    await begun(stepper)
    with pytest.raises(EnvironmentFault, match=said) as caught:
        await stepper.step(say(1), limit_s=20)
    assert not isinstance(caught.value, StepTimeout)
    assert (await stepper.state(limit_s=20))["turn"] == 1, "it lives on"
    await stepper.aclose()


@pytest.mark.parametrize("garbage", [None, {"actor": "counter"}, 7, [b"\xff"]])
async def test_an_answer_that_is_no_observation_is_a_fault(open_with: Open, garbage: Any) -> None:
    stepper = open_with(lambda: LyingEnvironment(lambda seen: garbage))
    await begun(stepper)
    with pytest.raises(EnvironmentFault, match=f"answered {type(garbage).__name__}, not an observation"):
        await stepper.step(say(1), limit_s=20)
    await stepper.aclose()


async def test_one_that_cannot_be_built_is_a_fault(open_with: Open) -> None:
    stepper = open_with(failing(OSError("no data")))  # type: ignore[arg-type]
    with pytest.raises(EnvironmentFault, match="OSError: no data"):
        await begun(stepper)
    await stepper.aclose()


async def test_after_it_was_closed_nothing_reaches_it(open_with: Open) -> None:
    stepper = open_with(CountingEnvironment)
    await begun(stepper)
    await stepper.aclose()
    await stepper.aclose()
    assert stepper.given_up
    with pytest.raises(EnvironmentFault, match="closed or abandoned"):
        await stepper.step(say(1), limit_s=20)


def test_cricket_steps_at_once_where_it_plays_no_futures() -> None:
    world = load_world("cricket")
    options = world.options_type().model_dump(mode="json")
    assert world.steps_at_once(options)
    assert not world.steps_at_once({**options, "forecast_futures": 1000})
    assert isinstance(preferred_stepper(world, "ep-1", {**options, "forecast_futures": 1000}), ThreadStepper)


async def test_on_a_thread_a_hanging_call_ends_at_its_deadline() -> None:
    gate = threading.Event()

    environment = HeldEnvironment(gate)
    stepper = ThreadStepper(lambda: environment, name="test-held")
    await begun(stepper)
    with pytest.raises(StepTimeout, match=r"within 0\.05 s"):
        await stepper.step(say(1), limit_s=0.05)
    assert stepper.given_up
    gate.set()
    await until(lambda: not any(one.name == "test-held" for one in threading.enumerate()))


async def test_inline_an_answer_after_its_deadline_is_late() -> None:
    now = [0.0]

    class Slow(CountingEnvironment):
        def step(self, action: Any) -> Any:
            now[0] += 2.0
            return super().step(action)

    stepper = InlineStepper(Slow, monotonic=lambda: now[0])
    await begun(stepper, turns=5)
    await stepper.step(say(1), limit_s=2.0)
    with pytest.raises(StepTimeout, match=r"within 1\.5 s"):
        await stepper.step(say(2), limit_s=1.5)
    assert stepper.given_up


async def test_no_thread_begins_before_the_first_call() -> None:
    before = threading.active_count()
    stepper = ThreadStepper(CountingEnvironment, name="test-idle")
    assert threading.active_count() == before
    await stepper.aclose()
    assert threading.active_count() == before
