"""Data of ``cricket.*`` events and of scorecards, read from the match."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from spectator.environments.cricket.ball.situation import SECTORS
from spectator.environments.cricket.laws import BatterLine, Innings, mark, overs_text
from spectator.environments.cricket.match.engine import BattingIntent, BowlingIntent, Match, PlayedBall
from spectator.environments.cricket.people import Team
from spectator.environments.cricket.scorer import overs_left

ZONE_WORDS: Final[tuple[str, ...]] = (
    "fine on the leg side", "behind square on the leg side", "through midwicket",
    "straight on the leg side", "straight on the off side", "through the covers",
    "behind point", "fine on the off side",
)  # fmt: skip
"""Direction of a ball in words, by sector 1 to 8."""

_NUMBERS: Final = "no one two three four five six seven eight nine ten eleven".split()


def number_word(number: int) -> str:
    """Return a number up to eleven in words and a larger one in figures."""
    return _NUMBERS[number] if 0 <= number < len(_NUMBERS) else str(number)


def plural(number: int, noun: str) -> str:
    """Return a number with its noun: ``1 run``, ``2 runs``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def surname(name: str) -> str:
    """Return the part of a name used on air."""
    return name.partition(" ")[2] or name


def how_out(kind: str, bowler: str, fielder: str, keeper: str) -> str:
    """Return a dismissal as scorecards write it, such as ``c Colvane b Pendarro``.

    Args:
        fielder: Name of the fielder; empty without one.
        keeper: Name of the wicket-keeper, marked with a dagger.

    >>> how_out("caught", "Omar Pendarro", "Rahil Colvane", keeper="Wes Bexhorn")
    'c Rahil Colvane b Omar Pendarro'
    """
    caught = f"†{fielder}" if fielder == keeper else fielder
    if kind == "caught":
        return f"c {caught} b {bowler}"
    if kind == "caught and bowled":
        return f"c & b {bowler}"
    if kind == "stumped":
        return f"st †{fielder} b {bowler}"
    if kind == "run out":
        return f"run out ({caught})" if fielder else "run out"
    short = {"bowled": "b", "lbw": "lbw b", "hit wicket": "hit wicket b"}.get(kind)
    return f"{short} {bowler}" if short else kind


def describe(ball: Mapping[str, Any]) -> str:
    """Describe a ball in one short sentence, from the data of ``cricket.ball_bowled``."""
    return f"{surname(ball['bowler'])} to {surname(ball['striker'])}: {_outcome(ball)}"


def _outcome(ball: Mapping[str, Any]) -> str:
    if ball["dismissal"]:
        return _dismissal(ball)
    if ball["wides"]:
        return "wide" if ball["wides"] == 1 else f"wide, {number_word(ball['wides'])} in all"
    call = "no-ball, " if ball["noball"] else ""
    if ball["byes"]:
        return f"{call}{plural(ball['byes'], 'bye')}"
    if ball["legbyes"]:
        return f"{call}{plural(ball['legbyes'], 'leg-bye')}"
    return call + _off_the_bat(ball)


def _off_the_bat(ball: Mapping[str, Any]) -> str:
    bat, where = ball["bat"], f" {ZONE_WORDS[ball['zone'] - 1]}" if ball["zone"] else ""
    if not bat:
        return "no run"
    if ball["boundary"] and not ball["ran"]:
        return f"{'SIX' if bat == 6 else 'FOUR'}{where}"
    if ball["boundary"]:
        return f"{number_word(bat)}, with overthrows"
    return f"{plural(bat, 'run')}{where}"


def _dismissal(ball: Mapping[str, Any]) -> str:
    out, kind = surname(ball["out"]), ball["dismissal"]
    fielder = (
        f" by {surname(ball['fielder'])}"
        if ball["fielder"] and kind in ("caught", "stumped", "run out")
        else ""
    )
    call = "off a wide, " if ball["wides"] else "off a no-ball, " if ball["noball"] else ""
    runs = ball["runs"] - (1 if call else 0)
    made = f" after {plural(runs, 'run')}" if runs else ""
    return f"OUT, {call}{out} {kind}{fielder}{made}"


