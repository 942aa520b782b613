"""The oracle captain: a planner that tries each intent on a copy of the world."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from typing import Any, Final

from spectator.environments.cricket.ball.prices import RUNS, Values
from spectator.environments.cricket.ball.tables import (
    BYE,
    DOT,
    FOUR,
    NO_BALL,
    ONE,
    RUN_OUT,
    SIX,
    THREE,
    TWO,
    WICKET,
    WIDE,
)
from spectator.environments.cricket.captaincy.captains import STYLES, StyledCaptain
from spectator.environments.cricket.captaincy.lookahead import SeenBall, category_values, situation_of
from spectator.environments.cricket.captaincy.planner import PlannerCaptain
from spectator.environments.cricket.environment import CricketEnvironment
from spectator.observations import Observation
from spectator.policies.policy import Action, Decision, Preset

LEVELS: Final = (0.2, 0.35, 0.5, 0.65, 0.8)
"""Intents that it tries; real sides' intent is in the middle."""

_BALL: Final = "cricket.ball_bowled"
_STEPS: Final = 8
"""Maximum steps until a ball is bowled: a captain plans a few times at most."""
_OFF_THE_BAT: Final = {0: DOT, 1: ONE, 2: TWO, 3: THREE, 4: FOUR, 5: FOUR, 6: SIX}


class OracleCaptain:
    """A planner that knows the next ball under every intent.

    It tries each intent with and without its stroke.

    It gets the world itself, luck included, so it is not a fair opponent. It marks the upper limit of what an
    intent can achieve, and proves that hidden state stays hidden from all other captains. It values a ball at
    the prices of the ball's own state.

    Args:
        seed: Seed of its own generator, for the toss.
    """

    def __init__(self, seed: int) -> None:
        self._planner = PlannerCaptain(seed)
        self._rival = StyledCaptain(STYLES[0], seed)
        self._snapshot = b""

    def see(self, snapshot: bytes) -> None:
        """Receive the current state of the world."""
        self._snapshot = snapshot

    async def decide(self, observation: Observation, *, deadline: float) -> Decision:
        """Decide what to do; see :meth:`spectator.policies.policy.Policy.decide`."""
        return await asyncio.to_thread(self.answer, observation)

    async def aclose(self) -> None:
        """Do nothing; the captain has no resources."""

    def answer(self, observation: Observation) -> Decision:
        """Return the decision, using the world from :meth:`see`."""
        planned = self._planner.choose(observation)
        view, tool = observation.content, planned.action["tool"]
        legal = {action["tool"] for action in observation.legal_actions}
        if tool in ("bowl_over", "bowl_session", "play_over", "play_session"):
            return self._order(view, planned)
        if view["phase"] == "bat" and tool in ("play_delivery", "plan_shot"):
            return self._best(view, "play_delivery", _strokes(view["you"], legal, planned.action), 1.0)
        if view["phase"] == "bowl" and tool in ("bowl_delivery", "set_bowling_strategy"):
            return self._best(view, "bowl_delivery", _attacks(view["you"], legal), -1.0)
        return Decision(planned.action, "oracle", planned.reasoning)

    def _order(self, view: Mapping[str, Any], usual: Decision) -> Decision:
        """Return the order whose intent gives the best balls until the next decision."""
        intent, sign = ("aggression", 1.0) if view["phase"] == "batting_plan" else ("attack", -1.0)
        before, given = situation_of(view), usual.action["arguments"]
        levels = sorted(LEVELS, key=lambda level: abs(level - given[intent]))
        played = {
            level: self._played({**usual.action, "arguments": {**given, intent: level}}) for level in levels
        }
        best = max(levels, key=lambda level: sign * standing(before, played[level]))
        lost = sum(ball["dismissal"] is not None for ball in played[best])
        runs = sum(ball["runs"] for ball in played[best])
        reason = f"At {best:g} the balls to come bring {runs} for {lost}."
        return Decision({**usual.action, "arguments": {**given, intent: best}}, "oracle", reason)

    def _played(self, orders: Action) -> list[Mapping[str, Any]]:
        """Return the balls bowled under these orders."""
        world = CricketEnvironment()
        world.restore(self._snapshot)
        world.facts()
        observation = world.step(orders)
        if observation.content["phase"] == "batting_plan":
            world.step(self._rival.choose(observation).action)
        return [fact.data for fact in world.facts() if fact.type == _BALL]

    def _best(self, view: Mapping[str, Any], go_on: str, plans: Sequence[Action], sign: float) -> Decision:
        """Go on, or first make the plan that moves the next ball's value most.

        Args:
            plans: Plans to try first.
            sign: 1 to raise the batting side's value, -1 to lower it.
        """
        values = category_values(situation_of(view))
        onward: Action = {"tool": go_on, "arguments": {}}
        tried = [(onward, self._ball([onward])), *((plan, self._ball([plan, onward])) for plan in plans)]
        action, ball = max(tried, key=lambda one: sign * worth_of(one[1], values))
        seen = ball.get("words", "nothing")
        if action is onward:
            return Decision(action, "oracle", f"The next ball is: {seen}.")
        planned = ", ".join(
            f"{name} {value}" for name, value in action["arguments"].items() if value is not None
        )
        return Decision(action, "oracle", f"With {planned} the next ball is: {seen}.")

    def _ball(self, actions: Sequence[Action]) -> Mapping[str, Any]:
        """Return the next ball after these actions; empty if none is bowled."""
        world = CricketEnvironment()
        observation = world.restore(self._snapshot)
        world.facts()
        for action in actions:
            observation = world.step(action)
        for _ in range(_STEPS):
            for fact in world.facts():
                if fact.type == _BALL:
                    return fact.data
            if observation.done:
                break
            observation = world.step(self._rival.choose(observation).action)
        return {}


