"""What an observation tells of the next ball and of the players, as the ball model takes it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from spectator.environments.cricket.ball.grounds import Boundaries
from spectator.environments.cricket.ball.matchups import Conditions
from spectator.environments.cricket.ball.situation import Situation
from spectator.environments.cricket.ball.vocabulary import LENGTHS, LINES, FieldShape
from spectator.environments.cricket.match.field import Fielder, shape_of
from spectator.environments.cricket.people.players import STYLE_TITLES, Player
from spectator.environments.cricket.people.team import as_bowler

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


def faced_now(view: Mapping[str, Any]) -> Boundaries:
    """The boundaries as the striker sees them; empty on the neutral ground."""
    ground = view.get("ground")
    return tuple(ground["now"].values()) if ground else ()


def in_now(view: Mapping[str, Any]) -> list[Player]:
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
