"""Drawings of a match: the ground on its tile, and the scenes of a ball."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, Final

from spectator.environments.contract import (
    CHERRY,
    FAINT,
    GRASS,
    GROUND,
    INK,
    LINE,
    SKY,
    WILLOW,
    Mover,
    Scene,
    text_svg,
)
from spectator.environments.cricket.ball.grounds import USUAL_BOUNDARY_M, Boundaries, as_faced, rope_at
from spectator.environments.cricket.match.event_data import surname
from spectator.environments.cricket.match.field import PITCH_M, RING_M, inside_the_rope
from spectator.events import Event

MIDDLE_M: Final = PITCH_M / 2
REACH_M: Final = {"six": 84.0, "four": 70.0, "dot": 14.0, "extra": 20.0}
"""Metres from the striker at which a ball is drawn to end; the model sets only its direction."""


def faced_rope(world: Mapping[str, Any], over: int, striker: str) -> Boundaries:
    """Return the metres from mid-pitch to the rope by sector, as the striker sees it.

    Args:
        world: The world's part of the viewers' state.
        over: Over of the innings, from 0.
    """
    ground = world.get("ground")
    if not ground:
        return (USUAL_BOUNDARY_M,) * 8
    return as_faced(tuple(ground["boundaries"]), over, striker in ground["left_handers"])


def ball_end(ball: Mapping[str, Any], rope: Boundaries) -> tuple[float, float] | None:
    """Return where a ball is drawn to end; ``None`` if it was not hit.

    Args:
        ball: A ball with ``zone``, ``kind``, ``runs`` and ``aerial``.
        rope: The boundaries from the striker's view.

    Returns:
        Metres from the striker towards the off side and towards the bowler.
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


def picture(world: Mapping[str, Any]) -> dict[str, Any]:
    """Return the drawing of a match's tile; empty until the match is arranged.

    See :attr:`spectator.environments.world.World.picture`. ``rope`` is the boundary in metres from the middle
    of the pitch, by sector from fine leg round to third. ``men`` are the fielders, ``[x, y]`` each.
    ``powerplay`` is omitted outside one. ``ball`` is the last ball of this innings: its number ``seq``, its
    ``kind`` and, if it was hit, its end ``to`` and whether it was ``aerial``. Places are metres from the
    striker towards the off side and the bowler. ``marks`` are the wickets among the chances, omitted once the
    match is known to have no chances.

    Args:
        world: The world's part of the viewers' state.
    """
    if "teams" not in world:
        return {}
    striker = (world.get("batters") or {}).get("striker") or {}
    rope = faced_rope(world, world.get("over", {}).get("number", 1) - 1, striker.get("name", ""))
    fielders = world.get("field", {}).get("fielders", {})
    men = [inside_the_rope(one["x"], one["y"], rope) for one in fielders.values()]
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


