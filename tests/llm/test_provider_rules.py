"""Each preset plays a match over a stand-in that enforces its provider's rules."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from spectator.environments.counting import WORLD as COUNTING
from spectator.llm.endpoints import PROVIDERS
from tests.episodes.harness import drive
from tests.llm.brains import counter
from tests.llm.stand_in_chat import RULES, ChatStandIn
from tests.llm.stand_ins import KEY, standing_in
from tests.policies.seats import counting_led_by, endpoint_preset

TURNS = 3


async def play(name: str, **table: Any) -> tuple[list[Any], list[Any]]:
    async with standing_in(ChatStandIn(counter, RULES[name])) as served:
        preset = endpoint_preset(COUNTING, f"{served.url}/v1", key=KEY, provider=name, model="m-1", **table)
        played = await drive(counting_led_by(preset), turns=TURNS)
    made = [one.event.data for one in played.events if one.event.type == "decision.made"]
    return made, [refusal.body for refusal in served.refused]


def test_every_provider_has_a_stand_in() -> None:
    assert RULES.keys() | {"anthropic", "gemini"} == PROVIDERS.keys()


@pytest.mark.parametrize("style", ["tools", "json"])
@pytest.mark.parametrize("name", RULES)
def test_a_preset_keeps_to_its_providers_rules(name: str, style: str) -> None:
    made, refused = asyncio.run(play(name, style=style))
    assert refused == [] and [one["source"] for one in made] == ["model"] * TURNS


@pytest.mark.parametrize(("name", "change"), [("openai", {"stream": True}), ("vllm", {"send_back": False})])
def test_a_stand_in_does_enforce_them(name: str, change: dict[str, Any]) -> None:
    made, refused = asyncio.run(play(name, **change))
    assert refused and "fallback" in {one["source"] for one in made}
