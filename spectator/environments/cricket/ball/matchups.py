"""What makes one decision better than another: who faces whom, on which pitch, after which deliveries.

Every figure here is an assumption: no table of ours splits a batter's record by kind of bowling, length or
side, and none knows a pitch or an evening. They are set to the size of what the tables do measure between
players (a batter's runs differ by 7 to 10 % between professionals). All of it is told to both captains, and
none of it is worth anything to who does not look at it: traits, pitches and evenings favour either side
equally often, and a repeated delivery only ever helps the batter.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from spectator.environments.cricket.ball.vocabulary import LENGTHS, LINES, SHOTS, FieldShape
from spectator.environments.cricket.people.players import Player

Pitch = Literal["green", "even", "dry"]
Evening = Literal["wearing", "even", "dew"]
PITCHES: Final[tuple[Pitch, ...]] = ("green", "even", "dry")
EVENINGS: Final[tuple[Evening, ...]] = ("wearing", "even", "dew")

SPIN_SHARE: Final = 0.38
"""Share of balls that spin bowls; what a batter or pitch gives spin it takes from pace, by these shares."""
PITCH_RUNS: Final = 0.07
"""Log ratio of runs between pace and spin on a pitch that helps one of them."""
EVENING_RUNS: Final = 0.04
"""Log ratio of runs in a second innings with dew, or on a pitch that wears."""
EVENING_SPIN: Final = 0.05
"""How much more of it spin gives away, or gains."""

MEMORY: Final = 6
"""Deliveries that a batter has in mind: the last ones that he faced."""
READ: Final = 0.10
"""Log ratio of runs of a length, or line, that is bowled as surely as it has just been bowled."""
READ_LENGTHS: Final = (1.0, 1.0, 1.0, 0.0, 0.6, 1.0)
READ_LINES: Final = (1.0, 0.4, 0.0, 1.0)
"""How much of that each length and line has: a good length is no easier for being expected."""

LENGTH_SIDE: Final = (-1.0, -1.0, -1.0, 0.0, 1.0, 1.0)
"""Whether a length is full (-1) or short (1), in the order of `LENGTHS`."""
LINE_SIDE: Final = (-1.0, -0.6, 0.4, 1.0)
"""Whether a line feeds the off side (-1) or the leg side (1), in the order of `LINES`."""
SHOT_SIDE: Final = {
    shot: sum(1.0 if sector <= 3 else -1.0 if sector >= 6 else 0.0 for sector in sectors) / len(sectors)
    for shot, sectors in SHOTS.items()
}
"""Whether a stroke goes to the off side (-1) or the leg side (1)."""

LENGTH_GAIN: Final = 1.1
LINE_GAIN: Final = 0.8
FIELD_GAIN: Final = 1.1
SHOT_GAIN: Final = 0.5
GAP_GAIN: Final = 0.10
GUESS_GAIN: Final = 0.18
INTENT_GAIN: Final = 0.7
"""How far each decision makes use of what it fits."""
INTENT_COST: Final = 0.02
"""What an intent at either end of its scale costs in log runs, beside what it buys: nobody is at his best
there."""
WICKET_FIT: Final = 1.0
"""Log ratio of wickets against the log ratio of runs of a match-up, with the other sign."""


PLACE_COST: Final = 0.03
"""Log runs that a batter loses for each place in the order that he comes in above or below his own."""
MOST_PLACES: Final = 5


class Conditions(NamedTuple):
    """Pitch and evening of a match, known to both captains before the toss.

    Args:
        pitch: ``green`` helps pace, ``dry`` helps spin.
        evening: ``dew`` makes a second innings easier to bat in, above all against spin; ``wearing`` the
            reverse.
    """

    pitch: Pitch = "even"
    evening: Evening = "even"


EVEN: Final = Conditions()


def draw_conditions(rng: random.Random) -> Conditions:
    """Draw a match's pitch and evening: even in half of all matches, either side of it in a quarter each."""
    (pitch,) = rng.choices(PITCHES, (1, 2, 1))
    (evening,) = rng.choices(EVENINGS, (1, 2, 1))
    return Conditions(pitch, evening)


KIND_OF_BOWLING: Final = {False: -SPIN_SHARE, True: 1.0 - SPIN_SHARE}
"""Weight of what distinguishes spin (``True``) from pace: 0.62 and -0.38, 0 over all balls."""


def condition_runs(conditions: Conditions, spin: bool, second: bool) -> float:
    """Log ratio of runs by pitch and evening, against this kind of bowling.

    >>> round(condition_runs(Conditions("dry", "dew"), spin=True, second=False), 4)
    -0.0434
    """
    kind = KIND_OF_BOWLING[spin]
    runs = PITCH_RUNS * kind * {"green": 1.0, "even": 0.0, "dry": -1.0}[conditions.pitch]
    if second:
        way = {"wearing": -1.0, "even": 0.0, "dew": 1.0}[conditions.evening]
        runs += way * (EVENING_RUNS + EVENING_SPIN * kind)
    return runs


_CONDITION_RUNS: Final = {
    (pitch, evening, spin, second): condition_runs(Conditions(pitch, evening), spin, second)
    for pitch in PITCHES
    for evening in EVENINGS
    for spin in (False, True)
    for second in (False, True)
}


def match_up(striker: Player, bowler: Player, conditions: Conditions, second: bool) -> float:
    """Log ratio of runs that this batter makes off this bowler today, beside what both are on average: by
    kind of bowling, pitch and evening, and both players' form."""
    spin = bowler.bowls != "pace"
    fit = striker.bat_spin * KIND_OF_BOWLING[spin] + _CONDITION_RUNS[(*conditions, spin, second)]
    return fit + (striker.bat_form - bowler.bowl_form)


