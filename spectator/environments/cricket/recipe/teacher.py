"""The teacher: the planner's own look ahead, with what each of its options is worth."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal

from spectator.environments.cricket.ball.situation import Situation
from spectator.environments.cricket.ball.vocabulary import (
    LENGTHS,
    LINES,
    PLANNED_LENGTHS,
    SHOTS,
    DeliveryPlan,
)
from spectator.environments.cricket.captaincy.bowling_ahead import best_order
from spectator.environments.cricket.captaincy.orders_ahead import SEEN, balls_covered
from spectator.environments.cricket.captaincy.planner import OversAhead, PlannerCaptain
from spectator.environments.cricket.captaincy.reading import faced_now, situation_of
from spectator.environments.cricket.captaincy.worth import INTENTS, WORTH_A_CALL, fields, value, values_here
from spectator.environments.cricket.match.field import legal_presets
from spectator.environments.cricket.trained.sight import PACKED, Sight
from spectator.environments.cricket.trained.speech import WordChoice
from spectator.observations import Observation

SHARPNESS: Final = 0.004
"""Share of a boundary's worth by which an option must be worse to be e times less likely."""

Gains = Mapping[Any, float]
"""What each option is worth to the side that decides, in shares of a boundary."""


Intent = Literal["attack", "aggression"]


class _Looking(PlannerCaptain):
    """A planner that keeps what it saw of the overs that are left."""

    last: OversAhead | None = None

    def overs_ahead(self, view: Mapping[str, Any]) -> OversAhead:
        self.last = super().overs_ahead(view)
        return self.last


class Teacher:
    """One side's teacher through a match.

    Args:
        seed: Seed of the planner that it asks.
    """

    def __init__(self, seed: int) -> None:
        self.planner = _Looking(seed)
        self._gains: dict[tuple[str, Any], Gains] = {}
        self._sure: dict[str, Any] = {}

    def look(self, observation: Observation, sight: Sight) -> dict[str, Any]:
        """Look at a decision; returns the planner's action, and then answers :meth:`weights`."""
        self.planner.last = None
        decision = self.planner.choose(observation)
        self._gains, self._sure = {}, {}
        arguments = decision.action["arguments"]
        if sight.role in ("toss", "elect"):
            self._sure["elect"] = arguments["elect"]
        elif sight.role == "bowl":
            name = arguments.get("bowler")
            if sight.bowlers:
                slot = sight.slots.get(name, "")
                slot = slot if slot in sight.bowlers else next(iter(sight.bowlers))
                name = sight.names[slot]
                self._gains["by", ""] = self._look_at_bowlers(sight, slot)
            self._look_at_bowling(sight.view, name)
        elif sight.role == "bat":
            self._look_at_batting(sight)
        return dict(decision.action)

    def weights(self, choice: WordChoice) -> list[float]:
        """How likely each option of an order's part is to be taken."""
        values = [option.value for option in choice.options]
        if choice.part in self._sure:
            return [float(one == self._sure[choice.part]) for one in values]
        gains = self._gains[choice.part, choice.about]
        best = max(gains.values())
        return [math.exp((gains.get(one, -1e9) - best) / SHARPNESS) for one in values]

    def _look_at_bowlers(self, sight: Sight, chosen: str) -> Gains:
        """What it costs to give the next over to each, with the best order of overs behind him."""
        ahead = self.planner.last
        if ahead is None or not ahead.costs:
            return {chosen: 0.0}
        gains = {}
        for at, name in enumerate(ahead.names):
            slot = sight.slots[name]
            if slot not in sight.bowlers or at == ahead.resting:
                continue
            left = [rest - (one == at) for one, rest in enumerate(ahead.left)]
            order = [at, *best_order(ahead.costs[1:], left, at)]
            if len(order) == len(ahead.costs):
                gains[slot] = -sum(row[by] for row, by in zip(ahead.costs, order, strict=True))
        worth = _worth([situation_of(sight.view)])
        gains = {slot: gain / worth for slot, gain in gains.items()}
        return gains | {chosen: max(gains.values(), default=0.0) + WORTH_A_CALL}

    def _look_at_bowling(self, view: Mapping[str, Any], bowler: str) -> None:
        balls = balls_covered(view, [bowler])
        worth = _worth(balls)
        plans: dict[tuple[str | None, str | None], list[Situation]] = {(None, None): balls}
        for length in (None, *PLANNED_LENGTHS):
            for line in (None, *LINES):
                if length or line:
                    plans[length, line] = [_read(ball, DeliveryPlan(length, line)) for ball in balls]
        gains = {plan: -_mean(bowled) / worth for plan, bowled in plans.items()}
        gains[None, None] += WORTH_A_CALL
        lengths = (None, *PLANNED_LENGTHS)
        self._gains["length", ""] = {one: max(gains[one, line] for line in (None, *LINES)) for one in lengths}
        for length in lengths:
            self._gains["line", length or ""] = {line: gains[length, line] for line in (None, *LINES)}
        balls = plans[max(gains, key=lambda plan: gains[plan])]
        limit = view["outside_limit"]
        names = [*(name.replace("_", " ") for name in legal_presets(limit)), *PACKED]
        shapes = dict(zip(names, (one.shape for one in fields(limit, faced_now(view))), strict=True))
        found = {
            name: -_mean([replace(ball, field=shape) for ball in balls]) / worth
            for name, shape in shapes.items()
        }
        found["standard"] += WORTH_A_CALL
        self._gains["field", ""] = found
        best = max(found, key=lambda name: found[name])
        balls = [replace(ball, field=shapes[best]) for ball in balls]
        self._gains["attack", ""] = _levels(balls, "attack", -1.0 / worth)

    def _look_at_batting(self, sight: Sight) -> None:
        view = sight.view
        bowler = [] if view["bowler"] is None else [view["bowler"]["name"]]
        shape = situation_of(view).field
        balls = [replace(ball, field=shape) for ball in balls_covered(view, bowler)]
        worth = _worth(balls)
        by_shot = {shot: [replace(ball, shot=shot) for ball in balls] for shot in (None, *SHOTS)}
        gains = {shot: _mean(played) / worth for shot, played in by_shot.items()}
        gains[None] += WORTH_A_CALL
        self._gains["shot", ""] = gains
        balls = by_shot[max(gains, key=lambda shot: gains[shot])]
        for slot in sight.batters:
            mine = [ball for ball in balls if ball.striker.name == sight.names[slot]]
            self._gains["level", slot] = _levels(mine, "aggression", 1.0 / worth)


def _at_level(ball: Situation, intent: Intent, level: float) -> Situation:
    return replace(ball, attack=level) if intent == "attack" else replace(ball, aggression=level)


def _levels(balls: Sequence[Situation], intent: Intent, way: float) -> Gains:
    gains = {level: way * _mean([_at_level(ball, intent, level) for ball in balls]) for level in INTENTS}
    gains[0.5] += WORTH_A_CALL
    return gains


def _read(ball: Situation, plan: DeliveryPlan) -> Situation:
    """A ball of a plan that the batter has met before in the over, as the planner takes it."""
    if plan.length is None or plan.line is None:
        return replace(ball, delivery=plan)
    pair = LENGTHS.index(plan.length) * len(LINES) + LINES.index(plan.line)
    return replace(ball, delivery=plan, seen=(pair,) * SEEN)


def _mean(balls: Sequence[Situation]) -> float:
    return sum(value(ball) for ball in balls) / len(balls)


def _worth(balls: Sequence[Situation]) -> float:
    """The worth of a boundary there."""
    worth = values_here(balls[0])
    return max(1e-6, float(worth[4] - worth[0]))
