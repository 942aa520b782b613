"""Checks that refuse a ball that could not have happened, and the cut-off at the winning run.

Rule names such as ``N7`` are those of docs/cricket-laws.md.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from spectator.environments.cricket.laws.deliveries import (
    DISMISSALS,
    NO_BALL_DISMISSALS,
    RUNNING_DISMISSALS,
    WIDE_DISMISSALS,
    Ball,
)
from spectator.environments.cricket.laws.innings import Innings, LawBroken

_NOT_ON_FREE_HIT: Final = DISMISSALS - NO_BALL_DISMISSALS


def check_ball(innings: Innings, ball: Ball) -> None:
    """Raise when ``ball`` could not have happened now.

    Raises:
        LawBroken: The message names the rule.
    """
    if innings.closed:
        raise LawBroken("R1.innings_closed", "The innings is over; no ball can follow.")
    if innings.awaited != "ball":
        raise LawBroken("R1.not_ready", f"A {innings.awaited} is awaited before the next ball.")
    if innings.free_hit and ball.dismissal in _NOT_ON_FREE_HIT:
        raise LawBroken(
            "N7.free_hit", f"A batter cannot be out {ball.dismissal} on a free hit, not even off a wide."
        )
    check_alone(ball)


@lru_cache(maxsize=4096)
def check_alone(ball: Ball) -> None:
    """Raise when ``ball`` could not have happened anywhere; one that was in order is not looked at again.

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


def _check_dismissal(ball: Ball) -> None:
    kind = ball.dismissal
    if kind not in DISMISSALS:
        raise LawBroken(
            "K5.dismissal", f"No ball can bring {kind!r}; it can bring {', '.join(sorted(DISMISSALS))}."
        )
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
