"""The scenes of a ball, for clips of moments."""

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
from spectator.environments.cricket.ball.grounds import rope_at
from spectator.environments.cricket.match.event_data import surname
from spectator.environments.cricket.match.field import PITCH_M, RING_M
from spectator.environments.cricket.show.drawing import STUMPS, draw_ball
from spectator.events import Event

MIDDLE_M: Final = PITCH_M / 2
Data = Mapping[str, Any]
Spot = tuple[float, float]

BEFORE_S, FLIGHT_S, AFTER_S = 0.8, 1.0, 1.6
"""Durations of the three scenes of a ball, in seconds."""

CENTRE: Final = (162.0, 163.0)
RADIUS: Final = 146.0
"""Middle of the pitch and distance of the farthest rope from it, in units of the drawing."""
WORDS_AT: Final = 336.0
TURF, RING, PITCH = "#173024", "#55775f", "#b9a57a"
STEPS: Final = 12
STUMPS_BROKEN: Final = frozenset({"bowled", "hit wicket", "stumped", "run out"})
BROKEN: Final = "M-4 5l-3 -11M0 5v-11M4 5l3 -11M-5 -9l5 -3M2 -13l5 4"
"""Three stumps out of line, and their bails in the air."""
MARK_COLOURS: Final = {"wicket": CHERRY, "six": WILLOW, "four": GRASS, "extra": SKY}


def scenes(event: Event, before: Data, after: Data) -> Sequence[Scene]:
    """Return the scenes of a ball; none for any other event."""
    if event.type != "cricket.ball_bowled" or "teams" not in after:
        return ()
    ball = event.data
    drawn = draw_ball(before if "field" in before else after, ball, event.seq)
    ground = _ground(drawn, bool(ball["powerplay"]))
    flight = _flight(drawn)
    facing = ground + _facing(ball, before if "score" in before else after)
    return (
        Scene(facing, BEFORE_S),
        Scene(facing, FLIGHT_S, Mover(flight, colour=CHERRY)),
        Scene(ground + _path(flight[STEPS // 3 :]) + _end(drawn) + _outcome(ball, after), AFTER_S),
    )


def _place(drawn: Data, x: float, y: float) -> Spot:
    """Return a point of the field, in metres from the striker, in the drawing; a left-hander is mirrored."""
    scale = RADIUS / max(drawn["rope"])
    return CENTRE[0] + scale * (-x if "left" in drawn else x), CENTRE[1] + scale * (MIDDLE_M - y)


def _flight(drawn: Data) -> list[Spot]:
    """Return the ball's places: a third of them from bowler to bat, then onwards."""
    ball = drawn["ball"]
    bowled = [_place(drawn, 0, PITCH_M * (1 - step / (STEPS // 3))) for step in range(STEPS // 3)]
    (x0, y0), (x1, y1) = _place(drawn, 0, 0.8), _place(drawn, *ball["to"])
    bow = (1 if "left" in drawn else -1) * (0.16 if "aerial" in ball else 0.02)
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


def _end(drawn: Data) -> str:
    """Draw where the ball ended, the way of a fielder to it, and the manner of a dismissal."""
    ball = drawn["ball"]
    x, y = _place(drawn, *ball["to"])
    made = ""
    if by := ball.get("by"):
        x0, y0 = _place(drawn, *drawn["men"][by][:2])
        made += f'<path d="M{x0:.1f} {y0:.1f}L{x:.1f} {y:.1f}" stroke="{INK}" stroke-dasharray="3 3"/>'
        made += f'<circle cx="{x0:.1f}" cy="{y0:.1f}" r="7" fill="none" stroke="{INK}" stroke-width="1.5"/>'
    at = ball.get("broken") or "striker"
    sx, sy = _place(drawn, *STUMPS[at])
    if "broken" in ball:
        made += f'<path d="M{x:.1f} {y:.1f}L{sx:.1f} {sy:.1f}" stroke="{INK}" stroke-dasharray="5 3"/>'
    if ball.get("out") in STUMPS_BROKEN:
        made += (
            f'<path transform="translate({sx:.1f} {sy:.1f})" d="{BROKEN}" fill="none" stroke="{CHERRY}" '
            'stroke-width="2.2" stroke-linecap="round"/>'
        )
    if ball.get("out") == "lbw":
        made += f'<rect x="{sx - 5:.1f}" y="{sy - 9:.1f}" width="10" height="16" rx="3" fill="{CHERRY}"/>'
    return made + f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="{CHERRY}"/>'


def _ground(drawn: Data, powerplay: bool) -> str:
    """Draw rope, ring, pitch, stumps, batters and fielders."""
    rope = drawn["rope"]
    scale = RADIUS / max(rope)
    edge = []
    for step in range(72):
        x, y = -math.sin(step * math.pi / 36), -math.cos(step * math.pi / 36)
        reach = rope_at(rope, x, y)
        edge.append("{:.1f},{:.1f}".format(*_place(drawn, x * reach, MIDDLE_M + y * reach)))
    ring, half = RING_M * scale, MIDDLE_M * scale
    x, y = CENTRE
    shape = (
        f"M{x - ring:.1f} {y + half:.1f}V{y - half:.1f}a{ring:.1f} {ring:.1f} 0 0 1 {2 * ring:.1f} 0"
        f"V{y + half:.1f}a{ring:.1f} {ring:.1f} 0 0 1 {-2 * ring:.1f} 0z"
    )
    colour = WILLOW if powerplay else RING
    made = [
        f'<polygon points="{" ".join(edge)}" fill="{TURF}" stroke="{FAINT}" stroke-width="2"/>',
        f'<path d="{shape}" fill="none" stroke="{colour}" stroke-width="1.5" stroke-dasharray="5 4"/>',
        f'<rect x="{x - 4:.1f}" y="{y - half:.1f}" width="8" height="{2 * half:.1f}" fill="{PITCH}"/>',
    ]
    for key, (mx, my, _) in drawn["men"].items():
        px, py = _place(drawn, mx, my)
        fill = INK if key.isdigit() else WILLOW
        made.append(f'<circle cx="{px:.1f}" cy="{py:.1f}" r="4.5" fill="{fill}"/>')
    for mx, my in ((-1, 1), (-2 if drawn["men"]["bowler"][0] > 0 else 2, 20)):
        px, py = _place(drawn, mx, my)
        made.append(f'<circle cx="{px:.1f}" cy="{py:.1f}" r="3.5" fill="{SKY}"/>')
    return "".join(made)


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
                text_svg(WORDS_AT, 206 + 25 * number, 19, line, INK, weight=700)
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
