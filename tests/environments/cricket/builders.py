"""Small builders for cricket tests: innings ready for a ball, and deliveries by their usual names."""

from __future__ import annotations

from collections.abc import Iterable

from spectator.environments.cricket import scorer as laws
from spectator.environments.cricket.laws import Ball, Format, Innings, LawBroken, format_of

DOT = Ball()
FOUR = Ball(bat=4, boundary=True)
SIX = Ball(bat=6, boundary=True)
WIDE = Ball(wide=True, wides=1)
NO_BALL = Ball(noball=True)
BOWLED = Ball(dismissal="bowled")
CAUGHT = Ball(dismissal="caught")
STUMPED = Ball(dismissal="stumped")


def runs(number: int) -> Ball:
    """Runs off the bat, all run."""
    return Ball(bat=number, ran=number)


def fresh(
    overs: int = 20, *, target: int | None = None, format: Format | None = None, bowler: int = 10
) -> Innings:
    """An innings whose openers 0 (on strike) and 1 are in and whose first over is ``bowler``'s."""
    innings = Innings(format or format_of(overs), target=target)
    laws.take_batter(innings, 0)
    laws.take_batter(innings, 1)
    laws.take_bowler(innings, bowler)
    return innings


def apply(innings: Innings, ball: Ball) -> Innings:
    after = innings.copy()
    laws.take_ball(after, ball)
    return after


def send_in(innings: Innings, player: int) -> Innings:
    after = innings.copy()
    laws.take_batter(after, player)
    return after


def give_ball(innings: Innings, player: int) -> Innings:
    after = innings.copy()
    laws.take_bowler(after, player)
    return after


def bowl(innings: Innings, *balls: Ball) -> Innings:
    """``innings`` after ``balls``, purely; new batters and bowlers come as needed."""
    for ball in balls:
        innings = apply(ready(innings), ball)
    return innings


def ready(innings: Innings) -> Innings:
    """``innings`` with whoever is awaited brought on: next in the order, bowlers 10 and 9 in turn."""
    innings = innings.copy()
    while innings.awaited in ("batter", "bowler"):
        if innings.awaited == "batter":
            laws.take_batter(innings, next(p for p in range(11) if laws.may_bat(innings, p)))
        else:
            laws.take_bowler(
                innings, next(p for p in (10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0) if _may_bowl(innings, p))
            )
    return innings


def _may_bowl(innings: Innings, player: int) -> bool:
    try:
        laws.check_bowler(innings, player)
    except LawBroken:
        return False
    return True


def over_of(balls: Iterable[Ball]) -> list[Ball]:
    """Six valid balls, made up with dots."""
    listed = list(balls)
    return listed + [DOT] * (6 - sum(ball.valid for ball in listed))


def everything(innings: Innings) -> dict[str, object]:
    """All that an innings holds, comparable."""
    plain = {name: getattr(innings, name) for name in innings.__slots__ if name not in ("batting", "bowling")}
    cards = {
        card: [[getattr(line, name) for name in line.__slots__] for line in getattr(innings, card).values()]
        for card in ("batting", "bowling")
    }
    return {**plain, **cards}
