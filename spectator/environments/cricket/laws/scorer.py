"""The scorer: the Laws of one innings as functions, ``apply(innings, ball) -> innings``.

It knows neither teams nor chance; players are the indices 0 .. 10 of their sides. Rule names such as ``N7``
are those of docs/cricket-laws.md. Every function that begins with ``take_`` changes the innings it is given
(what a fast engine wants); ``apply``, ``send_in`` and ``give_ball`` return a changed copy instead.
"""

from __future__ import annotations

from spectator.environments.cricket.laws.checks import check_ball, settle
from spectator.environments.cricket.laws.deliveries import BOWLERS_DISMISSALS, RUNNING_DISMISSALS, Ball
from spectator.environments.cricket.laws.innings import BatterLine, BowlerLine, Innings, LawBroken

__all__ = [
    "Innings", "LawBroken", "apply", "award_penalty", "check_ball", "check_bowler", "give_ball", "may_bat",
    "overs_left", "overs_left_of_all", "replace_bowler", "retire", "rule_out", "send_in", "settle",
    "take_ball", "take_batter", "take_bowler",
]  # fmt: skip


def apply(innings: Innings, ball: Ball, fielder: int | None = None) -> Innings:
    """Score one ball.

    Args:
        innings: The innings before it; left as it is.
        ball: What happened.
        fielder: Who caught, stumped or ran out, an index of the fielding side.

    Returns:
        The innings after it.

    Raises:
        LawBroken: The ball could not have happened; the message names the rule.

    >>> from spectator.environments.cricket.laws.formats import format_of
    >>> innings = give_ball(send_in(send_in(Innings(format_of(5)), 0), 1), 10)
    >>> after = apply(apply(innings, Ball(bat=4, boundary=True)), Ball(bat=1, ran=1))
    >>> after.runs, after.balls, after.striker
    (5, 2, 1)
    >>> apply(innings, Ball(wide=True, noball=True, wides=1))
    Traceback (most recent call last):
        ...
    spectator.environments.cricket.laws.innings.LawBroken: N4.wide_and_noball: ...
    """
    after = innings.copy()
    take_ball(after, ball, fielder)
    return after


def send_in(innings: Innings, player: int) -> Innings:
    """The innings with ``player`` come in at the vacant end; see :func:`take_batter`."""
    after = innings.copy()
    take_batter(after, player)
    return after


def give_ball(innings: Innings, player: int) -> Innings:
    """The innings with ``player`` bowling the next over; see :func:`take_bowler`."""
    after = innings.copy()
    take_bowler(after, player)
    return after


def take_batter(innings: Innings, player: int) -> None:
    """Send ``player`` in at the vacant end (K1-K4, K10).

    Raises:
        LawBroken: No batter is awaited, or this one is in, out or not of the side.
    """
    if innings.awaited != "batter":
        raise LawBroken("K10.no_vacancy", "A batter comes in only after a wicket has fallen.")
    if not may_bat(innings, player):
        raise LawBroken("K10.batter", "The next batter must be one of the eleven who has not batted yet.")
    line = innings.batting.get(player)
    if line is None:
        innings.batting[player] = BatterLine(player, len(innings.batting) + 1)
    else:
        innings.retired.remove(player)
        line.how = None
    if innings.striker is None:
        innings.striker = player
    else:
        innings.non_striker = player


def may_bat(innings: Innings, player: int) -> bool:
    """Whether ``player`` may come in: has not batted, or retired hurt and may resume (K7)."""
    if not 0 <= player <= 10 or player in innings.barred_batters:
        return False
    return player not in innings.batting or player in innings.retired


def check_bowler(innings: Innings, player: int) -> None:
    """Raise when ``player`` may not bowl the next over.

    Raises:
        LawBroken: No over is about to begin, or O3 or the limit of O5-O7 forbids it.
    """
    if innings.closed or innings.bowler is not None:
        raise LawBroken("O4.over_in_progress", "The over must be finished by the bowler who began it.")
    if not 0 <= player <= 10:
        raise LawBroken("O3.bowler", "The bowler must be one of the eleven.")
    if player in innings.barred_bowlers:
        raise LawBroken("R6.super_over_bowler", "The bowler of the last super over may not bowl this one.")
    if player in innings.previous_bowlers:
        raise LawBroken("O3.consecutive_overs", "Nobody bowls in two overs running; choose another bowler.")
    if not overs_left(innings, player):
        limit = innings.format.bowler_overs
        raise LawBroken(
            "O5.bowler_limit", f"That bowler has bowled the {limit} over(s) allowed; choose another."
        )