Data = dict[str, Any]


def batter_line(innings: Innings, team: Team, player: int) -> Data:
    """Return a batter's line: order of appearance, name, runs, balls, fours, sixes."""
    line = innings.batting[player]
    return {
        "number": line.number,
        "name": team.players[player].name,
        "runs": line.runs,
        "balls": line.balls,
        "fours": line.fours,
        "sixes": line.sixes,
    }


def bowler_line(innings: Innings, team: Team, player: int) -> Data:
    """Return a bowler's line: order of bowling, name, kind, figures and overs left."""
    line = innings.bowling[player]
    return {
        "number": line.number,
        "name": team.players[player].name,
        "kind": team.kinds[player],
        "overs": overs_text(line.balls),
        "balls": line.balls,
        "maidens": line.maidens,
        "runs": line.runs,
        "wickets": line.wickets,
        "left": overs_left(innings, player),
    }


def dismissal_text(line: BatterLine, batting: Team, fielding: Team) -> str:
    """Return how a batter got out, or ``not out``."""
    if line.how is None:
        return "not out"
    return how_out(
        line.how, fielding.named(line.bowler), fielding.named(line.fielder), fielding.named(fielding.keeper)
    )


def score(innings: Innings) -> Data:
    """Return runs, wickets, valid balls and overs."""
    return {
        "runs": innings.runs,
        "wickets": innings.wickets,
        "balls": innings.balls,
        "overs": overs_text(innings.balls),
    }


def extras(innings: Innings) -> Data:
    """Return extras by kind, and their sum."""
    kinds = {
        "wides": innings.wides,
        "noballs": innings.noballs,
        "byes": innings.byes,
        "legbyes": innings.legbyes,
        "penalties": innings.penalties,
    }
    return {**kinds, "total": sum(kinds.values())}


def innings_started(match: Match) -> Data:
    """Return the data of ``cricket.innings_started``."""
    innings = match.current
    return {
        "innings": match.number,
        "batting": match.batting_side,
        "bowling": match.fielding_side,
        "team": match.teams[match.batting_side].name,
        "target": innings.target,
        "overs": innings.format.overs,
        "balls": innings.format.balls,
        "powerplay_balls": innings.format.powerplay_balls,
        "super_over": innings.format.is_super_over,
    }


def batter_selected(match: Match, player: int) -> Data:
    """Return the data of ``cricket.batter_selected``."""
    innings, team = match.current, match.teams[match.batting_side]
    return {
        "innings": match.number,
        "side": match.batting_side,
        "player": batter_line(innings, team, player),
        "bats": team.players[player].bats,
        "wickets": innings.wickets,
        **_ends(innings, team),
    }


def bowler_selected(match: Match, player: int) -> Data:
    """Return the data of ``cricket.bowler_selected``."""
    innings, team = match.current, match.teams[match.fielding_side]
    return {
        "innings": match.number,
        "side": match.fielding_side,
        "over": innings.balls // 6,
        "bowler": bowler_line(innings, team, player),
        **({"tired": match.loads()[player]} if match.fatigue else {}),
    }


def over_started(match: Match) -> Data:
    """Return the data of ``cricket.over_started``."""
    innings = match.current
    return {
        "innings": match.number,
        "over": innings.balls // 6,
        "bowler": match.teams[match.fielding_side].named(innings.bowler),
        "score": score(innings),
        "powerplay": innings.balls < innings.format.powerplay_balls,
    }


