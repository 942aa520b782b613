"""Follows an episode, live or recorded, as a sequence of viewers' states."""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

from spectator.backoff import Backoff
from spectator.catalog import load_world, world_names
from spectator.episodes.record.reader import ViewReader
from spectator.errors import ProtocolError
from spectator.journal.base import Journal
from spectator.merge_patch import apply_patch

RECONNECT: Final = Backoff(0.5, 15.0)
"""The waits between connections."""

CONNECTED: Final = "connected"

NEVER: Final = frozenset({400, 401, 403, 404, 405, 410})
"""What a server answers that will not show anything later either."""


@dataclass(frozen=True, slots=True)
class WatchedMoment:
    """What is seen at one moment.

    Args:
        state: The viewers' state.
        connection: State of the connection, in words.
        over: Whether nothing more will come.
        failed: Whether that is so because it could not be shown.
        chapter: Whether it ends what its world calls a chapter, such as an over.
        great: Whether nobody should miss it.
    """

    state: Mapping[str, Any]
    connection: str
    over: bool = False
    failed: bool = False
    chapter: bool = False
    great: bool = False


def live_url(address: str) -> str:
    """The live channel behind an address that a person would copy.

    Args:
        address: A server (``http://host:8000``), a page of its (``.../watch/ID``) or a live channel.

    Raises:
        ValueError: It is no ``http``, ``https``, ``ws`` or ``wss`` address.

    >>> live_url("https://example.org/watch/01JD")
    'wss://example.org/live/01JD'
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
        self.connection = CONNECTED
        self.bye: Mapping[str, Any] = {}
        self.event: Mapping[str, Any] = {}

    def position(self) -> str:
        """The query that asks for what is missing."""
        return f"?epoch={self.epoch}&seq={self.seq}" if self.epoch else ""

    def take(self, text: str | bytes) -> bool:
        """Apply one frame; whether it changed what is seen.

        Raises:
            ProtocolError: There is a gap in the events.
            ValueError: It is no frame.
        """
        try:
            return self._take(json.loads(text))
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"no frame: {error!r}") from error

    def _take(self, frame: Mapping[str, Any]) -> bool:
        self.event = frame if frame.get("frame") == "event" else {}
        match frame.get("frame"):
            case "hello" if frame["epoch"] != self.epoch:
                self.state, self.epoch, self.connection = {}, None, CONNECTED
            case "snapshot":
                self.state, self.epoch, self.seq = frame["state"], frame["epoch"], frame["seq"]
            case "event" if frame["epoch"] == self.epoch and frame["seq"] == self.seq + 1:
                self.state, self.seq = apply_patch(self.state, frame["patch"]), frame["seq"]
            case "event" if frame["epoch"] != self.epoch or frame["seq"] > self.seq:
                raise ProtocolError("a gap in the events", close_code=4400)
            case "trouble":
                message = frame["message"]
                self.connection = CONNECTED if message is None else f"play stands still: {message}"
            case "waiting":
                self.connection = "nothing is on; waiting for the next episode"
            case "bye":
                self.bye = frame
            case _:
                return False
        return True

    def moment(self) -> WatchedMoment:
        """What is seen now."""
        if self.bye and not self.bye["reconnect"]:
            return WatchedMoment(self.state, self.bye["reason"], over=True, failed=self.bye["code"] != 1000)
        kind, data = self.event.get("type", ""), self.event.get("data", {})
        return WatchedMoment(
            self.state,
            self.bye["reason"] if self.bye else self.connection,
            chapter=_ends_chapter(self.state, kind),
            great=_is_great(kind, data),
        )


def _ends_chapter(state: Mapping[str, Any], kind: str) -> bool:
    """Whether an event ends what its world calls a chapter."""
    environment = state.get("episode", {}).get("environment")
    return environment in world_names() and kind in load_world(environment).chapters


def _is_great(kind: str, data: Mapping[str, Any]) -> bool:
    """Whether an event is a line that nobody should miss."""
    return kind == "narration.line" and data.get("priority") == 0


async def watch_live(url: str, *, rng: random.Random) -> AsyncIterator[WatchedMoment]:
    """Follow a live channel; reconnects by itself, with full jitter, and resumes where it stood.

    Args:
        url: As :func:`live_url` gives it.
        rng: Draws the jitter.
    """
    host, follower, tries = urlsplit(url).netloc, _Follower(), 0
    yield WatchedMoment({}, f"connecting to {host}")
    while True:
        follower.bye, lost = {}, "the connection was lost"
        try:
            async with connect(url + follower.position(), max_size=None) as channel:
                follower.connection = CONNECTED
                async for text in channel:
                    tries = 0
                    if follower.take(text):
                        yield (seen := follower.moment())
                        if seen.over:
                            return
        except ProtocolError:
            follower.epoch = None
        except ValueError:
            yield WatchedMoment(
                follower.state, f"{host} does not speak the live protocol", over=True, failed=True
            )
            return
        except InvalidStatus as error:
            lost = f"{host} answers {error.response.status_code}"
            if error.response.status_code in NEVER:
                yield WatchedMoment(
                    follower.state, f"{lost}: no live channel is there", over=True, failed=True
                )
                return
        except (OSError, TimeoutError, ConnectionClosed, InvalidHandshake) as error:
            lost = f"{host}: {_in_words(error)}"
        wait = RECONNECT.draw(tries, rng)
        tries += 1
        reason = follower.bye.get("reason", lost)
        yield WatchedMoment(follower.state, f"no connection ({reason}); again in {wait:.1f} s")
        await asyncio.sleep(wait)


def _in_words(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno).lower()
    if isinstance(error, ConnectionClosed):
        return "the connection was lost"
    return str(error) or type(error).__name__


async def watch_recorded(journal: Journal, episode_id: str, *, wait_s: float) -> AsyncIterator[WatchedMoment]:
    """Follow a recorded episode, turn by turn.

    Args:
        journal: Where it is.
        episode_id: Which.
        wait_s: Seconds between turns.
    """
    state: Mapping[str, Any] = {}
    turn, chapter, great = 0, False, False
    async for recorded in ViewReader(journal).stream(episode_id):
        event = recorded.event
        if event.turn != turn:
            turn = event.turn
            yield WatchedMoment(state, "recorded", chapter=chapter, great=great)
            chapter, great = False, False
            await asyncio.sleep(wait_s)
        state = apply_patch(state, event.patch)
        chapter = chapter or _ends_chapter(state, event.type)
        great = great or _is_great(event.type, event.data)
    yield WatchedMoment(state, "recorded", over=True, chapter=chapter, great=great)
