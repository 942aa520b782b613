"""What asking models may take: counted, capped by the episode and by the day."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from spectator.errors import EndpointTimeout
from spectator.llm.chat import ChatRequest, Usage
from spectator.llm.endpoints import Price
from spectator.observations import Observation
from spectator.policies.model import ModelPolicy
from spectator.policies.policy import Decision, ScriptedPolicy
from spectator.policies.spending import UNCOVERED, Caps, EpisodeBudget, SeatBudget, SpendLedger, Spends, Spent
from tests.fakes import ManualClock, until
from tests.llm.test_client import FakeReply, FakeTransport
from tests.llm.test_client import client as chat_client
from tests.policies.seats import ScriptedClient, model_policy, observed, said

LEGAL: list[Any] = [{"tool": "go", "arguments": {"type": "object", "properties": {}}}]
GO = '{"reason": "on", "tool": "go", "arguments": {}}'


class Steady(ScriptedPolicy):
    def choose(self, observation: Observation) -> Decision:
        return Decision({"tool": "go", "arguments": {}}, "heuristic", "as ever")


def test_a_cap_is_reached_by_any_of_the_three_and_none_is_none() -> None:
    assert Caps().reached(Spent(10**9, 10**9, 10**9)) is None
    caps = Caps(1_000, 2.5, 60)
    assert caps.reached(Spent(999, 2.49, 59.9)) is None
    assert caps.reached(Spent(tokens=1_000)) == "1,000 tokens"
    assert caps.reached(Spent(cost=2.5)) == "US$2.5"
    assert caps.reached(Spent(seconds=60.0)) == "60 s of asking"


def test_episodes_share_the_day_and_a_new_day_begins_at_nothing() -> None:
    clock = ManualClock()
    ledger = SpendLedger(Caps(tokens=100), Caps(tokens=80), clock)
    first, second = (EpisodeBudget(ledger).for_seat("home", 1) for _ in range(2))
    first.pay(Spent(tokens=80))
    assert first.refusal() == "the episode's cap of 80 tokens is reached"
    assert second.refusal() is None and ledger.refusal() is None
    second.pay(Spent(tokens=20))
    assert second.refusal() == ledger.refusal() == "the day's cap of 100 tokens is reached"
    assert ledger.until_tomorrow_s() == 19 * 3600
    clock.advance(19 * 3600)
    assert ledger.refusal() is None and second.refusal() is None
    assert first.refusal() == "the episode's cap of 80 tokens is reached"


def decide(policy: ModelPolicy, times: int = 1) -> Decision:
    async def run() -> Decision:
        for number in range(times):
            decision = await policy.decide(observed(LEGAL, ball=number), deadline=10)
        return decision

    return asyncio.run(run())


def test_a_policy_pays_and_stops_asking_at_the_cap_with_the_reason_named() -> None:
    clock = ManualClock()
    ledger = SpendLedger(Caps(), Caps(tokens=2_600), clock)
    client = ScriptedClient(said(GO, usage=Usage(400, 600)))
    policy = model_policy(
        client, Steady(), style="json", clock=clock, price_in=1.0, price_out=10.0, max_tokens=600
    )
    assert isinstance(policy, Spends)
    budget = EpisodeBudget(ledger).for_seat("home", 1)
    policy.spend_from(budget)
    assert decide(policy, 2).source == "model"
    assert budget.spent.tokens == 2_000 and budget.spent.cost == pytest.approx(2 * 6_400e-6)
    third = decide(policy)
    assert (third.source, third.parse) == ("fallback", None)
    assert third.fallback_reason == f"spent: the episode's cap of 2,600 tokens is reached{UNCOVERED}"
    assert (third.tokens_in, third.cost) == (None, None)
    assert len(client.requests) == 2


class Slow(ScriptedClient):
    """Says nothing for long, and then as the script says: it may be billed all the same."""

    async def complete(self, request: ChatRequest, *, on_delta: Any = None, **more: Any) -> Any:
        self.requests.append(request)
        for kind, text in (("lost", ""), ("restart", "")) * 3:
            on_delta(kind, text)
        raise EndpointTimeout("no answer within 60 s")


@pytest.mark.parametrize("cap", [Caps(tokens=5_000), Caps(cost=0.05)])
@pytest.mark.parametrize("shared", [False, True], ids=["episode", "day"])
@pytest.mark.parametrize("silent", [False, True], ids=["long answers", "silence"])
async def test_a_slow_reasoning_model_never_exceeds_a_cap(cap: Caps, shared: bool, silent: bool) -> None:
    """Sixteen seats at once, each of whose requests takes the longest answer."""
    clock = ManualClock()
    ledger = SpendLedger(cap if shared else Caps(), Caps() if shared else cap, clock)
    budgets = [EpisodeBudget(ledger).for_seat("home", 1) for _ in range(16 if shared else 1)]

    async def play(budget: SeatBudget) -> set[str | None]:
        client = Slow() if silent else ScriptedClient(said(GO, usage=Usage(100, 900)))
        policy = model_policy(
            client, Steady(), style="json", clock=clock, price_in=1.0, price_out=10.0, max_tokens=900
        )
        policy.spend_from(budget)
        found: set[str | None] = set()
        for number in range(8):
            found.add((await policy.decide(observed(LEGAL, ball=number), deadline=10)).failure_class)
            assert not cap.exceeded(ledger.spent)
        return found

    assert all("spent" in found for found in (await asyncio.gather(*map(play, budgets))))
    assert ledger.spent.tokens > 900


async def test_a_request_waits_for_what_others_hold_and_do_not_use() -> None:
    ledger = SpendLedger(Caps(tokens=1_000), Caps(), ManualClock())
    first, second = (EpisodeBudget(ledger).for_seat("home", 1) for _ in range(2))
    assert await first.hold(Spent(tokens=700), 60.0) is None
    waiting = asyncio.create_task(second.hold(Spent(tokens=700), 60.0))
    await asyncio.sleep(0)
    assert not waiting.done()
    first.release(Spent(tokens=700))
    first.pay(Spent(tokens=300))
    assert await waiting is None and ledger.known_refusal() is None
    told = f"the day's cap of 1,000 tokens is reached{UNCOVERED}"
    second.release(Spent(tokens=700))
    assert await first.hold(Spent(tokens=701), 60.0) == told == ledger.known_refusal()


def test_a_second_request_of_a_decision_that_no_cap_covers_is_not_sent() -> None:
    ledger = SpendLedger(Caps(), Caps(tokens=2_000), ManualClock())
    client = ScriptedClient(said("I cannot say.", usage=Usage(400, 600)))
    policy = model_policy(client, Steady(), style="json", max_tokens=1_000)
    policy.spend_from(EpisodeBudget(ledger).for_seat("home", 1))
    decision = decide(policy)
    assert (decision.failure_class, len(client.requests)) == ("unparsable", 1)


@pytest.mark.parametrize("stream", [False, True])
def test_every_attempt_that_may_be_billed_is_counted_and_marked(stream: bool) -> None:
    """A timeout before any word, a counted failure, an answer that broke off, and an answer."""

    class Retrying(ScriptedClient):
        async def complete(self, request: ChatRequest, *, on_delta: Any = None, **more: Any) -> Any:
            on_delta("lost", "")
            on_delta("restart", "")
            on_delta("lost", "70 7")
            on_delta("restart", "")
            on_delta("text", "x" * 300)
            on_delta("restart", "")
            return said(GO)

    ledger = SpendLedger(Caps(), Caps(), ManualClock())
    policy = model_policy(Retrying(), Steady(), style="json", stream=stream, price_in=1.0, max_tokens=500)
    policy.spend_from(EpisodeBudget(ledger).for_seat("home", 1))
    heard: list[str] = []
    policy.stream_thoughts(lambda thought: heard.append(thought.kind))
    decision = decide(policy)
    assert decision.source == "model" and decision.tokens_estimated and decision.cost
    assert decision.tokens_out == 500 + 7 + int(300 * 0.34) + 4 + 10
    assert ledger.spent.tokens == (decision.tokens_in or 0) + decision.tokens_out
    assert heard == (["restart", "restart", "text", "restart"] if stream else [])


async def test_a_decision_that_is_cancelled_is_counted() -> None:
    ledger = SpendLedger(Caps(), Caps(), ManualClock())

    async def hang() -> FakeReply:
        await asyncio.Event().wait()
        raise AssertionError

    transport = FakeTransport(hang)
    chat = chat_client(transport, ManualClock())
    policy = model_policy(chat, Steady(), style="json", max_tokens=500)  # type: ignore[arg-type]
    policy.spend_from(EpisodeBudget(ledger).for_seat("home", 1))
    deciding = asyncio.create_task(policy.decide(observed(LEGAL, ball=1), deadline=10))
    await until(lambda: transport.inside == 1)
    deciding.cancel()
    await asyncio.gather(deciding, return_exceptions=True)
    assert ledger.spent.tokens > 500


def test_what_nobody_counted_is_estimated_and_said_to_be() -> None:
    client = ScriptedClient(said(GO, usage=None))
    decision = decide(model_policy(client, Steady(), style="json"))
    assert decision.tokens_estimated
    assert decision.tokens_in is not None and 100 < decision.tokens_in < 2_000
    assert decision.tokens_out is not None and 4 < decision.tokens_out < 60


def test_an_answer_that_breaks_off_is_paid_as_far_as_it_was_heard() -> None:
    class Breaking(ScriptedClient):
        async def complete(self, request: ChatRequest, *, on_delta: Any = None, **more: Any) -> Any:
            on_delta("thought", "x" * 1_000)
            raise EndpointTimeout("no answer within 1 s")

    ledger = SpendLedger(Caps(), Caps(), ManualClock())
    policy = model_policy(Breaking(said(GO)), Steady(), style="json")
    policy.spend_from(EpisodeBudget(ledger).for_seat("home", 1))
    decision = decide(policy)
    assert decision.source == "fallback" and decision.tokens_estimated
    assert decision.tokens_out is not None and decision.tokens_out > 300
    assert ledger.spent.tokens == decision.tokens_out + (decision.tokens_in or 0)


def test_an_endpoint_that_was_never_reached_costs_nothing() -> None:
    policy = model_policy(ScriptedClient(EndpointTimeout("the endpoint could not be reached")), Steady())
    decision = decide(policy)
    assert (decision.tokens_in, decision.tokens_estimated) == (None, False)


def test_each_seat_has_a_purse_of_its_own() -> None:
    """A model that spends much cannot take the other's last decisions from it."""
    ledger = SpendLedger(Caps(), Caps(tokens=1_000, cost=4.0), ManualClock())
    budget = EpisodeBudget(ledger, {"away": Spent(tokens=100)})
    home, away = budget.for_seat("home", 2), budget.for_seat("away", 2)
    home.pay(Spent(tokens=500))
    assert home.refusal() == "this seat's share of the episode's cap, 500 tokens, is reached"
    assert away.refusal() is None
    away.pay(Spent(tokens=399))
    assert away.refusal() is None
    away.pay(Spent(tokens=1))
    assert away.refusal() is not None


