"""Who bowls each over that is left: the planner's look at the whole innings, from the observation alone.

The best bowlers are worth most where most is scored, and a bowler is worth more against batters and on
pitches that do not suit him; but every over that he bowls now he cannot bowl later. So the overs that are
left are given out together, and the next one goes to who has it in the best such order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

from spectator.environments.cricket.ball.situation import Situation
from spectator.environments.cricket.ball.tiredness import next_loads
from spectator.environments.cricket.laws.formats import format_of
from spectator.environments.cricket.people.players import Player

STAYS: Final = 0.85
"""Chance that a batter who is in now is still in an over later: one wicket in 20 balls, either of two."""
WICKETS_AN_OVER: Final = 0.3
_PASSES: Final = 4

Value = Callable[[Situation], float]
Strain = Callable[[Sequence[int]], float]
"""What an order costs beside its overs one by one: bowlers who tire."""
Costs = Sequence[Sequence[float]]
"""What an over of each bowler is worth to the batting side, by over and bowler."""


def best_order(
    costs: Costs, left: Sequence[int], banned: int | None, strain: Strain | None = None
) -> list[int]:
    """Who bowls each over: the order that is worth least to the batting side, found by exchanges.

    Args:
        costs: By over and bowler.
        left: Overs that each bowler may still bowl.
        banned: Who bowled the over before, and may not bowl the first.
        strain: What the order as a whole costs beside; nothing when left out.

    Returns:
        A bowler for each over; empty when they cannot bowl them all.

    >>> best_order([[5, 6], [9, 12], [5, 6]], left=[2, 1], banned=None)
    [0, 1, 0]
    >>> best_order([[1, 2, 9], [9, 12, 13]], left=[1, 1, 1], banned=None)
    [1, 0]
    """
    order = _any_order(len(costs), list(left), banned)
    for _ in range(_PASSES):
        if not _improved(order, costs, left, banned, strain):
            break
    return order


def _any_order(overs: int, left: list[int], banned: int | None) -> list[int]:
    """An order that the Laws allow: always who has most overs left."""
    order, last = list[int](), banned
    for _ in range(overs):
        able = [bowler for bowler, rest in enumerate(left) if rest > 0 and bowler != last]
        if not able:
            return []
        last = max(able, key=lambda bowler: left[bowler])
        left[last] -= 1
        order.append(last)
    return order


def _improved(
    order: list[int], costs: Costs, left: Sequence[int], banned: int | None, strain: Strain | None
) -> bool:
    """Exchange two overs, or give one to somebody with overs to spare, wherever that is worth it."""
    better = False
    for at in range(len(order)):
        for bowler, limit in enumerate(left):
            spare = order.count(bowler) < limit
            if spare and (strain or _less(costs[at][bowler], costs[at][order[at]])):
                better |= _taken(order, {at: bowler}, banned, costs, strain)
        for other in range(at + 1, len(order)):
            mine, theirs = order[at], order[other]
            now = costs[at][mine] + costs[other][theirs]
            if strain or _less(costs[at][theirs] + costs[other][mine], now):
                better |= _taken(order, {at: theirs, other: mine}, banned, costs, strain)
    return better


def _less(tried: float, now: float) -> bool:
    return tried < now - 1e-9


def _taken(
    order: list[int], changes: Mapping[int, int], banned: int | None, costs: Costs, strain: Strain | None
) -> bool:
    """Change an order unless somebody would then bowl two overs running, or strain more than it is worth."""
    tried = order.copy()
    for at, bowler in changes.items():
        tried[at] = bowler
    if tried[0] == banned or any(one == following for one, following in pairwise(tried)):
        return False
    if strain is not None:
        before, after = (
            sum(row[by] for row, by in zip(costs, one, strict=True)) + strain(one) for one in (order, tried)
        )
        if not _less(after, before):
            return False
    order[:] = tried
    return True


def strain_of(costs: Costs, tiring: Costs, loads: Sequence[float]) -> Strain:
    """What tired bowlers cost in an order of overs.

    Args:
        costs: Of fresh bowlers, by over and bowler.
        tiring: The same of bowlers with a load of one over.
        loads: The load of each now.
    """

    def strain(order: Sequence[int]) -> float:
        now, total = list(loads), 0.0
        for at, by in enumerate(order):
            total += now[by] * (tiring[at][by] - costs[at][by])
            now = next_loads(now, by)
        return total

    return strain


def costs_ahead(
    now: Situation,
    bowlers: Sequence[Player],
    batters: Sequence[Player],
    to_come: Sequence[Player],
    value: Value,
) -> list[list[float]]:
    """What each over that is left is worth to the batting side with each bowler, as tired as `now` has it.

    Args:
        now: The ball that the next over begins with.
        bowlers: Who may bowl.
        batters: The two who are in.
        to_come: Who is to come, in the order expected.
        value: What a ball is worth.
    """
    overs = (now.innings_balls - now.balls_bowled + 5) // 6
    return [[_over(now, ahead, by, batters, to_come, value) for by in bowlers] for ahead in range(overs)]


def _over(
    now: Situation,
    ahead: int,
    bowler: Player,
    batters: Sequence[Player],
    to_come: Sequence[Player],
    value: Value,
) -> float:
    """An over of a bowler: over who may then bat, at the score that may then be reached."""
    ball = later(now, ahead)
    stays = STAYS**ahead
    worth = sum(value(replace(ball, striker=one, bowler=bowler)) for one in batters) * stays / 2.0
    first = min(int(WICKETS_AN_OVER * ahead / 2.0), max(0, len(to_come) - 2))
    following = to_come[first : first + 2]
    if not following or not ahead:
        return worth / stays
    new = sum(value(replace(ball, striker=one, bowler=bowler)) for one in following) / len(following)
    return worth + new * (1.0 - stays)


def later(now: Situation, ahead: int) -> Situation:
    """The first ball of an over so many later, if runs and wickets come at their usual pace."""
    if not ahead:
        return now
    bowled = now.balls_bowled + 6 * ahead
    need = now.runs_required
    if need is not None:
        need = max(1, round(need * (now.innings_balls - bowled) / (now.innings_balls - now.balls_bowled)))
    return replace(
        now,
        balls_bowled=bowled,
        powerplay=bowled < format_of(now.innings_balls // 6).powerplay_balls,
        wickets_lost=min(now.wickets_limit - 1, now.wickets_lost + round(WICKETS_AN_OVER * ahead)),
        runs_required=need,
        striker_balls=now.striker_balls + 3 * ahead,
        free_hit=False,
        seen=(),
    )
