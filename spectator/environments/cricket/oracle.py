"""The oracle captain: it tries each intent on a copy of the world and takes the best."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

from spectator.environments.cricket.captaincy.captains import STYLES, StyledCaptain
from spectator.environments.cricket.environment import CricketEnvironment
from spectator.observations import Observation
from spectator.policies.base import Decision, Preset

LEVELS: Final = (0.2, 0.35, 0.5, 0.65, 0.8)
"""Intents that it tries, those nearest to real sides' in the middle."""

WICKET_RUNS: Final = 8.0
"""What a wicket is worth to it, in runs; about what one costs a side in the middle of a T20 innings."""

_BALL: Final = "cricket.ball_bowled"
_STEPS: Final = 8
"""Most steps until a ball is bowled: a captain plans a few times at most."""


class OracleCaptain:
    """Plays as the percentage captain, but has seen the next ball under every intent.

    It is given the world itself, luck included, and so is no fair opponent: it marks the upper end of what an
    intent can do, and proves that what is hidden stays hidden from everybody else.

    Args:
        seed: Seed of its own generator, for the toss.
    """

    def __init__(self, seed: int) -> None:
        self._usual = StyledCaptain(STYLES[0], seed)
        self._other = StyledCaptain(STYLES[0], seed)
        self._snapshot = b""

    def see(self, snapshot: bytes) -> None:
        """Take the world as it is."""
        self._snapshot = snapshot

    async def decide(self, observation: Observation, *, deadline: float) -> Decision:
        """Decide what to do; see :meth:`spectator.policies.base.Policy.decide`."""
        return await asyncio.to_thread(self.answer, observation)

    async def aclose(self) -> None:
        """It holds nothing."""

    def answer(self, observation: Observation) -> Decision:
        """What it does, having seen the world (:meth:`see`)."""
        usual = self._usual.choose(observation)
        phase = observation.content["phase"]
        if phase == "batting_plan":
            return self._order(usual)
        if phase == "bat":
            return self._intend(observation, "set_strategy", "aggression", "play_delivery", _to_batters)
        if phase == "bowl" and usual.action["tool"] != "set_field":
            return self._intend(observation, "set_bowling_strategy", "attack", "bowl_delivery", _to_bowlers)
        return Decision(usual.action, "oracle", usual.reasoning)

    def _order(self, usual: Decision) -> Decision:
        """The orders to bat by under which the balls until the next decision come out best."""
        worth: dict[float, tuple[float, int, int]] = {}
        for level in sorted(LEVELS, key=lambda level: abs(level - usual.action["arguments"]["aggression"])):
            world = CricketEnvironment()
            world.restore(self._snapshot)
            world.facts()
            world.step({**usual.action, "arguments": {**usual.action["arguments"], "aggression": level}})
            balls = [fact.data for fact in world.facts() if fact.type == _BALL]
            lost = sum(ball["dismissal"] is not None for ball in balls)
            runs = sum(ball["runs"] for ball in balls)
            worth[level] = (sum(map(_to_batters, balls)), runs, lost)
        best = max(worth, key=lambda level: worth[level][0])
        arguments = {**usual.action["arguments"], "aggression": best}
        reason = f"At {best:g} the balls to come bring {worth[best][1]} for {worth[best][2]}."
        return Decision({**usual.action, "arguments": arguments}, "oracle", reason)

    def _intend(
        self,
        observation: Observation,
        strategy: str,
        intent: str,
        go_on: str,
        worth: Callable[[Mapping[str, Any]], float],
    ) -> Decision:
        own: float = observation.content["you"][intent]
        legal = {action["tool"] for action in observation.legal_actions}
        levels = sorted({own, *LEVELS}, key=lambda level: abs(level - own)) if strategy in legal else [own]
        balls = {level: self._ball(level != own, strategy, intent, level, go_on) for level in levels}
        best = max(levels, key=lambda level: worth(balls[level]))
        seen = balls[best].get("words", "nothing")
        if best != own:
            return Decision(
                {"tool": strategy, "arguments": {intent: best}},
                "oracle",
                f"At {best:g} the next ball is: {seen}.",
            )
        return Decision({"tool": go_on, "arguments": {}}, "oracle", f"The next ball is: {seen}.")

    def _ball(self, changed: bool, strategy: str, intent: str, level: float, go_on: str) -> Mapping[str, Any]:
        """The next ball, as it would be; empty when none is bowled."""
        world = CricketEnvironment()
        observation = world.restore(self._snapshot)
        world.facts()
        if changed:
            observation = world.step({"tool": strategy, "arguments": {intent: level}})
        observation = world.step({"tool": go_on, "arguments": {}})
        for _ in range(_STEPS):
            for fact in world.facts():
                if fact.type == _BALL:
                    return fact.data
            if observation.done:
                break
            observation = world.step(self._other.choose(observation).action)
        return {}


def _to_bowlers(ball: Mapping[str, Any]) -> float:
    return -_to_batters(ball)


def _to_batters(ball: Mapping[str, Any]) -> float:
    if not ball:
        return 0.0
    return float(ball["runs"]) - (WICKET_RUNS if ball["dismissal"] else 0.0)


ORACLE: Final = Preset(
    "oracle",
    "Oracle (sees the truth)",
    "Knows what the next ball will be under every intent. No fair captain: a mark for the others.",
    "oracle",
    OracleCaptain,
)
