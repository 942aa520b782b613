"""A policy that is told what it decided asks on exactly as the one that decided it, whatever happened."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from spectator.episodes.steps import checked_decision
from spectator.errors import EndpointBusy, EndpointResting, EndpointTimeout
from spectator.llm.chat import ChatAnswer, ChatRequest
from spectator.llm.wire_forms import encode_request
from spectator.observations import Observation, Refusal
from spectator.policies.model import ModelPolicy
from spectator.policies.policy import Decision, ScriptedPolicy
from spectator.policies.recorded_endpoint import RecordedEndpoint, at_once
from spectator.policies.spending import Caps, EpisodeBudget, SpendLedger, Spent
from tests.fakes import ManualClock
from tests.policies.seats import ScriptedClient, model_policy, observed, said
from tests.policies.test_model import LEGAL, PLAN


class Numbered(ScriptedPolicy):
    """A fallback with a state: it counts how often it decided."""

    def __init__(self) -> None:
        self.times = 0

    def choose(self, observation: Observation) -> Decision:
        self.times += 1
        return Decision({"tool": "plan", "arguments": {"level": self.times / 10}}, "heuristic", "as it comes")


def fact(decision: Decision) -> Mapping[str, Any]:
    """The decision as its event has it."""
    return checked_decision("home", decision, 0.0)[1].data


def made(policy: ModelPolicy, observation: Observation) -> Decision:
    return asyncio.run(policy.decide(observation, deadline=60))


def seen(ball: int) -> Observation:
    return observed(LEGAL, ball=ball)


NONSENSE = said("I would rather talk about the weather")
TURNS: dict[str, list[Any]] = {
    "an answer": [said(PLAN)],
    "a repair": [NONSENSE, said(PLAN)],
    "two answers of no use": [NONSENSE, NONSENSE],
    "an answer and a failure": [NONSENSE, EndpointBusy("the endpoint asks to wait", status=429)],
    "a failure": [EndpointTimeout("no answer within 5 s")],
    "a rest": [EndpointResting("requests to the endpoint are paused after failures: no answer within 5 s")],
    "native calls": [said("Well.", ("plan", '{"level": 0.4, "reason": "so"}'))],
}


@pytest.mark.parametrize("happened", TURNS)
@pytest.mark.parametrize("style", ["tools", "json"])
def test_the_next_question_is_the_same(happened: str, style: str) -> None:
    script = [said(PLAN), *TURNS[happened], said(PLAN)]
    client, fallback = ScriptedClient(*script), Numbered()
    policy = model_policy(client, fallback, style=style, clock=ManualClock())
    decided = [made(policy, seen(ball)) for ball in (1, 2)]
    after = ScriptedClient(said(PLAN))
    again = Numbered()
    other = model_policy(after, again, style=style, clock=ManualClock())
    for ball, decision in zip((1, 2), decided, strict=True):
        recollection = other.remember(seen(ball), fact(decision))
        assert recollection.same_requests and recollection.same_decisions
    assert after.requests == [], "nobody is asked"
    assert again.times == fallback.times
    made(policy, seen(3))
    made(other, seen(3))
    assert encode_request(after.requests[0]) == encode_request(client.requests[-1])


def test_a_cap_a_refusal_by_the_world_and_an_answer_too_late_are_remembered() -> None:
    clock = ManualClock()

    def late(request: ChatRequest) -> ChatAnswer:
        clock.advance(59.99)
        return NONSENSE

    client = ScriptedClient(said(PLAN), late, said(PLAN))
    policy = model_policy(client, Numbered(), style="json", clock=clock)
    ledger = SpendLedger(Caps(), Caps(tokens=9_000), clock)
    sequence = [
        seen(1),
        seen(2),
        Observation("home", LEGAL, {"ball": 2}, refused=Refusal("law", "no such field")),
        Observation("home", LEGAL, {"ball": 2}, refused=Refusal("law", "nor this")),
    ]
    decided = [made(policy, one) for one in sequence]
    assert [(one.fallback_reason or "-").partition(":")[0] for one in decided] == [
        "-", "unusable", "-", "refused",
    ]  # fmt: skip
    policy.spend_from(EpisodeBudget(ledger, {"home": Spent(tokens=9_000)}).for_seat("home", 1))
    sequence.append(seen(3))
    decided.append(made(policy, seen(3)))
    assert (decided[-1].fallback_reason or "").startswith("spent: ")
    policy.spend_from(EpisodeBudget(ledger).for_seat("home", 1))
    made(policy, seen(4))
    after = ScriptedClient(said(PLAN))
    other = model_policy(after, Numbered(), style="json", clock=ManualClock())
    budget = EpisodeBudget(ledger).for_seat("home", 1)
    other.spend_from(budget)
    for observation, decision in zip(sequence, decided, strict=True):
        assert other.remember(observation, fact(decision)).same_decisions
    assert budget.spent == Spent(), "what was paid then is not paid again"
    made(other, seen(4))
    assert encode_request(after.requests[0]) == encode_request(client.requests[-1])


def test_a_record_without_exchanges_is_remembered_by_its_texts() -> None:
    data = {**fact(made(model_policy(ScriptedClient(said(PLAN)), Numbered(), style="json"), seen(1)))}
    del data["exchanges"]
    client = ScriptedClient(said(PLAN))
    policy = model_policy(client, Numbered(), style="json")
    assert not policy.remember(seen(1), data).same_requests
    made(policy, seen(2))
    told = [message["content"] for message in client.requests[0].messages if message["role"] == "assistant"]
    assert told == [PLAN]


def test_captains_who_change_are_asked_in_todays_words_and_keep_what_they_said() -> None:
    data = fact(made(model_policy(ScriptedClient(said(PLAN)), Numbered(), style="json"), seen(1)))
    client = ScriptedClient(said(PLAN))
    policy = model_policy(client, Numbered(), style="xml")
    recollection = policy.remember(seen(1), data)
    assert not recollection.same_requests
    made(policy, seen(2))
    assert [message["role"] for message in client.requests[0].messages] == [
        "system", "user", "assistant", "user",
    ]  # fmt: skip


def test_what_waits_for_something_is_not_remembered_by_accident() -> None:
    with pytest.raises(RuntimeError, match="never wait can run here"):
        at_once(asyncio.sleep(0))
    nothing: dict[str, Any] = {"fallback_reason": None, "action": {}, "source": "model"}
    assert not RecordedEndpoint(nothing, Numbered()).same_decisions
