"""The planner's look ahead, from the observation alone: balls, orders, and overs.

A ball is valued by the rules and the ball model, an order by the average over the balls that it covers.

Who bowls is decided for all overs that are left at once: the best bowlers are worth most where most is
scored, and a bowler is worth more against batters and on pitches that do not suit him, but every over
that he bowls now he cannot bowl later. The next over goes to the bowler who has it in the best order of
all that are left.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any, Final

from spectator.environments.cricket.ball.grounds import Boundaries
from spectator.environments.cricket.ball.prices import Values
from spectator.environments.cricket.ball.sampler import BallModel
from spectator.environments.cricket.ball.situation import (
    LENGTHS,
    LINES,
    PLANNED_LENGTHS,
    SHOTS,
    Conditions,
    DeliveryPlan,
    FieldShape,
    Situation,
    next_loads,
)
from spectator.environments.cricket.laws import format_of
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


def situation_of(view: Mapping[str, Any]) -> Situation:
    """The next ball as an observation shows it, with nothing planned.

    Where nobody is on strike, or nobody has the ball yet, the first of the side stands there.
    """
    score, batting = view["score"], view["batting"]
    striker, bowler = view["striker"], view["bowler"]
    fielders, batters = cards(view, fielding(view)), cards(view, batting)
    thrower = next(iter(fielders.values())) if bowler is None else fielders[bowler["name"]]
    field, faced = view["field"], [] if striker is None else striker["faced"]
    return Situation(
        balls_bowled=score["balls"],
        innings_balls=score["balls"] + score["balls_left"],
        wickets_lost=score["wickets"],
        runs_required=view.get("need"),
        striker=next(iter(batters.values())) if striker is None else batters[striker["name"]],
        striker_balls=0 if striker is None else striker["balls"],
        bowler=as_bowler(thrower),
        free_hit=view["free_hit"],
        powerplay=view["powerplay"],
        field=_shape(field),
        conditions=Conditions(**view["conditions"]),
        second=view["innings"] % 2 == 0,
        seen=tuple(LENGTHS.index(a) * len(LINES) + LINES.index(b) for a, b in faced),
        wickets_limit=2 if view["super_over"] else 10,
        boundaries=tuple(view["ground"]["metres"].values()) if view.get("ground") else (),
        tired=(view.get("tired") or {}).get(thrower.name, 0.0),
    )


def _shape(field: Mapping[str, Any]) -> FieldShape:
    if field["preset"] == "standard":
        return FieldShape.neutral()
    return shape_of([Fielder(man["name"], man["x"], man["y"]) for man in field["fielders"]])


def cards(view: Mapping[str, Any], side: str) -> dict[str, Player]:
    """The players of a side, by name, as their cards describe them."""
    return {card["name"]: _player(tuple(card.items())) for card in view["squads"][side]["players"]}


@cache
def _player(card: tuple[tuple[str, Any], ...]) -> Player:
    told = dict(card)
    style = _STYLE_OF.get(told.get("bowls", ""))
    kind = None if style is None else "pace" if "pace" in style else "spin"
    return Player(
        told["name"], told["name"], told["role"], told["order"], told["bats"], kind, style,  # type: ignore[arg-type]  # pace or spin
        told["bat_runs"], told["bat_out"], told.get("bowl_runs", 1.0), told.get("bowl_wickets", 1.0),
        bat_spin=told["bat_spin"], bat_short=told["bat_short"], bat_leg=told["bat_leg"],
        bat_form=told.get("bat_form", 0.0), bowl_form=told.get("bowl_form", 0.0),
    )  # fmt: skip


def striker_boundaries(view: Mapping[str, Any]) -> Boundaries:
    """The boundaries as the striker sees them; empty on the neutral ground."""
    ground = view.get("ground")
    return tuple(ground["now"].values()) if ground else ()


def batters_at_crease(view: Mapping[str, Any]) -> list[Player]:
    """The two who are in, the striker first; fewer where somebody is awaited."""
    people = cards(view, view["batting"])
    return [people[view[end]["name"]] for end in ("striker", "non_striker") if view[end] is not None]


def fielding(view: Mapping[str, Any]) -> str:
    """The side that is in the field."""
    return "away" if view["batting"] == "home" else "home"


def to_come(view: Mapping[str, Any]) -> list[Player]:
    """Who has still to bat, if all came in their natural order so far."""
    people = cards(view, view["batting"])
    at_crease = {view[end]["name"] for end in ("striker", "non_striker") if view[end] is not None}
    rest = [man for name, man in people.items() if name not in at_crease]
    return rest[view["score"]["wickets"] :]


INTENTS: Final = (0.3, 0.4, 0.5, 0.6, 0.7)
MIN_CALL_GAIN: Final = 0.002
"""Least share of a boundary's worth for which a standing decision is changed."""
PLANS: Final = tuple(
    DeliveryPlan(length, line)
    for length in (None, *PLANNED_LENGTHS)
    for line in (None, *LINES)
    if length or line
)


