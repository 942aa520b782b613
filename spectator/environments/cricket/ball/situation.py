"""The situation of a ball: plans, conditions, match-ups and tiredness.

The match-up figures are assumptions: our tables do not split a batter's record by kind of bowling, length
or side, and have no pitch or evening. Their size is that of the differences the tables do measure between
players (a professional batter's runs differ by 7 to 10 %). Both captains know all of it, and a captain that
ignores it neither gains nor loses: traits, pitches and evenings favour either side equally often, and a
repeated delivery only ever helps the batter.

Tiredness is also an assumption, since no table of ours follows a spell: every over bowled adds to a bowler's
load and every over rested takes some off. The tables already include what tired bowlers concede on average,
so a match with tiredness has slightly more runs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Final, NamedTuple

from spectator.environments.cricket.ball.grounds import (
    EVEN,
    EVENINGS,
    KIND_OF_BOWLING,
    PITCHES,
    Boundaries,
    Conditions,
    condition_runs,
)
from spectator.environments.cricket.people import Player

LENGTHS: Final = ("full toss", "yorker", "full", "good", "back of a length", "short")
"""Where the ball pitches, fullest first. A full toss cannot be planned; it is a yorker that missed."""

PLANNED_LENGTHS: Final = LENGTHS[1:]

LINES: Final = ("wide outside off", "outside off", "stumps", "leg")
"""Sideways place at the batter, from the off side to the leg side."""

PACES: Final = ("quick", "stock", "slower")

SECTORS: Final = (
    "fine leg", "square leg", "midwicket", "long-on", "long-off", "cover", "point", "third",
)  # fmt: skip
"""The eight sectors of 45 degrees, numbered 1 to 8 from fine leg round to third, from the striker's view
(mirrored for a left-hander, so that fine leg is always behind the batter on the leg side)."""

SHOTS: Final[dict[str, tuple[int, ...]]] = {
    "defend": (4, 5),
    "push": (5, 6),
    "drive": (5, 6),
    "straight drive": (4, 5),
    "cut": (7,),
    "late cut": (8,),
    "guide": (8,),
    "flick": (2, 3),
    "glance": (1,),
    "pull": (2, 3),
    "hook": (1, 2),
    "sweep": (2,),
    "reverse sweep": (7, 8),
    "loft straight": (4, 5),
    "loft cover": (6,),
    "slog": (3, 4),
    "scoop": (1,),
    "upper cut": (8,),
}
"""Named strokes with the sectors (1 to 8) they send the ball to."""


@dataclass(frozen=True, slots=True)
class DeliveryPlan:
    """The delivery that the bowler intends; ``None`` leaves a part to habit.

    Args:
        length: One of `PLANNED_LENGTHS`.
        line: One of `LINES`.
        pace: One of `PACES`.

    Raises:
        ValueError: A value is not in its list.
    """

    length: str | None = None
    line: str | None = None
    pace: str | None = None

    def __post_init__(self) -> None:
        for part, word, words in (
            ("length", self.length, PLANNED_LENGTHS),
            ("line", self.line, LINES),
            ("pace", self.pace, PACES),
        ):
            if word is not None and word not in words:
                raise ValueError(f"{part} must be one of {', '.join(words)}; not {word!r}")


@dataclass(frozen=True, slots=True)
class FieldShape:
    """The nine fielders (without bowler and keeper), counted by sector.

    Sectors 1 to 8 are from the striker's view.

    Args:
        ring: Fielders inside the ring who save the single, one count per sector.
        catching: Close catchers; slips and gully count in the sector they face.

    Attributes:
        fielders: Number of placed fielders: 9, or 0 for the neutral shape.

    Raises:
        ValueError: A part does not have eight counts, or the fielders are not nine (or zero, for the neutral
            shape).
    """

    ring: tuple[int, ...] = (0,) * 8
    deep: tuple[int, ...] = (0,) * 8
    catching: tuple[int, ...] = (0,) * 8
    fielders: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "fielders", sum(self.ring) + sum(self.deep) + sum(self.catching))
        for name, counts in (("ring", self.ring), ("deep", self.deep), ("catching", self.catching)):
            if len(counts) != len(SECTORS) or min(counts) < 0:
                raise ValueError(f"{name} must have eight counts, none of them negative")
        if self.fielders not in (0, 9):
            raise ValueError(f"a field needs 9 fielders besides bowler and keeper, not {self.fielders}")

    @classmethod
    def neutral(cls) -> FieldShape:
        """Return the field that real captains would set, which changes nothing."""
        return _NEUTRAL


_NEUTRAL: Final = FieldShape()


MEMORY: Final = 6
"""Number of the last deliveries faced that a batter remembers."""
READ: Final = 0.28
"""Log ratio of runs of a length, or line, repeated as consistently as it was just bowled."""
SURPRISE: Final = 0.10
"""The same of what the batter has not just seen, which helps the bowler."""
READ_LENGTHS: Final = (1.0, 1.0, 1.0, 0.0, 0.6, 1.0)
READ_LINES: Final = (1.0, 0.4, 0.0, 1.0)
"""Factor on `READ` for each length and line: a good length is no easier when expected."""

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
GUESS_GAIN: Final = 0.36
INTENT_GAIN: Final = 0.7
"""Strength of each match-up: how much a decision gains when it fits."""
INTENT_COST: Final = 0.02
"""Log runs that an intent at either end of its scale costs, besides its price: no player is at their best
there."""
WICKET_FIT: Final = 1.0
"""Log ratio of wickets per log ratio of runs of a match-up, with the opposite sign."""

PLACE_COST: Final = 0.03
"""Log runs that a batter loses for each place in the order above or below the natural one."""
MAX_PLACES: Final = 5

_CONDITION_RUNS: Final = {
    (pitch, evening, spin, second): condition_runs(Conditions(pitch, evening), spin, second)
    for pitch, evening, spin, second in product(PITCHES, EVENINGS, (False, True), (False, True))
}


def match_up(striker: Player, bowler: Player, conditions: Conditions, second: bool) -> float:
    """Return the log ratio of runs of this batter against this bowler today.

    It covers kind of bowling, pitch, evening and both players' form, but not their average skill.
    """
    spin = bowler.bowls != "pace"
    fit = striker.bat_spin * KIND_OF_BOWLING[spin] + _CONDITION_RUNS[(*conditions, spin, second)]
    return fit + (striker.bat_form - bowler.bowl_form)


NEW_BALL_SPIN_SHARE: Final = 0.2
"""About the share of spin in overs 1 to 5 of ``bowler_kind_share_by_over.csv``."""
NEW_BALL_RUNS: Final = 0.3
"""Log ratio of runs between spin and pace for batters who hit out in a powerplay: only two fielders are deep,
and the new ball skids on. An assumption: no table of ours splits a powerplay by intent."""


def new_ball_favour(spin: bool, powerplay: bool) -> float:
    """Return how good a match-up this kind of bowling is for hitting out, because of the powerplay.

    Over the usual bowling of a powerplay it is 0, so that hitting out blindly gains nothing.

    >>> new_ball_favour(spin=True, powerplay=True), new_ball_favour(spin=True, powerplay=False)
    (0.24, 0.0)
    """
    return NEW_BALL_RUNS * (spin - NEW_BALL_SPIN_SHARE) if powerplay else 0.0


def out_of_place(order: int, place: int) -> float:
    """Return the log runs that a batter of this natural order loses at ``place``.

    >>> out_of_place(order=4, place=4), out_of_place(order=7, place=1)
    (0.0, 0.15)
    """
    return PLACE_COST * min(MAX_PLACES, abs(order - place))


class Aim(NamedTuple):
    """A planned delivery's departure from habit, as shares of lengths and lines.

    Args:
        lengths: Share of each length minus its usual share.
        lines: The same for each line.
        usual_lengths: Usual share of each length.
        usual_lines: The same for each line.
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
    """Return a plan's departure from habit.

    Args:
        planned: Shares of the (length, line) pairs under the plan, summing to 1.
        usual: Their usual shares, summing to 1.
    """
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
    """Return the log ratio of runs of a planned delivery to this batter.

    It covers the batter's weaknesses and the deliveries just faced.

    Args:
        seen: The (length, line) pairs that the batter faced last, oldest first.
        leg: What the ground adds to the batter's preference for the leg side, see :func:`.grounds.lean`.
    """
    fit = LENGTH_GAIN * striker.bat_short * aim.short + LINE_GAIN * (striker.bat_leg + leg) * aim.leg
    if seen:
        remembered = _remembered(aim, seen)
        fit += (READ if remembered > 0.0 else SURPRISE) * remembered
    return fit


