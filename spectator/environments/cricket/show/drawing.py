"""Where fielders, keeper, bowler and ball are drawn: one geometry for the page, its tiles and its clips.

Places are whole metres from the striker's middle stump: to the off side, and towards the bowler. The model
sets only a ball's sector; the rest follows from the field, so that a ball ends where its fielder is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Final

from spectator.environments.cricket.ball.grounds import USUAL_BOUNDARY_M, Boundaries, as_faced, rope_at
from spectator.environments.cricket.ball.situation import LENGTHS, LINES
from spectator.environments.cricket.match.field import PITCH_M, inside_the_rope, is_outside
from spectator.events import Event

Data = Mapping[str, Any]
Spot = tuple[float, float]
Men = Mapping[str, tuple[int, int, str]]
"""Places with names: the nine by their numbers, then ``keeper`` and ``bowler``."""

KEEPER_UP, KEEPER_BACK, BOWLER = (0.0, -3.0), (0.0, -11.0), (2.0, 23.0)
STUMPS: Final = {"striker": (0, 0), "non_striker": (0, round(PITCH_M))}
OVER_THE_ROPE_M, CLEAR_M = 6.0, 3.0
"""How far beyond the rope a six ends, and how far from fielders a ball on the ground passes if it can."""
BLOCKED_M, SHORT_M, GAP_M = 5.0, 20.0, {1: 38.0, 2: 48.0, 3: 60.0}
"""Distances of a blocked ball, of one that a near fielder runs to, and of one in a gap, by runs."""
SECTOR: Final = math.pi / 4
_GOLDEN: Final = 0.618


def faced_rope(world: Data, over: int, striker: str) -> Boundaries:
    """Return the metres from mid-pitch to the rope by sector, as the striker sees it.

    Args:
        world: The world's part of the viewers' state.
        over: Over of the innings, from 0.
    """
    ground = world.get("ground")
    if not ground:
        return (USUAL_BOUNDARY_M,) * 8
    return as_faced(tuple(ground["boundaries"]), over, _is_left_handed(world, striker))


def _is_left_handed(world: Data, striker: str) -> bool:
    return striker in world.get("left_handers", ()) or striker in world.get("ground", {}).get(
        "left_handers", ()
    )


def draw_field(
    world: Data, over: int | None = None, striker: str | None = None, bowler: str | None = None
) -> dict[str, Any]:
    """Return how the field stands to the striker.

    Args:
        world: The world's part of the viewers' state.
        over: Over of the innings, from 0; by default the current one.
        striker: By default the batter on strike.
        bowler: The bowler's kind in words; by default that of the current bowler.

    Returns:
        ``rope``, ``men``, and ``left`` if the striker is left-handed, who is drawn mirrored.
    """
    if over is None:
        over = world.get("over", {}).get("number", 1) - 1
    if striker is None:
        striker = ((world.get("batters") or {}).get("striker") or {}).get("name", "")
    if bowler is None:
        bowler = (world.get("bowler") or {}).get("kind")
    rope, left = faced_rope(world, over, striker), _is_left_handed(world, striker)
    men = {
        number: [*map(round, inside_the_rope(one["x"], one["y"], rope)), one["name"]]
        for number, one in world.get("field", {}).get("fielders", {}).items()
    }
    pace = bowler is None or "pace" in bowler
    men["keeper"] = [*map(round, KEEPER_BACK if pace else KEEPER_UP), "keeper"]
    if bowler is not None:
        arm_side = -1 if left is not ("left-arm" in bowler) else 1
        men["bowler"] = [round(arm_side * BOWLER[0]), round(BOWLER[1]), "bowler"]
    return {"rope": [round(reach) for reach in rope], "men": men, **({"left": True} if left else {})}


def draw_ball(world: Data, ball: Data, seq: int) -> dict[str, Any]:
    """Return a ball with the field to which it was bowled.

    Args:
        world: The world's part of the viewers' state before the ball.
        ball: Data of ``cricket.ball_bowled``.
        seq: Number of the event.

    Returns:
        As :func:`draw_field` with ``ball``: ``seq``, ``kind``, where it ended (``to``), whether it was
        ``aerial``, the one of ``men`` who caught or stopped it (``by``), the manner of a dismissal (``out``),
        and the stumps that a run-out broke (``broken``: ``striker`` or ``non_striker``).
    """
    drawn = draw_field(world, ball["over"], ball["striker"], ball["bowler_line"]["kind"])
    if ball["dismissal"] == "stumped":
        drawn["men"]["keeper"][:2] = map(round, KEEPER_UP)
    rope = faced_rope(world, ball["over"], ball["striker"])
    (x, y), by = _end(ball, drawn["men"], rope)
    made: dict[str, Any] = {"seq": seq, "kind": ball["kind"], "to": [round(x), round(y)]}
    if by:
        made["by"] = by
    if ball["aerial"]:
        made["aerial"] = True
    if ball["dismissal"]:
        made["out"] = ball["dismissal"]
        if end := _end_run_out(ball):
            made["broken"] = end
    return {**drawn, "ball": made}


def _end_run_out(ball: Data) -> str | None:
    """Return the end at which a run-out was made: the one that the new batter comes to."""
    if ball["dismissal"] != "run out":
        return None
    at_striker = ball["ends"]["striker"] is None
    over_ended = ball["ball"] == 6 and not ball["wides"] and not ball["noball"]
    return "striker" if at_striker is not over_ended else "non_striker"


def _end(ball: Data, men: Men, rope: Boundaries) -> tuple[Spot, str | None]:
    """Return where a ball ended, and the key of the one who caught or stopped it."""
    out, zone = ball["dismissal"], ball["zone"]
    if out in ("bowled", "hit wicket"):
        return STUMPS["striker"], None
    if ball["position"] and (by := _named(ball["position"], men, zone)):
        return men[by][:2], by
    spread = (_GOLDEN * (6 * ball["over"] + ball["delivery"])) % 1.0
    if not zone:
        return _past_the_bat(ball, men, rope)
    angles = [SECTOR * (zone - 0.86 + 0.72 * ((spread + step * _GOLDEN) % 1.0)) for step in range(7)]
    if ball["boundary"]:
        if ball["kind"] == "six" or ball["aerial"]:
            return _at_rope(angles[0], rope, OVER_THE_ROPE_M if ball["kind"] == "six" else 0.0), None
        return _at_rope(max(angles, key=lambda angle: _room(angle, 1e3, men)), rope), None
    return _stopped(ball, angles, men, rope)


def _past_the_bat(ball: Data, men: Men, rope: Boundaries) -> tuple[Spot, str | None]:
    """Return the end of a ball that was not hit: the pad, the keeper, or beyond."""
    if ball["contact"] == "padded" and not ball["ran"]:
        return (0.0, 1.0), None
    behind = 0.15 if ball["line"] == "leg" else -0.15
    if ball["boundary"]:
        return _at_rope(behind, rope), None
    if ball["ran"]:
        return (end := _at(behind, SHORT_M)), _nearest(end, men)
    return men["keeper"][:2], "keeper"


def _stopped(ball: Data, angles: list[float], men: Men, rope: Boundaries) -> tuple[Spot, str | None]:
    """Return the end of a ball in the field, and who stopped it: a fielder in its way or running to it."""
    zone, ran = ball["zone"], ball["ran"]
    if not ran and ball["shot"] == "defend":
        return _at(angles[0], BLOCKED_M), None
    passed = {"keeper"} if zone in (1, 8) and not ran else {"bowler"} if zone in (4, 5) and not ran else set()
    there = [
        key
        for key, (x, y, _) in men.items()
        if int(_angle(x, y) // SECTOR) + 1 == zone and (key.isdigit() or key in passed)
    ]
    near = [key for key in there if not is_outside(*men[key][:2])]
    deep = [key for key in there if key not in near and (ball["aerial"] or _is_reached(men[key], men))]
    if ran < 2 and (able := near if not ran else deep or near):
        by = min(able, key=lambda key: abs(_angle(*men[key][:2]) - angles[0]))
        return men[by][:2], by
    if not ran:
        return (end := _at(angles[0], SHORT_M)), _nearest(end, men)
    reach = GAP_M.get(ran, GAP_M[3])
    ways = [(_room(angle, reach, men), _within(angle, reach, rope)) for angle in angles]
    _, end = max(ways, key=lambda way: (way[0], min(math.dist(way[1], man[:2]) for man in men.values())))
    return end, _nearest(end, men)


def _is_reached(man: tuple[int, int, str], men: Men) -> bool:
    """Check whether a ball on the ground gets past the others to a man."""
    x, y, _ = man
    return _room(_angle(x, y), math.hypot(x, y) - 1.0, men) >= CLEAR_M


def _named(position: str, men: Men, zone: int | None) -> str | None:
    """Return the key of the man at a position; of several, the one nearest to the sector's middle."""
    middle = SECTOR * ((zone or 0) - 0.5)
    able = [key for key, (_, _, name) in men.items() if name == position]
    return min(able, key=lambda key: 1 - math.cos(_angle(*men[key][:2]) - middle), default=None)


