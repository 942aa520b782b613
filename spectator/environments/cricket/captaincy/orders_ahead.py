"""The planner's orders for an over or a session: what is worth most on average over the balls they cover."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from spectator.environments.cricket.ball.situation import Situation
from spectator.environments.cricket.ball.vocabulary import LENGTHS, LINES, SHOTS, DeliveryPlan
from spectator.environments.cricket.captaincy.bowling_ahead import later
from spectator.environments.cricket.captaincy.reading import cards, faced_now, fielding, in_now, situation_of
from spectator.environments.cricket.captaincy.worth import (
    INTENTS,
    PLANS,
    WORTH_A_CALL,
    fields,
    placed,
    told_plan,
    value,
    values_here,
)
from spectator.environments.cricket.people.team import as_bowler

Orders = tuple[dict[str, Any], str]
"""Arguments and the reason for them."""

SEEN: Final = 2
"""How often each batter has met the planned ball by the middle of the orders: they read what is repeated."""
MOST_OVERS: Final = 2
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
    for ahead in range(min(MOST_OVERS, len(view["choices"]["overs"]))):
        at = later(now, ahead)
        for name in bowlers[ahead : ahead + 1] or of_kind.values():
            tired = (view.get("tired") or {}).get(name, 0.0)
            bowling = replace(at, bowler=as_bowler(people[name]), tired=tired, free_hit=False)
            found += [replace(bowling, striker=batter, seen=()) for batter in in_now(view)]
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
            orders |= told_plan(best)
            told.append(", ".join(told_plan(best).values()))
    if "field" in decides:
        known = fields(view["outside_limit"], faced_now(view))
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
    worth = values_here(now[0])
    return way * (_mean(changed) - _mean(now)) > WORTH_A_CALL * float(worth[4] - worth[0])
