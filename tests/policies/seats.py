"""Model captains for tests: a policy on a scripted client, and presets on a fake endpoint."""

from __future__ import annotations

import dataclasses
import json
import random
from collections.abc import Callable, Sequence
from typing import Any

from spectator.clock import Clock, SystemClock
from spectator.environments.counting import WORLD as COUNTING
from spectator.environments.world import World
from spectator.errors import EndpointError
from spectator.llm.chat import ChatAnswer, ChatRequest, OnDelta, ToolCall, Usage
from spectator.observations import LegalAction, Observation
from spectator.policies.captains import ModelCaptain
from spectator.policies.model import ModelPolicy
from spectator.policies.model_presets import ModelSeat, model_presets
from spectator.policies.model_settings import ModelSettings
from spectator.policies.policy import Preset, ScriptedPolicy
from spectator.policies.prompts import Briefing, arguments_alone, tool_and_arguments

KEY_VARIABLE = "FAKE_KEY"


class ScriptedClient:
    """Answers by its script, in order; the last step for ever.

    Args:
        script: Answers, errors, or functions of the request.
    """

    def __init__(self, *script: ChatAnswer | EndpointError | Callable[[ChatRequest], ChatAnswer]) -> None:
        self._script = script
        self.requests: list[ChatRequest] = []
        self.deadlines: list[float] = []
        self.sessions: list[str | None] = []
        self.closed = 0

    async def complete(
        self,
        request: ChatRequest,
        *,
        deadline: float,
        session: str | None = None,
        on_delta: OnDelta | None = None,
    ) -> ChatAnswer:
        step = self._script[min(len(self.requests), len(self._script) - 1)]
        self.requests.append(request)
        self.deadlines.append(deadline)
        self.sessions.append(session)
        if isinstance(step, EndpointError):
            raise step
        answer = step if isinstance(step, ChatAnswer) else step(request)
        if on_delta is not None:
            on_delta("thought", answer.thought)
            on_delta("text", answer.text)
        return answer

    async def aclose(self) -> None:
        self.closed += 1


def said(text: str = "", *calls: tuple[str, Any], **more: Any) -> ChatAnswer:
    """An answer."""
    written = [
        ToolCall(f"id{n}", name, arguments if isinstance(arguments, str) else json.dumps(arguments))
        for n, (name, arguments) in enumerate(calls)
    ]
    more.setdefault("usage", Usage(100, 10))
    return ChatAnswer(text=text, tool_calls=tuple(written), model="m-by-its-own-account", **more)


def model_policy(
    client: ScriptedClient, fallback: ScriptedPolicy, *, clock: Clock | None = None, **settings: Any
) -> ModelPolicy:
    """A policy that asks ``client``."""
    return ModelPolicy(
        client,
        ModelSettings(model="m", **settings),
        Briefing("A game."),
        fallback=fallback,
        seed=5,
        clock=clock or SystemClock(),
    )


def seat_of(world: World) -> ModelSeat:
    """The seat of a world as its wiring would describe it."""
    shaped = tool_and_arguments if "tool" in world.action_type.model_fields else arguments_alone
    return ModelSeat(
        Briefing(f"{world.title}. {world.summary}", as_action=shaped),
        fallback=world.captains[world.default_captain].build,
    )


def endpoint_preset(
    world: World,
    base_url: str,
    *,
    clock: Clock | None = None,
    key: str = "sk-fake-0123456789",
    timeout_s: float = 10.0,
    **table: Any,
) -> Preset:
    """A preset that asks the endpoint at ``base_url``; ``timeout_s`` may be less than an operator may set."""
    fields = {"label": "Fake", "model": "fake-1", "retries": 1, **table}
    captain = ModelCaptain(base_url=base_url, api_key_env=KEY_VARIABLE, **fields)
    captain = captain.model_copy(update={"timeout_s": timeout_s})
    presets = model_presets(
        {"llm:fake": captain},
        seat_of(world),
        variables={KEY_VARIABLE: key},
        clock=clock or SystemClock(),
        rng=random.Random(),
    )
    return presets["llm:fake"]


def led_by(world: World, captain: Preset, opponent: Preset | None = None) -> World:
    """The world with ``captain`` as its default, and ``opponent`` if given."""
    changes: dict[str, Any] = {"captains": {**world.captains, world.default_captain: captain}}
    if opponent is not None:
        changes["opponents"] = {**world.opponents, world.default_opponent: opponent}
    return dataclasses.replace(world, **changes)


def counting_led_by(captain: Preset) -> World:
    """The counting world under ``captain``."""
    return led_by(COUNTING, captain)


def observed(legal: Sequence[LegalAction], **content: Any) -> Observation:
    """What an actor called home sees."""
    return Observation("home", legal, content)
