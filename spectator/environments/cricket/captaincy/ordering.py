"""Orders for an over or a session: what the tools that give them accept, and what they order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from spectator.environments.cricket.captaincy.arguments import (
    BowlOver,
    BowlSession,
    PlayOver,
    PlaySession,
)
from spectator.environments.cricket.captaincy.fields import chosen_field
from spectator.environments.cricket.laws.deliveries import Side
from spectator.environments.cricket.laws.innings import LawBroken
from spectator.environments.cricket.laws.scorer import may_bat, overs_left
from spectator.environments.cricket.match.captain_state import CaptainState
from spectator.environments.cricket.match.engine import Match
from spectator.environments.cricket.match.game import Game
from spectator.environments.cricket.match.orders import Orders, at_crease, overs_ahead, rate_of
from spectator.environments.cricket.people.team import Team
from spectator.text import clean_text

NOTE_LIMIT: Final = 500
NAME_LIMIT: Final = 40


def order_batting(game: Game, side: Side, captain: CaptainState, arguments: PlayOver | PlaySession) -> None:
    """Take the batting captain's orders.

    Raises:
        LawBroken: They name somebody who cannot bat.
    """
    match = game.playing
    team, innings = match.teams[side], match.current
    waiting = [player for player in range(11) if may_bat(innings, player)]
    in_now = [player for player in (innings.striker, innings.non_striker) if player is not None]
    by_batter = {
        _named(team, one.batter, [*in_now, *waiting], "K10.batter", "bat"): one.aggression
        for one in arguments.by_batter
    }
    order = [_named(team, name, waiting, "K10.batter", "come in") for name in arguments.next_batters]
    captain.orders = {
        **_orders(match, arguments.aggression, arguments.ask.model_dump()),
        "by_batter": by_batter,
        "shot": arguments.shot,
        "next_batters": order,
    }
    captain.aggression = arguments.aggression
    told = {"by_batter": by_batter, "shot": arguments.shot, "next_batters": order}
    _announce(game, side, captain, "batting", {"aggression": arguments.aggression, **told}, arguments)


def order_bowling(game: Game, side: Side, captain: CaptainState, arguments: BowlOver | BowlSession) -> None:
    """Take the fielding captain's orders.

    Raises:
        LawBroken: A bowler may not bowl then, or the field is unlawful.
    """
    match = game.playing
    named = arguments.bowlers if isinstance(arguments, BowlSession) else _listed(arguments.bowler)
    bowlers = _bowlers(game, named)
    if arguments.preset is not None or arguments.fielders is not None:
        field = chosen_field(arguments.preset, arguments.fielders, game.outside_limit, match.faced)
        if field != captain.field:
            if game.field_frozen:
                raise LawBroken("N9.field", "The field stays for a free hit while the striker is the same.")
            captain.field = field
            game.emit("field_set", {"side": side, **field.copy_shown(match.faced)})
    plan = {part: getattr(arguments, part) for part in ("length", "line", "pace")}
    captain.orders = {
        **_orders(match, arguments.attack, arguments.ask.model_dump()),
        "bowlers": [*bowlers],  # they are struck off as they bowl; what is told of the order stays
        "delivery": list(plan.values()) if any(plan.values()) else None,
    }
    captain.attack = arguments.attack
    _announce(
        game, side, captain, "bowling", {"attack": arguments.attack, "bowlers": bowlers, **plan}, arguments
    )


def _orders(match: Match, intent: float, ask: dict[str, Any]) -> Orders:
    return {
        "intent": intent,
        "by_batter": {},
        "shot": None,
        "next_batters": [],
        "bowlers": [],
        "delivery": None,
        "ask": {name: ask[name] for name in ("wicket", "boundary", "new_batter", "rate_above")},  # type: ignore[typeddict-item]  # its four keys
        "seen": at_crease(match),
        "rate": rate_of(match.current),
    }


def _announce(
    game: Game, side: Side, captain: CaptainState, part: str, plan: Mapping[str, Any], arguments: Any
) -> None:
    """Tell the viewers what was ordered, as a strategy is told; what was left open is left out."""
    ask = {name: value for name, value in arguments.ask.model_dump().items() if value not in (None, False)}
    note = clean_text(arguments.note, NOTE_LIMIT)
    captain.note(note)
    captain.retold = []
    told = {name: value for name, value in {**plan, "ask": ask}.items() if value not in (None, [], {})}
    game.emit("plan_changed", {"side": side, "part": part, "plan": {**told, "note": note}})


def _named(team: Team, name: str, able: Iterable[int], rule: str, verb: str) -> str:
    able = list(able)
    index = team.find(name)
    if index is None or index not in able:
        names = ", ".join(team.named(player) for player in able)
        raise LawBroken(rule, f"{clean_text(name, NAME_LIMIT)!r} cannot {verb}. These can: {names}.")
    return team.named(index)


def _listed(name: str | None) -> list[str]:
    return [] if name is None else [name]


def _bowlers(game: Game, names: list[str]) -> list[str]:
    """The names of those who bowl the overs ahead, if each may bowl his."""
    match = game.playing
    innings, team = match.current, match.teams[match.fielding_side]
    overs = overs_ahead(match, game.decisions)
    if innings.bowler is not None:
        return _going_on(team, innings.bowler, names, overs)
    if len(names) > len(overs):
        raise LawBroken("arguments.bowlers", f"{len(names)} bowlers for {len(overs)} overs.")
    eligible = match.eligible_bowlers()
    found: list[int] = []
    for number, name in enumerate(names):
        able = [
            player
            for player in range(11)
            if (player in eligible if number == 0 else player != team.keeper and player != found[-1])
            and overs_left(innings, player) > found.count(player)
            and player not in innings.barred_bowlers
        ]
        index = team.find(_named(team, name, able, "O3.bowler", f"bowl over {overs[number]}"))
        assert index is not None
        found.append(index)
    return [team.named(index) for index in found]


def _going_on(team: Team, bowler: int, names: list[str], overs: list[int]) -> list[str]:
    """Bowlers named in the middle of an over, which its own bowler must finish."""
    if not names:
        return []
    first = _named(team, names[0], [bowler], "O4.bowler", f"bowl over {overs[0]}, which has begun")
    if len(names) > len(overs):
        raise LawBroken("arguments.bowlers", f"{len(names)} bowlers for {len(overs)} overs.")
    assert first
    return [_named(team, name, range(11), "O3.bowler", "bowl") for name in names[1:]]