@cache
def _model() -> BallModel:
    return BallModel.load()


def value(ball: Situation) -> float:
    """What a ball is worth to the batting side in its very state: runs of a first innings, chances of a
    chase."""
    return float(sum(p * v for p, v in zip(_model().weights(ball), category_values(ball), strict=True)))


def category_values(ball: Situation) -> Values:
    """What each category is worth to the batting side in the very state of a ball; shape ``(11,)``."""
    prices = _model().prices(ball.innings_balls, super_over=ball.wickets_limit == 2)
    return prices.here(ball.balls_bowled, ball.wickets_lost, ball.runs_required)


class CallValue:
    """Whether a change is worth a call."""

    def __init__(self, ball: Situation) -> None:
        worth = _model().values(ball)
        self._least = MIN_CALL_GAIN * float(worth[4] - worth[0])

    def gain(self, changed: Situation, now: Situation, way: float) -> bool:
        """Whether ``changed`` is worth more to who gains when the value rises (1) or falls (-1)."""
        return way * (value(changed) - value(now)) > self._least


_OFF_SIDE: Final = (
    "slip", "short third", "backward point", "cover point", "cover", "extra cover", "mid-off", "third",
    "sweeper cover",
)  # fmt: skip
_LEG_SIDE: Final = (
    "point", "cover", "mid-off", "short third", "square leg", "short midwicket", "mid-on",
    "deep square leg", "deep midwicket",
)  # fmt: skip


@cache
def fields(outside_limit: int, faced: Boundaries) -> tuple[Field, ...]:
    """The fields that it thinks of: the presets, and one crowded on either side.

    Args:
        outside_limit: Most fielders outside the ring.
        faced: The boundaries as the striker sees them; nobody is placed beyond them.
    """
    own = (
        custom_field([(name, *inside_the_rope(*POSITIONS[name], faced)) for name in names], faced)
        for names in (_OFF_SIDE, _LEG_SIDE)
    )
    return (*(preset_field(name, outside_limit) for name in legal_presets(outside_limit)), *own)


def placed(field: Field) -> dict[str, Any]:
    """A field as an argument."""
    shown = field.copy_shown()
    return {"fielders": shown["fielders"]} if field.preset == "custom" else {"preset": field.preset}


def plan_arguments(plan: DeliveryPlan) -> dict[str, Any]:
    """A plan as an argument."""
    words = {"length": plan.length, "line": plan.line, "pace": plan.pace}
    return {name: word for name, word in words.items() if word is not None}


STAYS: Final = 0.85
"""Chance that a batter who is in now is still in an over later: one wicket in 20 balls, either of two."""
WICKETS_AN_OVER: Final = 0.3
_PASSES: Final = 4

Value = Callable[[Situation], float]
TirednessCost = Callable[[Sequence[int]], float]
"""What an order costs beside its overs one by one: bowlers who tire."""
Costs = Sequence[Sequence[float]]
"""What an over of each bowler is worth to the batting side, by over and bowler."""


def best_order(
    costs: Costs, left: Sequence[int], banned: int | None, strain: TirednessCost | None = None
) -> list[int]:
    """Who bowls each over: the order that is worth least to the batting side, found by exchanges.

    Args:
        costs: By over and bowler.
        left: Overs that each bowler may still bowl.
        banned: Who bowled the over before, and may not bowl the first.
        strain: What the order as a whole costs beside; nothing when left out.

    Returns:
        A bowler for each over; empty when they cannot bowl them all.

    >>> best_order([[5, 6], [9, 12], [5, 6]], left=[2, 1], banned=None)
    [0, 1, 0]
    >>> best_order([[1, 2, 9], [9, 12, 13]], left=[1, 1, 1], banned=None)
    [1, 0]
    """
    order = _any_order(len(costs), list(left), banned)
    for _ in range(_PASSES):
        if not _improved(order, costs, left, banned, strain):
            break
    return order