def _strokes(own: Mapping[str, Any], legal: Set[str], planned: Action) -> list[Action]:
    """Return every intent with the batter's own and the planned stroke, if legal."""
    if "plan_shot" not in legal or own["shot"] is not None or own["shot_aggression"] is not None:
        return []
    strokes = dict.fromkeys((None, planned["arguments"].get("shot")))
    return [
        {"tool": "plan_shot", "arguments": {"shot": shot, "aggression": level}}
        for shot in strokes
        for level in LEVELS
    ]


def _attacks(own: Mapping[str, Any], legal: Set[str]) -> list[Action]:
    """Return every other intent of the bowler."""
    if "set_bowling_strategy" not in legal:
        return []
    others = (level for level in LEVELS if level != own["attack"])
    return [{"tool": "set_bowling_strategy", "arguments": {"attack": level}} for level in others]


def worth_of(ball: Mapping[str, Any], values: Values) -> float:
    """Return what a ball brought the batting side beyond a dot ball.

    Args:
        ball: Data of ``cricket.ball_bowled``; empty counts as 0.
        values: Value of each category in the state in which it was bowled.

    >>> import numpy as np
    >>> four = {"runs": 4, "bat": 4, "dismissal": None, "wides": 0, "noball": 0, "byes": 0, "legbyes": 0}
    >>> worth_of(four, np.array([5.0, 6.0, 7.0, 8.0, 9.0, 11.0, 2.0, 3.0, 6.5, 7.5, 6.0]))
    4.0
    """
    if not ball:
        return 0.0
    category = _category(ball)
    a_run = values[ONE] - values[DOT]
    return float(values[category] - values[DOT] + a_run * (ball["runs"] - RUNS[category]))


def standing(before: SeenBall, balls: Sequence[Mapping[str, Any]]) -> float:
    """Return the batting side's position after balls.

    It is the expected total of a first innings, or the chance of winning a chase.

    Args:
        before: The situation before them, in the same innings.
        balls: Data of ``cricket.ball_bowled``, in order.
    """
    if not balls:
        return 0.0
    score, need = balls[-1]["score"], balls[-1]["need"]
    over = not balls[-1]["balls_left"] or score["wickets"] >= before.wickets_limit
    runs = 0.0 if need is not None else float(sum(ball["runs"] for ball in balls))
    if need == 0:
        return 1.0
    if over:
        return runs if need != 1 else 0.5
    after = replace(
        before, balls_bowled=score["balls"], wickets_lost=score["wickets"], runs_required=need
    )  # fmt: skip
    return runs + float(category_values(after)[ONE])


def _category(ball: Mapping[str, Any]) -> int:
    if ball["dismissal"]:
        return RUN_OUT if ball["dismissal"] == "run out" else WICKET
    if ball["wides"]:
        return WIDE
    if ball["noball"]:
        return NO_BALL
    return BYE if ball["byes"] or ball["legbyes"] else _OFF_THE_BAT.get(ball["bat"], SIX)


ORACLE: Final = Preset(
    "oracle",
    "Oracle (sees the truth)",
    "A planner that knows the next ball under every intent. No fair captain: a mark for the others.",
    "oracle",
    OracleCaptain,
)