def _remembered(aim: Aim, seen: Sequence[int]) -> float:
    """Return how much of a plan's departure the batter has seen, relative to habit."""
    last, lines = seen[-MEMORY:], len(LINES)
    more = 0.0
    for pair in last:
        length, line = divmod(pair, lines)
        more += READ_LENGTHS[length] * aim.lengths[length] + READ_LINES[line] * aim.lines[line]
    usual = sum(a * b * c for a, b, c in zip(aim.lengths, aim.usual_lengths, READ_LENGTHS, strict=True))
    usual += sum(a * b * c for a, b, c in zip(aim.lines, aim.usual_lines, READ_LINES, strict=True))
    return (more - len(last) * usual) / MEMORY


def field_fit(shape: FieldShape, reference: FieldShape, striker: Player, leg: float = 0.0) -> float:
    """Return the log ratio of runs of a field against this batter.

    Fielders on the batter's better side save more runs.

    Args:
        leg: What the ground adds to the batter's preference for the leg side.
    """
    return -FIELD_GAIN * (striker.bat_leg + leg) * (_leg_side(shape) - _leg_side(reference))


def _leg_side(shape: FieldShape) -> float:
    """Return the share of fielders on the leg side minus the share on the off side."""
    fielders = [a + b + c for a, b, c in zip(shape.ring, shape.deep, shape.catching, strict=True)]
    return (sum(fielders[:3]) - sum(fielders[5:])) / 9.0


