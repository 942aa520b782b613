"""Outcome details: the kind of dismissal, the runs of extras, the stroke and the fielding position."""

from __future__ import annotations

from bisect import bisect
from typing import Any, Final

from spectator.environments.cricket.ball.situation import Situation
from spectator.environments.cricket.ball.tables import (
    DOT,
    NO_BALL,
    RUN_OUT,
    STYLE_INDEX,
    WICKET,
    WIDE,
    cumulative,
)
from spectator.environments.cricket.ball.vocabulary import LINES
from spectator.environments.cricket.laws.deliveries import Ball

KINDS: Final = ("bowled", "caught", "caught and bowled", "lbw", "stumped", "hit wicket")

RING_POSITIONS: Final = (
    "short fine leg", "square leg", "midwicket", "mid-on", "mid-off", "cover", "point", "short third",
)  # fmt: skip
DEEP_POSITIONS: Final = (
    "fine leg", "deep square leg", "deep midwicket", "long-on", "long-off", "deep cover", "deep point",
    "third",
)  # fmt: skip

CATCHING_POSITIONS: Final = (
    "leg slip", "short leg", "short leg", "silly mid-on", "silly mid-off", "silly point", "gully", "slip",
)  # fmt: skip
SKIED: Final = 0.6
"""Share of catches off balls hit in the air as sixes are. Not in the tables: an assumption."""
KEEPER_CATCH: Final = {"pace": (0.24, 0.16, 0.11), "spin": (0.10, 0.07, 0.05)}
"""Share of catches that the keeper takes, by phase. Not in the tables: an assumption."""

_OFF_THE_BAT: Final = (
    *(Ball(bat=runs, ran=runs) for runs in range(4)),
    Ball(bat=4, boundary=True),
    Ball(bat=6, boundary=True),
)
_FIVE: Final = Ball(bat=5, ran=1, boundary=True)
_PENALTY: Final = Ball(penalty=5)
_OUTS: Final = tuple(Ball(dismissal=kind) for kind in KINDS)


class OutcomeTables:
    """The tables of the model file's ``details`` part as running sums, with the draws they serve.

    Args:
        details: That part.
    """

    __slots__ = (
        "_bye_runs",
        "_dismissals",
        "_legbye_runs",
        "_noball_bat",
        "_noball_byes",
        "_odd_share",
        "_run_out_runs",
        "_shares",
        "_wide_runs",
    )

    def __init__(self, details: dict[str, Any]) -> None:
        self._shares = details
        self._odd_share = (3.0 * details["penalty"], 0.0, 0.0, details["five_share"], 0.0, 0.0)
        self._dismissals = tuple(
            tuple(cumulative(style) for style in phase) for phase in details["dismissals"]
        )
        self._wide_runs = cumulative(details["wide_runs"])
        self._noball_bat = cumulative(details["noball_bat"])
        self._noball_byes = cumulative(details["noball_byes"])
        self._bye_runs = cumulative(details["bye_runs"])
        self._legbye_runs = cumulative(details["legbye_runs"])
        self._run_out_runs = cumulative(details["run_out_runs"])

    def off_the_bat(self, category: int, u: float) -> Ball:
        """Categories 0 to 5: a dot, ones to threes, four, six; now and then five with an overthrow, or five
        penalty runs."""
        if u < self._odd_share[category]:
            return _PENALTY if category == DOT else _FIVE
        return _OFF_THE_BAT[category]

    def other(self, category: int, phase: int, at: Situation, u: float, v: float) -> Ball:
        """All other categories: wickets and extras."""
        if category == WICKET:
            return _OUTS[bisect(self._dismissals[phase][STYLE_INDEX[at.bowler.style]], u)]
        if category == RUN_OUT:
            return self.run_out(u, v)
        if category == WIDE:
            ball = self.wide(u, v)
            return ball._replace(dismissal=None) if at.free_hit and ball.dismissal == "stumped" else ball
        return self.noball(u, v) if category == NO_BALL else self.bye(u, v)

    def run_out(self, u: float, v: float) -> Ball:
        """A run out, with the runs completed before it; the next run was in progress, crossed or not."""
        runs = bisect(self._run_out_runs, u)
        striker = v < self._shares["run_out_striker"]
        crossed = (v * 1e3) % 1.0 < 0.5
        return Ball(bat=runs, ran=runs, dismissal="run out", striker_out=striker, crossed=crossed)

    def wide(self, u: float, v: float) -> Ball:
        """A wide, now and then with runs, a stumping or a run out."""
        if v < self._shares["wide_stumped"]:
            return Ball(wide=True, wides=1, dismissal="stumped")
        if v > 1.0 - self._shares["wide_run_out"]:
            return Ball(wide=True, wides=1, dismissal="run out", striker_out=u < 0.5, crossed=False)
        runs = 1 + bisect(self._wide_runs, u)
        if runs == 5:
            return Ball(wide=True, wides=5, boundary=True)
        return Ball(wide=True, wides=runs, ran=runs - 1)

    def noball(self, u: float, v: float) -> Ball:
        """A no-ball, struck, missed, or run as byes."""
        if v > 1.0 - self._shares["noball_run_out"]:
            return Ball(noball=True, dismissal="run out", striker_out=u < 0.5)
        runs = bisect(self._noball_bat, u)
        if runs:
            boundary = runs in (4, 6)
            return Ball(noball=True, bat=runs, ran=0 if boundary else runs, boundary=boundary)
        byes = bisect(self._noball_byes, v / (1.0 - self._shares["noball_run_out"]))
        boundary = byes == 4
        return Ball(noball=True, byes=byes, ran=0 if boundary else byes, boundary=boundary)

    def bye(self, u: float, v: float) -> Ball:
        """Byes or leg-byes."""
        is_bye = v < self._shares["bye_share"]
        runs = 1 + bisect(self._bye_runs if is_bye else self._legbye_runs, u)
        ran, boundary = (0, True) if runs == 4 else (1, True) if runs == 5 else (runs, False)
        if is_bye:
            return Ball(byes=runs, ran=ran, boundary=boundary)
        return Ball(legbyes=runs, ran=ran, boundary=boundary)


