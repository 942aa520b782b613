"""The planner's lookahead, from the observation alone: balls, orders, and overs.

A ball is valued by the rules and the ball model, an order by the average over the balls that it covers.

All remaining overs are assigned to bowlers at once. The best bowlers are worth most in the overs with most
runs, and a bowler is worth more against batters and on pitches that suit the bowler, but an over bowled now
cannot be bowled later. The next over goes to its bowler in the best order of all remaining overs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import pairwise, product
from typing import Any, Final

from spectator.environments.cricket.ball.grounds import Boundaries, Conditions
from spectator.environments.cricket.ball.prices import Values
from spectator.environments.cricket.ball.sampler import BallModel
from spectator.environments.cricket.ball.situation import (
    LENGTHS,
    LINES,
    PLANNED_LENGTHS,
    SHOTS,
    DeliveryPlan,
    FieldShape,
    Situation,
    next_loads,
)
from spectator.environments.cricket.forecast.outlook import Outlook, outlook_of
from spectator.environments.cricket.laws import SUPER_OVER, format_of
from spectator.environments.cricket.match.engine import load_model
from spectator.environments.cricket.match.field import (
    POSITIONS,
    Field,
    Fielder,
    custom_field,
    inside_the_rope,
    legal_presets,
    preset_field,
    shape_of,
)
from spectator.environments.cricket.people import STYLE_TITLES, Player, as_bowler

_STYLE_OF: Final = {title: style for style, title in STYLE_TITLES.items()}


@dataclass(slots=True)
class SeenBall(Situation):
    """A ball as an observation shows it, with the ball model of the match."""

    model: BallModel = field(kw_only=True)


def model_of(view: Mapping[str, Any]) -> BallModel:
    """Return the ball model of an observed match: its profile and scoring level."""
    format = view["format"]
    return load_model(format.get("profile", "men"), format.get("level", "all"))


def outlook_on(view: Mapping[str, Any]) -> Outlook:
    """Return what average sides make of an observed match, for its innings in progress."""
    format = SUPER_OVER if view["super_over"] else format_of(view["format"]["overs"])
    evening, tires = view["conditions"]["evening"], view.get("tired") is not None
    return outlook_of(model_of(view), format, evening, _boundaries(view), tires)


def _boundaries(view: Mapping[str, Any]) -> Boundaries:
    return tuple(view["ground"]["metres"].values()) if view.get("ground") else ()


def situation_of(view: Mapping[str, Any]) -> SeenBall:
    """Return the next ball as an observation shows it, with nothing planned.

    Without a striker or bowler, the first player of the side is used.
    """
    score, batting = view["score"], view["batting"]
    striker, bowler = view["striker"], view["bowler"]
    fielders, batters = cards(view, fielding(view)), cards(view, batting)
    bowling = next(iter(fielders.values())) if bowler is None else fielders[bowler["name"]]
    field, faced = view["field"], [] if striker is None else striker["faced"]
    return SeenBall(
        balls_bowled=score["balls"], innings_balls=score["balls"] + score["balls_left"],
        wickets_lost=score["wickets"], runs_required=view.get("need"),
        striker=next(iter(batters.values())) if striker is None else batters[striker["name"]],
        striker_balls=0 if striker is None else striker["balls"],
        bowler=as_bowler(bowling),
        free_hit=view["free_hit"], powerplay=view["powerplay"], field=_shape(field),
        conditions=Conditions(**view["conditions"]), second=view["innings"] % 2 == 0,
        seen=tuple(LENGTHS.index(a) * len(LINES) + LINES.index(b) for a, b in faced),
        wickets_limit=2 if view["super_over"] else 10,
        boundaries=_boundaries(view),
        tired=(view.get("tired") or {}).get(bowling.name, 0.0),
        model=model_of(view),
    )  # fmt: skip


def _shape(field: Mapping[str, Any]) -> FieldShape:
    if field["preset"] == "standard":
        return FieldShape.neutral()
    return shape_of([Fielder(one["name"], one["x"], one["y"]) for one in field["fielders"]])


def cards(view: Mapping[str, Any], side: str) -> dict[str, Player]:
    """Return the players of a side by name, as their cards describe them."""
    return {card["name"]: _player(tuple(card.items())) for card in view["squads"][side]["players"]}


@cache
def _player(items: tuple[tuple[str, Any], ...]) -> Player:
    card = dict(items)
    style = _STYLE_OF.get(card.get("bowls", ""))
    kind = None if style is None else "pace" if "pace" in style else "spin"
    return Player(
        card["name"], card["name"], card["role"], card["order"], card["bats"], kind, style,  # type: ignore[arg-type]  # pace or spin
        card["bat_runs"], card["bat_out"], card.get("bowl_runs", 1.0), card.get("bowl_wickets", 1.0),
        bat_spin=card["bat_spin"], bat_short=card["bat_short"], bat_leg=card["bat_leg"],
        bat_form=card.get("bat_form", 0.0), bowl_form=card.get("bowl_form", 0.0),
    )  # fmt: skip


def striker_boundaries(view: Mapping[str, Any]) -> Boundaries:
    """Return the boundaries from the striker's view; empty on the neutral ground."""
    ground = view.get("ground")
    return tuple(ground["now"].values()) if ground else ()