def _any_order(overs: int, left: list[int], banned: int | None) -> list[int]:
    """An order that the Laws allow: always who has most overs left."""
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
    order: list[int], costs: Costs, left: Sequence[int], banned: int | None, strain: TirednessCost | None
) -> bool:
    """Exchange two overs, or give one to somebody with overs to spare, wherever that is worth it."""
    better = False
    for at in range(len(order)):
        for bowler, limit in enumerate(left):
            spare = order.count(bowler) < limit
            if spare and (strain or _less(costs[at][bowler], costs[at][order[at]])):
                better |= _taken(order, {at: bowler}, banned, costs, strain)
        for other in range(at + 1, len(order)):
            mine, theirs = order[at], order[other]
            now = costs[at][mine] + costs[other][theirs]
            if strain or _less(costs[at][theirs] + costs[other][mine], now):
                better |= _taken(order, {at: theirs, other: mine}, banned, costs, strain)
    return better


def _less(tried: float, now: float) -> bool:
    return tried < now - 1e-9


def _taken(
    order: list[int],
    changes: Mapping[int, int],
    banned: int | None,
    costs: Costs,
    strain: TirednessCost | None,
) -> bool:
    """Change an order unless somebody would then bowl two overs running, or strain more than it is worth."""
    tried = order.copy()
    for at, bowler in changes.items():
        tried[at] = bowler
    if tried[0] == banned or any(one == following for one, following in pairwise(tried)):
        return False
    if strain is not None:
        before, after = (
            sum(row[by] for row, by in zip(costs, one, strict=True)) + strain(one) for one in (order, tried)
        )
        if not _less(after, before):
            return False
    order[:] = tried
    return True


def tiredness_cost(costs: Costs, tiring: Costs, loads: Sequence[float]) -> TirednessCost:
    """What tired bowlers cost in an order of overs.

    Args:
        costs: Of fresh bowlers, by over and bowler.
        tiring: The same of bowlers with a load of one over.
        loads: The load of each now.
    """

    def strain(order: Sequence[int]) -> float:
        now, total = list(loads), 0.0
        for at, by in enumerate(order):
            total += now[by] * (tiring[at][by] - costs[at][by])
            now = next_loads(now, by)
        return total

    return strain


def remaining_over_costs(
    now: Situation,
    bowlers: Sequence[Player],
    batters: Sequence[Player],
    to_come: Sequence[Player],
    value: Value,
) -> list[list[float]]:
    """What each over that is left is worth to the batting side with each bowler, as tired as `now` has it.

    Args:
        now: The ball that the next over begins with.
        bowlers: Who may bowl.
        batters: The two who are in.
        to_come: Who is to come, in the order expected.
        value: What a ball is worth.
    """
    overs = (now.innings_balls - now.balls_bowled + 5) // 6
    return [[_over(now, ahead, by, batters, to_come, value) for by in bowlers] for ahead in range(overs)]


def _over(
    now: Situation,
    ahead: int,
    bowler: Player,
    batters: Sequence[Player],
    to_come: Sequence[Player],
    value: Value,
) -> float:
    """An over of a bowler: over who may then bat, at the score that may then be reached."""
    ball = later(now, ahead)
    stays = STAYS**ahead
    worth = sum(value(replace(ball, striker=one, bowler=bowler)) for one in batters) * stays / 2.0
    first = min(int(WICKETS_AN_OVER * ahead / 2.0), max(0, len(to_come) - 2))
    following = to_come[first : first + 2]
    if not following or not ahead:
        return worth / stays
    new = sum(value(replace(ball, striker=one, bowler=bowler)) for one in following) / len(following)
    return worth + new * (1.0 - stays)


