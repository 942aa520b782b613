"""Owns the Laws of one innings: a pure scorer, ``apply(innings, ball) -> innings``.

It knows neither teams nor chance; players are the indices 0 .. 10 of their sides. Rule names such as ``N7``
are those of docs/cricket-laws.md. Every function that begins with ``take_`` changes the innings it is given
(what a fast engine wants); ``apply``, ``send_in`` and ``give_ball`` return a changed copy instead.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeVar

from spectator.environments.cricket.formats import Format
from spectator.environments.cricket.models import (
    BOWLERS_DISMISSALS,
    DISMISSALS,
    NO_BALL_DISMISSALS,
    RUNNING_DISMISSALS,
    WIDE_DISMISSALS,
    Ball,
)

Awaited = Literal["batter", "bowler", "ball", "nothing"]


class LawBroken(ValueError):
    """Something that the Laws do not allow; nothing was changed.

    Args:
        rule: Short stable name, such as ``O3.consecutive_overs``.
        message: A sentence that says what would be lawful.
    """

    def __init__(self, rule: str, message: str) -> None:
        self.rule = rule
        self.message = message
        super().__init__(f"{rule}: {message}")


class BatterLine:
    """One batter's line of the scorecard; ``number`` is the order of appearance, from 1."""

    __slots__ = ("balls", "bowler", "fielder", "fours", "how", "number", "player", "runs", "sixes")

    def __init__(self, player: int, number: int = 0) -> None:
        self.player = player
        self.number = number
        self.runs = self.balls = self.fours = self.sixes = 0
        self.how: str | None = None
        self.bowler: int | None = None
        self.fielder: int | None = None


class BowlerLine:
    """One bowler's line of the scorecard; ``overs_begun`` counts part overs as whole ones (O4)."""

    __slots__ = ("balls", "maidens", "noballs", "number", "overs_begun", "player", "runs", "wickets", "wides")

    def __init__(self, player: int, number: int = 0) -> None:
        self.player = player
        self.number = number
        self.balls = self.runs = self.wickets = self.maidens = self.wides = self.noballs = (
            self.overs_begun
        ) = 0


Line = TypeVar("Line", BatterLine, BowlerLine)


