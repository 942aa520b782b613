"""The state of a match for forecasts, and the choice of bowlers.

Captains, simulations and forecasts share one rule for the next bowler of a side without a plan.
"""

from __future__ import annotations

import csv
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from spectator.environments.cricket.ball.grounds import EVEN, Boundaries, Conditions
from spectator.environments.cricket.ball.situation import load_by_over, tired_extras, tired_runs
from spectator.environments.cricket.forecast.arrays import Floats
from spectator.environments.cricket.people import Player, best_quick, bowling_worth

_DATA: Final = Path(__file__).parent.parent / "data"


SPELL: Final = 0.35
"""Bonus of the bowler of the over before last, who continues from the same end (bowler_usage.json)."""
RESERVE: Final = 0.6
"""Penalty on using the last overs of the best quick bowlers before the death, as far as it needs them."""
FRESH_AT_DEATH: Final = 0.8
"""Penalty on a bowler's first over in the last fifth of an innings."""
FEW_OVERS: Final = 10
"""Innings of fewer overs end with pace; in longer ones it depends on the bowlers with overs left."""
SECOND_OVER: Final = 0.5
"""Bonus of bowlers with one over left of two: five overs are usually bowled 2-2-1, eight 2-2-2-2. Few such
innings are known, so the figure is chosen by hand."""


@dataclass(slots=True)
class BowlingAttack:
    """A side's bowling between two overs; players are indices of its eleven.

    Args:
        limit: Overs that a bowler may bowl.
        extra: Number of bowlers who may bowl one more (Law O5).
        starters: The bowler who began each over so far.
        left: Overs that each player may still begin.
        worth: Value of each player as a bowler, see `Team.bowling_worth`.
        spins: Whether each player bowls spin when bowling.
        death_bowlers: The best quick bowlers, best first.
        habit: How late the side turns to spin, 0 to 1.
    """

    overs: int
    limit: int
    extra: int
    starters: list[int]
    left: list[int]
    worth: Sequence[float]
    bowls: Sequence[bool]
    spins: Sequence[bool]
    death_bowlers: Sequence[int]
    habit: float = 0.5

    @classmethod
    def of(
        cls, players: Sequence[Player], overs: int, limit: int, extra: int = 0, habit: float = 0.5
    ) -> BowlingAttack:
        """Return an eleven's bowling before an innings; non-bowlers get no overs.

        Args:
            limit: Overs that a bowler may bowl.
            extra: Number of bowlers who may bowl one more.
            habit: How late the side turns to spin, 0 to 1.
        """
        share = limit + (1 if extra else 0)
        return cls(
            overs,
            limit,
            extra,
            [],
            [share if player.bowls else 0 for player in players],
            tuple(bowling_worth(player) for player in players),
            tuple(player.bowls is not None for player in players),
            tuple(player.bowls != "pace" for player in players),
            best_quick(players),
            habit,
        )

    def copy(self) -> BowlingAttack:
        """Return an independent copy."""
        return replace(self, starters=self.starters.copy(), left=self.left.copy())

    def take(self, bowler: int) -> None:
        """Give ``bowler`` the next over."""
        self.starters.append(bowler)
        self.left[bowler] -= 1
        if self.extra and self.starters.count(bowler) > self.limit:
            self.extra -= 1
            if not self.extra:
                begun = [self.starters.count(player) for player in range(len(self.left))]
                self.left = [
                    min(left, max(0, self.limit - overs))
                    for left, overs in zip(self.left, begun, strict=True)
                ]