def later(now: Situation, ahead: int) -> Situation:
    """The first ball of an over so many later, if runs and wickets come at their usual pace."""
    if not ahead:
        return now
    bowled = now.balls_bowled + 6 * ahead
    need = now.runs_required
    if need is not None:
        need = max(1, round(need * (now.innings_balls - bowled) / (now.innings_balls - now.balls_bowled)))
    return replace(
        now,
        balls_bowled=bowled,
        powerplay=bowled < format_of(now.innings_balls // 6).powerplay_balls,
        wickets_lost=min(now.wickets_limit - 1, now.wickets_lost + round(WICKETS_AN_OVER * ahead)),
        runs_required=need,
        striker_balls=now.striker_balls + 3 * ahead,
        free_hit=False,
        seen=(),
    )


Orders = tuple[dict[str, Any], str]
"""Arguments and the reason for them."""

SEEN: Final = 2
"""How often each batter has met the planned ball by the middle of the orders: they read what is repeated."""
MAX_ORDER_OVERS: Final = 2
"""Overs of the orders that are looked at: both ends."""


def balls_covered(view: Mapping[str, Any], bowlers: Sequence[str]) -> list[Situation]:
    """The balls that stand for those which orders cover: each batter who is in, at the end of each over.

    Args:
        view: The observation.
        bowlers: Who bowls the overs, by name; where nobody is named, one of each kind may.
    """
    now, people = situation_of(view), cards(view, fielding(view))
    of_kind = {man.bowls: name for name, man in reversed(people.items()) if man.bowls}
    found = []
    for ahead in range(min(MAX_ORDER_OVERS, len(view["choices"]["overs"]))):
        at = later(now, ahead)
        for name in bowlers[ahead : ahead + 1] or of_kind.values():
            tired = (view.get("tired") or {}).get(name, 0.0)
            bowling = replace(at, bowler=as_bowler(people[name]), tired=tired, free_hit=False)
            found += [replace(bowling, striker=batter, seen=()) for batter in batters_at_crease(view)]
    return found


def bowling_orders(view: Mapping[str, Any], bowlers: Sequence[str], decides: frozenset[str]) -> Orders:
    """How to bowl: delivery, field and attack, beside who bowls.

    Args:
        view: The observation.
        bowlers: Who bowls the overs, as far as that is known.
        decides: What is decided here; the rest is left as usual.
    """
    balls = balls_covered(view, bowlers)
    orders: dict[str, Any] = {"attack": 0.5, "preset": "standard", "ask": {"new_batter": True}}
    told = []
    if "delivery" in decides:
        best = min(PLANS, key=lambda plan: _mean([_read(ball, plan) for ball in balls]))
        bowled = [_read(ball, best) for ball in balls]
        if _gains(bowled, balls, -1.0):
            balls = bowled
            orders |= plan_arguments(best)
            told.append(", ".join(plan_arguments(best).values()))
    if "field" in decides:
        known = fields(view["outside_limit"], striker_boundaries(view))
        field = min(known, key=lambda one: _mean([replace(ball, field=one.shape) for ball in balls]))
        set_so = [replace(ball, field=field.shape) for ball in balls]
        if _gains(set_so, balls, -1.0):
            balls = set_so
            del orders["preset"]
            orders |= placed(field)
            told.append(f"{field.preset.replace('_', ' ')} field")
    if "attack" in decides:
        attack = min(INTENTS, key=lambda one: _mean([replace(ball, attack=one) for ball in balls]))
        if _gains([replace(ball, attack=attack) for ball in balls], balls, -1.0):
            orders["attack"] = attack
            told.append(f"attack {attack:g}")
    return orders, f"For these two batters: {'; '.join(told) or 'as usual'}."


def batting_orders(view: Mapping[str, Any]) -> Orders:
    """How to bat: a stroke if it suits both, and an intent for each of the two who are in."""
    bowler = [] if view["bowler"] is None else [view["bowler"]["name"]]
    field = situation_of(view).field
    balls = [replace(ball, field=field) for ball in balls_covered(view, bowler)]
    orders: dict[str, Any] = {"aggression": 0.5, "ask": {"new_batter": True}}
    shot = max(SHOTS, key=lambda one: _mean([replace(ball, shot=one) for ball in balls]))
    if _gains([replace(ball, shot=shot) for ball in balls], balls, 1.0):
        orders["shot"] = shot
        balls = [replace(ball, shot=shot) for ball in balls]
    intents = {}
    for name in {ball.striker.name: None for ball in balls}:
        mine = [ball for ball in balls if ball.striker.name == name]
        best = max(INTENTS, key=lambda one: _mean([replace(ball, aggression=one) for ball in mine]))
        if _gains([replace(ball, aggression=best) for ball in mine], mine, 1.0):
            intents[name] = best
    if intents:
        orders["by_batter"] = [{"batter": name, "aggression": level} for name, level in intents.items()]
    words = [f"the {orders['shot']} suits both"] if "shot" in orders else []
    words += [f"{name} at {level:g}" for name, level in intents.items()]
    return orders, f"{'; '.join(words).capitalize() or 'As usual'}."


def _read(ball: Situation, plan: DeliveryPlan) -> Situation:
    """A ball of a plan that the batter has met before in the over: at least what is planned of it."""
    if plan.length is None or plan.line is None:
        return replace(ball, delivery=plan)
    pair = LENGTHS.index(plan.length) * len(LINES) + LINES.index(plan.line)
    return replace(ball, delivery=plan, seen=(pair,) * SEEN)


def _mean(balls: Sequence[Situation]) -> float:
    return sum(value(ball) for ball in balls) / len(balls)


def _gains(changed: Sequence[Situation], now: Sequence[Situation], way: float) -> bool:
    """Whether a change is worth more than the least that counts, as of a call."""
    worth = category_values(now[0])
    return way * (_mean(changed) - _mean(now)) > MIN_CALL_GAIN * float(worth[4] - worth[0])
