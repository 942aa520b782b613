"""Owns what is seen of a ball: pitch, pace, stroke, direction, contact and who fielded it.

None of it bears on the score: its numbers are drawn when the ball is bowled, and read when somebody looks.
"""

from __future__ import annotations

from bisect import bisect
from typing import Final, NamedTuple

from spectator.environments.cricket.ball_details import (
    CATCHING_POSITIONS,
    DEEP_POSITIONS,
    KEEPER_CATCH,
    RING_POSITIONS,
    SKIED,
    plausible_pitch,
    stroke,
)
from spectator.environments.cricket.ball_field import OPEN_FIELD, POWERPLAY_FIELD
from spectator.environments.cricket.ball_intent import Plans
from spectator.environments.cricket.ball_plans import LENGTHS, LINES, SHOTS
from spectator.environments.cricket.ball_situation import Situation
from spectator.environments.cricket.ball_tables import BYE, DOT, WICKET, WIDE, Tables, cumulative
from spectator.environments.cricket.models import Ball

_SPEED_KMH: Final = (135.0, 91.0)
_PACE_FACTOR: Final = {"quick": 1.03, "stock": 1.0, "slower": 0.84}
_SLOWER_SHARE: Final = 0.12
_HIT_OF_BAT: Final = (0, 1, 2, 3, 4, 3, 5)
_BACK_OF_A_LENGTH, _SHORT = 4, 5


