"""Details of an outcome: dismissal, extras, stroke, and the tracking of the ball.

Tracking (pitch, pace, direction, contact, fielder) does not affect the score. Its random numbers are drawn
when the ball is bowled and interpreted only when the track is read.
"""

from __future__ import annotations

from bisect import bisect
from typing import Any, Final, NamedTuple

from spectator.environments.cricket.ball.grounds import as_faced, sectors_hit
from spectator.environments.cricket.ball.plan_effects import OPEN_FIELD, POWERPLAY_FIELD, PlanEffects
from spectator.environments.cricket.ball.situation import LENGTHS, LINES, SHOTS, TIRED_KMH, Situation
from spectator.environments.cricket.ball.tables import (
    BYE,
    DOT,
    NO_BALL,
    RUN_OUT,
    STYLE_INDEX,
    WICKET,
    WIDE,
    cumulative,
)
from spectator.environments.cricket.laws import Ball

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
    """Running sums of the model file's ``details``, with the draws that use them.

    Args:
        details: The ``details`` of a model file.
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
        """Return a ball of category 0 to 5: a dot, one, two, three, four or six.

        Rarely it is a five with an overthrow, or five penalty runs.
        """
        if u < self._odd_share[category]:
            return _PENALTY if category == DOT else _FIVE
        return _OFF_THE_BAT[category]

    def other(self, category: int, phase: int, at: Situation, u: float, v: float) -> Ball:
        """Return a ball of any other category: a wicket or an extra."""
        if category == WICKET:
            return _OUTS[bisect(self._dismissals[phase][STYLE_INDEX[at.bowler.style]], u)]
        if category == RUN_OUT:
            return self.run_out(u, v)
        if category == WIDE:
            ball = self.wide(u, v)
            return ball._replace(dismissal=None) if at.free_hit and ball.dismissal == "stumped" else ball
        return self.noball(u, v) if category == NO_BALL else self.bye(u, v)

    def run_out(self, u: float, v: float) -> Ball:
        """Return a run-out, its completed runs, and whether the batters then crossed."""
        runs = bisect(self._run_out_runs, u)
        striker = v < self._shares["run_out_striker"]
        crossed = (v * 1e3) % 1.0 < 0.5
        return Ball(bat=runs, ran=runs, dismissal="run out", striker_out=striker, crossed=crossed)

    def wide(self, u: float, v: float) -> Ball:
        """Return a wide, sometimes with runs, a stumping or a run-out."""
        if v < self._shares["wide_stumped"]:
            return Ball(wide=True, wides=1, dismissal="stumped")
        if v > 1.0 - self._shares["wide_run_out"]:
            return Ball(wide=True, wides=1, dismissal="run out", striker_out=u < 0.5, crossed=False)
        runs = 1 + bisect(self._wide_runs, u)
        if runs == 5:
            return Ball(wide=True, wides=5, boundary=True)
        return Ball(wide=True, wides=runs, ran=runs - 1)

    def noball(self, u: float, v: float) -> Ball:
        """Return a no-ball: hit, missed, or run as byes."""
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
        """Return byes or leg-byes."""
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
"""Strokes along the ground by kind of bowling, length and sector."""

_AIR: Final = (
    ("scoop", "slog", "slog", "loft straight", "loft straight", "loft cover", "loft cover", "scoop"),
    ("sweep", "sweep", "slog", "loft straight", "loft straight", "loft cover", *(2 * ("reverse sweep",))),
)
_SHORT_AIR: Final = ("hook", "pull", "pull", "slog", "loft straight", "loft cover", "cut", "upper cut")


def stroke(zone: int, length: int, line: int, aerial: bool, spin: bool) -> str:
    """Name the stroke that sends a ball to a sector.

    Args:
        zone: Sector, 1 to 8.
        length: Index in `LENGTHS`.
        line: Index in `LINES`.
    """
    if aerial:
        return _SHORT_AIR[zone - 1] if length >= _BACK else _AIR[spin][zone - 1]
    name = _GROUND[spin][length][zone - 1]
    if name == "flick" and line <= _OUTSIDE_OFF:
        return "work"
    cramped = line == _LEG or (line == _STUMPS and length <= _GOOD)
    return "guide" if name in ("cut", "late cut") and cramped else name


def inside_edge(zone: int, length: int, line: int, aerial: bool, spin: bool) -> bool:
    """Check whether a hit to fine leg must be an inside edge, not being at the pads."""
    fine = zone == 1 and line <= _OUTSIDE_OFF and not aerial
    return fine and stroke(zone, length, line, aerial, spin) == "glance"


def plausible_line(zone: int, length: int, line: int, aerial: bool, spin: bool) -> int:
    """Move a line to the nearest that allows a hit to this sector: no cuts off pads."""
    if line == _LEG and zone >= 6:
        line = _STUMPS
    if line == _STUMPS and zone == 7 and aerial and not spin and length < _BACK:
        line = _OUTSIDE_OFF
    return line


def plausible_pitch(pair: int, ball: Ball, v: float) -> int:
    """Move a (length, line) pair to the nearest one that the outcome allows.

    A batter is not bowled by a bouncer or a ball wide of the stumps, nor lbw to a ball that pitches outside
    leg. A wide is wide or overhead. A ball wide of the off stump does not hit the pads.
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


