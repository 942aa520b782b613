"""The policy that is a person: one answer a turn, a clock that runs, a match that goes on without them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from spectator.environments.counting import WORLD as COUNTING
from spectator.errors import NoDecisionPending
from spectator.llm.tool_calls import CallRejected, WrittenCall
from spectator.observations import Observation
from spectator.policies.human import EMPTY_SEAT_S, MISSES, HumanPolicy, human_preset
from spectator.policies.policy import Decision, ScriptedPolicy
from spectator.policies.prompts import Briefing, tool_and_arguments
from tests.episodes.harness import supervising
from tests.fakes import ManualClock, until
from tests.policies.seats import counting_led_by, observed, seat_of
from tests.policies.test_model import LEGAL, Steady

LIMIT_S = 60.0


def human(clock: ManualClock, fallback: ScriptedPolicy | None = None) -> HumanPolicy:
    briefing = Briefing("A game.", as_action=tool_and_arguments)
    return HumanPolicy(briefing, fallback=fallback or Steady(), clock=clock, limit_s=LIMIT_S)


Play = Callable[[HumanPolicy, ManualClock, Observation], Awaitable[None]]


def decide(during: Play, *, deadline: float = 120.0, turns: int = 1) -> list[Decision]:
    async def run() -> list[Decision]:
        clock = ManualClock()
        policy, made = human(clock), []
        for turn in range(turns):
            seen = observed(LEGAL, ball=turn)
            deciding = asyncio.create_task(policy.decide(seen, deadline=deadline))
            await until(lambda: policy.asked is not None, what="the question")
            await during(policy, clock, seen)
            async with asyncio.timeout(20):
                made.append(await deciding)
            assert policy.asked is None
        return made

    return asyncio.run(run())


def test_an_answer_becomes_a_decision_by_a_person_with_its_reason() -> None:
    async def answer(policy: HumanPolicy, clock: ManualClock, seen: Observation) -> None:
        assert policy.asked is not None and policy.asked.observation is seen
        clock.advance(7.5)
        policy.act(WrittenCall("plan", {"level": 0.8}, "behind the rate"))

    (made,) = decide(answer)
    assert made.action == {"tool": "plan", "arguments": {"level": 0.8}}
    assert (made.source, made.reasoning, made.fallback_reason) == ("human", "behind the rate", None)
    assert made.latency_s == 7.5


@pytest.mark.parametrize(
    ("tool", "arguments", "rule"),
    [("fly", {}, "not legal now"), ("plan", {"level": 3}, "at most 1"), ("plan", {"lvl": 1}, "not known")],
)
def test_what_is_not_legal_is_refused_with_the_rule_and_the_question_stands(
    tool: str, arguments: dict[str, Any], rule: str
) -> None:
    async def answer(policy: HumanPolicy, clock: ManualClock, seen: Observation) -> None:
        with pytest.raises(CallRejected, match=rule):
            policy.act(WrittenCall(tool, arguments))
        assert policy.asked is not None
        policy.act(WrittenCall("play", {}))

    assert decide(answer)[0].source == "human"


def test_a_turn_is_decided_once_whoever_comes_first() -> None:
    async def answer(policy: HumanPolicy, clock: ManualClock, seen: Observation) -> None:
        policy.act(WrittenCall("play", {}))
        with pytest.raises(NoDecisionPending):
            policy.act(WrittenCall("plan", {"level": 0.1}))

    assert decide(answer)[0].action["tool"] == "play"
    with pytest.raises(NoDecisionPending):
        human(ManualClock()).act(WrittenCall("play", {}))


def test_when_time_is_up_the_fallback_decides_and_is_named() -> None:
    async def wait(policy: HumanPolicy, clock: ManualClock, seen: Observation) -> None:
        clock.advance(LIMIT_S - 0.5)
        assert policy.asked is not None and policy.asked.left_s == pytest.approx(0.5)
        await until(lambda: clock.sleepers == 1)
        clock.advance(1)

    (made,) = decide(wait)
    assert (made.source, made.fallback_reason) == ("fallback", "timeout: no decision within 60 s")
    assert made.action["tool"] == "play"


def test_the_episodes_own_deadline_wins() -> None:
    async def wait(policy: HumanPolicy, clock: ManualClock, seen: Observation) -> None:
        assert policy.asked is not None and policy.asked.limit_s == 9.0
        await until(lambda: clock.sleepers == 1)
        clock.advance(9.0)

    assert decide(wait, deadline=10.0)[0].source == "fallback"


def test_the_clock_stands_still_while_play_does() -> None:
    async def wait(policy: HumanPolicy, clock: ManualClock, seen: Observation) -> None:
        clock.advance(50)
        policy.hold(True)
        await asyncio.sleep(0)
        clock.advance(1000)
        assert policy.asked is not None and policy.asked.left_s == pytest.approx(10)
        policy.hold(False)
        await until(lambda: clock.sleepers >= 1)
        clock.advance(9)
        policy.act(WrittenCall("play", {}))

    (made,) = decide(wait)
    assert made.source == "human" and made.latency_s == pytest.approx(59)


def test_an_empty_seat_is_waited_for_shortly_until_somebody_has_it_open_again() -> None:
    limits: list[float] = []

    async def miss(policy: HumanPolicy, clock: ManualClock, seen: Observation) -> None:
        assert policy.asked is not None
        if seen.content["ball"] == MISSES + 1:
            policy.attend()
        limits.append(policy.asked.limit_s)
        if seen.content["ball"] == MISSES + 1:
            return policy.act(WrittenCall("play", {}))
        await until(lambda: clock.sleepers >= 1)
        clock.advance(limits[-1])

    made = decide(miss, turns=MISSES + 3)
    assert limits == [LIMIT_S] * MISSES + [EMPTY_SEAT_S, LIMIT_S, LIMIT_S]
    assert [one.source for one in made] == ["fallback"] * (MISSES + 1) + ["human", "fallback"]


def test_whoever_comes_back_to_an_empty_seat_gets_the_whole_time() -> None:
    async def wait(policy: HumanPolicy, clock: ManualClock, seen: Observation) -> None:
        await until(lambda: clock.sleepers >= 1)
        if seen.content["ball"] < MISSES:
            return clock.advance(LIMIT_S)
        clock.advance(EMPTY_SEAT_S - 1)
        policy.attend()
        await until(lambda: clock.sleepers >= 1)
        clock.advance(EMPTY_SEAT_S)
        assert policy.asked is not None and policy.asked.left_s > 30
        policy.act(WrittenCall("play", {}))

    assert decide(wait, turns=MISSES + 1)[-1].source == "human"


def test_a_whole_episode_is_played_by_a_person_and_can_be_paused_beyond_every_limit() -> None:
    """A pause in the middle of a decision costs neither the decision nor the episode."""
    clock = ManualClock()
    seat = seat_of(COUNTING)
    preset = human_preset(seat.briefing, seat.fallback, clock=clock, limit_s=LIMIT_S)

    async def run() -> list[Any]:
        async with supervising(counting_led_by(preset), clock=clock) as stage:
            live = await stage.start(options={"turns": 3})
            policy = live.policy("counter")
            assert isinstance(policy, HumanPolicy)
            for number in (1, 2, 3):
                await until(lambda: policy.asked is not None, what="the question")
                assert live.deciding == "counter" and live.turn == number - 1
                if number == 2:
                    await stage.supervisor.pause(live.episode_id, by="operator")
                    clock.advance(500)
                    await stage.supervisor.resume(live.episode_id, by="operator")
                policy.act(WrittenCall("say", {"text": f"ACTION: {number}"}))
            assert (await live.wait()).reason == "finished"
            return [one.event for one in stage.journal.events if one.event.type == "decision.made"]

    made = asyncio.run(run())
    assert [event.data["source"] for event in made] == ["human"] * 3


async def test_only_a_scripted_policy_may_stand_in_for_a_person() -> None:
    preset = human_preset(
        Briefing("A game."), lambda seed: human(ManualClock()), clock=ManualClock(), limit_s=1
    )
    with pytest.raises(TypeError, match="scripted"):
        preset.build(1)