class Sight(NamedTuple):
    """What is seen of one ball.

    Args:
        zone: Sector 1 to 8 the ball went to as the striker stands; ``None`` when it was not hit.
        length: One of `LENGTHS`.
        line: One of `LINES`.
        speed_kmh: Speed at release.
        shot: Name of the stroke; ``none`` when nothing was offered.
        fielder: Position that fielded or caught it, ``keeper`` or ``bowler``; ``None`` when it reached
            nobody.
        contact: ``middled``, ``mistimed``, ``edged``, ``missed``, ``padded`` or ``left``.
        aerial: Whether it flew.
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


class Draws(NamedTuple):
    """The numbers in [0, 1) that a ball's sight is read from.

    Args:
        how: How it came about: kind of contact, which end is out.
        who: Who and what else: keeper or not, slower ball or not, near or far.
        speed: Speed about the bowler's own.
        where: Direction.
    """

    how: float
    who: float
    speed: float
    where: float


class Delivered:
    """One ball as it happened; `seen` says what it looked like.

    Args:
        ball: What the scorer needs.
        at: The situation it was bowled in.
        draws: What its sight is read from.
        place: Phase, kind of bowling (pace 0, spin 1), (length, line) pair and category.
        reader: Who reads it.
    """

    __slots__ = ("_at", "_draws", "_place", "_reader", "_seen", "ball")

    def __init__(
        self, ball: Ball, at: Situation, draws: Draws, place: tuple[int, int, int, int], reader: Reader
    ) -> None:
        self.ball = ball
        self._at, self._draws, self._place, self._reader = at, draws, place, reader
        self._seen: Sight | None = None

    @property
    def seen(self) -> Sight:
        """What was seen of it: the same whenever and however often it is asked."""
        if self._seen is None:
            self._seen = self._reader.read(self.ball, self._at, self._draws, *self._place)
        return self._seen

    def __repr__(self) -> str:
        return f"Delivered({self.ball}, {self.seen})"


class Reader:
    """Reads a ball's sight from its draws, by the model's shares of directions.

    Args:
        tables: The fitted tables.
        plans: The plans of the same model.
    """

    __slots__ = ("_plans", "_zones")

    def __init__(self, tables: Tables, plans: Plans) -> None:
        self._plans = plans
        self._zones = tuple(
            tuple(tuple(cumulative(shares) for shares in kind) for kind in phase) for phase in tables.zones
        )

    def read(
        self, ball: Ball, at: Situation, draws: Draws, phase: int, kind: int, pair: int, category: int
    ) -> Sight:
        """What was seen of ``ball``."""
        if category >= WICKET and (category == WIDE or ball.dismissal):
            pair = plausible_pitch(pair, ball, draws.how)
        length, line = divmod(pair, len(LINES))
        plan = at.delivery.pace if at.delivery is not None else None
        pace = plan or ("slower" if draws.who < _SLOWER_SHARE else "stock")
        stock = at.bowler.speed_kmh or _SPEED_KMH[kind]
        speed = round(stock * (_PACE_FACTOR[pace] + 0.08 * (draws.speed - 0.5)), 1)
        by_keeper = KEEPER_CATCH[at.bowler.bowls or "spin"][phase]
        missed = _not_hit(ball, category, length, line, draws, by_keeper)
        zone, shot, contact, aerial = missed or self._hit(
            at, phase, kind, length, line, category, ball, draws
        )
        fielder = _fielder(at, ball, zone, draws, by_keeper)
        return Sight(zone, LENGTHS[length], LINES[line], speed, shot, fielder, contact, aerial, pace)

    def _hit(
        self,
        at: Situation,
        phase: int,
        kind: int,
        length: int,
        line: int,
        category: int,
        ball: Ball,
        draws: Draws,
    ) -> tuple[int, str, str, bool]:
        """Sector, stroke, contact and whether the ball flew, of one that the bat sent somewhere."""
        how, out = draws.how, ball.dismissal
        hit = _HIT_OF_BAT[ball.bat] if category != WICKET else (5 if how < SKIED else 0)
        zone = bisect(self._zones_of(at, phase, kind, line)[hit], draws.where) + 1
        aimed = SHOTS.get(at.shot, ()) if at.shot is not None else ()
        if aimed and draws.who < 0.6 and out is None:
            zone = aimed[int(draws.who / 0.6 * len(aimed))]
        aerial = hit == 5 or out == "caught"
        if category == DOT and how < 0.6:
            shot = "defend"
        elif category != DOT and zone in aimed and at.shot:
            shot = at.shot
        else:
            shot = stroke(zone, length, aerial, kind == 1)
        contact = "edged" if zone in (1, 8) and how > 0.8 else "mistimed" if out or how > 0.9 else "middled"
        return zone, shot, contact, aerial

    def _zones_of(self, at: Situation, phase: int, kind: int, line: int) -> tuple[tuple[float, ...], ...]:
        if at.field.fielders:
            return self._plans.field(at.field, at.powerplay, phase, kind, line, None, False).zones
        return self._zones[phase][kind]


def _not_hit(
    ball: Ball, category: int, length: int, line: int, draws: Draws, by_keeper: float
) -> tuple[int | None, str, str, bool] | None:
    """The same of a ball that was not hit, or hit back to the bowler; ``None`` for the others."""
    out = ball.dismissal
    if category == WIDE:
        return (None, "drive", "missed", False) if out == "stumped" else (None, "none", "left", False)
    if category == BYE:
        if ball.byes:
            return None, "flick", "missed", False
        return 1 if draws.where < 0.7 else 8, "glance", "padded", False
    if out in ("bowled", "lbw", "stumped", "hit wicket"):
        shot = "drive" if length < _BACK_OF_A_LENGTH else "pull"
        return None, shot, "padded" if out == "lbw" else "missed", False
    if out == "caught" and draws.who < by_keeper:
        return None, "drive" if length < 3 else "pull" if length == _SHORT else "cut", "edged", False
    if out == "caught and bowled":
        return 4 if draws.where < 0.5 else 5, "straight drive", "mistimed", True
    if category == DOT and draws.how < 0.35:
        left = draws.how < 0.12 and LINES[line] != "stumps"
        return None, "none" if left else "defend", "left" if left else "missed", False
    return None


def _fielder(at: Situation, ball: Ball, zone: int | None, draws: Draws, by_keeper: float) -> str | None:
    """Position that fielded the ball, among those where somebody stands if it can be."""
    out = ball.dismissal
    if ball.boundary or out in ("bowled", "lbw", "hit wicket"):
        return None
    if out == "caught and bowled":
        return "bowler"
    if zone is None or out == "stumped" or (out == "caught" and draws.who < by_keeper):
        return "keeper"
    field = at.field if at.field.fielders else POWERPLAY_FIELD if at.powerplay else OPEN_FIELD
    far = draws.how < SKIED if out == "caught" else ball.ran >= 2 or (ball.ran == 1 and draws.who < 0.6)
    if field.deep[zone - 1] and (far or not field.ring[zone - 1]):
        return DEEP_POSITIONS[zone - 1]
    if out == "caught" and not far and field.catching[zone - 1]:
        return CATCHING_POSITIONS[zone - 1]
    return RING_POSITIONS[zone - 1]