def shot_fit(
    shot: str, striker: Player, aim: Aim | None, suits: Sequence[float], gaps: Sequence[float]
) -> float:
    """Return the log ratio of runs of a planned stroke.

    It covers the batter's better side, a correctly guessed length and gaps in the field.

    Args:
        aim: The bowler's plan; ``None`` without one.
        suits: Whether the stroke suits each length (1) or not (-1).
        gaps: How much less of each sector is covered than by the usual field.
    """
    fit = SHOT_GAIN * striker.bat_leg * SHOT_SIDE[shot]
    if aim is not None:
        fit += GUESS_GAIN * sum(a * b for a, b in zip(aim.lengths, suits, strict=True))
    sectors = SHOTS[shot]
    return fit + GAP_GAIN * sum(gaps[sector - 1] for sector in sectors) / len(sectors)


def intent_fit(aggression: float, attack: float, favour: float, hitting: float = 0.0) -> float:
    """Return the log ratio of runs of both intents.

    Hitting out pays in a good match-up, attacking for wickets in a bad one.

    Args:
        favour: `match_up` of the two.
        hitting: What a powerplay adds to it for the batter's intent, see :func:`new_ball_favour`.
    """
    bold, hunting = 2.0 * aggression - 1.0, 2.0 * attack - 1.0
    fit = INTENT_GAIN * (favour * (bold + hunting) + hitting * bold)
    return fit - INTENT_COST * bold * bold + INTENT_COST * hunting * hunting


RECOVERS: Final = 0.4
"""Load that one over of rest removes; bowling one over adds 1."""
SPELL_OVERS: Final = 20
"""Overs of an innings up to which an over bowled, or rested, counts in full."""
TIRED_RUNS: Final = {False: 0.06, True: 0.03}
"""Log ratio of runs for each over of load, against pace and against spin (``True``)."""
TIRED_EXTRAS: Final = 0.10
"""Log ratio of wides and no-balls for each over of load."""
TIRED_KMH: Final = {False: 1.5, True: 0.4}
"""Speed lost for each over of load, in km/h."""


