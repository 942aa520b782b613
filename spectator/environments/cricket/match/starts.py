"""How a match begins: its announcement, and simulated starting positions."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from typing import Any, Final

from spectator.environments.cricket.ball.situation import SECTORS
from spectator.environments.cricket.laws import SIDES, Side
from spectator.environments.cricket.match import event_data
from spectator.environments.cricket.match.engine import (
    DEATH_SHARE,
    BattingIntent,
    BowlingIntent,
    Circumstances,
    Match,
    usual_bowler,
)
from spectator.environments.cricket.match.event_data import scorecards
from spectator.environments.cricket.match.field import standard_field
from spectator.environments.cricket.match.game import Game
from spectator.environments.cricket.people import Team
from spectator.environments.cricket.scorer import may_bat


def match_arranged(game: Game) -> dict[str, Any]:
    """Data of ``cricket.match_arranged``."""
    format, teams = game.format, game.teams
    return {
        **{side: {"name": teams[side].name, "short": teams[side].short} for side in SIDES},
        "overs": format.overs,
        "balls": format.balls,
        "powerplay_balls": format.powerplay_balls,
        "bowler_overs": format.bowler_overs,
        "caller": game.caller,
        **_told(game.circumstances, teams),
    }


def _told(circumstances: Circumstances, teams: Mapping[Side, Team]) -> dict[str, Any]:
    told: dict[str, Any] = {}
    ground = circumstances.ground
    if ground.boundaries:
        left = [player.name for side in SIDES for player in teams[side].players if player.bats == "left"]
        told["ground"] = {
            "name": ground.name,
            "boundaries": list(ground.boundaries),
            "left_handers": left,
        }
    if circumstances.fatigue:
        told["fatigue"] = True
    if circumstances.formed:
        told["form"] = {
            side: [
                {
                    "name": player.name,
                    "bat": player.bat_form,
                    "bowl": player.bowl_form if player.bowls else None,
                }
                for player in teams[side].players
            ]
            for side in SIDES
        }
    if circumstances.difference is not None:
        told["squad_difference"] = circumstances.difference
    return told


def shown_circumstances(circumstances: Circumstances, match: Match | None) -> dict[str, Any]:
    """What captains are told of them in an observation, beside pitch, evening and the cards."""
    told: dict[str, Any] = {}
    boundaries = circumstances.ground.boundaries
    if boundaries:
        faced = boundaries if match is None else match.faced
        told["ground"] = {
            "name": circumstances.ground.name,
            "metres": dict(zip(SECTORS, boundaries, strict=True)),
            "now": dict(zip(SECTORS, faced, strict=True)),
        }
    if circumstances.fatigue and match is not None:
        team = match.teams[match.fielding_side]
        told["tired"] = {team.players[player].name: load for player, load in enumerate(match.loads()) if load}
    if circumstances.difference is not None:
        told["squad_difference"] = circumstances.difference
    return told


START_NAMES: Final = ("toss", "bat_first", "chase", "defend", "death", "collapse", "super_over")
"""Where play may begin, the home side being the agent's:

``toss`` before the toss · ``bat_first`` home bats, nothing bowled · ``chase`` home bats second, the first
innings played · ``defend`` home fields second · ``death`` home bats first, the last quarter of the overs to
come · ``collapse`` home bats first and has lost early wickets · ``super_over`` tied after both innings.
"""

TRIES: Final = 400
"""Innings tried for a rare position before the nearest to it is taken."""

TIE_TRIES: Final = 40
COLLAPSE_SHARE: Final = 0.4


def play_to_start(game: Game, start: str, seeded: Callable[[str, int], random.Random]) -> None:
    """Bring a game before its toss to where play begins.

    Args:
        game: The game; its own generator is left for the balls to come.
        start: One of :data:`START_NAMES` but ``toss``.
        seeded: Makes the generator of a named part and a number.
    """
    home_first = start not in ("chase", "super_over")
    first: Side = "home" if home_first else "away"
    game.toss_winner, game.elected, game.called = "home", "bat" if home_first else "field", "heads"
    game.emit(
        "toss_made",
        {
            "caller": game.caller,
            "call": game.called,
            "winner": "home",
            "elected": game.elected,
            "team": game.teams["home"].name,
        },
    )
    match = game.new_match(first)
    match = _REACH[start](match, seeded)
    match.rng = game.rng
    game.match = match
    if match.number > 1 or match.current.balls:
        game.emit("position_set", position(match))
    if not match.current.deliveries:
        game.announce_innings()
    else:
        game.open_field()


def play_until(match: Match, rng: random.Random, stop: Callable[[Match], bool]) -> Match:
    """Play on under the usual captains until ``stop`` holds or the match is over; changes ``match``."""
    match.rng = rng
    batting = BattingIntent()
    while not stop(match):
        awaited = match.awaited
        if awaited == "ball":
            innings = match.current
            match.play(
                batting, BowlingIntent(field=standard_field(innings.format.outside_limit(innings.balls)))
            )
        elif awaited == "batter":
            match.send_in(next(player for player in range(11) if may_bat(match.current, player)))
        elif awaited == "bowler":
            match.give_ball(usual_bowler(match))
        elif awaited == "innings":
            match.close_innings()
        else:
            break
    return match


Seeded = Callable[[str, int], random.Random]


def _nothing(match: Match, seeded: Seeded) -> Match:
    return match


def _second_innings(match: Match, seeded: Seeded) -> Match:
    return play_until(match, seeded("start", 0), lambda reached: reached.number == 2)


def _death(match: Match, seeded: Seeded) -> Match:
    """The last quarter to come, at least an over; an innings that ends before is tried again."""
    left = max(1, math.ceil(DEATH_SHARE * match.format.overs))

    def there(reached: Match) -> bool:
        return reached.number > 1 or _overs_bowled(reached) >= reached.format.overs - left

    for attempt in range(TRIES):
        reached = play_until(match.copy(), seeded("start", attempt), there)
        if reached.number == 1 and not reached.current.closed:
            return reached
    return match


def _collapse(match: Match, seeded: Seeded) -> Match:
    """Two fifths of the innings gone with half the wickets that a real collapse costs, or the most found."""
    overs = max(1, round(COLLAPSE_SHARE * match.format.overs))
    wanted = (
        5
        if match.format.overs >= 20
        else 4
        if match.format.overs >= 8
        else 3
        if match.format.overs > 2
        else 1
    )
    best, most = match, -1

    def there(reached: Match) -> bool:
        return reached.number > 1 or _overs_bowled(reached) >= overs

    for attempt in range(TRIES):
        reached = play_until(match.copy(), seeded("start", attempt), there)
        if reached.number > 1 or reached.current.closed:
            continue
        if reached.current.wickets > most:
            best, most = reached, reached.current.wickets
        if most >= wanted:
            break
    return best


def _super_over(match: Match, seeded: Seeded) -> Match:
    """Tied: innings are played until a last over that can end level does."""
    for attempt in range(TRIES):
        late = play_until(match.copy(), seeded("start", attempt), _last_over_of_chase)
        if late.result is not None or late.number != 2:
            continue
        for again in range(TIE_TRIES):
            reached = play_until(
                late.copy(), seeded("tie", TIE_TRIES * attempt + again), lambda at: at.number == 3
            )
            if reached.number == 3:
                return reached
    raise RuntimeError(f"no tie in {TRIES} matches")


def _last_over_of_chase(match: Match) -> bool:
    return match.number == 2 and match.current.balls_left <= 6 and match.current.over_deliveries == 0


def _overs_bowled(match: Match) -> int:
    """Overs completed, and the next batter in where one was needed."""
    return len(match.current.overs)


_REACH: Final[dict[str, Callable[[Match, Seeded], Match]]] = {
    "bat_first": _nothing,
    "chase": _second_innings,
    "defend": _second_innings,
    "death": _death,
    "collapse": _collapse,
    "super_over": _super_over,
}


def position(match: Match) -> dict[str, Any]:
    """Data of ``cricket.position_set``: the scorecards so far and, within an innings, where it stands."""
    innings, side = match.current, match.batting_side
    team = match.teams[side]
    shown = scorecards(match)
    now: dict[str, Any] | None = None
    if innings.deliveries:
        now = {
            "innings": match.number,
            "batting": side,
            "bowling": match.fielding_side,
            "target": innings.target,
            "score": event_data.score(innings),
            "balls_left": innings.balls_left,
            "striker": None
            if innings.striker is None
            else event_data.batter_line(innings, team, innings.striker),
            "non_striker": None
            if innings.non_striker is None
            else event_data.batter_line(innings, team, innings.non_striker),
            "partnership": {"runs": innings.partner_runs, "balls": innings.partner_balls},
            "powerplay": innings.balls < innings.format.powerplay_balls,
            "outside_limit": innings.format.outside_limit(innings.balls),
        }
    else:
        del shown[str(match.number)]
    played = [pair for pair in zip(match.batting, match.innings, strict=True) if pair[1].deliveries]
    totals = {who: event_data.score(innings) for who, innings in played}
    return {"scorecards": shown, "scores": totals, "now": now}
