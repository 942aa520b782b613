"""Score balls by the Laws of cricket and decide results.

Players are indices 0 to 10 of their sides. Rule names such as ``N7`` are those of docs/cricket-laws.md.
Functions named ``take_...`` change the innings in place. Impossible balls are rejected.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

from spectator.environments.cricket.laws import (
    BOWLERS_DISMISSALS,
    DISMISSALS,
    NO_BALL_DISMISSALS,
    RUNNING_DISMISSALS,
    WIDE_DISMISSALS,
    Ball,
    BatterLine,
    BowlerLine,
    Innings,
    LawBroken,
    Side,
)

_NOT_ON_FREE_HIT: Final = DISMISSALS - NO_BALL_DISMISSALS


def check_ball(innings: Innings, ball: Ball) -> None:
    """Raise if ``ball`` is impossible in the current state.

    Raises:
        LawBroken: The message names the rule.
    """
    if innings.closed:
        raise LawBroken("R1.innings_closed", "The innings is over; no ball can follow.")
    if innings.awaited != "ball":
        raise LawBroken("R1.not_ready", f"Choose a {innings.awaited} before the next ball.")
    if innings.free_hit and ball.dismissal in _NOT_ON_FREE_HIT:
        raise LawBroken(
            "N7.free_hit", f"A batter cannot be out {ball.dismissal} on a free hit, not even off a wide."
        )
    check_alone(ball)


@lru_cache(maxsize=4096)
def check_alone(ball: Ball) -> None:
    """Raise if ``ball`` is impossible in any state; valid balls are cached.

    Raises:
        LawBroken: The message names the rule.
    """
    if ball.wide or ball.noball or ball.dismissal or ball.byes or ball.legbyes or ball.wides or ball.penalty:
        _check_extras(ball)
        if ball.dismissal:
            _check_dismissal(ball)
    scored = ball.bat + ball.byes + ball.legbyes + (ball.wides - 1 if ball.wide else 0)
    if ball.bat < 0 or ball.ran < 0:
        raise LawBroken("S1.negative", "Runs cannot be negative.")
    if not ball.boundary:
        if ball.ran != scored:
            raise LawBroken("S1.ran", "Without a boundary, the runs scored must equal the runs run.")
    elif scored != ball.ran + 4 and not (ball.bat == 6 and not ball.ran) and not scored == ball.ran > 4:
        raise LawBroken(
            "S4.allowance", "A boundary scores 4, or 6 off the bat, in addition to the runs already run."
        )


def _check_extras(ball: Ball) -> None:
    if ball.wide and ball.noball:
        raise LawBroken("N4.wide_and_noball", "A no-ball overrides the call of wide.")
    if ball.wide and (ball.bat or ball.byes or ball.legbyes or ball.wides < 1):
        raise LawBroken("W2.all_wides", "All runs off a wide are wides, including the first.")
    if ball.wides and not ball.wide:
        raise LawBroken("W2.not_wide", "Only a wide can score wides.")
    if (ball.bat > 0) + (ball.byes > 0) + (ball.legbyes > 0) > 1 or ball.byes < 0 or ball.legbyes < 0:
        raise LawBroken("S9.one_kind", "Runs must be off the bat, byes or leg-byes; not several of these.")
    if ball.penalty % 5 or ball.penalty < 0:
        raise LawBroken("R8.penalty", "Penalty runs must be a multiple of 5.")


def _check_dismissal(ball: Ball) -> None:
    kind = ball.dismissal
    if kind not in DISMISSALS:
        raise LawBroken(
            "K5.dismissal", f"{kind!r} is not a dismissal; use one of {', '.join(sorted(DISMISSALS))}."
        )
    if ball.noball and kind not in NO_BALL_DISMISSALS:
        raise LawBroken("N3.no_ball", f"A batter cannot be out {kind} off a no-ball.")
    if ball.wide and kind not in WIDE_DISMISSALS:
        raise LawBroken("W4.wide", f"A batter cannot be out {kind} off a wide.")
    if kind in RUNNING_DISMISSALS:
        return
    if ball.bat or ball.byes or ball.legbyes or ball.ran or ball.wides > 1:
        raise LawBroken("S6.no_runs", f"No runs except penalties count when a batter is out {kind}.")
    if not ball.striker_out:
        raise LawBroken("K3.striker", f"Only the striker can be out {kind}.")


def settle(ball: Ball, needed: int) -> Ball:
    """Return the part of ``ball`` that counts if ``needed`` runs win (R3, R4).

    Nothing counts after the winning run, not even a wicket. But a boundary hit before enough runs were run
    counts in full.
    """
    call = 1 if ball.wide or ball.noball else 0
    if ball.runs < needed:
        return ball
    if call >= needed:
        return Ball(wide=ball.wide, noball=ball.noball, wides=1 if ball.wide else 0)
    run_needed = needed - call
    if ball.ran < run_needed:
        return ball
    return ball._replace(
        bat=run_needed if ball.bat else 0,
        wides=1 + run_needed if ball.wide else 0,
        byes=run_needed if ball.byes else 0,
        legbyes=run_needed if ball.legbyes else 0,
        penalty=0,
        ran=run_needed,
        boundary=False,
        dismissal=None,
        striker_out=True,
        crossed=False,
    )


def take_batter(innings: Innings, player: int) -> None:
    """Send ``player`` in at the vacant end (K1-K4, K10).

    Raises:
        LawBroken: No batter is awaited, or this player is in, out or not in the side.
    """
    if innings.awaited != "batter":
        raise LawBroken("K10.no_vacancy", "A batter can come in only after a wicket.")
    if not may_bat(innings, player):
        raise LawBroken("K10.batter", "The next batter must be one of the eleven and not have batted yet.")
    innings.batting[player] = BatterLine(player, len(innings.batting) + 1)
    if innings.striker is None:
        innings.striker = player
    else:
        innings.non_striker = player


def may_bat(innings: Innings, player: int) -> bool:
    """Check whether ``player`` may come in."""
    return 0 <= player <= 10 and player not in innings.barred_batters and player not in innings.batting


def check_bowler(innings: Innings, player: int) -> None:
    """Raise if ``player`` may not bowl the next over.

    Raises:
        LawBroken: An over is in progress, or O3 or the limit of O5-O7 forbids it.
    """
    if innings.closed or innings.bowler is not None:
        raise LawBroken("O4.over_in_progress", "The bowler who began the over must finish it.")
    if not 0 <= player <= 10:
        raise LawBroken("O3.bowler", "The bowler must be one of the eleven.")
    if player in innings.barred_bowlers:
        raise LawBroken("R6.super_over_bowler", "The bowler of the last super over may not bowl this one.")
    if player in innings.previous_bowlers:
        raise LawBroken(
            "O3.consecutive_overs", "A bowler cannot bowl two overs in a row; choose another bowler."
        )
    if not overs_left(innings, player):
        limit = innings.format.bowler_overs
        raise LawBroken(
            "O5.bowler_limit", f"This bowler has bowled the {limit} over(s) allowed; choose another."
        )


def overs_left(innings: Innings, player: int) -> int:
    """Return the overs that ``player`` may still begin under the limit (O5-O7)."""
    line = innings.bowling.get(player)
    begun = line.overs_begun if line else 0
    if not innings.format.extra_overs:
        return max(0, innings.format.bowler_overs - begun)
    others = [other.overs_begun for other in innings.bowling.values() if other.player != player]
    return innings.format.overs_allowed([begun, *others], 0)


def overs_left_of_all(innings: Innings) -> list[int]:
    """Return the overs that each player may still begin; see :func:`overs_left`."""
    limit, bowling = innings.format.bowler_overs, innings.bowling
    if innings.format.extra_overs:
        return [overs_left(innings, player) for player in range(11)]
    left = [limit] * 11
    for player, line in bowling.items():
        left[player] = max(0, limit - line.overs_begun)
    return left


def take_bowler(innings: Innings, player: int) -> None:
    """Give ``player`` the next over.

    Raises:
        LawBroken: See :func:`check_bowler`.
    """
    check_bowler(innings, player)
    innings.over_starters.append(player)
    line = innings.bowling.get(player)
    if line is None:
        line = innings.bowling[player] = BowlerLine(player, len(innings.bowling) + 1)
    line.overs_begun += 1
    innings.bowler = player
    innings.over_bowlers.append(player)


def take_ball(innings: Innings, ball: Ball, fielder: int | None = None) -> Ball:
    """Score one ball in place.

    Args:
        fielder: The player who caught, stumped or ran out, as an index of the fielding side.

    Returns:
        The ball as counted; :func:`settle` may have shortened it.

    Raises:
        LawBroken: The ball is impossible; the message names the rule.

    >>> from spectator.environments.cricket.laws import format_of
    >>> innings = Innings(format_of(5))
    >>> take_batter(innings, 0), take_batter(innings, 1), take_bowler(innings, 10)
    (None, None, None)
    >>> for ball in (Ball(bat=4, boundary=True), Ball(bat=1, ran=1)):
    ...     _ = take_ball(innings, ball)
    >>> innings.runs, innings.balls, innings.striker
    (5, 2, 1)
    >>> take_ball(innings, Ball(wide=True, noball=True, wides=1))
    Traceback (most recent call last):
        ...
    spectator.environments.cricket.laws.LawBroken: N4.wide_and_noball: ...
    """
    check_ball(innings, ball)
    if innings.target is not None:
        ball = settle(ball, innings.target - innings.runs)
    batter = innings.batting[innings.striker]  # type: ignore[index]  # check_ball saw that both are in
    bowler = innings.bowling[innings.bowler]  # type: ignore[index]  # and that there is a bowler
    _add_runs(innings, ball, batter, bowler)
    _count(innings, ball, batter, bowler)
    if ball.dismissal:
        _dismiss(innings, ball, bowler, fielder)
    elif ball.ran & 1:
        innings.striker, innings.non_striker = innings.non_striker, innings.striker
    if innings.over_balls == 6:
        _end_over(innings)
    _close_if_over(innings)
    return ball


def _add_runs(innings: Innings, ball: Ball, batter: BatterLine, bowler: BowlerLine) -> None:
    """Add every run of a ball to the right totals."""
    bat, _, noball, wides, byes, legbyes, penalty, ran, boundary, _, _, _ = ball
    conceded = bat + wides + noball
    runs = conceded + byes + legbyes + penalty
    if not runs:
        return
    innings.runs += runs
    innings.over_runs += runs
    innings.partner_runs += runs
    innings.over_conceded += conceded
    bowler.runs += conceded
    batter.runs += bat
    if boundary and not ran:
        if bat == 4:
            batter.fours += 1
        elif bat == 6:
            batter.sixes += 1
    if runs != bat:
        innings.wides += wides
        bowler.wides += wides
        innings.byes += byes
        innings.legbyes += legbyes
        innings.penalties += penalty


def _count(innings: Innings, ball: Ball, batter: BatterLine, bowler: BowlerLine) -> None:
    """Count a ball as delivered, faced and valid (W3, N1), and set the free hit."""
    innings.deliveries += 1
    innings.over_deliveries += 1
    if ball.wide:
        return
    batter.balls += 1
    innings.partner_balls += 1
    if ball.noball:
        innings.noballs += 1
        bowler.noballs += 1
        innings.free_hit = True
        return
    innings.balls += 1
    innings.over_balls += 1
    bowler.balls += 1
    innings.free_hit = False


def _dismiss(innings: Innings, ball: Ball, bowler: BowlerLine, fielder: int | None) -> None:
    kind = ball.dismissal
    out = innings.striker if ball.striker_out else innings.non_striker
    line = innings.batting[out]  # type: ignore[index]  # check_ball saw that both are in
    line.how = kind
    line.fielder = fielder
    if kind in BOWLERS_DISMISSALS:
        bowler.wickets += 1
        line.bowler = bowler.player
    if kind in RUNNING_DISMISSALS and (ball.ran + ball.crossed) & 1:
        innings.striker, innings.non_striker = innings.non_striker, innings.striker
    if innings.striker == out:
        innings.striker = None
    else:
        innings.non_striker = None
    innings.wickets += 1
    innings.over_wickets += 1
    innings.fall.append((innings.runs, innings.wickets, line.player, innings.balls))
    innings.partnerships.append(innings.partner_runs)
    innings.partner_runs = innings.partner_balls = 0


def _end_over(innings: Innings) -> None:
    maiden = innings.over_conceded == 0 and len(innings.over_bowlers) == 1
    if maiden:
        innings.bowling[innings.over_bowlers[0]].maidens += 1
    innings.overs.append((innings.over_runs, innings.over_wickets, maiden))
    innings.striker, innings.non_striker = innings.non_striker, innings.striker
    innings.previous_bowlers = innings.over_bowlers
    innings.over_bowlers = []
    innings.bowler = None
    innings.over_balls = innings.over_deliveries = innings.over_runs = 0
    innings.over_conceded = innings.over_wickets = 0


def _close_if_over(innings: Innings) -> None:
    if innings.target is not None and innings.runs >= innings.target:
        innings.closed = "target"
    elif innings.wickets >= innings.limit:
        innings.closed = "all out"
    elif innings.balls >= innings.format.balls:
        innings.closed = "overs"
    if innings.closed and innings.striker is not None and innings.non_striker is not None:
        innings.partnerships.append(innings.partner_runs)


SUPER_OVER_BATTERS: Final = 3
"""Batters who can bat in a super over; two dismissals end it."""


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a match.

    Args:
        kind: Won by runs, by wickets or in a super over, or tied (only if super overs are off).
        winner: ``None`` for a tie.
        margin: Runs or wickets; 0 for a tie or a super over.
        balls_left: Valid balls left in a successful chase (R5).
        super_overs: Number of super overs played.
    """

    kind: Literal["runs", "wickets", "super over", "tie"]
    winner: Side | None
    margin: int
    balls_left: int
    super_overs: int

    def words(self, name: str) -> str:
        """Return the result as scorecards print it, for a winner called ``name``.

        >>> Result("wickets", "home", 3, 7, 0).words("Ironbark")
        'Ironbark won by 3 wickets (7 balls left)'
        """
        if self.kind == "tie":
            return "Match tied"
        if self.kind == "super over":
            count = "" if self.super_overs == 1 else f" (the {_ordinal(self.super_overs)})"
            return f"Match tied; {name} won the super over{count}"
        unit = self.kind if self.margin != 1 else self.kind[:-1]
        if self.kind == "runs":
            return f"{name} won by {self.margin} {unit}"
        balls = f"({self.balls_left} ball{'' if self.balls_left == 1 else 's'} left)"
        return f"{name} won by {self.margin} {unit} {balls if self.balls_left else 'off the last ball'}"