class Innings:
    """The state of one innings; it begins with both ends vacant and awaits its openers.

    ``striker`` and ``non_striker`` are ends as much as players: ``None`` marks an end that the next batter
    takes. ``fall`` holds (runs, wicket, player, balls) and ``overs`` (runs, wickets, maiden)
    of each completed over, ``over_starters`` who began each over.

    Args:
        format: Its format.
        target: Runs that win it; ``None`` in a first innings.
        players: Batters that the side has (11; K8).
        barred_batters: Players who may not bat, as dismissed in an earlier super over (R6).
        barred_bowlers: Players who may not bowl, as the bowler of the super over before (R6).
    """

    __slots__ = (
        "balls",
        "barred_batters",
        "barred_bowlers",
        "batting",
        "bowler",
        "bowling",
        "byes",
        "closed",
        "deliveries",
        "fall",
        "format",
        "free_hit",
        "legbyes",
        "limit",
        "noballs",
        "non_striker",
        "over_balls",
        "over_bowlers",
        "over_conceded",
        "over_deliveries",
        "over_runs",
        "over_starters",
        "over_wickets",
        "overs",
        "partner_balls",
        "partner_runs",
        "partnerships",
        "penalties",
        "previous_bowlers",
        "retired",
        "runs",
        "striker",
        "target",
        "wickets",
        "wides",
    )

    def __init__(
        self,
        format: Format,
        *,
        target: int | None = None,
        players: int = 11,
        barred_batters: Iterable[int] = (),
        barred_bowlers: Iterable[int] = (),
    ) -> None:
        self.format = format
        self.target = target
        self.barred_batters = frozenset(barred_batters)
        self.barred_bowlers = frozenset(barred_bowlers)
        self.limit = min(format.wickets, players - 1)
        self.runs = self.wickets = self.balls = self.deliveries = 0
        self.wides = self.noballs = self.byes = self.legbyes = self.penalties = 0
        self.striker: int | None = None
        self.non_striker: int | None = None
        self.batting: dict[int, BatterLine] = {}
        self.bowling: dict[int, BowlerLine] = {}
        self.bowler: int | None = None
        self.over_bowlers: list[int] = []
        self.previous_bowlers: list[int] = []
        self.over_starters: list[int] = []
        self.over_balls = self.over_deliveries = self.over_runs = self.over_conceded = self.over_wickets = 0
        self.free_hit = False
        self.fall: list[tuple[int, int, int, int]] = []
        self.partner_runs = self.partner_balls = 0
        self.partnerships: list[int] = []
        self.overs: list[tuple[int, int, bool]] = []
        self.retired: list[int] = []
        self.closed: Literal["overs", "all out", "target"] | None = None

    @property
    def awaited(self) -> Awaited:
        """What must happen next: the next batter comes in before the next bowler is chosen."""
        if self.closed:
            return "nothing"
        if self.striker is None or self.non_striker is None:
            return "batter"
        return "bowler" if self.bowler is None else "ball"

    @property
    def needed(self) -> int | None:
        """Runs still needed to win; ``None`` in a first innings."""
        return None if self.target is None else self.target - self.runs

    @property
    def balls_left(self) -> int:
        """Valid balls left."""
        return self.format.balls - self.balls

    def copy(self) -> Innings:
        """An independent copy."""
        twin = Innings.__new__(Innings)
        for name in Innings.__slots__:
            value = getattr(self, name)
            if isinstance(value, list):
                value = value.copy()
            setattr(twin, name, value)
        twin.batting = {player: _copy_line(line) for player, line in self.batting.items()}
        twin.bowling = {player: _copy_line(line) for player, line in self.bowling.items()}
        return twin


def _copy_line(line: Line) -> Line:
    twin = type(line)(line.player)
    for name in line.__slots__:
        setattr(twin, name, getattr(line, name))
    return twin


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


def check_ball(innings: Innings, ball: Ball) -> None:
    """Raise when ``ball`` could not have happened now.

    Raises:
        LawBroken: The message names the rule.
    """
    if innings.closed:
        raise LawBroken("R1.innings_closed", "The innings is over; no ball can follow.")
    if innings.awaited != "ball":
        raise LawBroken("R1.not_ready", f"A {innings.awaited} is awaited before the next ball.")
    if ball.wide or ball.noball or ball.dismissal or ball.byes or ball.legbyes or ball.wides or ball.penalty:
        _check_extras(ball)
        if ball.dismissal:
            _check_dismissal(innings, ball)
    scored = ball.bat + ball.byes + ball.legbyes + (ball.wides - 1 if ball.wide else 0)
    if ball.bat < 0 or ball.ran < 0:
        raise LawBroken("S1.negative", "Runs cannot be negative.")
    if not ball.boundary:
        if ball.ran != scored:
            raise LawBroken("S1.ran", "Without a boundary the runs scored are the runs run.")
    elif scored != ball.ran + 4 and not (ball.bat == 6 and not ball.ran) and not scored == ball.ran > 4:
        raise LawBroken(
            "S4.allowance", "A boundary is worth 4, or 6 off the bat, beside the runs already run."
        )


def _check_extras(ball: Ball) -> None:
    if ball.wide and ball.noball:
        raise LawBroken("N4.wide_and_noball", "A no-ball overrides the call of wide.")
    if ball.wide and (ball.bat or ball.byes or ball.legbyes or ball.wides < 1):
        raise LawBroken("W2.all_wides", "All runs off a wide are wides, the first one included.")
    if ball.wides and not ball.wide:
        raise LawBroken("W2.not_wide", "Only a wide brings wides.")
    if (ball.bat > 0) + (ball.byes > 0) + (ball.legbyes > 0) > 1 or ball.byes < 0 or ball.legbyes < 0:
        raise LawBroken("S9.one_kind", "Runs are off the bat, or byes, or leg-byes.")
    if ball.penalty % 5 or ball.penalty < 0:
        raise LawBroken("R8.penalty", "Penalty runs come in fives.")