def choose_bowler(attack: BowlingAttack, eligible: Sequence[int]) -> int:
    """Return the bowler of the next over.

    The rule keeps to the real share of spin by over, prefers better bowlers, continues spells, keeps the best
    quick bowlers for the end, and never leaves overs that no player may bowl.

    Args:
        eligible: Players who may bowl the over; not empty.
    """
    over, overs, limit, left = len(attack.starters), attack.overs, attack.limit, attack.left
    death = max(1, overs // 5)
    pace_to_end = overs < FEW_OVERS and over == overs - 1
    wants_spin = not pace_to_end and _wants_spin(attack, over)
    late = over >= overs - death
    reserved = () if late else attack.death_bowlers[: max(1, 2 * death // limit)]
    from_this_end = attack.starters[-2] if over > 1 else None
    scores: list[tuple[float, int]] = []
    for player in eligible:
        score = attack.worth[player]
        if attack.spins[player] == wants_spin:
            score += 1.0
        if player == from_this_end:
            score += SPELL
        if limit == 2 and left[player] == 1:
            score += SECOND_OVER
        if late and player not in attack.starters:
            score -= FRESH_AT_DEATH
        if player in reserved and 2 * left[player] <= limit:
            score -= RESERVE
        scores.append((score, -player))
    scores.sort(reverse=True)
    own = [overs if bowls else 0 for overs, bowls in zip(left, attack.bowls, strict=True)]
    for _, player in scores:
        if can_finish(own, -player, overs - over - 1):
            return -player
    return -scores[0][1]


def plan_remaining_overs(attack: BowlingAttack, last: int | None) -> list[int]:
    """Return the bowler of each remaining over; this changes ``attack``.

    Args:
        attack: The bowling so far, between two overs.
        last: The bowler of the previous over, who may not bowl the next.
    """
    chosen: list[int] = []
    for _ in range(len(attack.starters), attack.overs):
        eligible = [player for player, overs in enumerate(attack.left) if overs > 0 and player != last]
        if not eligible:
            eligible = [player for player in range(len(attack.left)) if player != last]
        last = choose_bowler(attack, eligible)
        attack.take(last)
        chosen.append(last)
    return chosen


@cache
def spin_shares() -> tuple[float, ...]:
    """Return the share of spin in each over of real 20-over innings."""
    with (_DATA / "bowler_kind_share_by_over.csv").open(encoding="utf-8", newline="") as file:
        return tuple(float(row["spin"]) for row in csv.DictReader(file))


@cache
def _spin_due(overs: int) -> tuple[float, ...]:
    """Return real sides' overs of spin after each over of an innings."""
    shares = spin_shares()
    return tuple(accumulate(shares[over * len(shares) // overs] for over in range(overs)))


def _wants_spin(attack: BowlingAttack, over: int) -> bool:
    """Check whether spin has bowled less than real sides', adjusted by habit."""
    spins = attack.spins
    bowled = sum([spins[player] for player in attack.starters])
    return bool(bowled + 0.1 + 0.8 * attack.habit <= _spin_due(attack.overs)[over])


@lru_cache(maxsize=1024)
def spin_habit(name: str, innings: int) -> float:
    """Return how late this side turns to spin in this innings, 0 to 1."""
    return zlib.crc32(f"{name}:{innings}".encode()) / 2**32


def can_finish(left: Sequence[int], chosen: int, rest: int) -> bool:
    """Check whether the side can bowl ``rest`` more overs after ``chosen`` bowls one."""
    half = (rest + 1) // 2
    capacity = min(max(0, left[chosen] - 1), rest // 2) - min(left[chosen], half)
    for overs in left:
        capacity += overs if overs < half else half
    return capacity >= rest


class ForecastState(NamedTuple):
    """The forecast's state of a match; players are indices of their eleven.

    Args:
        balls: Valid balls bowled in the innings.
        target: Runs that win; ``None`` in a first innings.
        to_come: Batters to come, in the expected order.
        batting: The batting side's eleven.
        bowling: The other side's eleven; a player who does not bowl counts as an off-spinner.
        bowler: The bowler of the current over; ``None`` between overs.
        overs_left: Overs that each player of the bowling side may still begin.
        last_bowler: The bowler of the previous over, who may not bowl the next.
        bowler_overs: Overs that a bowler may bowl in a whole innings, for the next innings.
        effect_mean: Expected match and innings effect relative to the model's level; 0 without information.
        effect_sd: Its uncertainty; ``None`` means the model's own spread.
        attack: The bowling side's bowling so far; by default derived from ``bowling`` and ``overs_left``.
        reply: The batting side's bowling in the next innings; by default derived from ``batting``.
        boundaries: Boundaries of the ground; empty for the neutral one.
    """

    innings_balls: int
    powerplay_balls: int
    balls: int
    runs: int
    wickets: int
    target: int | None
    striker: int
    striker_balls: int
    partner: int
    partner_balls: int
    to_come: tuple[int, ...]
    batting: tuple[Player, ...]
    bowling: tuple[Player, ...]
    bowler: int | None
    overs_left: tuple[int, ...]
    last_bowler: int | None = None
    bowler_overs: int = 4
    free_hit: bool = False
    wickets_limit: int = 10
    effect_mean: float = 0.0
    effect_sd: float | None = None
    attack: BowlingAttack | None = None
    reply: BowlingAttack | None = None
    conditions: Conditions = EVEN
    second: bool = False
    boundaries: Boundaries = ()
    fatigue: bool = False


def plan_overs(state: ForecastState) -> list[int]:
    """Return the bowler of each over of the innings.

    Past overs may be arbitrary; `choose_bowler` chooses the rest.

    No bowler bowls twice in a row, or more overs than allowed.
    """
    now = state.balls // 6
    attack = state.attack.copy() if state.attack is not None else _attack(state, now)
    plan = attack.starters[:now] if state.fatigue else [0] * now
    last = state.last_bowler
    if state.bowler is not None:
        plan.append(state.bowler)
        last = state.bowler
        if len(attack.starters) == now:
            attack.starters.append(state.bowler)
    return plan + plan_remaining_overs(attack, last)


def _attack(state: ForecastState, now: int) -> BowlingAttack:
    """Return the bowling of a state without a record: the usual bowlers."""
    attack = BowlingAttack.of(state.bowling, overs_of(state), state.bowler_overs)
    attack.starters = plan_remaining_overs(attack.copy(), None)[:now]
    attack.left = list(state.overs_left)
    return attack


def tired_overs(plan: Sequence[int], bowling: Sequence[Player]) -> Floats:
    """Return each over's effect of tiredness.

    Args:
        plan: The bowler of each over, including past overs.

    Returns:
        Log ratio of runs, and ratio of wides and no-balls, shape ``(2, overs)``.
    """
    loads = list(zip(plan, load_by_over(plan), strict=True))
    runs = [tired_runs(bowling[bowler].bowls != "pace", load) for bowler, load in loads]
    return np.array([runs, [tired_extras(load) for _, load in loads]], dtype=np.float32)


def overs_of(state: ForecastState) -> int:
    """Return the overs of a whole innings."""
    return (state.innings_balls + 5) // 6


def check_state(state: ForecastState) -> None:
    """Raise if a state is not one of an innings in progress.

    Raises:
        ValueError: The message names the wrong figure.
    """
    if len(state.batting) != 11 or len(state.bowling) != 11 or len(state.overs_left) != 11:
        raise ValueError("batting, bowling and overs_left must have eleven entries")
    if not 0 <= state.balls < state.innings_balls:
        raise ValueError(
            f"balls must be 0 to {state.innings_balls - 1} while an innings is in progress, not {state.balls}"
        )
    if not 0 <= state.wickets < state.wickets_limit:
        raise ValueError(f"wickets must be 0 to {state.wickets_limit - 1}, not {state.wickets}")
    if state.target is not None and state.runs >= state.target:
        raise ValueError("the target is reached; the innings is over")