def batters_at_crease(view: Mapping[str, Any]) -> list[Player]:
    """Return the batters at the crease, the striker first; fewer if one is awaited."""
    people = cards(view, view["batting"])
    return [people[view[end]["name"]] for end in ("striker", "non_striker") if view[end] is not None]


def fielding(view: Mapping[str, Any]) -> str:
    """Return the fielding side."""
    return "away" if view["batting"] == "home" else "home"


def to_come(view: Mapping[str, Any]) -> list[Player]:
    """Return the batters still to come, assuming the natural order so far."""
    at_crease = batters_at_crease(view)
    rest = [player for player in cards(view, view["batting"]).values() if player not in at_crease]
    return rest[view["score"]["wickets"] :]


INTENTS: Final = (0.3, 0.4, 0.5, 0.6, 0.7)
MIN_CALL_GAIN: Final = 0.002
"""Minimum gain that justifies a call, as a share of a boundary's value."""
PLANS: Final = tuple(
    DeliveryPlan(*plan) for plan in product((None, *PLANNED_LENGTHS), (None, *LINES)) if any(plan)
)


def value(ball: SeenBall) -> float:
    """Return a ball's value to the batting side in its state.

    The unit is runs in a first innings and the chance of winning in a chase.
    """
    return value_under(ball.model, ball)


def value_under(model: BallModel, ball: Situation) -> float:
    """Return the same under any ball model."""
    return float(sum(p * v for p, v in zip(model.weights(ball), _category_values(model, ball), strict=True)))


def category_values(ball: SeenBall) -> Values:
    """Return each category's value to the batting side in a ball's state, ``(11,)``."""
    return _category_values(ball.model, ball)


def _category_values(model: BallModel, ball: Situation) -> Values:
    prices = model.prices(ball.innings_balls, super_over=ball.wickets_limit == 2)
    return prices.here(ball.balls_bowled, ball.wickets_lost, ball.runs_required)


class CallValue:
    """The threshold above which a change is worth a call."""

    def __init__(self, ball: SeenBall) -> None:
        worth = ball.model.values(ball)
        self._least = MIN_CALL_GAIN * float(worth[4] - worth[0])

    def gain(self, changed: SeenBall, now: SeenBall, sign: float) -> bool:
        """Check whether ``changed`` is worth a call to the batting (1) or other (-1) side."""
        return sign * (value(changed) - value(now)) > self._least


_OFF_SIDE: Final = (
    "slip", "backward point", "cover", "extra cover", "mid-off", "third", "sweeper cover", "square leg",
    "mid-on",
)  # fmt: skip
_LEG_SIDE: Final = (
    "point", "cover", "mid-off", "short third", "square leg", "short midwicket", "mid-on",
    "deep square leg", "deep midwicket",
)  # fmt: skip