def _wickets(chances: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> list[int]:
    """Return the places of wickets among the chances.

    A chance before an innings repeats the previous mark and is skipped.
    """
    points = [(ball, point) for _, balls in sorted(chances.items()) for ball, point in sorted(balls.items())]
    fell = [int(ball) > 0 and point.get("mark", "").endswith("W") for ball, point in points]
    return [place for place, is_wicket in enumerate(fell) if is_wicket]


Data = Mapping[str, Any]
Spot = tuple[float, float]

BEFORE_S, FLIGHT_S, AFTER_S = 0.8, 1.0, 1.6
"""Durations of the three scenes of a ball, in seconds."""

CENTRE: Final = (162.0, 163.0)
RADIUS: Final = 146.0
"""Middle of the pitch and distance of the farthest rope from it, in units of the drawing."""
WORDS_AT: Final = 336.0
TURF, RING, PITCH = "#173024", "#2c4a38", "#b9a57a"
STEPS: Final = 12
MARK_COLOURS: Final = {"wicket": CHERRY, "six": WILLOW, "four": GRASS, "extra": SKY}


def scenes(event: Event, before: Data, after: Data) -> Sequence[Scene]:
    """Return the scenes of a ball; none for any other event."""
    if event.type != "cricket.ball_bowled" or "teams" not in after:
        return ()
    ball = event.data
    rope = faced_rope(after, ball["over"], ball["striker"])
    ground = _ground(rope, before.get("field") or after.get("field"), bool(ball["powerplay"]), _scale(rope))
    hit = ball_end(ball, rope)
    flight = _flight(hit, rope, bool(ball["aerial"]))
    way = _path(flight[STEPS // 3 :]) if hit is not None else ""
    dot = f'<circle cx="{flight[-1][0]:.1f}" cy="{flight[-1][1]:.1f}" r="5" fill="{INK}"/>' if way else ""
    return (
        Scene(ground + _facing(ball, before if "score" in before else after), BEFORE_S),
        Scene(ground + _facing(ball, before if "score" in before else after), FLIGHT_S, Mover(flight)),
        Scene(ground + way + dot + _outcome(ball, after), AFTER_S),
    )


def _scale(rope: Boundaries) -> float:
    return RADIUS / max(rope)


def _place(x: float, y: float, scale: float) -> Spot:
    """Return a point of the field, in metres from the striker, in the drawing."""
    return CENTRE[0] + scale * x, CENTRE[1] + scale * (MIDDLE_M - y)


def _flight(hit: Spot | None, rope: Boundaries, aerial: bool) -> list[Spot]:
    """Return the ball's places: a third of them from bowler to bat, then onwards."""
    scale = _scale(rope)
    bowled = [_place(0, PITCH_M * (1 - step / (STEPS // 3)), scale) for step in range(STEPS // 3)]
    (x0, y0), (x1, y1) = _place(0, 0.8, scale), _place(*(hit or (0.0, -6.0)), scale)
    bow = 0.16 if aerial else 0.02
    middle = (x0 + x1) / 2 + bow * (y1 - y0), (y0 + y1) / 2 - bow * (x1 - x0)
    rest = STEPS - STEPS // 3
    hits = []
    for step in range(rest + 1):
        t = step / rest
        a, b, c = (1 - t) ** 2, 2 * t * (1 - t), t**2
        hits.append((a * x0 + b * middle[0] + c * x1, a * y0 + b * middle[1] + c * y1))
    return [*bowled, *hits]


def _path(places: Sequence[Spot]) -> str:
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    return f'<polyline points="{points}" fill="none" stroke="{INK}" stroke-width="2.5" stroke-opacity=".8"/>'


def _ground(rope: Boundaries, field: Data | None, powerplay: bool, scale: float) -> str:
    """Draw rope, ring, pitch and fielders."""
    edge = []
    for step in range(72):
        x, y = -math.sin(step * math.pi / 36), -math.cos(step * math.pi / 36)
        reach = rope_at(rope, x, y) * scale
        edge.append(f"{CENTRE[0] + x * reach:.1f},{CENTRE[1] - y * reach:.1f}")
    ring, half = RING_M * scale, MIDDLE_M * scale
    x, y = CENTRE
    shape = (
        f"M{x - ring:.1f} {y + half:.1f}V{y - half:.1f}a{ring:.1f} {ring:.1f} 0 0 1 {2 * ring:.1f} 0"
        f"V{y + half:.1f}a{ring:.1f} {ring:.1f} 0 0 1 {-2 * ring:.1f} 0z"
    )
    colour = WILLOW if powerplay else RING
    drawn = [
        f'<polygon points="{" ".join(edge)}" fill="{TURF}" stroke="{FAINT}" stroke-width="2"/>',
        f'<path d="{shape}" fill="none" stroke="{colour}" stroke-width="1.5" stroke-dasharray="5 4"/>',
        f'<rect x="{x - 4:.1f}" y="{y - half:.1f}" width="8" height="{2 * half:.1f}" fill="{PITCH}"/>',
    ]
    for one in (field or {}).get("fielders", {}).values():
        px, py = _place(*inside_the_rope(one["x"], one["y"], rope), scale)
        drawn.append(f'<circle cx="{px:.1f}" cy="{py:.1f}" r="4.5" fill="{SKY}"/>')
    return "".join(drawn)


def _facing(ball: Data, world: Data) -> str:
    """Draw bowler, striker, score, and both captains' intents."""
    intents = ball["intents"]
    teams = world["teams"]
    batting, bowling = ball["side"], "away" if ball["side"] == "home" else "home"
    asked = (
        (f"{teams[batting]['name']} hit at {intents['aggression']:.2f}", 232.0),
        (f"{teams[bowling]['name']} attack at {intents['attack']:.2f}", 258.0),
    )
    return _score(world, batting, ball["at"]) + "".join(
        (
            text_svg(WORDS_AT, 138, 21, _short(surname(ball["bowler"]), 21), INK, weight=700),
            text_svg(WORDS_AT, 168, 21, _short(f"to {surname(ball['striker'])}", 21), INK, weight=700),
            *(text_svg(WORDS_AT, y, 16, _short(words, 30), FAINT) for words, y in asked),
        )
    )


def _outcome(ball: Data, world: Data) -> str:
    """Draw the mark of the ball, its words, and the score after it."""
    colour = MARK_COLOURS.get(ball["kind"], LINE)
    ink = GROUND if colour != LINE else INK
    size = 34 if len(ball["mark"]) < 3 else 22
    words = ball["words"].partition(": ")[2] or ball["words"]
    lines = textwrap.wrap(words, 27, max_lines=4, placeholder=" …")
    return _score(world, ball["side"], ball["at"]) + "".join(
        (
            f'<rect x="{WORDS_AT}" y="108" width="64" height="64" rx="16" fill="{colour}"/>',
            text_svg(WORDS_AT + 32, 140 + size * 0.36, size, ball["mark"], ink, anchor="middle", weight=700),
            *(
                text_svg(WORDS_AT, 206 + 25 * number, 19, line, INK, weight=700 if number == 0 else 400)
                for number, line in enumerate(lines)
            ),
        )
    )


def _score(world: Data, side: str, at: str) -> str:
    score = world["score"][side]
    runs = f"{score['runs']}/{score['wickets']}"
    need = world.get("equation", {}).get("need")
    chase = f", need {need} off {world['equation']['balls']}" if need is not None and need > 0 else ""
    return (
        text_svg(WORDS_AT, 36, 19, _short(world["teams"][side]["name"], 24), FAINT)
        + text_svg(WORDS_AT, 74, 34, runs, INK, weight=700)
        + text_svg(WORDS_AT + 22 * len(runs) + 10, 74, 17, f"over {at}{chase}", FAINT)
    )


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