def _nearest(spot: Spot, men: Men) -> str:
    return min(men, key=lambda key: math.dist(spot, men[key][:2]))


def _angle(x: float, y: float) -> float:
    """Return the direction of a place from fine leg, towards square leg, in radians."""
    return math.atan2(-x, -y) % math.tau


def _at(angle: float, reach: float) -> Spot:
    return -math.sin(angle) * reach, -math.cos(angle) * reach


def _at_rope(angle: float, rope: Boundaries, beyond: float = 0.0) -> Spot:
    """Return where the way from the striker in a direction crosses the rope, or a distance beyond it."""
    low, high = 0.0, 120.0
    for _ in range(12):
        reach = (low + high) / 2
        x, y = _at(angle, reach)
        y -= PITCH_M / 2
        low, high = (low, reach) if math.hypot(x, y) > rope_at(rope, x, y) + beyond else (reach, high)
    return _at(angle, low)


def _within(angle: float, reach: float, rope: Boundaries) -> Spot:
    return min(_at(angle, reach), _at_rope(angle, rope, -2.0), key=lambda end: math.hypot(*end))


def _room(angle: float, reach: float, men: Men) -> float:
    """Return how far a ball on the ground passes the nearest fielder in its way, at most `CLEAR_M`."""
    ux, uy = _at(angle, 1.0)
    ways = (man[:2] for key, man in men.items() if key.isdigit())
    return min([CLEAR_M, *(abs(x * uy - y * ux) for x, y in ways if 0 < x * ux + y * uy < reach)])


