"""The start of a match: its announcement, and simulated starting positions."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Final

from spectator.environments.cricket.ball.sampler import BallModel
from spectator.environments.cricket.ball.situation import SECTORS
from spectator.environments.cricket.ball.tables import PROFILES
from spectator.environments.cricket.laws import SIDES, Side
from spectator.environments.cricket.match import event_data
from spectator.environments.cricket.match.engine import (
    DEATH_SHARE,
    BattingIntent,
    BowlingIntent,
    Circumstances,
    Match,
    PlayedBall,
    usual_bowler,
)
from spectator.environments.cricket.match.event_data import scorecards
from spectator.environments.cricket.match.field import standard_field
from spectator.environments.cricket.match.game import Game
from spectator.environments.cricket.people import Team
from spectator.environments.cricket.scorer import may_bat


def match_arranged(game: Game) -> dict[str, Any]:
    """Return the data of ``cricket.match_arranged``."""
    format, teams = game.format, game.teams
    return {
        **{side: {"name": teams[side].name, "short": teams[side].short} for side in SIDES},
        "overs": format.overs,
        "balls": format.balls,
        "powerplay_balls": format.powerplay_balls,
        "bowler_overs": format.bowler_overs,
        "caller": game.caller,
        **_model(game.model),
        **_circumstances(game.circumstances, teams),
    }


def _model(model: BallModel) -> dict[str, Any]:
    """Return the profile and scoring level of a match, except for men's at the tables' own level."""
    profile = model.tables.profile
    shown: dict[str, Any] = {} if profile == PROFILES[0] else {"profile": profile}
    return {**shown, "level": model.mean_total} if model.level else shown


def _circumstances(circumstances: Circumstances, teams: Mapping[Side, Team]) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    ground = circumstances.ground
    if ground.boundaries:
        left = [player.name for side in SIDES for player in teams[side].players if player.bats == "left"]
        shown["ground"] = {"name": ground.name, "boundaries": list(ground.boundaries), "left_handers": left}
    if circumstances.fatigue:
        shown["fatigue"] = True
    if circumstances.formed:
        shown["form"] = {
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
        shown["squad_difference"] = circumstances.difference
    return shown


def shown_circumstances(circumstances: Circumstances, match: Match | None) -> dict[str, Any]:
    """Return what an observation shows beyond pitch, evening and cards."""
    shown: dict[str, Any] = {}
    boundaries = circumstances.ground.boundaries
    if boundaries:
        faced = boundaries if match is None else match.faced
        shown["ground"] = {
            "name": circumstances.ground.name,
            "metres": dict(zip(SECTORS, boundaries, strict=True)),
            "now": dict(zip(SECTORS, faced, strict=True)),
        }
    if circumstances.fatigue and match is not None:
        team = match.teams[match.fielding_side]
        shown["tired"] = {
            team.players[player].name: load for player, load in enumerate(match.loads()) if load
        }
    if circumstances.difference is not None:
        shown["squad_difference"] = circumstances.difference
    return shown


START_NAMES: Final = ("toss", "bat_first", "chase", "defend", "death", "collapse", "super_over")
"""Where play begins; the home side is the agent's:

