"""What a match's tile draws: the ground, who stands where, the last ball, and where wickets fell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spectator.environments.cricket.ball.grounds import Boundaries
from spectator.environments.cricket.match.field import inside_the_rope
from spectator.environments.cricket.show.ground_plan import ball_end, faced_rope


def picture(world: Mapping[str, Any]) -> dict[str, Any]:
    """See :attr:`spectator.environments.world.World.picture`; empty until the match is arranged.

    ``rope`` is the boundary, metres from the middle of the pitch by sector from fine leg round to third;
    ``men`` are the fielders, ``[x, y]`` each; ``powerplay`` is left out where there is none. ``ball`` is the
    last ball of this innings: its number ``seq``, its ``kind`` and, where it was hit, where it went ``to``
    and whether it was ``aerial``. Places are metres from the striker towards the off side and the bowler.
    ``marks`` are the wickets among the chances, once a match without any is known as such left out.

    Args:
        world: The world's part of the viewers' state.
    """
    if "teams" not in world:
        return {}
    striker = (world.get("batters") or {}).get("striker") or {}
    rope = faced_rope(world, world.get("over", {}).get("number", 1) - 1, striker.get("name", ""))
    fielders = world.get("field", {}).get("fielders", {})
    men = [inside_the_rope(man["x"], man["y"], rope) for man in fielders.values()]
    drawn: dict[str, Any] = {
        "rope": [round(reach) for reach in rope],
        "men": [[round(x), round(y)] for x, y in men],
    }
    if "chances" in world or "last_ball" not in world:
        drawn["marks"] = _wickets(world.get("chances", {}))
    if world.get("badges", {}).get("powerplay"):
        drawn["powerplay"] = True
    if (ball := world.get("last_ball")) and ball["innings"] == world.get("innings"):
        drawn["ball"] = _ball(ball, rope)
    return drawn


def _ball(ball: Mapping[str, Any], rope: Boundaries) -> dict[str, Any]:
    drawn: dict[str, Any] = {"seq": ball["seq"], "kind": ball["kind"]}
    if (end := ball_end(ball, rope)) is not None:
        drawn["to"] = [round(end[0]), round(end[1])]
        if ball["aerial"]:
            drawn["aerial"] = True
    return drawn


def _wickets(told: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> list[int]:
    """Places of wickets among the chances; the chance before an innings repeats the mark before it."""
    points = [(ball, told[innings][ball]) for innings in sorted(told) for ball in sorted(told[innings])]
    fell = [int(ball) > 0 and point.get("mark", "").endswith("W") for ball, point in points]
    return [place for place, is_wicket in enumerate(fell) if is_wicket]
