"""What an order of the trained captain is as calls of the captain's tools."""

from __future__ import annotations

from typing import Any, Final

from spectator.environments.cricket.captaincy.reading import faced_now
from spectator.environments.cricket.captaincy.worth import fields, placed
from spectator.environments.cricket.trained.sight import PACKED, Sight
from spectator.environments.cricket.trained.speech import Order

ASK: Final = {"new_batter": True}
"""When the captain is asked before the over ends, as the planner is."""
PHASES: Final = ("powerplay", "middle", "death")

Call = tuple[str, dict[str, Any]]
"""A tool and its arguments."""


def calls_of(sight: Sight, order: Order) -> list[Call]:
    """The calls that carry an order out; all but the last are preparations, which a captain may skip."""
    role, legal = sight.role, sight.legal
    if role == "plan":
        return [
            (
                "set_match_plan",
                {f"{side}_{part}": order["plan"] for side in ("batting", "bowling") for part in PHASES},
            )
        ]
    if role in ("toss", "elect"):
        return [("call_toss", {"call": "heads", "elect": order["elect"]})]
    if role in ("openers", "batter"):
        named = [sight.names[slot] for slot in order["in"]]
        return [("select_batter", dict(zip(("batter", "partner"), named, strict=False)))]
    if legal[0] == "select_bowler":
        return [("select_bowler", {"bowler": sight.names[order["by"]]})]
    if legal[0] in ("bowl_over", "bowl_session"):
        return [(legal[0], _bowling(sight, order, session=legal[0] == "bowl_session"))]
    if legal[0] in ("play_over", "play_session"):
        return [(legal[0], _batting(sight, order))]
    return _ball_by_ball(sight, order)


def _bowling(sight: Sight, order: Order, *, session: bool) -> dict[str, Any]:
    arguments: dict[str, Any] = {"attack": order["attack"], "ask": dict(ASK)}
    if "by" in order:  # within an over nobody is named
        name = sight.names[order["by"]]
        arguments |= {"bowlers": [name]} if session else {"bowler": name}
    return arguments | _planned(order) | _field(sight, order)


def _batting(sight: Sight, order: Order) -> dict[str, Any]:
    own = [
        {"batter": sight.names[slot], "aggression": level}
        for slot, level in order["levels"].items()
        if level != 0.5
    ]
    arguments: dict[str, Any] = {"aggression": 0.5, "ask": dict(ASK)}
    if order["shot"]:
        arguments["shot"] = order["shot"]
    return arguments | ({"by_batter": own} if own else {})


def _ball_by_ball(sight: Sight, order: Order) -> list[Call]:
    """The changes that may still be made before the ball for nothing, then the ball."""
    legal, own = sight.legal, sight.view["you"]
    if sight.role == "bat":
        level = next(iter(order["levels"].values()))
        wanted = {"shot": order["shot"], "aggression": level} if order["shot"] else {"aggression": level}
        usual = not order["shot"] and level == own["aggression"]
        changed: list[Call] = [] if usual else [("plan_shot", wanted)]
        last: Call = ("play_delivery", {})
    else:
        changed, last = [], ("bowl_delivery", {})
        if (planned := _planned(order)) and planned != {
            k: v for k, v in (own["delivery"] or {}).items() if v
        }:
            changed.append(("plan_delivery", planned))
        if order.get("field") not in (None, sight.field):
            changed.append(("set_field", _field(sight, order)))
        if order["attack"] != own["attack"]:
            changed.append(("set_bowling_strategy", {"attack": order["attack"]}))
    free = [call for call in changed if call[0] in legal][: max(0, min(1, own["free_calls"]))]
    return [*free, last]


def _planned(order: Order) -> dict[str, Any]:
    return {part: order[part] for part in ("length", "line") if order.get(part)}


def _field(sight: Sight, order: Order) -> dict[str, Any]:
    """The field as arguments; nothing where it has to stay."""
    name = order.get("field")
    if name is None:
        return {}
    if name in PACKED:
        return placed(fields(sight.view["outside_limit"], faced_now(sight.view))[PACKED.index(name) - 2])
    return {"preset": name.replace(" ", "_")}