def out_of_place(order: int, place: int) -> float:
    """Log runs that a batter of this natural order loses when he comes in at ``place``.

    >>> out_of_place(order=4, place=4), out_of_place(order=7, place=1)
    (0.0, 0.15)
    """
    return PLACE_COST * min(MOST_PLACES, abs(order - place))


class Aim(NamedTuple):
    """How far a planned delivery departs from habit, in the shares of lengths and lines that come of it.

    Args:
        lengths: Share of each length less its usual share.
        lines: The same of each line.
        usual_lengths: Usual share of each length.
        usual_lines: The same of each line.
        short: Departure towards short (1) or full (-1).
        leg: Departure towards the leg side (1) or the off side (-1).
    """

    lengths: tuple[float, ...]
    lines: tuple[float, ...]
    usual_lengths: tuple[float, ...]
    usual_lines: tuple[float, ...]
    short: float
    leg: float


def aim_of(planned: Sequence[float], usual: Sequence[float]) -> Aim:
    """What a plan changes, from shares of the (length, line) pairs that each sum to 1."""
    lines = len(LINES)

    def margins(shares: Sequence[float]) -> tuple[list[float], list[float]]:
        lengths = [sum(shares[at * lines : (at + 1) * lines]) for at in range(len(LENGTHS))]
        return lengths, [sum(shares[at::lines]) for at in range(lines)]

    (lengths, across), (habit, habit_across) = margins(planned), margins(usual)
    more = tuple(a - b for a, b in zip(lengths, habit, strict=True))
    wider = tuple(a - b for a, b in zip(across, habit_across, strict=True))
    return Aim(
        more,
        wider,
        tuple(habit),
        tuple(habit_across),
        sum(side * part for side, part in zip(LENGTH_SIDE, more, strict=True)),
        sum(side * part for side, part in zip(LINE_SIDE, wider, strict=True)),
    )


def delivery_fit(aim: Aim, striker: Player, seen: Sequence[int], leg: float = 0.0) -> float:
    """Log ratio of runs of a planned delivery to this batter: his weaknesses, and what he has just seen.

    Args:
        aim: The plan.
        striker: Who faces.
        seen: The (length, line) pairs that he faced last, oldest first.
        leg: What the ground adds to his liking of the leg side, see :func:`.grounds.lean`.
    """
    fit = LENGTH_GAIN * striker.bat_short * aim.short + LINE_GAIN * (striker.bat_leg + leg) * aim.leg
    if seen:
        fit += READ * _remembered(aim, seen)
    return fit


def _remembered(aim: Aim, seen: Sequence[int]) -> float:
    """How much of a plan's departure from habit the batter has just seen, against what habit shows."""
    last, lines = seen[-MEMORY:], len(LINES)
    more = 0.0
    for pair in last:
        length, line = divmod(pair, lines)
        more += READ_LENGTHS[length] * aim.lengths[length] + READ_LINES[line] * aim.lines[line]
    usual = sum(a * b * c for a, b, c in zip(aim.lengths, aim.usual_lengths, READ_LENGTHS, strict=True))
    usual += sum(a * b * c for a, b, c in zip(aim.lines, aim.usual_lines, READ_LINES, strict=True))
    return (more - len(last) * usual) / MEMORY


def field_fit(shape: FieldShape, reference: FieldShape, striker: Player, leg: float = 0.0) -> float:
    """Log ratio of runs of a field to this batter: men on his better side save what he is good at.

    Args:
        shape: The field.
        reference: The usual one.
        striker: Who faces.
        leg: What the ground adds to his liking of the leg side.
    """
    return -FIELD_GAIN * (striker.bat_leg + leg) * (_leg_side(shape) - _leg_side(reference))


def _leg_side(shape: FieldShape) -> float:
    """How much of a field stands on the leg side, less what stands on the off side, of 1."""
    men = [a + b + c for a, b, c in zip(shape.ring, shape.deep, shape.catching, strict=True)]
    return (sum(men[:3]) - sum(men[5:])) / 9.0


def shot_fit(
    shot: str, striker: Player, aim: Aim | None, suits: Sequence[float], gaps: Sequence[float]
) -> float:
    """Log ratio of runs of a planned stroke: the batter's better side, the length guessed, the gap found.

    Args:
        shot: The stroke.
        striker: Who plays it.
        aim: What the bowler has planned; ``None`` when nothing.
        suits: Whether the stroke suits (1) or jars with (-1) each length.
        gaps: How much less of each sector is covered than by the usual field.
    """
    fit = SHOT_GAIN * striker.bat_leg * SHOT_SIDE[shot]
    if aim is not None:
        fit += GUESS_GAIN * sum(a * b for a, b in zip(aim.lengths, suits, strict=True))
    sectors = SHOTS[shot]
    return fit + GAP_GAIN * sum(gaps[sector - 1] for sector in sectors) / len(sectors)


def intent_fit(aggression: float, attack: float, favour: float) -> float:
    """Log ratio of runs of both intents: hitting out pays in a good match-up, hunting wickets in a bad one.

    Args:
        aggression: The batter's.
        attack: The bowler's.
        favour: `match_up` of the two.
    """
    bold, hunting = 2.0 * aggression - 1.0, 2.0 * attack - 1.0
    fit = INTENT_GAIN * favour * (bold + hunting)
    return fit - INTENT_COST * bold * bold + INTENT_COST * hunting * hunting
