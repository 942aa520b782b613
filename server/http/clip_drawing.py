"""A program that draws a moment of an episode as an animated WebP or a WebM, or its last frame as a PNG.

Standard input is a line of JSON with the request, then the episode's events as viewers get them, one per
line. The picture goes to standard output. The exit code is 3 if there is nothing to draw.
"""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from struct import pack
from typing import Any, Final

import resvg_py
from PIL import Image, ImageDraw

from spectator.catalog import load_world
from spectator.environments.contract import (
    FAINT,
    GRASS,
    GROUND,
    INK,
    NOTHING_DRAWN,
    SCENE_WIDTH,
    SKY,
    Mover,
    Scene,
    text_svg,
    whole_svg,
)
from spectator.environments.world import World
from spectator.events import Event, decode
from spectator.json_values import apply_patch
from spectator.text import clean_text

WIDTH, HEIGHT = 640, 360
FRAME_S: Final = 0.08
HOLD_S: Final = 2.0
"""Most seconds by which the last scene is extended, if there is time left."""
SHARP: Final = 4
"""Factor by which a moving dot is drawn larger and scaled down, for a smooth edge."""

LOWEST_PRIORITY: Final = 10

VIDEO_QUALITY: Final = 60
"""Quality of a picture, 0 to 100: flat drawings of 640 by 360 take 5 to 10 kB."""

CLUSTER_MS: Final = 30_000
"""Longest cluster: the time of a block in it has 16 bits with a sign."""

Frame = tuple[Image.Image, int]
"""A picture and its duration in milliseconds."""


@dataclass(slots=True)
class Take:
    """An event that is drawn.

    Args:
        before: The agent's chance to win before it; ``None`` if unknown.
        after: The chance after everything that belongs to it.
    """

    seq: int
    scenes: Sequence[Scene]
    before: float | None
    after: float | None = None


def main() -> None:
    """Draw the requested picture."""
    os.nice(LOWEST_PRIORITY)
    asked = json.loads(sys.stdin.buffer.readline())
    world = load_world(asked["world"])
    seats, takes = takes_of(world, (decode(line).event for line in _lines()), asked["from_seq"])
    if not takes:
        sys.exit(NOTHING_DRAWN)
    if asked["kind"] == "png":
        last = takes[0]
        sys.stdout.buffer.write(_png(_whole(last.scenes[-1], last.after, seats)))
    else:
        encode = webm if asked["kind"] == "webm" else animation
        sys.stdout.buffer.write(encode(list(frames(takes, seats, asked["seconds"]))))


def _lines() -> Iterator[str]:
    for line in sys.stdin.buffer:
        if line.strip():
            yield line.decode()


def takes_of(world: World, events: Iterable[Event], from_seq: int) -> tuple[list[str], list[Take]]:
    """Return the seats and the takes.

    The takes are the newest event up to ``from_seq``, or the next, and all later ones.
    """
    assert world.scenes is not None
    state: Mapping[str, Any] = {}
    takes: list[Take] = []
    for event in events:
        before = state.get("world", {})
        state = apply_patch(state, event.patch)
        scenes = world.scenes(event, before, state.get("world", {}))
        if not scenes:
            continue
        chance = _chance(world, before)
        if takes:
            takes[-1].after = chance
        if event.seq <= from_seq:
            takes.clear()
        takes.append(Take(event.seq, scenes, chance))
    if takes:
        takes[-1].after = _chance(world, state.get("world", {}))
    named = state.get("episode", {}).get("seats", {}).values()
    return [clean_text(str(seat["label"]), 28) for seat in named][:2], takes


def _chance(world: World, seen: Mapping[str, Any]) -> float | None:
    chances = world.chances(seen) if world.chances is not None else ()
    return float(chances[-1]) if chances else None


def frames(takes: Sequence[Take], seats: Sequence[str], seconds: float) -> Iterator[Frame]:
    """Yield the pictures of as many takes as fit, at least the first."""
    left = seconds
    shown: list[Take] = []
    for take in takes:
        length = sum(scene.duration_s for scene in take.scenes)
        if shown and length > left:
            break
        shown.append(take)
        left -= length
    for take in shown:
        for number, scene in enumerate(take.scenes):
            ends = number == len(take.scenes) - 1
            whole = _picture(_whole(scene, take.after if ends else take.before, seats))
            longer = max(0.0, min(HOLD_S, left)) if ends and take is shown[-1] else 0.0
            if scene.mover is None:
                yield whole, round(1000 * (scene.duration_s + longer))
            else:
                yield from _moving(whole, scene.mover, scene.duration_s)


def animation(made: Sequence[Frame]) -> bytes:
    """Encode an animated lossless WebP, which is smaller for flat drawings."""
    written = io.BytesIO()
    first, *rest = (picture for picture, _ in made)
    first.save(
        written,
        "WEBP",
        save_all=True,
        append_images=rest,
        duration=[milliseconds for _, milliseconds in made],
        loop=0,
        lossless=True,
        quality=40,
        method=3,
    )
    return written.getvalue()


