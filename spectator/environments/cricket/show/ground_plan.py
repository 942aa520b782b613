"""Where a drawing of the ground puts the rope and the end of a ball, in metres from the striker."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from spectator.environments.cricket.ball.grounds import USUAL_M, Boundaries, as_faced, rope_at
from spectator.environments.cricket.match.field import PITCH_M

MIDDLE_M: Final = PITCH_M / 2
REACH_M: Final = {"six": 84.0, "four": 70.0, "dot": 14.0, "extra": 20.0}
"""Metres from the striker at which a ball is drawn to end; only its direction is the model's."""


def faced_rope(world: Mapping[str, Any], over: int, striker: str) -> Boundaries:
    """Metres from the middle of the pitch to the rope by sector, as a right-hander's drawing sees it.

    Args:
        world: The world's part of the viewers' state.
        over: Over of the innings, from 0.
        striker: Who bats.
    """
    ground = world.get("ground")
    if not ground:
        return (USUAL_M,) * 8
    return as_faced(tuple(ground["boundaries"]), over, striker in ground["left_handers"])


def ball_end(ball: Mapping[str, Any], rope: Boundaries) -> tuple[float, float] | None:
    """Where a drawing lets a ball end, metres from the striker towards off side and bowler; ``None`` where it
    was not hit.

    Args:
        ball: ``zone``, ``kind``, ``runs`` and ``aerial`` of it.
        rope: As the striker faces it.
    """
    zone = ball.get("zone")
    if not zone:
        return None
    angle, kind = (zone - 0.5) * math.pi / 4, ball["kind"]
    reach = REACH_M.get(kind, min(62.0, 22.0 + 14.0 * ball["runs"] + (12.0 if ball["aerial"] else 0.0)))
    x, y = -math.sin(angle) * reach, -math.cos(angle) * reach
    far = math.hypot(x, y - MIDDLE_M)
    limit = rope_at(rope, x, y - MIDDLE_M) + (6 if kind == "six" else 0)
    if kind not in ("six", "four") and far <= limit:
        return x, y
    return x * limit / far, MIDDLE_M + (y - MIDDLE_M) * limit / far