* ``toss``: before the toss
* ``bat_first``: home bats, no ball bowled
* ``chase``: home bats second, after the first innings
* ``defend``: home fields second
* ``death``: home bats first, with the last quarter of the overs to come
* ``collapse``: home bats first and has lost early wickets
* ``super_over``: tied after both innings
"""

TRIES: Final = 400
"""Innings tried for a rare position before the closest is used."""

TIE_TRIES: Final = 40
COLLAPSE_SHARE: Final = 0.4


def play_to_start(game: Game, start: str, seeded: Callable[[str, int], random.Random]) -> None:
    """Advance a game from before its toss to the start of play.

    Args:
        game: The game; its own generator stays reserved for the balls to come.
        start: One of :data:`START_NAMES` except ``toss``.
        seeded: Returns the generator for a named part and a number.
    """
    home_first = start not in ("chase", "super_over")
    first: Side = "home" if home_first else "away"
    game.toss_winner, game.elected, game.called = "home", "bat" if home_first else "field", "heads"
    game.announce_toss()
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


def advance(match: Match) -> PlayedBall | None:
    """Do what the match awaits under the usual captains, and return the ball if one was bowled."""
    innings, awaited = match.current, match.awaited
    if awaited == "ball":
        return match.play(BattingIntent(), _usual_bowling(innings.format.outside_limit(innings.balls)))
    if awaited == "batter":
        match.send_in(next(player for player in range(11) if may_bat(innings, player)))
    elif awaited == "bowler":
        match.give_ball(usual_bowler(match))
    else:
        match.close_innings()
    return None


@cache
def _usual_bowling(outside_limit: int) -> BowlingIntent:
    return BowlingIntent(field=standard_field(outside_limit))


def play_until(match: Match, rng: random.Random, stop: Callable[[Match], bool]) -> Match:
    """Play ``match`` under the usual captains until ``stop`` holds or it is over."""
    match.rng = rng
    while match.result is None and not stop(match):
        advance(match)
    return match


Seeded = Callable[[str, int], random.Random]


def _nothing(match: Match, seeded: Seeded) -> Match:
    return match


def _second_innings(match: Match, seeded: Seeded) -> Match:
    return play_until(match, seeded("start", 0), lambda reached: reached.number == 2)


def _death(match: Match, seeded: Seeded) -> Match:
    """Play until the last quarter is left; retry if the innings ends before."""
    left = max(1, math.ceil(DEATH_SHARE * match.format.overs))

    def reached_death(reached: Match) -> bool:
        return reached.number > 1 or _overs_bowled(reached) >= reached.format.overs - left

    for attempt in range(TRIES):
        reached = play_until(match.copy(), seeded("start", attempt), reached_death)
        if reached.number == 1 and not reached.current.closed:
            return reached
    return match


def _collapse(match: Match, seeded: Seeded) -> Match:
    """Play two fifths of the innings until a try has lost enough wickets."""
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

    def reached_overs(reached: Match) -> bool:
        return reached.number > 1 or _overs_bowled(reached) >= overs

    for attempt in range(TRIES):
        reached = play_until(match.copy(), seeded("start", attempt), reached_overs)
        if reached.number > 1 or reached.current.closed:
            continue
        if reached.current.wickets > most:
            best, most = reached, reached.current.wickets
        if most >= wanted:
            break
    return best


def _super_over(match: Match, seeded: Seeded) -> Match:
    """Play matches until a last over of a chase ends level."""
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
    raise RuntimeError(f"none of {TRIES} matches ended in a tie; use another seed")


def _last_over_of_chase(match: Match) -> bool:
    return match.number == 2 and match.current.balls_left <= 6 and match.current.over_deliveries == 0


def _overs_bowled(match: Match) -> int:
    """Return the overs completed."""
    return len(match.current.overs)


_REACH: Final[dict[str, Callable[[Match, Seeded], Match]]] = {
    "bat_first": _nothing,
    "chase": _second_innings,
    "defend": _second_innings,
    "death": _death,
    "collapse": _collapse,
    "super_over": _super_over,
}


def position(match: Match, marks: Sequence[str] = ()) -> dict[str, Any]:
    """Return the data of ``cricket.position_set``: scorecards and innings' state.

    Args:
        marks: Marks of the balls of the over in progress.
    """
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
        if innings.bowler is not None:
            bowling = event_data.bowler_line(innings, match.teams[match.fielding_side], innings.bowler)
            now |= {"bowler": bowling, "marks": list(marks), "free_hit": innings.free_hit}
    else:
        del shown[str(match.number)]
    played = [pair for pair in zip(match.batting, match.innings, strict=True) if pair[1].deliveries]
    totals = {who: event_data.score(innings) for who, innings in played}
    return {"scorecards": shown, "scores": totals, "now": now}