def test_a_count_of_nothing_for_a_long_answer_is_estimated_and_marked() -> None:
    """Some endpoints send usage with zeros: a cap would never be reached."""
    text = json.dumps({"reason": "so " * 300, "tool": "go", "arguments": {}})
    for usage in (Usage(0, 0), Usage(90, 0), Usage(0, 9), Usage(90, 9)):
        estimated = not (usage.tokens_in and usage.tokens_out)
        client = ScriptedClient(said(text, usage=usage))
        policy = model_policy(client, Steady(), style="json", price_in=1.0, price_out=1.0)
        seen = observed(LEGAL, ball=1)
        made = asyncio.run(policy.decide(seen, deadline=30.0))
        assert made.tokens_estimated is estimated and made.cost
        assert made.tokens_in is not None and made.tokens_in >= 90
        assert made.tokens_out == 9 if usage.tokens_out else (made.tokens_out or 0) > 200


def test_cached_tokens_cost_their_own_price() -> None:
    price = Price(input=1.0, cached_input=0.1, output=5.0)
    client = ScriptedClient(said('{"tool": "go", "arguments": {}}', usage=Usage(1_000, 200, cached_in=900)))
    policy = model_policy(client, Steady(), style="json", price=price)
    seen = observed(LEGAL, ball=1)
    made = asyncio.run(policy.decide(seen, deadline=30.0))
    assert made.cost == 0.00119 and not made.tokens_estimated