@cache
def fields(outside_limit: int, faced: Boundaries) -> tuple[Field, ...]:
    """Return the fields considered: the presets, and one packed on either side.

    Args:
        faced: The boundaries from the striker's view; fielders stay inside them.
    """
    own = (
        custom_field([(name, *inside_the_rope(*POSITIONS[name], faced)) for name in names], faced)
        for names in (_OFF_SIDE, _LEG_SIDE)
    )
    return (*(preset_field(name, outside_limit) for name in legal_presets(outside_limit)), *own)


def placed(field: Field) -> dict[str, Any]:
    """Return a field as arguments of a tool."""
    shown = field.copy_shown()
    return {"fielders": shown["fielders"]} if field.preset == "custom" else {"preset": field.preset}


def plan_arguments(plan: DeliveryPlan) -> dict[str, Any]:
    """Return a plan as arguments of a tool."""
    words = {"length": plan.length, "line": plan.line, "pace": plan.pace}
    return {name: word for name, word in words.items() if word is not None}


STAYS: Final = 0.85
"""Chance per over that a batter now in is still in later: one wicket in 20 balls, either of two."""
WICKETS_AN_OVER: Final = 0.3
_PASSES: Final = 4

Value = Callable[[SeenBall], float]
TirednessCost = Callable[[Sequence[int]], float]
"""The cost of tired bowlers in an order of bowlers, on top of its overs."""
Costs = Sequence[Sequence[float]]
"""Value of an over to the batting side, by over and bowler."""


def best_order(
    costs: Costs, left: Sequence[int], banned: int | None, tiredness: TirednessCost | None = None
) -> list[int]:
    """Assign bowlers to overs at least value to the batting side, by exchanges.

    Args:
        costs: Value of an over to the batting side, by over and bowler.
        left: Overs that each bowler may still bowl.
        banned: The bowler of the previous over, who may not bowl the first.
        tiredness: Additional cost of the order as a whole.

    Returns:
        A bowler for each over; empty if they cannot bowl them all.

    >>> best_order([[5, 6], [9, 12], [5, 6]], left=[2, 1], banned=None)
    [0, 1, 0]
    >>> best_order([[1, 2, 9], [9, 12, 13]], left=[1, 1, 1], banned=None)
    [1, 0]
    """
    order = _any_order(len(costs), list(left), banned)
    for _ in range(_PASSES):
        if not _improved(order, costs, left, banned, tiredness):
            break
    return order


def _any_order(overs: int, left: list[int], banned: int | None) -> list[int]:
    """Return an order that the Laws allow: always the bowler with most overs left."""
    order, last = list[int](), banned
    for _ in range(overs):
        able = [bowler for bowler, rest in enumerate(left) if rest > 0 and bowler != last]
        if not able:
            return []
        last = max(able, key=lambda bowler: left[bowler])
        left[last] -= 1
        order.append(last)
    return order


def _improved(
    order: list[int], costs: Costs, left: Sequence[int], banned: int | None, tiredness: TirednessCost | None
) -> bool:
    """Exchange overs, or give one to a bowler with overs to spare, where it helps."""
    better = False
    for at in range(len(order)):
        for bowler, limit in enumerate(left):
            spare = order.count(bowler) < limit
            if spare and (tiredness or _less(costs[at][bowler], costs[at][order[at]])):
                better |= _changed(order, {at: bowler}, banned, costs, tiredness)
        for other in range(at + 1, len(order)):
            first, second = order[at], order[other]
            now = costs[at][first] + costs[other][second]
            if tiredness or _less(costs[at][second] + costs[other][first], now):
                better |= _changed(order, {at: second, other: first}, banned, costs, tiredness)
    return better


def _less(tried: float, now: float) -> bool:
    return tried < now - 1e-9


def _changed(
    order: list[int],
    changes: Mapping[int, int],
    banned: int | None,
    costs: Costs,
    tiredness: TirednessCost | None,
) -> bool:
    """Apply changes unless a bowler would bowl twice in a row or tiredness costs more."""
    tried = order.copy()
    for at, bowler in changes.items():
        tried[at] = bowler
    if tried[0] == banned or any(one == following for one, following in pairwise(tried)):
        return False
    if tiredness is not None:
        before, after = (
            sum(row[by] for row, by in zip(costs, one, strict=True)) + tiredness(one)
            for one in (order, tried)
        )
        if not _less(after, before):
            return False
    order[:] = tried
    return True