_SPEED_KMH: Final = (135.0, 91.0)
_PACE_FACTOR: Final = {"quick": 1.03, "stock": 1.0, "slower": 0.84}
_SLOWER_SHARE: Final = 0.12
_HIT_OF_BAT: Final = (0, 1, 2, 3, 4, 3, 5)
_FULL_TOSS, _FULL_M, _BACK_OF_A_LENGTH, _SHORT_M = 0, 2, 4, 5
_BLOCKED_TO: Final = (3, 4, 5, 6)
"""Sectors that a ball is blocked to: in front of the wicket."""

MISSED_YORKERS: Final = 0.75
"""Share of sixes off a planned yorker where the ball was in fact full or a full toss (assumption)."""

SWING_RATE: Final = 12.0
"""Required runs per over from which a batter swings at balls otherwise defended or left."""


class BallTrack(NamedTuple):
    """What a viewer sees of one ball.

    Args:
        zone: Sector 1 to 8 from the striker's view; ``None`` if the ball was not hit.
        length: One of `LENGTHS`.
        line: One of `LINES`.
        speed_kmh: Speed at release.
        shot: Name of the stroke; ``none`` without one.
        fielder: Position that fielded or caught the ball, ``keeper`` or ``bowler``; ``None`` if no fielder
            reached it.
        contact: ``middled``, ``mistimed``, ``edged``, ``missed``, ``padded`` or ``left``.
        pace: ``quick``, ``stock`` or ``slower``.
    """

    zone: int | None
    length: str
    line: str
    speed_kmh: float
    shot: str
    fielder: str | None
    contact: str
    aerial: bool
    pace: str


Draws = tuple[float, float, float, float]
"""Numbers in [0, 1) that determine a track: how (contact, which end is out), who (keeper or not, slower ball
or not, near or far), speed around the bowler's own, direction."""

Place = tuple[int, int, int, int]
"""Phase, kind of bowling (pace 0, spin 1), (length, line) pair and category."""


class BowledBall:
    """One bowled ball; `track` describes how it looked.

    Args:
        at: The situation in which it was bowled.
        draws: Random numbers that determine its track.
        place: Phase, kind of bowling, pair and category that the model drew.
    """

    __slots__ = ("_draws", "_place", "_track", "_tracker", "at", "ball")

    def __init__(self, ball: Ball, at: Situation, draws: Draws, place: Place, tracker: BallTracker) -> None:
        self.ball, self.at = ball, at
        self._draws, self._place, self._tracker = draws, place, tracker
        self._track: BallTrack | None = None

    @property
    def track(self) -> BallTrack:
        """The track, computed on first use; always the same for the same ball."""
        if self._track is None:
            self._track = self._tracker.read(self.ball, self.at, self._draws, self._place)
        return self._track

    @property
    def category(self) -> int:
        """Index of its category, 0 to 10."""
        return self._place[3]

    @property
    def pair(self) -> int:
        """Index of its visible (length, line) pair: ``length * len(LINES) + line``."""
        _, _, pair, category = self._place
        return plausible_pitch(pair, self.ball, self._draws[0]) if category >= WICKET else pair

    def __repr__(self) -> str:
        return f"BowledBall({self.ball}, {self.track})"


