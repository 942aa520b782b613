"""A refusal says the very form that the prompt asks for, in every style and world."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from spectator.catalog import load_world
from spectator.clock import SystemClock
from spectator.llm.chat import ChatAnswer, ToolCall
from spectator.observations import Observation
from spectator.policies.invalid_answers import InvalidAnswers
from spectator.policies.model import ModelPolicy
from spectator.policies.model_settings import ModelSettings, Style
from spectator.policies.policy import ScriptedPolicy
from spectator.training.text_episode import CALL_A_TOOL, TextEpisode

WORLDS: list[tuple[str, Mapping[str, Any]]] = [
    ("counting", {}),
    ("cricket", {"max_overs": 1, "decisions": "over"}),
    ("cricket", {"max_overs": 1, "decisions": "ball"}),
    ("collider", {}),
]


def begun(world: str, options: Mapping[str, Any]) -> TextEpisode:
    """An episode whose model may be refused often."""
    episode = TextEpisode(world, options, invalid=InvalidAnswers(invalid_retries=10))
    episode.reset(seed=1)
    return episode


class Wrong:
    """A client that answers wrongly twice."""

    def __init__(self, answer: ChatAnswer) -> None:
        self.asked: list[list[Mapping[str, Any]]] = []
        self._answer = answer

    async def complete(self, request: Any, **_: Any) -> ChatAnswer:
        self.asked.append(list(request.messages))
        return self._answer

    async def aclose(self) -> None:
        """Nothing."""


WRONG = {
    "nonsense": ChatAnswer(text="lorem ipsum"),
    "unknown tool": ChatAnswer(text='{"tool": "lorem", "arguments": {}}'),
    "call": ChatAnswer(text="", tool_calls=[ToolCall("c1", "lorem", "{}")]),
}


@pytest.mark.parametrize(("world", "options"), WORLDS)
@pytest.mark.parametrize("style", ["tools", "json", "xml"])
@pytest.mark.parametrize("several", [1, 3])
@pytest.mark.parametrize("answer", WRONG)
def test_a_models_correction_repeats_the_form_of_its_prompt(
    world: str, options: Mapping[str, Any], style: Style, several: int, answer: str
) -> None:
    client, seat = Wrong(WRONG[answer]), load_world(world)
    scripted = seat.captains[seat.default_captain].build(1)
    assert isinstance(scripted, ScriptedPolicy)
    settings = ModelSettings(model="m-1", style=style, actions_per_answer=several)
    policy = ModelPolicy(client, settings, seat.briefing, fallback=scripted, seed=1, clock=SystemClock())
    observation: Observation = begun(world, options).observation
    decision = asyncio.run(policy.decide(observation, deadline=60.0))
    assert decision.source == "fallback" and len(client.asked) == 2
    form = str(client.asked[0][0]["content"]).rpartition("\n\n")[2]
    refusal = str(client.asked[1][-1]["content"])
    assert "That cannot be carried out: " in refusal and refusal.endswith(f"\n\n{form}")
    assert "Send {" not in refusal


@pytest.mark.parametrize(("world", "options"), WORLDS)
def test_an_episode_in_text_repeats_its_form_and_one_of_tools_that_of_tools(
    world: str, options: Mapping[str, Any]
) -> None:
    episode = begun(world, options)
    tool = episode.observation.legal_actions[0]["tool"]
    for refusal in (
        episode.answer("lorem ipsum"),
        episode.answer('{"tool": "lorem", "arguments": {}}'),
        episode.answer(f'{{"tool": "{tool}", "arguments": {{"lorem": []}}}}'),
    ):
        assert refusal.endswith(episode.form) and "Send {" not in refusal
    for refusal in (episode.use("lorem", {}), episode.use(tool, {"lorem": []})):
        assert refusal.endswith(CALL_A_TOOL) and "Send {" not in refusal
    assert episode.own.own == 0