def tiredness_cost(costs: Costs, tiring: Costs, loads: Sequence[float], overs: int) -> TirednessCost:
    """Return the function that gives the cost of tired bowlers in an order of overs.

    Args:
        costs: Costs of fresh bowlers, by over and bowler.
        tiring: The same for bowlers with a load of one over.
        overs: Overs of the innings.
    """

    def cost(order: Sequence[int]) -> float:
        now, total = list(loads), 0.0
        for at, by in enumerate(order):
            total += now[by] * (tiring[at][by] - costs[at][by])
            now = next_loads(now, by, overs)
        return total

    return cost


def remaining_over_costs(
    now: SeenBall,
    bowlers: Sequence[Player],
    batters: Sequence[Player],
    to_come: Sequence[Player],
    value: Value,
) -> list[list[float]]:
    """Return each remaining over's value to the batting side under each bowler.

    All bowlers are as tired as in `now`.

    Args:
        now: The first ball of the next over.
        to_come: Batters to come, in the expected order.
        value: Returns the value of a ball.
    """
    overs = (now.innings_balls - now.balls_bowled + 5) // 6
    return [[_over(now, ahead, by, batters, to_come, value) for by in bowlers] for ahead in range(overs)]


def _over(
    now: SeenBall,
    ahead: int,
    bowler: Player,
    batters: Sequence[Player],
    to_come: Sequence[Player],
    value: Value,
) -> float:
    """Value an over of a bowler at the expected score, averaged over batters."""
    ball = later(now, ahead)
    stays = STAYS**ahead
    worth = sum(value(replace(ball, striker=one, bowler=bowler)) for one in batters) * stays / 2.0
    first = min(int(WICKETS_AN_OVER * ahead / 2.0), max(0, len(to_come) - 2))
    following = to_come[first : first + 2]
    if not following or not ahead:
        return worth / stays
    new = sum(value(replace(ball, striker=one, bowler=bowler)) for one in following) / len(following)
    return worth + new * (1.0 - stays)