def _check_dismissal(innings: Innings, ball: Ball) -> None:
    kind = ball.dismissal
    if kind not in DISMISSALS:
        raise LawBroken(
            "K5.dismissal", f"No ball can bring {kind!r}; it can bring {', '.join(sorted(DISMISSALS))}."
        )
    if innings.free_hit and kind not in NO_BALL_DISMISSALS:
        raise LawBroken("N7.free_hit", f"A batter cannot be out {kind} on a free hit, not even off a wide.")
    if ball.noball and kind not in NO_BALL_DISMISSALS:
        raise LawBroken("N3.no_ball", f"A batter cannot be out {kind} off a no-ball.")
    if ball.wide and kind not in WIDE_DISMISSALS:
        raise LawBroken("W4.wide", f"A batter cannot be out {kind} off a wide.")
    if kind in RUNNING_DISMISSALS:
        return
    if ball.bat or ball.byes or ball.legbyes or ball.ran or ball.wides > 1:
        raise LawBroken("S6.no_runs", f"No runs are scored when a batter is out {kind}, but for a penalty.")
    if not ball.striker_out:
        raise LawBroken("K3.striker", f"Only the striker can be out {kind}.")


def settle(ball: Ball, needed: int) -> Ball:
    """The part of ``ball`` that counts when ``needed`` runs win the match (R3, R4).

    Once the winning run is made nothing later counts, not even a wicket; but a boundary hit before enough
    runs were run counts in full.
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


def take_ball(innings: Innings, ball: Ball, fielder: int | None = None) -> Ball:
    """Score one ball in place; see :func:`apply`.

    Returns:
        The ball as it counted, which :func:`settle` may have shortened.
    """
    bat, wide, noball, wides, byes, legbyes, penalty, ran, boundary, dismissal, _, _ = ball
    plain = ran == bat and not (
        wide or noball or boundary or dismissal or byes or legbyes or wides or penalty
    )
    if not plain or bat < 0 or innings.closed or innings.awaited != "ball":
        check_ball(innings, ball)
    if (
        innings.target is not None
        and bat + wides + byes + legbyes + penalty + 1 >= innings.target - innings.runs
    ):
        ball = settle(ball, innings.target - innings.runs)
        bat, wide, noball, wides, byes, legbyes, penalty, ran, boundary, dismissal, _, _ = ball
    runs = bat + wides + noball + byes + legbyes + penalty
    batter = innings.batting[innings.striker]  # type: ignore[index]  # check_ball saw that both are in
    bowler = innings.bowling[innings.bowler]  # type: ignore[index]  # and that somebody bowls
    innings.deliveries += 1
    innings.over_deliveries += 1
    innings.runs += runs
    innings.over_runs += runs
    innings.partner_runs += runs
    conceded = bat + wides + noball
    bowler.runs += conceded
    innings.over_conceded += conceded
    if bat:
        batter.runs += bat
        if boundary and not ran:
            if bat == 4:
                batter.fours += 1
            elif bat == 6:
                batter.sixes += 1
    elif byes or legbyes or penalty:
        innings.byes += byes
        innings.legbyes += legbyes
    innings.penalties += penalty
    if wide:
        innings.wides += wides
        bowler.wides += wides
    else:
        batter.balls += 1
        innings.partner_balls += 1
        if noball:
            innings.noballs += 1
            bowler.noballs += 1
            innings.free_hit = True
        else:
            innings.balls += 1
            innings.over_balls += 1
            bowler.balls += 1
            innings.free_hit = False
    if dismissal:
        _dismiss(innings, ball, bowler, fielder)
    elif ran & 1:
        innings.striker, innings.non_striker = innings.non_striker, innings.striker
    if innings.over_balls == 6:
        _end_over(innings)
    _close_if_over(innings)
    return ball


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