class BallTracker:
    """Computes a ball's track from its draws and the model's shares of directions."""

    __slots__ = ("_plans", "_zones")

    def __init__(self, plans: PlanEffects) -> None:
        self._plans = plans
        self._zones = tuple(
            tuple(tuple(tuple(cumulative(hit) for hit in line) for line in kind) for kind in phase)
            for phase in plans.lines
        )

    def read(self, ball: Ball, at: Situation, draws: Draws, place: Place) -> BallTrack:
        """Return the track of ``ball``."""
        (how, who, quick, _), (phase, kind, pair, category) = draws, place
        if category >= WICKET:
            pair = plausible_pitch(pair, ball, how)
        length, line = divmod(pair, len(LINES))
        if ball.bat == 6 and LENGTHS[length] == "yorker" and who < MISSED_YORKERS:
            length = _FULL_TOSS if who < MISSED_YORKERS / 2 else _FULL_M
        plan = at.delivery.pace if at.delivery is not None else None
        pace = plan or ("slower" if who < _SLOWER_SHARE else "stock")
        stock = (at.bowler.speed_kmh or _SPEED_KMH[kind]) - TIRED_KMH[kind == 1] * at.tired
        speed = round(stock * (_PACE_FACTOR[pace] + 0.08 * (quick - 0.5)), 1)
        by_keeper = KEEPER_CATCH[at.bowler.bowls or "spin"][phase]
        swings = _swings(at, phase)
        missed = _not_hit(ball, category, length, line, draws, by_keeper, swings)
        zone, shot, contact, aerial = missed or self._hit(at, place, length, line, ball, draws, swings)
        if missed is None and zone is not None:
            line = plausible_line(zone, length, line, aerial, kind == 1)
        fielder = _fielder(at, ball, zone, draws, by_keeper)
        if fielder in CATCHING_POSITIONS:
            contact, aerial = "edged", False
        return BallTrack(zone, LENGTHS[length], LINES[line], speed, shot, fielder, contact, aerial, pace)

    def _hit(
        self, at: Situation, place: Place, length: int, line: int, ball: Ball, draws: Draws, swings: bool
    ) -> tuple[int, str, str, bool]:
        """Return sector, stroke, contact and whether it flew, for a ball that was hit."""
        (phase, kind, _, category), (how, who, _, where) = place, draws
        out = ball.dismissal
        hit = _HIT_OF_BAT[ball.bat] if category != WICKET else (5 if how < SKIED else 0)
        zones = self._zones[phase][kind][line]
        if at.field.fielders:
            zones = self._plans.field(at.field, at.powerplay, phase, kind, line, None, False).zones
        shares = zones[hit]
        if at.boundaries:
            over, left = at.balls_bowled // 6 % 2, at.striker.bats == "left"
            shares = sectors_hit(as_faced(at.boundaries, over, left), shares, hit)
        zone = bisect(shares, where) + 1
        aimed = SHOTS.get(at.shot, ()) if at.shot is not None else ()
        if aimed and who < 0.6 and out is None:
            zone = aimed[int(who / 0.6 * len(aimed))]
        aerial = hit == 5 or out == "caught"
        if inside_edge(zone, length, line, aerial, kind == 1):
            return zone, "drive" if length < _BACK_OF_A_LENGTH else "push", "edged", aerial
        if category == DOT and how < 0.6 and not swings and zone in _BLOCKED_TO:
            shot = "defend"
        elif category != DOT and zone in aimed and at.shot:
            shot = at.shot
        else:
            line = plausible_line(zone, length, line, aerial, kind == 1)
            shot = stroke(zone, length, line, aerial, kind == 1)
        contact = "edged" if zone in (1, 8) and how > 0.8 else "mistimed" if out or how > 0.9 else "middled"
        return zone, shot, contact, aerial


def _swings(at: Situation, phase: int) -> bool:
    """Check whether intent or required rate makes the batter swing at everything."""
    if at.runs_required is None:
        return at.aggression >= 0.8
    balls_left = at.innings_balls - at.balls_bowled
    return 6.0 * at.runs_required >= SWING_RATE * balls_left and (phase == 2 or at.aggression > 0.5)


def _not_hit(
    ball: Ball, category: int, length: int, line: int, draws: Draws, by_keeper: float, swings: bool
) -> tuple[int | None, str, str, bool] | None:
    """Do as `_hit` for a ball missed, left or hit back to the bowler; else ``None``."""
    how, who, _, where = draws
    out = ball.dismissal
    if category == WIDE:
        return (None, "drive", "missed", False) if out == "stumped" else (None, "none", "left", False)
    if category == BYE:
        if ball.byes:
            return None, "flick", "missed", False
        return 1 if where < 0.7 else 8, "glance", "padded", False
    if out in ("bowled", "lbw", "stumped", "hit wicket"):
        shot = "drive" if length < _BACK_OF_A_LENGTH else "pull"
        return None, shot, "padded" if out == "lbw" else "missed", False
    if out == "caught" and who < by_keeper:
        return None, "drive" if length < 3 else "pull" if length == _SHORT_M else "cut", "edged", False
    if out == "caught and bowled":
        return 4 if where < 0.5 else 5, "straight drive", "mistimed", True
    if category == DOT and how < 0.35:
        straight = LINES[line] == "stumps"
        if how < 0.12 and length and not straight and not swings:
            return None, "none", "left", False
        at_the_pads = straight and length < _BACK_OF_A_LENGTH
        shot = "pull" if length == _SHORT_M else "slog" if swings else "defend"
        return None, shot, "padded" if at_the_pads else "missed", False
    return None


def _fielder(at: Situation, ball: Ball, zone: int | None, draws: Draws, by_keeper: float) -> str | None:
    """Return the position that fielded the ball, preferring occupied positions."""
    how, who, _, _ = draws
    out = ball.dismissal
    if ball.boundary or out in ("bowled", "lbw", "hit wicket"):
        return None
    if out == "caught and bowled":
        return "bowler"
    if zone is None or out == "stumped" or (out == "caught" and who < by_keeper):
        return "keeper"
    field = at.field if at.field.fielders else POWERPLAY_FIELD if at.powerplay else OPEN_FIELD
    far = how < SKIED if out == "caught" else ball.ran >= 2 or (ball.ran == 1 and who < 0.6)
    if field.deep[zone - 1] and (far or not field.ring[zone - 1]):
        return DEEP_POSITIONS[zone - 1]
    if out == "caught" and not far and field.catching[zone - 1]:
        return CATCHING_POSITIONS[zone - 1]
    return RING_POSITIONS[zone - 1]