def overs_left(innings: Innings, player: int) -> int:
    """Overs that ``player`` may still begin by the limit (O5-O7)."""
    line = innings.bowling.get(player)
    begun = line.overs_begun if line else 0
    if not innings.format.extra_overs:
        return max(0, innings.format.bowler_overs - begun)
    others = [other.overs_begun for other in innings.bowling.values() if other.player != player]
    return innings.format.overs_allowed([begun, *others], 0)


def overs_left_of_all(innings: Innings) -> list[int]:
    """Overs that each of the eleven may still begin by the limit; see :func:`overs_left`."""
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
    _hand_over(innings, player)


def replace_bowler(innings: Innings, player: int) -> None:
    """Let ``player`` finish an over that its bowler cannot finish (O4).

    Raises:
        LawBroken: No over is in progress, or the replacement bowled the previous over or is at the limit.
    """
    if innings.closed or innings.bowler is None:
        raise LawBroken("O4.no_over", "There is no over to finish.")
    if player in innings.previous_bowlers or player in innings.over_bowlers:
        raise LawBroken("O4.replacement", "The replacement may not have bowled the previous over.")
    if not overs_left(innings, player):
        raise LawBroken("O5.bowler_limit", "The replacement has bowled all the overs allowed.")
    _hand_over(innings, player)


def _hand_over(innings: Innings, player: int) -> None:
    line = innings.bowling.get(player)
    if line is None:
        line = innings.bowling[player] = BowlerLine(player, len(innings.bowling) + 1)
    line.overs_begun += 1
    innings.bowler = player
    innings.over_bowlers.append(player)


def retire(innings: Innings, *, striker: bool, hurt: bool) -> None:
    """Let a batter retire (K7): hurt is no wicket and may resume, otherwise it is one, not the bowler's.

    Raises:
        LawBroken: That batter is not in.
    """
    player = innings.striker if striker else innings.non_striker
    if player is None or innings.closed:
        raise LawBroken("K7.retire", "Only a batter who is in can retire.")
    line = innings.batting[player]
    line.how = "retired hurt" if hurt else "retired out"
    if hurt:
        innings.retired.append(player)
    else:
        _fall(innings, player)
    if striker:
        innings.striker = None
    else:
        innings.non_striker = None
    _close_if_over(innings)


def rule_out(innings: Innings, player: int) -> None:
    """Note that a batter who retired hurt will not resume, which brings the end of the innings nearer (K8).

    Raises:
        LawBroken: The player has not retired hurt.
    """
    if player not in innings.retired:
        raise LawBroken("K8.absent", "Only a batter who retired hurt can be unable to resume.")
    innings.retired.remove(player)
    innings.limit -= 1
    _close_if_over(innings)


def award_penalty(innings: Innings, runs: int = 5) -> None:
    """Add penalty runs to a side's innings that is not facing the ball: its last one, or its next (R8).

    A first innings' penalty runs move the target, which is taken from its total.

    Raises:
        LawBroken: They do not come in fives.
    """
    if runs <= 0 or runs % 5:
        raise LawBroken("R8.penalty", "Penalty runs come in fives.")
    innings.runs += runs
    innings.penalties += runs
    _close_if_over(innings)


def take_ball(innings: Innings, ball: Ball, fielder: int | None = None) -> Ball:
    """Score one ball in place; see :func:`apply`.

    Returns:
        The ball as it counted, which :func:`settle` may have shortened.
    """
    check_ball(innings, ball)
    if innings.target is not None:
        ball = settle(ball, innings.target - innings.runs)
    batter = innings.batting[innings.striker]  # type: ignore[index]  # check_ball saw that both are in
    bowler = innings.bowling[innings.bowler]  # type: ignore[index]  # and that somebody bowls
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
    """Book every run of a ball where it belongs."""
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
    """Count a ball as delivered, faced and valid, as far as it is (W3, N1), and say if a free hit follows."""
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
    _fall(innings, line.player)


def _fall(innings: Innings, player: int) -> None:
    innings.wickets += 1
    innings.over_wickets += 1
    innings.fall.append((innings.runs, innings.wickets, player, innings.balls))
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
