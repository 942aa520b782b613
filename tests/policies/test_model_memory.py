"""A model policy that is given its memory back asks on exactly as the one that had it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from spectator.errors import PolicyError
from spectator.events import decode_json, encode_json
from spectator.llm.wire_forms import encode_request
from spectator.observations import Observation, Refusal
from spectator.policies.model import ModelPolicy
from spectator.policies.policy import Restorable
from tests.fakes import ManualClock
from tests.policies.seats import ScriptedClient, model_policy, observed, said
from tests.policies.test_model import LEGAL, PLAN
from tests.policies.test_recorded_endpoint import NONSENSE, TURNS, Numbered, fact

SEVERAL = said(
    "Three at once.",
    ("plan", '{"level": 0.1, "reason": "first"}'),
    ("plan", '{"level": 0.2, "reason": "second"}'),
    ("plan", '{"level": 9, "reason": "not legal"}'),
)
LONG = said("x" * 900, ("plan", '{"level": 0.4, "reason": "so"}'))


class Counting(Numbered):
    """A fallback that says how often it decided."""

    def snapshot(self) -> int:
        return self.times

    def restore(self, snapshot: int) -> None:
        self.times = snapshot


def seen(ball: int, *, refused: bool = False) -> Observation:
    content = {"ball": ball, "said": "word " * ball}
    return Observation("home", LEGAL, content, refused=Refusal("law", "not so") if refused else None)


def decide(policy: ModelPolicy, ball: int, *, refused: bool = False) -> dict[str, Any]:
    made = asyncio.run(policy.decide(seen(ball, refused=refused), deadline=60))
    return {**fact(made), "latency_s": None}


@pytest.mark.parametrize("happened", [*TURNS, "several actions", "long answers"])
@pytest.mark.parametrize("style", ["tools", "json"])
def test_it_goes_on_as_the_one_whose_memory_it_is(happened: str, style: str) -> None:
    turn = {**TURNS, "several actions": [SEVERAL], "long answers": [LONG, LONG]}[happened]
    script = [said(PLAN), *turn, said(PLAN), NONSENSE, NONSENSE, *turn, LONG, said(PLAN)]
    for stops in (0, 1, 2, 3, 6):
        settings: dict[str, Any] = {"style": style, "actions_per_answer": 3, "history_tokens": 400}
        client, fallback = ScriptedClient(*script), Counting()
        policy = model_policy(client, fallback, clock=ManualClock(), **settings)
        for ball in range(stops):
            decide(policy, ball, refused=ball == 1)
        assert isinstance(policy, Restorable)
        kept = decode_json(encode_json(policy.snapshot()))
        after, other_fallback = ScriptedClient(*script[len(client.requests) :]), Counting()
        other = model_policy(after, other_fallback, clock=ManualClock(), **settings)
        other.restore(kept)
        asked = len(client.requests)
        for ball in range(stops, stops + 8):
            refused = ball == stops + 4
            assert decide(other, ball, refused=refused) == decide(policy, ball, refused=refused)
        assert list(map(encode_request, after.requests)) == list(map(encode_request, client.requests[asked:]))
        assert after.requests and other_fallback.times == fallback.times


def test_its_memory_is_no_larger_than_its_room_however_long_it_played() -> None:
    sizes = []
    policy = model_policy(ScriptedClient(LONG), Counting(), clock=ManualClock(), history_tokens=2000)
    for ball in range(120):
        asyncio.run(policy.decide(observed(LEGAL, ball=ball), deadline=60))
        sizes.append(len(encode_json(policy.snapshot())))
    assert max(sizes[60:]) <= 1.05 * max(sizes[:60]) < 40_000


def test_it_says_where_its_memory_cannot_be_kept() -> None:
    policy = model_policy(ScriptedClient(said(PLAN)), Numbered(), clock=ManualClock())
    with pytest.raises(PolicyError, match="cannot be saved"):
        policy.snapshot()
