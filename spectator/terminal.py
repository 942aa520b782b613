"""Watch an episode in a terminal: follow it live or recorded, and navigate it with the keyboard."""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import urlsplit

from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

from spectator.backoff import Backoff
from spectator.catalog import load_world, world_names
from spectator.episodes.reader import ViewReader
from spectator.errors import ProtocolError
from spectator.journal.contract import Journal
from spectator.json_values import apply_patch

RECONNECT: Final = Backoff(0.5, 15.0)
"""The waits between connections."""

CONNECTED: Final = "connected"

NEVER: Final = frozenset({400, 401, 403, 404, 405, 410})
"""HTTP statuses after which reconnecting is pointless."""


@dataclass(frozen=True, slots=True)
class WatchedMoment:
    """What the viewer sees at one moment.

    Args:
        connection: State of the connection, in words.
        over: Whether this is the last moment.
        failed: Whether it is the last because the episode could not be shown.
        chapter: Whether it ends a chapter of its world, such as an over.
        great: Whether it is a big moment.
    """

    state: Mapping[str, Any]
    connection: str
    over: bool = False
    failed: bool = False
    chapter: bool = False
    great: bool = False


def live_url(address: str) -> str:
    """Return the URL of the live channel for an address that a person would copy.

    Args:
        address: A server (``http://host:8000``), one of its pages (``.../watch/ID``) or a live channel.

    Raises:
        ValueError: It is not an ``http``, ``https``, ``ws`` or ``wss`` address.

    >>> live_url("https://example.org/watch/01JD")
    'wss://example.org/live/01JD'
    """
    parts = urlsplit(address)
    schemes = {"http": "ws", "https": "wss", "ws": "ws", "wss": "wss"}
    if parts.scheme not in schemes or not parts.netloc:
        raise ValueError(f"{address!r} is not a URL of a server; use one such as http://localhost:8000")
    steps = [step for step in parts.path.split("/") if step]
    episode = steps[1] if len(steps) > 1 and steps[0] in {"watch", "replay", "live"} else None
    return f"{schemes[parts.scheme]}://{parts.netloc}/live" + (f"/{episode}" if episode else "")


class _Follower:
    """Applies the frames of a live channel and keeps its position."""

    def __init__(self) -> None:
        self.state: Mapping[str, Any] = {}
        self.epoch: str | None = None
        self.seq = 0
        self.connection = CONNECTED
        self.bye: Mapping[str, Any] = {}
        self.event: Mapping[str, Any] = {}
        self._rewound = False

    def rewind(self) -> bool:
        """Go back to the beginning, once, if the episode ended before it was followed; return whether so."""
        ended = self.seq > 0 and not self.event and self.state.get("episode", {}).get("status") == "ended"
        if not ended or self._rewound:
            return False
        self.state, self.seq, self._rewound = {}, 0, True
        return True

    def position(self) -> str:
        """Return the query that resumes the channel at the current position."""
        return f"?epoch={self.epoch}&seq={self.seq}" if self.epoch else ""

    def take(self, text: str | bytes) -> bool:
        """Apply one frame; return whether it changed the picture.

        Raises:
            ProtocolError: There is a gap in the events.
            ValueError: It is not a frame.
        """
        try:
            return self._take(json.loads(text))
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not a frame of the live protocol: {error!r}") from error

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
                self.connection = CONNECTED if message is None else f"play is paused: {message}"
            case "waiting":
                self.connection = "no live episode; waiting for the next one"
            case "bye":
                self.bye = frame
            case _:
                return False
        return True

    def moment(self) -> WatchedMoment:
        """Return the current moment."""
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
    """Return whether an event ends a chapter of its world."""
    environment = state.get("episode", {}).get("environment")
    return environment in world_names() and kind in load_world(environment).chapters


def _is_great(kind: str, data: Mapping[str, Any]) -> bool:
    """Return whether an event is a line of the highest priority."""
    return kind == "narration.line" and data.get("priority") == 0


async def watch_live(url: str, *, rng: random.Random) -> AsyncIterator[WatchedMoment]:
    """Follow a live channel; reconnects with full jitter and resumes at its position.

    Args:
        url: URL from :func:`live_url`.
    """
    host, follower, tries = urlsplit(url).netloc, _Follower(), 0
    yield WatchedMoment({}, f"connecting to {host}")
    while True:
        follower.bye, lost, rewound = {}, "the connection was lost", False
        try:
            async with connect(url + follower.position(), max_size=None) as channel:
                follower.connection = CONNECTED
                async for text in channel:
                    tries = 0
                    if follower.take(text):
                        if rewound := follower.rewind():
                            break
                        yield (seen := follower.moment())
                        if seen.over:
                            return
            if rewound:
                continue
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
                    follower.state,
                    f"{lost}: there is no live channel at this address",
                    over=True,
                    failed=True,
                )
                return
        except (OSError, TimeoutError, ConnectionClosed, InvalidHandshake) as error:
            lost = f"{host}: {_describe(error)}"
        wait = RECONNECT.draw(tries, rng)
        tries += 1
        reason = follower.bye.get("reason", lost)
        yield WatchedMoment(follower.state, f"no connection ({reason}); retrying in {wait:.1f} s")
        await asyncio.sleep(wait)


def _describe(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno).lower()
    if isinstance(error, ConnectionClosed):
        return "the connection was lost"
    return str(error) or type(error).__name__


async def watch_recorded(journal: Journal, episode_id: str, *, wait_s: float) -> AsyncIterator[WatchedMoment]:
    """Follow a recorded episode, turn by turn.

    Args:
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


SPEEDS: Final = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Replay speeds, the same as on the watch page."""