def later(now: SeenBall, ahead: int) -> SeenBall:
    """Return the first ball ``ahead`` overs later, with usual runs and wickets."""
    if not ahead:
        return now
    bowled = now.balls_bowled + 6 * ahead
    need = now.runs_required
    if need is not None:
        need = max(1, round(need * (now.innings_balls - bowled) / (now.innings_balls - now.balls_bowled)))
    return replace(
        now, balls_bowled=bowled, powerplay=bowled < format_of(now.innings_balls // 6).powerplay_balls,
        wickets_lost=min(now.wickets_limit - 1, now.wickets_lost + round(WICKETS_AN_OVER * ahead)),
        runs_required=need, striker_balls=now.striker_balls + 3 * ahead, free_hit=False, seen=(),
    )  # fmt: skip


Orders = tuple[dict[str, Any], str]
"""Arguments of orders and the reason for them."""

SEEN: Final = 2
"""How often each batter has met the planned ball by the middle of the orders: batters read repetition."""
MAX_ORDER_OVERS: Final = 2
"""Maximum overs of orders that are considered; both ends are covered."""


def balls_covered(view: Mapping[str, Any], bowlers: Sequence[str]) -> list[SeenBall]:
    """Return balls that represent those of orders: each batter in, over by over.

    Args:
        bowlers: Names of the overs' bowlers; an unnamed over is represented by one bowler of each kind.
    """
    now, people = situation_of(view), cards(view, fielding(view))
    of_kind = {player.bowls: name for name, player in reversed(people.items()) if player.bowls}
    found = []
    for ahead in range(min(MAX_ORDER_OVERS, len(view["choices"]["overs"]))):
        at = later(now, ahead)
        for name in bowlers[ahead : ahead + 1] or of_kind.values():
            tired = (view.get("tired") or {}).get(name, 0.0)
            bowling = replace(at, bowler=as_bowler(people[name]), tired=tired, free_hit=False)
            found += [replace(bowling, striker=batter, seen=()) for batter in batters_at_crease(view)]
    return found


def bowling_orders(view: Mapping[str, Any], bowlers: Sequence[str], decides: frozenset[str]) -> Orders:
    """Return orders for bowling: delivery, field and attack, but not the bowlers.

    Args:
        bowlers: Names of the overs' bowlers, as far as known.
        decides: Parts decided here; the rest stays usual.
    """
    balls = balls_covered(view, bowlers)
    orders: dict[str, Any] = {"attack": 0.5, "preset": "standard", "ask": {"new_batter": True}}
    words = []
    if "delivery" in decides:
        best = min(PLANS, key=lambda plan: mean_value([repeated(ball, plan) for ball in balls]))
        bowled = [repeated(ball, best) for ball in balls]
        if _gains(bowled, balls, -1.0):
            balls = bowled
            orders |= plan_arguments(best)
            words.append(", ".join(plan_arguments(best).values()))
    if "field" in decides:
        known = fields(view["outside_limit"], striker_boundaries(view))
        field = min(known, key=lambda one: mean_value([replace(ball, field=one.shape) for ball in balls]))
        changed = [replace(ball, field=field.shape) for ball in balls]
        if _gains(changed, balls, -1.0):
            balls = changed
            del orders["preset"]
            orders |= placed(field)
            words.append(f"{field.preset.replace('_', ' ')} field")
    if "attack" in decides:
        attack = min(INTENTS, key=lambda one: mean_value([replace(ball, attack=one) for ball in balls]))
        if _gains([replace(ball, attack=attack) for ball in balls], balls, -1.0):
            orders["attack"] = attack
            words.append(f"attack {attack:g}")
    return orders, f"For these two batters: {'; '.join(words) or 'as usual'}."


def batting_orders(view: Mapping[str, Any]) -> Orders:
    """Return orders for batting: a stroke that suits both, and intents for each."""
    bowler = [] if view["bowler"] is None else [view["bowler"]["name"]]
    field = situation_of(view).field
    balls = [replace(ball, field=field) for ball in balls_covered(view, bowler)]
    orders: dict[str, Any] = {"aggression": 0.5, "ask": {"new_batter": True}}
    shot = max(SHOTS, key=lambda one: mean_value([replace(ball, shot=one) for ball in balls]))
    if _gains([replace(ball, shot=shot) for ball in balls], balls, 1.0):
        orders["shot"] = shot
        balls = [replace(ball, shot=shot) for ball in balls]
    intents = {}
    for name in {ball.striker.name: None for ball in balls}:
        faced = [ball for ball in balls if ball.striker.name == name]
        best = max(INTENTS, key=lambda one: mean_value([replace(ball, aggression=one) for ball in faced]))
        if _gains([replace(ball, aggression=best) for ball in faced], faced, 1.0):
            intents[name] = best
    if intents:
        orders["by_batter"] = [{"batter": name, "aggression": level} for name, level in intents.items()]
    words = [f"the {orders['shot']} suits both"] if "shot" in orders else []
    words += [f"{name} at {level:g}" for name, level in intents.items()]
    return orders, f"{'; '.join(words).capitalize() or 'As usual'}."


def repeated(ball: SeenBall, plan: DeliveryPlan) -> SeenBall:
    """Return a planned ball, as seen before if length and line are planned."""
    if plan.length is None or plan.line is None:
        return replace(ball, delivery=plan)
    pair = LENGTHS.index(plan.length) * len(LINES) + LINES.index(plan.line)
    return replace(ball, delivery=plan, seen=(pair,) * SEEN)


def mean_value(balls: Sequence[SeenBall]) -> float:
    """Return the mean value of balls to the batting side."""
    return sum(value(ball) for ball in balls) / len(balls)


def _gains(changed: Sequence[SeenBall], now: Sequence[SeenBall], sign: float) -> bool:
    """Check whether a change gains more than the minimum, as for a call."""
    worth = category_values(now[0])
    return sign * (mean_value(changed) - mean_value(now)) > MIN_CALL_GAIN * float(worth[4] - worth[0])
