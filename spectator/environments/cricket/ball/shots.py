"""Owns what a planned stroke does: how far it goes for it, and how it suits the length that arrives."""

from __future__ import annotations

from typing import Final

from spectator.environments.cricket.ball.tables import Levers

LOFT: Final = {
    "defend": -0.30, "push": -0.15, "guide": -0.10, "glance": -0.10, "late cut": -0.05, "loft straight": 0.15,
    "loft cover": 0.15, "slog": 0.25, "scoop": 0.15, "reverse sweep": 0.08, "upper cut": 0.08, "hook": 0.08,
}  # fmt: skip
"""Shift of the intent, on its scale of 0 to 1: a stroke moves along the frontier like intent itself."""

_SHORT: Final = frozenset(("cut", "late cut", "pull", "hook", "upper cut"))
_FULL: Final = frozenset(("drive", "straight drive", "flick", "loft straight", "loft cover", "slog", "scoop"))
_SWEEPS: Final = frozenset(("sweep", "reverse sweep"))

_SUITS: Final[Levers] = (0.88, 1.02, 1.02, 1.14, 1.12, 0.86, 1.0)
_NEITHER: Final[Levers] = (1.0,) * 7
_JARS: Final[Levers] = (1.10, 0.97, 0.97, 0.84, 0.88, 1.22, 1.0)


def suitability(shot: str, kind: int, length: int) -> Levers:
    """How a stroke (a name in `ball_plans.SHOTS`) suits a ball of pace (0) or spin (1) of a length
    (index)."""
    if shot in _SHORT:
        return _SUITS if length >= 4 else _JARS if length <= 2 else _NEITHER
    if shot in _FULL:
        return _SUITS if length in (0, 2) else _JARS if length >= 4 else _NEITHER
    if shot in _SWEEPS:
        return _JARS if kind == 0 or length >= 4 else _SUITS if length in (2, 3) else _NEITHER
    return _NEITHER