def over_completed(match: Match, bowler: int) -> Data:
    """Return the data of ``cricket.over_completed``."""
    innings, batting = match.current, match.teams[match.batting_side]
    runs, wickets, maiden = innings.overs[-1]
    return {
        "innings": match.number,
        "side": match.batting_side,
        "over": len(innings.overs),
        "runs": runs,
        "wickets": wickets,
        "score": score(innings),
        "bowler": bowler_line(innings, match.teams[match.fielding_side], bowler),
        "maiden": maiden,
        "need": innings.needed,
        "balls_left": innings.balls_left,
        **_ends(innings, batting),
    }


def _ends(innings: Innings, team: Team) -> Data:
    return {
        "striker": team.named(innings.striker) or None,
        "non_striker": team.named(innings.non_striker) or None,
    }


def ball_bowled(match: Match, played: PlayedBall, batting: BattingIntent, bowling: BowlingIntent) -> Data:
    """Return the data of ``cricket.ball_bowled``."""
    innings = match.innings[played.innings - 1]
    side = match.batting[played.innings - 1]
    team, rivals = match.teams[side], match.teams["away" if side == "home" else "home"]
    data = {
        "innings": played.innings,
        "side": side,
        "at": f"{played.over}.{played.ball}",
        "over": played.over,
        "ball": played.ball,
        "delivery": played.delivery,
        "striker": team.players[played.striker].name,
        "non_striker": team.players[played.non_striker].name,
        "bowler": rivals.players[played.bowler].name,
        **_counted(played, team, rivals),
        **_track(played),
        "intents": _intents(batting, bowling),
        "score": score(innings),
        "target": innings.target,
        "need": max(0, innings.target - innings.runs) if innings.target is not None else None,
        "balls_left": innings.balls_left,
        "striker_line": batter_line(innings, team, played.striker),
        "non_striker_line": batter_line(innings, team, played.non_striker),
        "bowler_line": bowler_line(innings, rivals, played.bowler),
        "extras_so_far": extras(innings),
        "partnership": {"runs": innings.partner_runs, "balls": innings.partner_balls},
        "ends": _ends(innings, team),
        "free_hit_next": innings.free_hit and innings.closed is None,
        "powerplay_next": innings.balls < innings.format.powerplay_balls and innings.closed is None,
        "outside_limit_next": innings.format.outside_limit(innings.balls),
    }
    data["words"] = describe(data)
    return data


def _counted(played: PlayedBall, team: Team, rivals: Team) -> Data:
    """Return the scorer's account of a ball."""
    ball = played.counted
    return {
        "bat": ball.bat,
        "runs": ball.runs,
        "extras": ball.extras,
        "extra_kind": ball.extra_kind,
        "wides": ball.wides,
        "noball": ball.noball,
        "byes": ball.byes,
        "legbyes": ball.legbyes,
        "penalty": ball.penalty,
        "ran": ball.ran,
        "boundary": ball.boundary,
        "mark": mark(ball),
        "kind": _kind(played),
        "dismissal": ball.dismissal,
        "out": team.named(played.out) or None,
        "fielder": rivals.named(played.fielder) or None if ball.dismissal else None,
        "position": played.position if ball.dismissal else None,
        "free_hit": played.free_hit,
        "powerplay": played.powerplay,
    }


def _track(played: PlayedBall) -> Data:
    """Return how a ball looked."""
    track = played.delivered.track
    return {
        "zone": track.zone,
        "direction": SECTORS[track.zone - 1] if track.zone else None,
        "length": track.length,
        "line": track.line,
        "speed_kmh": track.speed_kmh,
        "shot": track.shot,
        "contact": track.contact,
        "aerial": track.aerial,
    }


def _intents(batting: BattingIntent, bowling: BowlingIntent) -> Data:
    plan = bowling.delivery
    return {
        "aggression": batting.aggression,
        "shot": batting.shot,
        "attack": bowling.attack,
        "length": plan.length if plan else None,
        "line": plan.line if plan else None,
        "pace": plan.pace if plan else None,
        "field": bowling.field.preset,
    }


