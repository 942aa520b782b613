"""Owns following an episode from afar or from the journal, as a sequence of viewers' states."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from spectator.errors import ProtocolError
from spectator.journal.base import Journal
from spectator.merge_patch import apply_patch

FIRST_WAIT_S: Final = 0.5
LONGEST_WAIT_S: Final = 15.0


@dataclass(frozen=True, slots=True)
class Sight:
    """What is seen at one moment.

    Args:
        state: The viewers' state.
        connection: State of the connection, in words.
        over: Whether nothing more will come.
    """

    state: Mapping[str, Any]
    connection: str
    over: bool = False


def live_url(address: str) -> str:
    """The live channel behind an address that a person would copy.

    Args:
        address: A server (``http://host:8000``), a page of its (``.../watch/ID``) or a live channel.

    Raises:
        ValueError: It is no ``http``, ``https``, ``ws`` or ``wss`` address.
    """
    parts = urlsplit(address)
    schemes = {"http": "ws", "https": "wss", "ws": "ws", "wss": "wss"}
    if parts.scheme not in schemes or not parts.netloc:
        raise ValueError(f"{address!r} is not an address such as http://localhost:8000")
    steps = [step for step in parts.path.split("/") if step]
    episode = steps[1] if len(steps) > 1 and steps[0] in {"watch", "replay", "live"} else None
    return f"{schemes[parts.scheme]}://{parts.netloc}/live" + (f"/{episode}" if episode else "")


class _Follower:
    """Applies the frames of a live channel; remembers where it stands."""

    def __init__(self) -> None:
        self.state: Mapping[str, Any] = {}
        self.epoch: str | None = None
        self.seq = 0
        self.reconnect = True
        self.reason = ""

    def position(self) -> str:
        """The query that asks for what is missing."""
        return f"?epoch={self.epoch}&seq={self.seq}" if self.epoch else ""

    def take(self, text: str | bytes) -> bool:
        """Apply one frame; whether it changed what is seen."""
        frame = json.loads(text)
        match frame.get("frame"):
            case "snapshot":
                self.state, self.epoch, self.seq = frame["state"], frame["epoch"], frame["seq"]
            case "event" if frame["epoch"] == self.epoch and frame["seq"] == self.seq + 1:
                self.state, self.seq = apply_patch(self.state, frame["patch"]), frame["seq"]
            case "event" if frame["epoch"] != self.epoch or frame["seq"] > self.seq:
                raise ProtocolError("a gap in the events", close_code=4400)
            case "bye":
                self.reconnect, self.reason = frame["reconnect"], frame["reason"]
            case _:
                return False
        return True


async def watch_live(url: str, *, rng: random.Random) -> AsyncIterator[Sight]:
    """Follow a live channel; reconnects by itself, with full jitter, and resumes where it stood.

    Args:
        url: As :func:`live_url` gives it.
        rng: Draws the jitter.
    """
    follower, tries = _Follower(), 0
    while True:
        try:
            async with connect(url + follower.position(), max_size=None) as channel:
                async for text in channel:
                    tries = 0
                    if follower.take(text):
                        yield Sight(follower.state, "connected")
        except ProtocolError:
            follower.epoch = None
        except (OSError, TimeoutError, ConnectionClosed, InvalidHandshake) as error:
            follower.reason = str(error)
        if not follower.reconnect:
            yield Sight(follower.state, follower.reason, over=True)
            return
        wait = rng.uniform(0, min(LONGEST_WAIT_S, FIRST_WAIT_S * 2**tries))
        tries += 1
        yield Sight(follower.state, f"no connection ({follower.reason or 'closed'}); again in {wait:.1f} s")
        await asyncio.sleep(wait)


async def watch_recorded(journal: Journal, episode_id: str, *, wait_s: float) -> AsyncIterator[Sight]:
    """Follow a recorded episode, turn by turn.

    Args:
        journal: Where it is.
        episode_id: Which.
        wait_s: Seconds between turns.
    """
    state: Mapping[str, Any] = {}
    turn = 0
    async for recorded in journal.stream(episode_id):
        if recorded.event.turn != turn:
            turn = recorded.event.turn
            yield Sight(state, "recorded")
            await asyncio.sleep(wait_s)
        state = apply_patch(state, recorded.event.patch)
    yield Sight(state, "recorded", over=True)