def webm(made: Sequence[Frame]) -> bytes:
    """Encode a WebM without a video encoder: the data of a lossy WebP is a VP8 key frame.

    The container is EBML (RFC 8794) with the elements of Matroska (RFC 9559).
    """
    first, total = made[0][0], sum(milliseconds for _, milliseconds in made)
    header = _element(
        "1A45DFA3",
        _number("4286", 1) + _number("42F7", 1) + _number("42F2", 4) + _number("42F3", 8),
        _element("4282", b"webm") + _number("4287", 2) + _number("4285", 2),
    )
    about = _element(
        "1549A966",
        _number("2AD7B1", 1_000_000),  # nanoseconds of a unit of time
        _element("4489", _float(total)),
        _element("4D80", b"Spectator") + _element("5741", b"Spectator"),
    )
    size = _element("E0", _number("B0", first.width) + _number("BA", first.height))
    track = _number("D7", 1) + _number("73C5", 1) + _number("83", 1) + _number("9C", 0)
    tracks = _element("1654AE6B", _element("AE", track + _element("86", b"V_VP8") + size))
    return header + _element("18538067", about + tracks, *_clusters(made))


def _clusters(made: Sequence[Frame]) -> Iterator[bytes]:
    at, began, blocks = 0, 0, b""
    for picture, duration in made:
        if at - began > CLUSTER_MS:
            yield _element("1F43B675", _number("E7", began) + blocks)
            began, blocks = at, b""
        block = b"\x81" + (at - began).to_bytes(2, "big") + b"\x00" + _key_frame(picture)
        blocks += _element("A0", _element("A1", block) + _number("9B", duration))
        at += duration
    yield _element("1F43B675", _number("E7", began) + blocks)


def _key_frame(picture: Image.Image) -> bytes:
    """Return a picture as VP8: the first chunk of a lossy WebP without transparency (RFC 9649)."""
    written = io.BytesIO()
    picture.save(written, "WEBP", lossless=False, quality=VIDEO_QUALITY, method=2)
    whole = written.getvalue()
    if whole[12:16] != b"VP8 ":
        raise ValueError("a picture of a video must have no transparency")
    return whole[20 : 20 + int.from_bytes(whole[16:20], "little")]


def _element(name: str, *parts: bytes) -> bytes:
    content = b"".join(parts)
    return bytes.fromhex(name) + (len(content) | 1 << 56).to_bytes(8, "big") + content


def _number(name: str, value: int) -> bytes:
    return _element(name, value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big"))


def _float(value: float) -> bytes:
    return pack(">d", value)


def _moving(still: Image.Image, mover: Mover, duration_s: float) -> Iterator[Frame]:
    count = max(1, round(duration_s / FRAME_S))
    dot = _dot(mover)
    for number in range(count):
        place = number / max(1, count - 1) * (len(mover.places) - 1)
        low = min(int(place), len(mover.places) - 1)
        (x0, y0), (x1, y1) = mover.places[low], mover.places[min(low + 1, len(mover.places) - 1)]
        part, scale = place - low, WIDTH / SCENE_WIDTH
        x, y = scale * (x0 + part * (x1 - x0)), scale * (y0 + part * (y1 - y0))
        frame = still.copy()
        frame.paste(mover.colour, (round(x - dot.width / 2), round(y - dot.height / 2)), dot)
        yield frame, round(1000 * duration_s / count)


def _dot(mover: Mover) -> Image.Image:
    side = round(2 * mover.radius * WIDTH / SCENE_WIDTH) + 2
    fine = Image.new("L", (SHARP * side, SHARP * side))
    ImageDraw.Draw(fine).ellipse((SHARP, SHARP, SHARP * (side - 1), SHARP * (side - 1)), fill=255)
    return fine.resize((side, side), Image.Resampling.LANCZOS)


def _whole(scene: Scene, chance: float | None, seats: Sequence[str]) -> str:
    """Return a scene with the chances to win below it."""
    bar = ""
    if chance is not None:
        split = chance * SCENE_WIDTH
        middle, label = SCENE_WIDTH / 2, f"{100 * chance:.0f} : {100 - round(100 * chance)}"
        bar = (
            f'<rect y="352" width="{SCENE_WIDTH}" height="8" fill="{SKY}"/>'
            f'<rect y="352" width="{split:.1f}" height="8" fill="{GRASS}"/>'
            + text_svg(middle, 344, 15, label, INK, anchor="middle", weight=700)
        )
    named = zip(seats, ((14, "start", GRASS), (SCENE_WIDTH - 14, "end", SKY)), strict=False)
    labels = "".join(text_svg(x, 344, 15, seat, colour, anchor=anchor) for seat, (x, anchor, colour) in named)
    ground = f'<rect width="{SCENE_WIDTH}" height="{HEIGHT}" fill="{GROUND}"/>'
    brand = text_svg(SCENE_WIDTH - 14, 24, 13, "Spectator", FAINT, anchor="end")
    return whole_svg(ground + scene.svg + brand + labels + bar, WIDTH, HEIGHT)


def _picture(svg: str) -> Image.Image:
    return Image.open(io.BytesIO(_png(svg))).convert("RGB")


def _png(svg: str) -> bytes:
    return bytes(resvg_py.svg_to_bytes(svg_string=svg))


if __name__ == "__main__":
    main()
