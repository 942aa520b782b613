"""What a person's draft of calls brings on the next ball.

Every option is priced with the ball model on an average day, as the planner does it, and from the observation
alone: a seat learns nothing here that it could not see.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from spectator.environments.cricket.ball.prices import RUNS
from spectator.environments.cricket.ball.situation import (
    LINES,
    PACES,
    PLANNED_LENGTHS,
    SHOTS,
    DeliveryPlan,
)
from spectator.environments.cricket.ball.tables import FOUR, RUN_OUT, SIX, WICKET
from spectator.environments.cricket.captaincy.arguments import ADVANCING, PlacedFielder
from spectator.environments.cricket.captaincy.lookahead import (
    INTENTS,
    SeenBall,
    cards,
    category_values,
    fielding,
    situation_of,
    striker_boundaries,
)
from spectator.environments.cricket.captaincy.planner import PLANNER, PlannerCaptain
from spectator.environments.cricket.captaincy.tools import chosen_field
from spectator.environments.cricket.laws import LawBroken
from spectator.environments.cricket.match.engine import NEUTRAL
from spectator.environments.cricket.match.field import POSITIONS, legal_presets, preset_field
from spectator.environments.cricket.people import as_bowler
from spectator.observations import Observation
from spectator.policies.policy import Action

_DELIVERY: Final = ("length", "line", "pace")
_MOST_CALLS: Final = 4
"""Calls before one ball that the advice may make: delivery, field, intent, and the ball."""


def weigh_draft(observation: Observation, calls: Sequence[Action]) -> dict[str, Any]:
    """Price a draft and each change of it, and ask the planner.

    Args:
        observation: What the seat sees.
        calls: The calls drafted so far, each legal by its schema.

    Returns:
        ``now`` and ``options`` by part and value, each ``{runs, wicket, boundary, worth}``: expected runs,
        two chances, and what the side gains over the ball as real sides bowl and play it, in ``unit``
        (``runs`` or ``chance``). ``field`` is the drafted field with its positions named. ``advice`` has
        the planner's ``calls``, its name (``who``) and ``why``. A draft that breaks a rule has only
        ``refused`` and ``advice``.
    """
    advice = _advice(observation)
    try:
        view = _drafted(observation.content, calls)
    except LawBroken as broken:
        return {"refused": {"rule": broken.rule, "message": broken.message}, "advice": advice}
    if view.get("bowler") is None and "bowlers" not in view.get("choices", {}):
        return {"advice": advice}
    sides = _Prices(view)
    return {
        "now": sides.odds(sides.ball),
        "unit": "runs" if view.get("need") is None else "chance",
        "options": sides.options(view),
        "field": {**view["field"], "fielders": [_named(one) for one in view["field"]["fielders"]]},
        "advice": advice,
    }


class _Prices:
    """Prices of balls in one state, for the side that decides."""

    def __init__(self, view: Mapping[str, Any]) -> None:
        self.ball, self._bats = _ball(view), view["side"] == view["batting"]
        self._values = category_values(self.ball)
        self._usual = 0.0
        self._usual = self.odds(situation_of(view))["worth"]

    def odds(self, ball: SeenBall) -> dict[str, float]:
        """Return what a ball brings."""
        weights = ball.model.weights(ball)
        total = sum(weights)
        worth = sum(weight * value for weight, value in zip(weights, self._values, strict=True))
        return {
            "runs": round(sum(weight * runs for weight, runs in zip(weights, RUNS, strict=True)) / total, 3),
            "wicket": round((weights[WICKET] + weights[RUN_OUT]) / total, 4),
            "boundary": round((weights[FOUR] + weights[SIX]) / total, 4),
            "worth": round((worth if self._bats else -worth) - self._usual, 5),
        }

    def options(self, view: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        """Return what each change of the draft brings, by part and value."""
        ball, phase = self.ball, view["phase"]
        if phase == "batter":
            people = cards(view, view["batting"])
            tried = {name: replace(ball, striker=people[name], striker_balls=0, seen=()) for name in people}
            return {"batter": self._priced({name: tried[name] for name in view["choices"]["batters"]})}
        if phase in ("bat", "batting_plan"):
            shots = {shot or "": replace(ball, shot=shot) for shot in (None, *SHOTS)}
            levels = {str(level): replace(ball, aggression=level) for level in INTENTS}
            return {"shot": self._priced(shots), "intent": self._priced(levels)}
        found = {}
        if "bowlers" in view.get("choices", {}):
            people = cards(view, fielding(view))
            names = [one["name"] for one in view["choices"]["bowlers"]]
            tired = view.get("tired") or {}
            found["bowler"] = self._priced({
                name: replace(ball, bowler=as_bowler(people[name]), tired=tired.get(name, 0.0))
                for name in names
            })  # fmt: skip
        return found if phase == "bowler" else {**found, **self._deliveries(), **self._fields(view)}

    def _deliveries(self) -> dict[str, dict[str, Any]]:
        ball = self.ball
        plan = ball.delivery or DeliveryPlan(None, None, None)
        pairs = [(None, None), *((length, line) for length in PLANNED_LENGTHS for line in LINES)]
        pitched = {
            f"{length or ''}|{line or ''}": replace(ball, delivery=DeliveryPlan(length, line, plan.pace))
            for length, line in pairs
        }
        paces = {
            pace or "": replace(ball, delivery=DeliveryPlan(plan.length, plan.line, pace))
            for pace in (None, *PACES)
        }
        levels = {str(level): replace(ball, attack=level) for level in INTENTS}
        return {
            part: self._priced(tried)
            for part, tried in {"pitch": pitched, "pace": paces, "intent": levels}.items()
        }

    def _fields(self, view: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        found = {}
        for name in legal_presets(view["outside_limit"]):
            field = preset_field(name, view["outside_limit"])
            odds = self.odds(replace(self.ball, field=field.shape))
            found[name] = {**odds, "fielders": field.copy_shown(striker_boundaries(view))["fielders"]}
        return {"field": found}

    def _priced(self, tried: Mapping[str, SeenBall]) -> dict[str, Any]:
        return {name: self.odds(ball) for name, ball in tried.items()}


def _ball(view: Mapping[str, Any]) -> SeenBall:
    """Return the next ball with what the deciding side drafted."""
    you, ball = view["you"], situation_of(view)
    if view["side"] == view["batting"]:
        level = you["aggression"] if you["shot_aggression"] is None else you["shot_aggression"]
        return replace(ball, aggression=level, shot=you["shot"])
    plan = you["delivery"]
    planned = DeliveryPlan(**plan) if plan and any(plan.values()) else None
    return replace(ball, delivery=planned, attack=you["attack"])


def _drafted(view: Mapping[str, Any], calls: Sequence[Action]) -> dict[str, Any]:
    """Return what the seat would see after its calls.

    Raises:
        LawBroken: The field is unlawful.
    """
    you = {**view.get("you", {})}
    found = {**view, "you": you}
    for call in calls:
        tool, given = call["tool"], call.get("arguments") or {}
        if tool in ("plan_delivery", "bowl_over", "bowl_session"):
            you["delivery"] = {part: given.get(part) for part in _DELIVERY}
        if tool in ("set_bowling_strategy", "bowl_over", "bowl_session"):
            you["attack"] = given.get("attack", NEUTRAL)
        if tool in ("set_strategy", "play_over", "play_session"):
            you["aggression"] = given.get("aggression", NEUTRAL)
        if tool in ("plan_shot", "play_over", "play_session"):
            you["shot"] = given.get("shot")
            you["shot_aggression"] = given.get("aggression")
        if tool == "set_field" or given.get("preset") or given.get("fielders"):
            found["field"] = _field(view, given)
        if given.get("bowler"):
            found["bowler"] = {"name": given["bowler"]}
    return found


def _field(view: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    placed = given.get("fielders")
    own = None if placed is None else [PlacedFielder.model_validate(one) for one in placed]
    faced = striker_boundaries(view)
    return chosen_field(given.get("preset"), own, view["outside_limit"], faced).copy_shown(faced)


def _named(fielder: Mapping[str, Any]) -> dict[str, Any]:
    """Return a fielder under the name of the nearest position."""
    x, y = fielder["x"], fielder["y"]
    name = min(POSITIONS, key=lambda one: (POSITIONS[one][0] - x) ** 2 + (POSITIONS[one][1] - y) ** 2)
    return {"name": name, "x": x, "y": y}


def _advice(observation: Observation) -> dict[str, Any]:
    """Return what the planner would do until it lets the game go on."""
    captain, view = PlannerCaptain(0), observation.content
    legal = [one for one in observation.legal_actions if not one["tool"].endswith("_plan")]
    calls: list[Action] = []
    why = ""
    while len(calls) < _MOST_CALLS and (not calls or calls[-1]["tool"] not in ADVANCING):
        decision = captain.choose(replace(observation, content=view, legal_actions=legal))
        calls.append(decision.action)
        why = why or decision.reasoning
        legal = [one for one in legal if one["tool"] != decision.action["tool"]]
        view = _drafted(view, [decision.action])
    return {"who": PLANNER.label, "why": why, "calls": calls}
