"""What a person's draft of calls brings on the next ball.

Every option is priced with the ball model on an average day, as the planner does it, and from the observation
alone: a seat learns nothing here that it could not see.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from spectator.environments.cricket.ball.prices import RUNS
from spectator.environments.cricket.ball.situation import LINES, PACES, PLANNED_LENGTHS, SHOTS, DeliveryPlan
from spectator.environments.cricket.ball.tables import CATEGORIES, FOUR, RUN_OUT, SIX, WICKET
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
_UNPRICED: Final = ("toss", "elect", "openers")
"""Phases in which no ball is near."""
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
    if view["phase"] in _UNPRICED:
        return {"advice": advice}
    prices = _Prices(view)
    return {
        "now": prices.odds(),
        "unit": "runs" if view.get("need") is None else "chance",
        "options": prices.options(view),
        "field": {**view["field"], "fielders": [_named(one) for one in view["field"]["fielders"]]},
        "advice": advice,
    }


class _Prices:
    """Prices of the next ball in one state, for the side that decides.

    Where the bowler is not known yet, they are means over a bowler of each kind.
    """

    def __init__(self, view: Mapping[str, Any]) -> None:
        self._bats = view["side"] == view["batting"]
        self._values = category_values(situation_of(view))
        self._people = cards(view, fielding(view))
        self._usual = 0.0
        self._balls = self._against(view, situation_of(view))
        self._usual = self.odds()["worth"]
        self._balls = self._against(view, _ball(view))

    def odds(self, **changed: Any) -> dict[str, float]:
        """Return what the drafted ball brings with fields of it changed."""
        mean = [0.0] * CATEGORIES
        for ball in self._balls:
            weights = ball.model.weights(replace(ball, **changed))
            total = sum(weights) * len(self._balls)
            mean = [so_far + weight / total for so_far, weight in zip(mean, weights, strict=True)]
        worth = sum(share * value for share, value in zip(mean, self._values, strict=True))
        return {
            "runs": round(sum(share * runs for share, runs in zip(mean, RUNS, strict=True)), 3),
            "wicket": round(mean[WICKET] + mean[RUN_OUT], 4),
            "boundary": round(mean[FOUR] + mean[SIX], 4),
            "worth": round((worth if self._bats else -worth) - self._usual, 5),
        }

    def options(self, view: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        """Return what each change of the draft brings, by part and value."""
        phase, choices = view["phase"], view.get("choices", {})
        if phase == "batter":
            people = cards(view, view["batting"])
            fresh = {name: {"striker": people[name], "striker_balls": 0, "seen": ()} for name in people}
            return {"batter": {name: self.odds(**fresh[name]) for name in choices["batters"]}}
        if self._bats:
            return {
                "shot": {shot or "": self.odds(shot=shot) for shot in (None, *SHOTS)},
                "intent": {str(level): self.odds(aggression=level) for level in INTENTS},
            }
        tired, found = view.get("tired") or {}, {}
        if "bowlers" in choices:
            found["bowler"] = {
                name: self.odds(bowler=as_bowler(self._people[name]), tired=tired.get(name, 0.0))
                for name in (one["name"] for one in choices["bowlers"])
            }
        return found if phase == "bowler" else {**found, **self._deliveries(), "field": self._fields(view)}

    def _deliveries(self) -> dict[str, dict[str, Any]]:
        plan = self._balls[0].delivery or DeliveryPlan(None, None, None)
        pairs = [(None, None), *((length, line) for length in PLANNED_LENGTHS for line in LINES)]
        return {
            "pitch": {
                f"{length or ''}|{line or ''}": self.odds(delivery=DeliveryPlan(length, line, plan.pace))
                for length, line in pairs
            },
            "pace": {
                pace or "": self.odds(delivery=DeliveryPlan(plan.length, plan.line, pace))
                for pace in (None, *PACES)
            },
            "intent": {str(level): self.odds(attack=level) for level in INTENTS},
        }

    def _fields(self, view: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        found, faced = {}, striker_boundaries(view)
        for name in legal_presets(view["outside_limit"]):
            field = preset_field(name, view["outside_limit"])
            found[name] = {**self.odds(field=field.shape), "fielders": field.copy_shown(faced)["fielders"]}
        return found

    def _against(self, view: Mapping[str, Any], ball: SeenBall) -> list[SeenBall]:
        if view["bowler"] is not None or "bowlers" in view.get("choices", {}):
            return [ball]
        of_kind = {player.bowls: player for player in reversed(self._people.values()) if player.bowls}
        return [replace(ball, bowler=as_bowler(player)) for player in of_kind.values()]


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