_WIDE_OFF, _OUTSIDE_OFF, _STUMPS, _LEG = range(len(LINES))
_GOOD, _BACK, _SHORT = 3, 4, 5

_FULL_STROKES: Final = ("glance", "flick", "flick", "drive", "straight drive", "drive", "guide", "guide")
_GOOD_STROKES: Final = ("glance", "flick", "flick", "push", "push", "drive", "cut", "guide")
_BACK_STROKES: Final = ("glance", "pull", "pull", "push", "push", "push", "cut", "late cut")
_SHORT_STROKES: Final = ("hook", "pull", "pull", "pull", "push", "cut", "cut", "late cut")
_SPIN_STROKES: Final = ("glance", "sweep", "flick", "drive", "drive", "drive", "cut", "late cut")

_GROUND: Final = (
    (*(3 * (_FULL_STROKES,)), _GOOD_STROKES, _BACK_STROKES, _SHORT_STROKES),
    (*(3 * (("glance", "sweep", *_FULL_STROKES[2:]),)), _SPIN_STROKES, _BACK_STROKES, _SHORT_STROKES),
)
"""Along the ground, by kind of bowling, length and sector."""

_AIR: Final = (
    ("scoop", "slog", "slog", "loft straight", "loft straight", "loft cover", "loft cover", "scoop"),
    ("sweep", "sweep", "slog", "loft straight", "loft straight", "loft cover", *(2 * ("reverse sweep",))),
)
_SHORT_AIR: Final = ("hook", "pull", "pull", "slog", "loft straight", "loft cover", "cut", "upper cut")


def stroke(zone: int, length: int, line: int, aerial: bool, spin: bool) -> str:
    """Name the stroke that sends a ball of this length and line (indices in `LENGTHS`, `LINES`) to a sector
    (1 to 8)."""
    if aerial:
        return _SHORT_AIR[zone - 1] if length >= _BACK else _AIR[spin][zone - 1]
    name = _GROUND[spin][length][zone - 1]
    if name == "flick" and line <= _OUTSIDE_OFF:
        return "work"
    cramped = line == _LEG or (line == _STUMPS and length <= _GOOD)
    return "guide" if name in ("cut", "late cut") and cramped else name


def inside_edge(zone: int, length: int, line: int, aerial: bool, spin: bool) -> bool:
    """Whether a ball that went fine on the leg side must have come off the edge: it was not at the pads."""
    fine = zone == 1 and line <= _OUTSIDE_OFF and not aerial
    return fine and stroke(zone, length, line, aerial, spin) == "glance"


def plausible_line(zone: int, length: int, line: int, aerial: bool, spin: bool) -> int:
    """Move a line to the nearest from which a ball is hit there: nobody cuts what is at the pads."""
    if line == _LEG and zone >= 6:
        line = _STUMPS
    if line == _STUMPS and zone == 7 and aerial and not spin and length < _BACK:
        line = _OUTSIDE_OFF
    return line


def plausible_pitch(pair: int, ball: Ball, v: float) -> int:
    """Move a (length, line) pair to the nearest one that the outcome allows.

    Nobody is bowled by a bouncer or a ball wide of the stumps, nor lbw to one that pitches outside leg; a
    wide is wide, or over the head; the pads are not where a ball wide of the off stump goes.
    """
    length, line = divmod(pair, len(LINES))
    if ball.wide:
        if line == _OUTSIDE_OFF or (line == _STUMPS and length != _SHORT):
            line = _LEG if v < 0.35 else _WIDE_OFF
    elif ball.dismissal == "bowled":
        line = _STUMPS if line in (_WIDE_OFF, _LEG) else line
        length = min(length, _BACK)
    elif ball.dismissal == "lbw":
        line = _STUMPS if line in (_WIDE_OFF, _LEG) else line
        length = min(length, _GOOD)
    elif ball.dismissal == "stumped":
        length = min(length, _BACK)
    elif ball.legbyes and line == _WIDE_OFF:
        line = _LEG if v < 0.5 else _STUMPS
    return length * len(LINES) + line