def loads(starters: Sequence[int], overs: int) -> list[float]:
    """Return every player's load before the next over.

    Args:
        starters: The bowler of each over so far.
        overs: Overs of the innings.

    >>> loads([0, 1, 0], overs=20)[:3]
    [1.6, 0.6, 0.0]
    """
    found = [0.0] * 11
    for bowler in starters:
        found = next_loads(found, bowler, overs)
    return found


def next_loads(before: Sequence[float], bowler: int, overs: int) -> list[float]:
    """Return every player's load one over later.

    Bowlers pace themselves in innings of more than 20 overs: an over of 50 counts 0.4 of one of 20, so that
    the last over of a spell of five costs about 6 % more runs than its first (an assumption).

    Args:
        overs: Overs of the innings.
    """
    part = min(1.0, SPELL_OVERS / overs)
    return [
        round(load + part if player == bowler else max(0.0, load - RECOVERS * part), 2)
        for player, load in enumerate(before)
    ]


def load_by_over(plan: Sequence[int]) -> list[float]:
    """Return the load with which each over's bowler begins it.

    Args:
        plan: The bowler of each over of the innings.

    >>> load_by_over([0, 1, 0, 1, 2])
    [0.0, 0.0, 0.6, 0.6, 0.0]
    """
    now, found = [0.0] * 11, []
    for bowler in plan:
        found.append(now[bowler])
        now = next_loads(now, bowler, len(plan))
    return found


def tired_runs(spin: bool, load: float) -> float:
    """Return the log ratio of runs off a bowler with this load."""
    return TIRED_RUNS[spin] * load


def tired_extras(load: float) -> float:
    """Return the ratio of wides and no-balls of a bowler with this load."""
    return math.exp(TIRED_EXTRAS * load)


class Effects(NamedTuple):
    """Shared effects of a match and its innings: shifts of boundaries' log odds.

    Args:
        match: Pitch, ground and day: the same for both innings.
        innings: One for each of the four innings that a match with a super over can have; later innings reuse
            the last.
    """

    match: float
    innings: tuple[float, ...]

    def of(self, innings: int) -> float:
        """Return the shift in an innings, numbered from 1."""
        return self.match + self.innings[min(innings, len(self.innings)) - 1]


@dataclass(slots=True)
class Situation:
    """Everything that the next ball depends on.

    Args:
        innings_balls: Valid balls of a full innings, 6 to 300.
        wickets_lost: 0 to 9.
        runs_required: Runs still needed to win; ``None`` without a target.
        striker_balls: Balls the striker has faced in the innings.
        bowler: The bowler; one who does not usually bowl counts as an off-spinner.
        powerplay: Whether the powerplay's fielding restrictions apply.
        aggression: Batter's intent from 0 to 1; 0.5 is what real batters do in this situation.
        attack: Bowler's intent, likewise.
        shot: A name in `SHOTS`, or ``None``.
        effect: Shared shift of the match and innings, from `Effects.of`.
        seen: (length, line) pairs, as indices, of the last deliveries that the striker faced, oldest first.
        place: Place in the order at which the striker came in, from 1; 0 for the natural one.
        wickets_limit: Dismissals that end the innings; 2 in a super over.
        boundaries: Boundaries of the ground, see :mod:`.grounds`; empty for the neutral one.
        tired: Load with which the bowler began the over, see :func:`loads`.
    """

    balls_bowled: int
    innings_balls: int
    wickets_lost: int
    runs_required: int | None
    striker: Player
    striker_balls: int
    bowler: Player
    free_hit: bool = False
    powerplay: bool = False
    aggression: float = 0.5
    attack: float = 0.5
    delivery: DeliveryPlan | None = None
    shot: str | None = None
    field: FieldShape = FieldShape.neutral()  # noqa: RUF009 - frozen
    effect: float = 0.0
    conditions: Conditions = EVEN
    second: bool = False
    seen: tuple[int, ...] = ()
    place: int = 0
    wickets_limit: int = 10
    boundaries: Boundaries = ()
    tired: float = 0.0
