"""The planner: a fair captain that looks one ball ahead with the ball model.

It sees only the observation, assumes an average day, and takes the decisions worth most to its side on each
ball: length and line, field, stroke and intent. It assigns bowlers to all remaining overs at once
(`lookahead.best_order`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from spectator.environments.cricket.ball.situation import SHOTS, DeliveryPlan
from spectator.environments.cricket.captaincy.captains import STYLES, StyledCaptain
from spectator.environments.cricket.captaincy.lookahead import (
    INTENTS,
    PLANS,
    CallValue,
    Costs,
    TirednessCost,
    batters_at_crease,
    batting_orders,
    best_order,
    bowling_orders,
    cards,
    fielding,
    fields,
    placed,
    plan_arguments,
    remaining_over_costs,
    situation_of,
    striker_boundaries,
    tiredness_cost,
    to_come,
    value,
)
from spectator.environments.cricket.captaincy.reasons import play_reason
from spectator.observations import Observation
from spectator.policies.policy import Decision, Preset

TOOLS: Final = frozenset({"bowler", "delivery", "field", "attack", "shot"})
"""Parts that it decides itself; the rest, including the toss, stays usual."""


class OversAhead(NamedTuple):
    """Costs of the remaining overs by bowler, for :func:`.lookahead.best_order`.

    Args:
        costs: By over and bowler.
        left: Overs that each may still bowl.
        resting: The bowler who may not bowl the next over.
        tiredness: Additional cost of tired bowlers; ``None`` if bowlers do not tire.
    """

    names: list[str]
    costs: Costs
    left: list[int]
    resting: int | None
    tiredness: TirednessCost | None


class PlannerCaptain(StyledCaptain):
    """A captain that takes what is worth most on the very next ball.

    Args:
        seed: Seed of its own generator, for the toss.
        decides: Parts of `TOOLS` that it decides itself.

    Attributes:
        left: Overs that each of its bowlers may still bowl in the current innings.
        ordered: Bowlers of the overs in its last orders, by over number.
    """

    def __init__(self, seed: int, decides: Iterable[str] = TOOLS) -> None:
        super().__init__(STYLES[0], seed)
        self._decides = frozenset(decides)
        self._innings = 0
        self.left: dict[str, int] = {}
        self.ordered: dict[int, str] = {}

    def choose(self, observation: Observation) -> Decision:
        """Return the decision for an observation."""
        view = observation.content
        legal = [action["tool"] for action in observation.legal_actions]
        plan = _PLANS.get(view["phase"])
        found = None
        if plan is not None and "set_match_plan" not in legal:
            found = plan(self, view, legal)
        if found is None:
            return super().choose(observation)
        tool, arguments, reason = found
        self._said = reason
        return Decision({"tool": tool, "arguments": arguments}, "heuristic", reason)

    def snapshot(self) -> Any:
        """Return the usual captain's snapshot, and the overs that its bowlers have left."""
        return [super().snapshot(), self._innings, self.left, [*self.ordered.items()]]

    def restore(self, snapshot: Any) -> None:
        """Continue from a snapshot."""
        kept, self._innings, self.left, ordered = snapshot
        super().restore(kept)
        self.ordered = dict(ordered)

    def _give_ball(self, view: Mapping[str, Any], legal: list[str]) -> Choice | None:
        self._remember(view)
        if "bowler" not in self._decides or view["striker"] is None:
            return None
        able = [one["name"] for one in view["choices"]["bowlers"]]
        order = self._order_of_overs(view)
        if not order or order[0] not in able:
            return None
        name = order[0]
        self.left[name] -= 1
        return "select_bowler", {"bowler": name}, f"{name} is the one for these two batters now."

    def _order_of_overs(self, view: Mapping[str, Any]) -> list[str]:
        """Return each remaining over's bowler; empty if they cannot bowl them all."""
        ahead = self.overs_ahead(view)
        order = best_order(ahead.costs, ahead.left, ahead.resting, ahead.tiredness)
        return [ahead.names[at] for at in order]

    def overs_ahead(self, view: Mapping[str, Any]) -> OversAhead:
        """Return the cost of the remaining overs under each bowler."""
        able = [one["name"] for one in view["choices"]["bowlers"]]
        people = cards(view, fielding(view))
        names = [name for name, player in people.items() if player.bowls and self.left.get(name, 0) > 0]
        resting = next((at for at, name in enumerate(names) if name not in able), None)
        now, bowlers, following = situation_of(view), [people[name] for name in names], to_come(view)
        batters = batters_at_crease(view)
        fresh = remaining_over_costs(replace(now, tired=0.0), bowlers, batters, following, value)
        tiredness = None
        if view.get("tired") is not None:
            tiring = remaining_over_costs(replace(now, tired=1.0), bowlers, batters, following, value)
            tiredness = tiredness_cost(
                fresh, tiring, [view["tired"].get(name, 0.0) for name in names], view["format"]["overs"]
            )
        return OversAhead(names, fresh, [self.left[name] for name in names], resting, tiredness)

    def _remember(self, view: Mapping[str, Any]) -> None:
        """Update the overs left of eligible bowlers and of those on the card."""
        if view["innings"] != self._innings:
            self._innings, self.left = view["innings"], {}
        for shown in (view["choices"]["bowlers"], (view.get("card") or {}).get("bowling", ())):
            self.left |= {one["name"]: one["overs_left"] for one in shown}

    def _order_bowling_ahead(self, view: Mapping[str, Any], legal: list[str]) -> Choice | None:
        """Order the bowling of an over or a session: the bowlers, and how they bowl."""
        overs = view["choices"]["overs"]
        current = [] if view["bowler"] is None else [view["bowler"]["name"]]
        if view["innings"] != self._innings:
            self.ordered = {}
        if "bowlers" in view["choices"]:
            self._remember(view)
            order = self._order_of_overs(view) if "bowler" in self._decides else []
            self.ordered = dict(zip(overs, order, strict=False))
        bowlers = [*current, *(self.ordered[over] for over in overs[len(current) :] if over in self.ordered)]
        orders, why = bowling_orders(view, bowlers, self._decides)
        if legal[0] == "bowl_session":
            orders["bowlers"] = bowlers
        elif bowlers:
            orders["bowler"] = bowlers[0]
        return legal[0], orders, why

    def _order_batting_ahead(self, view: Mapping[str, Any], legal: list[str]) -> Choice | None:
        """Order the batting of an over or a session."""
        if "shot" not in self._decides:
            return None
        orders, why = batting_orders(view)
        return legal[0], orders, why

    def _bowl_ball(self, view: Mapping[str, Any], legal: list[str]) -> Choice | None:
        own, ball = view["you"], situation_of(view)
        worth = CallValue(ball)
        own_plan = own["delivery"]
        plan = DeliveryPlan(**own_plan) if own_plan else None
        ball = replace(ball, delivery=plan, attack=own["attack"])
        if "delivery" in self._decides and "plan_delivery" in legal and own["free_calls"]:
            best = min(PLANS, key=lambda one: value(replace(ball, delivery=one)))
            if worth.gain(replace(ball, delivery=best), ball, -1.0):
                return (
                    "plan_delivery",
                    plan_arguments(best),
                    f"{_words(best)}: what {_name(view)} likes least.",
                )
        if "field" in self._decides and "set_field" in legal:
            known = fields(view["outside_limit"], striker_boundaries(view))
            best_field = min(known, key=lambda one: value(replace(ball, field=one.shape)))
            if worth.gain(replace(ball, field=best_field.shape), ball, -1.0):
                return "set_field", placed(best_field), f"Fielders where {_name(view)} hits."
        if "attack" in self._decides and "set_bowling_strategy" in legal and own["free_calls"]:
            best_attack = min(INTENTS, key=lambda one: value(replace(ball, attack=one)))
            if worth.gain(replace(ball, attack=best_attack), ball, -1.0):
                why = "in trouble" if best_attack > own["attack"] else "on top"
                return "set_bowling_strategy", {"attack": best_attack}, f"{_name(view)} is {why}."
        planned = "" if plan is None else _words(plan)
        why = play_reason(view, own["attack"], batting=False, said=self._said)
        return "bowl_delivery", {}, f"{planned}. {why}" if planned else why

    def _play_ball(self, view: Mapping[str, Any], legal: list[str]) -> Choice | None:
        own = view["you"]
        if "shot" not in self._decides or "plan_shot" not in legal or own["shot"] is not None:
            return "play_delivery", {}, self._why_play(view)
        if own["shot_aggression"] is not None:
            return "play_delivery", {}, self._why_play(view)
        usual = replace(situation_of(view), aggression=own["aggression"])
        worth = CallValue(usual)
        shot = max((None, *SHOTS), key=lambda one: value(replace(usual, shot=one)))
        best = replace(usual, shot=shot)
        intent = max(INTENTS, key=lambda one: value(replace(best, aggression=one)))
        best = replace(best, aggression=intent)
        if not worth.gain(best, usual, 1.0):
            return "play_delivery", {}, self._why_play(view)
        return (
            "plan_shot",
            {"shot": shot, "aggression": intent},
            f"The {shot or 'usual stroke'} suits {_name(view)}.",
        )

    def _why_play(self, view: Mapping[str, Any]) -> str:
        """Return the reason to play: the planned stroke, and what the situation asks for."""
        own = view["you"]
        level = own["aggression"] if own["shot_aggression"] is None else own["shot_aggression"]
        why = play_reason(view, level, batting=True, said=self._said)
        return f"The {own['shot']}. {why}" if own["shot"] else why