KEY_HELP: Final[Mapping[str, str]] = {
    "space": "pause or play",
    "left / right": "previous or next turn",
    ", / .": "previous or next end of an over (or other chapter of the world)",
    "[ / ]": "previous or next big moment",
    "home / end": "beginning or newest",
    "- / +": "slower or faster, from 0.5 to 8",
    "L": "live",
    "?": "show or hide this help",
    "Q": "quit; the episode goes on (also Ctrl+C)",
}
"""The keys and what they do; the same keys as on the watch page."""

KEYS_LINE: Final = "space pause  ←→ turn  ,. over  [] moment  -+ speed  L live  ? keys  Q quit"
"""The key help on one line of 80 characters."""


class TerminalPlayer:
    """Keeps the moments received so far and selects the one to show.

    With ``follow`` it shows the newest until a key moves it elsewhere; otherwise it plays from the beginning.

    Args:
        turn_s: Seconds that each moment is shown during playback, at speed 1.
        follow: Whether to show the newest moment from the start, for live episodes.

    >>> player = TerminalPlayer(turn_s=0.5, follow=True)
    >>> for turn in (1, 2):
    ...     player.take(WatchedMoment({"episode": {"turn": turn}}, "connected"))
    >>> player.press("left")
    >>> player.shown().state, player.playing
    ({'episode': {'turn': 1}}, False)
    """

    def __init__(self, *, turn_s: float, follow: bool) -> None:
        self.playing = True
        self.helping = False
        self.left = False
        self._turn_s, self._follow = turn_s, follow
        self._moments: list[WatchedMoment] = []
        self._at = 0
        self._speed = SPEEDS.index(1.0)
        self._acts: Mapping[str, Callable[[], None]] = {
            " ": self._toggle,
            "left": lambda: self._go_to(self._at - 1),
            "right": lambda: self._go_to(self._at + 1),
            ",": lambda: self._go_to(self._before(lambda moment: moment.chapter)),
            ".": lambda: self._go_to(self._after(lambda moment: moment.chapter)),
            "[": lambda: self._go_to(self._before(lambda moment: moment.great)),
            "]": lambda: self._go_to(self._after(lambda moment: moment.great)),
            "home": lambda: self._go_to(0),
            "end": self._newest,
            "l": self._newest,
            "-": lambda: self._change_speed(-1),
            "+": lambda: self._change_speed(1),
            "=": lambda: self._change_speed(1),
            "?": self._help,
            "q": self._quit,
        }

    def take(self, moment: WatchedMoment) -> None:
        """Keep the next moment; it replaces the last one of the same turn unless that is paused on."""
        last, following = self.newest, self.following
        paused_on_last = not self.playing and self._at == len(self._moments) - 1
        if last is not None and not paused_on_last and (not last.state or _turn(moment) == _turn(last)):
            self._moments[-1] = replace(
                moment, chapter=moment.chapter or last.chapter, great=moment.great or last.great
            )
            return
        self._moments.append(moment)
        if following:
            self._at = len(self._moments) - 1

    def press(self, key: str) -> None:
        """Handle a key; unknown keys do nothing."""
        act = self._acts.get(key.lower())
        if act is not None:
            act()

    def play_on(self, steps: int = 1) -> None:
        """Advance by ``steps`` moments."""
        self._at = min(self._at + steps, len(self._moments) - 1)

    def wait_s(self) -> float | None:
        """Return the seconds until the next moment is due; ``None`` if none is."""
        if not self.playing or self._at >= len(self._moments) - 1:
            return None
        return self._turn_s / SPEEDS[self._speed]

    def shown(self) -> WatchedMoment | None:
        """Return the moment to show, with the current connection; ``None`` before the first."""
        if not self._moments:
            return None
        return replace(self._moments[self._at], connection=self._moments[-1].connection)

    @property
    def following(self) -> bool:
        """Whether the newest moment is shown and new ones will be."""
        return self.playing and self._follow and self._at >= len(self._moments) - 1

    @property
    def newest(self) -> WatchedMoment | None:
        """The newest moment received; ``None`` before the first."""
        return self._moments[-1] if self._moments else None

    def line(self) -> str:
        """Describe the position in words."""
        count = len(self._moments)
        if self._at >= count - 1:
            how = "the end" if self._over() else "newest" if self.playing else "paused"
        else:
            how = "playing" if self.playing else "paused"
        return f"{how} · {self._at + 1 if count else 0} of {count} · {SPEEDS[self._speed]:g}×"

    def _over(self) -> bool:
        return bool(self._moments) and self._moments[-1].over

    def _toggle(self) -> None:
        if self._over() and self._at == len(self._moments) - 1:
            self.playing, self._at = True, 0
        else:
            self.playing = not self.playing

    def _go_to(self, at: int) -> None:
        self.playing = False
        self._at = max(0, min(at, len(self._moments) - 1))

    def _newest(self) -> None:
        self._at = max(0, len(self._moments) - 1)
        self.playing = self._follow = True

    def _change_speed(self, by: int) -> None:
        self._speed = max(0, min(self._speed + by, len(SPEEDS) - 1))

    def _help(self) -> None:
        self.helping = not self.helping

    def _quit(self) -> None:
        self.left = True

    def _before(self, wanted: Callable[[WatchedMoment], bool]) -> int:
        return next((at for at in range(self._at - 1, -1, -1) if wanted(self._moments[at])), 0)

    def _after(self, wanted: Callable[[WatchedMoment], bool]) -> int:
        last = len(self._moments)
        return next((at for at in range(self._at + 1, last) if wanted(self._moments[at])), last - 1)


def _turn(moment: WatchedMoment) -> tuple[object, object]:
    """Return the episode and the turn of a moment."""
    episode = moment.state.get("episode", {})
    return episode.get("id"), episode.get("turn")