def _ordinal(number: int) -> str:
    return {2: "second", 3: "third"}.get(number, f"number {number}")


def other(side: Side) -> Side:
    """Return the opposing side."""
    return "away" if side == "home" else "home"


def target_of(first: Innings) -> int:
    """Return the first innings' total, including penalty runs, plus one (R2)."""
    return first.runs + 1


def decide(innings: Sequence[Innings], batting: Sequence[Side], *, super_over: bool = True) -> Result | None:
    """Return the result of completed ``innings``; ``None`` if the match continues.

    Args:
        innings: Closed innings, oldest first: two of the match, then two of each super over.
    """
    if len(innings) % 2:
        return None
    first, second = innings[-2], innings[-1]
    super_overs = len(innings) // 2 - 1
    if first.runs == second.runs:
        return None if super_over else Result("tie", None, 0, 0, super_overs)
    chased = second.runs > first.runs
    winner = batting[-1] if chased else batting[-2]
    if super_overs:
        return Result("super over", winner, 0, 0, super_overs)
    if chased:
        return Result("wickets", winner, second.format.wickets - second.wickets, second.balls_left, 0)
    return Result("runs", winner, first.runs - second.runs, 0, 0)


def next_batting_side(batting: Sequence[Side]) -> Side:
    """Return the side that bats in the next innings.

    The side that batted second bats first in a super over, and the order is reversed in every further one
    (R6). So after the first pair, the side that batted last also starts the next pair.
    """
    return other(batting[-1]) if len(batting) % 2 else batting[-1]


def barred_batters(innings: Sequence[Innings], batting: Sequence[Side], side: Side) -> frozenset[int]:
    """Return players of ``side`` barred by dismissals in earlier super overs (R6).

    House rule: if fewer than three would be left, all may bat again.
    """
    played = zip(innings[2:], batting[2:], strict=True)
    out = frozenset(fallen[2] for earlier, who in played if who == side for fallen in earlier.fall)
    return out if len(out) <= 11 - SUPER_OVER_BATTERS else frozenset()


def barred_bowlers(innings: Sequence[Innings], batting: Sequence[Side], side: Side) -> frozenset[int]:
    """Return players of ``side`` barred by bowling the previous super over (R6)."""
    for played, who in zip(reversed(innings[2:]), reversed(batting[2:]), strict=True):
        if who != side:
            return frozenset(played.bowling)
    return frozenset()