Choice = tuple[str, dict[str, Any], str]

_PLANS: Final[dict[str, Callable[[PlannerCaptain, Mapping[str, Any], list[str]], Choice | None]]] = {
    "bowler": PlannerCaptain._give_ball,
    "bowl": PlannerCaptain._bowl_ball,
    "bat": PlannerCaptain._play_ball,
    "bowling_plan": PlannerCaptain._order_bowling_ahead,
    "batting_plan": PlannerCaptain._order_batting_ahead,
}


def _words(plan: DeliveryPlan) -> str:
    return ", ".join(word for word in (plan.length, plan.line) if word).capitalize()


def _name(view: Mapping[str, Any]) -> str:
    return str(view["striker"]["name"])


def _match_ups(seed: int) -> PlannerCaptain:
    return PlannerCaptain(seed, {"bowler", "field", "attack"})


PLANNER: Final = Preset(
    "planner",
    "Planner",
    "Looks one ball ahead: gives it the bowler, line, length, field and stroke that are worth most.",
    "heuristic",
    PlannerCaptain,
)
MATCH_UPS: Final = Preset(
    "match_ups",
    "Matchmaker",
    "Chooses bowlers and fields for the batters, the pitch and the evening; plans no ball.",
    "heuristic",
    _match_ups,
)
