"""Why an order is given: the clauses that are true of an observation and speak for a choice.

Each function gives clauses with the weight that they have: how much the fact behind them says. What a captain
may say of a choice is one of them, so nothing false can be said; :mod:`.claims` checks them independently.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import ceil
from typing import Any, Final

from spectator.environments.cricket.ball.vocabulary import SHOTS
from spectator.environments.cricket.trained.sight import PACKED, PART_TIME, Sight, kind_of

Clauses = list[tuple[str, float]]
"""Clauses with their weights."""

TRAIT: Final = 0.04
"""Least log ratio at which a trait is spoken of."""
FORM: Final = 0.05
ROPE_M: Final = 2.0
"""Metres by which a boundary must be nearer or farther to be spoken of."""
NEW_BALLS: Final = 6
SET_BALLS: Final = 12
STAND: Final = 20
STEEP: Final = 8.0

_SPIN: Final = "spin"


def for_bowler(sight: Sight, slot: str) -> Clauses:
    """Why this bowler is given the over."""
    card, view, found = sight.bowler_card(slot), sight.view, list[tuple[str, float]]()
    others = [sight.bowler_card(one) for one in sight.bowlers if one != slot]
    spins, part = "spin" in kind_of(card), kind_of(card) == PART_TIME
    if not part:
        met = "spin" if spins else "pace"
        found += _of_batters(sight, "bat_spin", -1 if spins else 1, f"weaker against {met}")
        if spins and view["conditions"]["pitch"] == "dry":
            found.append(("the dry pitch takes spin", 1.5))
        if not spins and view["conditions"]["pitch"] == "green":
            found.append(("the green pitch helps pace", 1.5))
        if not spins and view["conditions"]["evening"] == "dew" and view["innings"] % 2 == 0:
            found.append(("the dew is against spin", 1.2))
    if others:
        saves = min(one.get("bowl_runs", 1.15) for one in others) - card.get("bowl_runs", 1.15)
        takes = card.get("bowl_wickets", 0.75) - max(one.get("bowl_wickets", 0.75) for one in others)
        if saves > 0:
            found.append(("no other choice concedes less", 0.6 + 10 * saves))
        if takes > 0:
            found.append(("no other choice takes more wickets", 0.5 + 8 * takes))
    if card.get("bowl_form", 0.0) >= FORM:
        found.append((f"{slot} is in form", 10 * card["bowl_form"]))
    loads = [sight.tired(one) for one in sight.bowlers]
    if not sight.tired(slot) and any(loads):
        found.append((f"{slot} is fresh", 0.6))
    figures = sight.figures[slot]
    if figures["overs"] != "0.0":
        found.append(
            (f"{slot} has {figures['wickets']} for {figures['runs']}", 0.5 + 0.4 * figures["wickets"])
        )
    if sight.slots[view["choices"]["usual"]] == slot:
        found.append(("that is the usual choice", 0.3))
    return found


def for_ball(sight: Sight, length: str | None, line: str | None) -> Clauses:
    """Why the ball is planned so."""
    found = list[tuple[str, float]]()
    if length in ("short", "back of a length"):
        found += _of_batters(sight, "bat_short", -1, "weaker against the short ball")
    if length in ("full", "yorker"):
        found += _of_batters(sight, "bat_short", 1, "strong against the short ball")
    if length == "yorker" and sight.view["segment"] == "death":
        found.append(("these are the death overs", 0.8))
    if line == "leg":
        found += _of_batters(sight, "bat_leg", -1, "weaker on the leg side")
    if line in ("outside off", "wide outside off"):
        found += _of_batters(sight, "bat_leg", 1, "weaker on the off side")
    leg, off = _rope_by_side(sight)
    if line == "leg" and leg > off + ROPE_M:
        found.append(("the rope is longer on the leg side", (leg - off) / 6))
    if line in ("outside off", "wide outside off") and off > leg + ROPE_M:
        found.append(("the rope is longer on the off side", (off - leg) / 6))
    return found + _new(sight)


def for_field(sight: Sight, field: str) -> Clauses:
    """Why the field is set so."""
    if field in (PACKED[0], "off side"):
        return _of_batters(sight, "bat_leg", -1, "stronger on the off side")
    if field in (PACKED[1], "leg side"):
        return _of_batters(sight, "bat_leg", 1, "stronger on the leg side")
    if field == "attacking":
        return _new(sight) + _stand(sight)
    if field in ("defensive", "death", "balanced"):
        found = _steep(sight, "they")
        if sight.view["segment"] == "death":
            found.append(("these are the death overs", 0.8))
        return found
    return []


def for_attack(sight: Sight, level: float) -> Clauses:
    """Why the bowlers attack, or do not."""
    if level > 0.5:
        return (
            _stand(sight)
            + _new(sight)
            + _of_cards(sight, lambda card: card["bat_out"] >= 1.08, "gets out easily")
        )
    return (
        _steep(sight, "they")
        + _set(sight)
        + _of_cards(sight, lambda card: card["bat_runs"] >= 1.05, "scores fast")
        + _of_cards(sight, lambda card: card["bat_out"] <= 0.92, "is hard to get out")
    )


def for_shot(sight: Sight, shot: str) -> Clauses:
    """Why both batters are to look for this stroke."""
    found = list[tuple[str, float]]()
    sectors = [sector - 1 for sector in SHOTS[shot]]
    if sight.view.get("ground"):
        rope = list(sight.view["ground"]["now"].values())
        nearest = min(rope[sector] for sector in sectors)
        if nearest <= min(rope) + 1 and max(rope) - min(rope) >= 2 * ROPE_M:
            found.append((f"the rope is only {round(nearest)} there", (max(rope) - nearest) / 6))
    legs = 2 * sum(sector < 4 for sector in sectors)
    if legs != len(sectors):
        side = "leg" if legs > len(sectors) else "off"
        found += _of_batters(sight, "bat_leg", 1 if side == "leg" else -1, f"stronger on the {side} side")
        if sight.field == (PACKED[0] if side == "leg" else PACKED[1]):
            found.append(("the field is packed on the other side", 2.0))
    return found


def for_level(sight: Sight, slot: str, level: float) -> Clauses:
    """Why this batter is to hit, or not."""
    card, found = sight.batters[slot], list[tuple[str, float]]()
    ends = [end for end in (sight.view["striker"], sight.view["non_striker"]) if end]
    now = next(end for end in ends if sight.slots[end["name"]] == slot)
    met = None if sight.bowling is None else kind_of(sight.bowler_card(sight.bowling))
    against = None if met is None else "spin" if _SPIN in met else "pace"
    better = card["bat_spin"] * (1 if against == "spin" else -1)
    if level > 0.5:
        if card.get("bat_form", 0.0) >= FORM:
            found.append((f"{slot} is in form", 12 * card["bat_form"]))
        if card["bat_runs"] >= 1.05:
            found.append((f"{slot} scores fast", 12 * (card["bat_runs"] - 1)))
        if card["bat_out"] <= 0.92:
            found.append((f"{slot} is hard to get out", 10 * (1 - card["bat_out"])))
        if against and better >= TRAIT:
            found.append((f"{slot} is strong against {against}", 10 * better))
        if now["balls"] >= SET_BALLS:
            found.append((f"{slot} is set on {now['runs']}", 0.9))
        return found + _steep(sight, "we") + _in_hand(sight, at_least=6)
    if level < 0.5:
        if card.get("bat_form", 0.0) <= -FORM:
            found.append((f"{slot} is out of form", -12 * card["bat_form"]))
        if card["bat_runs"] <= 0.95:
            found.append((f"{slot} scores slowly", 12 * (1 - card["bat_runs"])))
        if card["bat_out"] >= 1.08:
            found.append((f"{slot} gets out easily", 10 * (card["bat_out"] - 1)))
        if against and better <= -TRAIT:
            found.append((f"{slot} is weaker against {against}", -10 * better))
        if now["balls"] < NEW_BALLS:
            found.append((f"{slot} has faced only {now['balls']}", 0.5))
        return found + _in_hand(sight, at_most=3)
    return found


def _of_batters(sight: Sight, trait: str, sign: int, words: str) -> Clauses:
    """That batters who are in have a trait: all of those who do."""
    who = {slot: sign * card[trait] for slot, card in sight.batters.items() if sign * card[trait] >= TRAIT}
    return (
        [(f"{_joined(who)} {'are' if len(who) > 1 else 'is'} {words}", 10 * sum(who.values()))] if who else []
    )


def _of_cards(sight: Sight, holds: Callable[[Mapping[str, Any]], bool], words: str) -> Clauses:
    return [(f"{slot} {words}", 0.7) for slot, card in sight.batters.items() if holds(card)]


def _joined(slots: Iterable[str]) -> str:
    return " and ".join(slots)


def _new(sight: Sight) -> Clauses:
    ends = [end for end in (sight.view["striker"], sight.view["non_striker"]) if end]
    return [
        (f"{sight.slots[end['name']]} has faced only {end['balls']}", 0.5 + 0.1 * (NEW_BALLS - end["balls"]))
        for end in ends
        if end["balls"] < NEW_BALLS and sight.view["score"]["balls"] >= NEW_BALLS
    ]


def _set(sight: Sight) -> Clauses:
    ends = [end for end in (sight.view["striker"], sight.view["non_striker"]) if end]
    return [
        (f"{sight.slots[end['name']]} is set on {end['runs']}", 0.4 + end["runs"] / 40)
        for end in ends
        if end["balls"] >= SET_BALLS
    ]


def _stand(sight: Sight) -> Clauses:
    stand = sight.view["partnership"]
    return [(f"the stand is worth {stand}", 0.5 + stand / 50)] if stand >= STAND else []


def _steep(sight: Sight, side: str) -> Clauses:
    rate = sight.view.get("required_rate")
    if not rate or rate <= STEEP:
        return []
    return [(f"{side} need more than {min(36, ceil(rate) - 1)} an over", 0.3 + (rate - STEEP) / 4)]


def _in_hand(sight: Sight, at_least: int = 0, at_most: int = 10) -> Clauses:
    left = (2 if sight.view["super_over"] else 10) - sight.view["score"]["wickets"]
    if not at_least <= left <= at_most:
        return []
    words = f"{left} wicket is in hand" if left == 1 else f"{left} wickets are in hand"
    return [(words, 0.4 + 0.1 * left if at_least else 1.2 - 0.2 * left)]


def _rope_by_side(sight: Sight) -> tuple[float, float]:
    """Mean distance of the boundary on the leg and on the off side, as the striker stands."""
    if not sight.view.get("ground"):
        return 0.0, 0.0
    rope = list(sight.view["ground"]["now"].values())
    return sum(rope[:4]) / 4, sum(rope[4:]) / 4