_NEW_FIELD: Final = frozenset({"cricket.innings_started", "cricket.position_set", "cricket.field_set"})
_BEFORE_A_BALL: Final = frozenset(
    {"cricket.batter_selected", "cricket.bowler_selected", "cricket.over_started"}
)


def drawing(world: Data, after: Data, event: Event) -> dict[str, Any] | None:
    """Return the drawing after an event; ``None`` if it is as before.

    A ball stays with the field to which it was bowled until the next ball or another field.

    Args:
        world: The world's part of the viewers' state before the event.
        after: The same after it.
    """
    if event.type == "cricket.ball_bowled":
        return draw_ball(world, event.data, event.seq)
    has_ball = "ball" in world.get("drawing", {})
    if event.type in _NEW_FIELD or (event.type in _BEFORE_A_BALL and not has_ball):
        return draw_field(after)
    return None


def pitched(ball: Data) -> dict[str, Any]:
    """Return where a ball pitched, for the pitch map, by innings and delivery of it.

    The delivery is its over from 0, in three digits, and its number in the over, in two. Each is a list: the
    numbers of bowler and batter on the cards, length and line as places in `LENGTHS` and `LINES`, and the
    scorer's mark.
    """
    made = [
        ball["bowler_line"]["number"],
        ball["striker_line"]["number"],
        LENGTHS.index(ball["length"]),
        LINES.index(ball["line"]),
        ball["mark"],
    ]
    return {"pitched": {str(ball["innings"]): {f"{ball['over']:03d}{ball['delivery']:02d}": made}}}


def picture(world: Data) -> dict[str, Any]:
    """Return the drawing of a match's tile; empty until the match is arranged.

    See :attr:`spectator.environments.world.World.picture`. It is the state's ``drawing`` without names.
    ``powerplay`` is omitted outside one. ``marks`` are the wickets among the chances, omitted once the match
    is known to have no chances.

    Args:
        world: The world's part of the viewers' state.
    """
    if "teams" not in world:
        return {}
    drawn = dict(world.get("drawing") or draw_field(world))
    drawn["men"] = {key: man[:2] for key, man in drawn["men"].items()}
    if "chances" in world or "last_ball" not in world:
        drawn["marks"] = _wickets(world.get("chances", {}))
    if world.get("badges", {}).get("powerplay"):
        drawn["powerplay"] = True
    return drawn


def _wickets(chances: Mapping[str, Mapping[str, Data]]) -> list[int]:
    """Return the places of wickets among the chances.

    A chance before an innings repeats the previous mark and is skipped.
    """
    points: Iterable[tuple[str, Data]] = (
        point for _, balls in sorted(chances.items()) for point in sorted(balls.items())
    )
    return [
        place
        for place, (ball, point) in enumerate(points)
        if int(ball) > 0 and point.get("mark", "").endswith("W")
    ]