def _kind(played: PlayedBall) -> str:
    ball = played.counted
    if ball.dismissal:
        return "wicket"
    if ball.boundary and not ball.ran and ball.bat:
        return "six" if ball.bat == 6 else "four"
    if ball.extras:
        return "extra"
    return "run" if ball.bat else "dot"


def wicket_fell(match: Match, played: PlayedBall) -> Data:
    """Return the data of ``cricket.wicket_fell``."""
    innings = match.innings[played.innings - 1]
    side = match.batting[played.innings - 1]
    team, rivals = match.teams[side], match.teams["away" if side == "home" else "home"]
    runs, wicket, player, balls = innings.fall[-1]
    return {
        "innings": played.innings,
        "side": side,
        "at": f"{played.over}.{played.ball}",
        "player": batter_line(innings, team, player),
        "how_out": dismissal_text(innings.batting[player], team, rivals),
        "dismissal": played.counted.dismissal,
        "bowler": rivals.players[played.bowler].name,
        "fielder": rivals.named(played.fielder) or None,
        "wicket": wicket,
        "score": runs,
        "overs": overs_text(balls),
        "partnership": innings.partnerships[-1],
    }


def innings_ended(match: Match) -> Data:
    """Return the data of ``cricket.innings_ended``."""
    innings = match.current
    return {
        "innings": match.number,
        "batting": match.batting_side,
        "team": match.teams[match.batting_side].name,
        "score": score(innings),
        "reason": innings.closed,
        "extras": extras(innings),
        "super_over": innings.format.is_super_over,
    }


def match_ended(match: Match) -> Data:
    """Return the data of ``cricket.match_ended``.

    Raises:
        ValueError: The match is not decided.
    """
    decided = match.result
    if decided is None:
        raise ValueError("the match is not decided; match_ended needs a result")
    name = match.teams[decided.winner].name if decided.winner else ""
    return {
        "result": decided.words(name),
        "kind": decided.kind,
        "winner": decided.winner,
        "margin": decided.margin,
        "balls_left": decided.balls_left,
        "super_overs": decided.super_overs,
    }


def scorecards(match: Match) -> dict[str, Any]:
    """Return the scorecards of all innings so far, by number as text."""
    return {str(number): scorecard(match, number) for number in range(1, match.number + 1)}


def scorecard(match: Match, number: int) -> dict[str, Any]:
    """Return an innings' card: batting, bowling, extras, fall of wickets, overs.

    Args:
        number: 1, 2, then 3, 4, ... in super overs.
    """
    innings, side = match.innings[number - 1], match.batting[number - 1]
    team, rivals = match.teams[side], match.teams["away" if side == "home" else "home"]
    batting, total = {}, 0
    for player, line in innings.batting.items():
        figures = batter_line(innings, team, player)
        key = f"{figures.pop('number'):02d}"
        batting[key] = {"how_out": dismissal_text(line, team, rivals), **figures}
    bowling = {}
    for player in innings.bowling:
        figures = bowler_line(innings, rivals, player)
        key = f"{figures.pop('number'):02d}"
        del figures["balls"]
        bowling[key] = figures
    overs = {}
    for over, (runs, wickets, _) in enumerate(innings.overs, 1):
        total += runs
        bowler = rivals.players[innings.over_starters[over - 1]].name
        overs[str(over)] = {"runs": runs, "wickets": wickets, "score": total, "bowler": bowler}
    card: dict[str, Any] = {
        "side": side,
        "name": team.name,
        "balls": innings.format.balls,
        "batting": batting,
        "bowling": bowling,
        "extras": extras(innings),
        "fall": {
            str(wicket): {
                "score": runs,
                "wicket": wicket,
                "name": team.players[player].name,
                "at": overs_text(balls),
            }
            for runs, wicket, player, balls in innings.fall
        },
        "overs": overs,
    }
    if innings.closed:
        card |= {"closed": innings.closed, "total": score(innings)}
    return card
