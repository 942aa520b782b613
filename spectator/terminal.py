"""Watch an episode in a terminal: follow it, draw it, and move through it by keys.

An episode, live or recorded, is followed as a sequence of viewers' states. All text is cleaned before it is
drawn, so nothing that a model wrote can send escape sequences to the terminal.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import urlsplit

from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

from spectator.backoff import Backoff
from spectator.catalog import load_world, world_names
from spectator.episodes.reader import ViewReader
from spectator.errors import ProtocolError
from spectator.journal.contract import Journal
from spectator.json_values import apply_patch
from spectator.text import clean_text

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


LINES: Final = 14
"""Newest lines of commentary that are shown where nobody says how much room there is."""

LEAST_LINES: Final = 3
"""Lines of commentary that are shown however little room there is."""

KEYS: Final = "Ctrl+C leaves; the episode goes on"
"""What the keyboard does where keys are not read one by one."""

LABEL_STYLES: Final[Mapping[int, str]] = {0: "bold red", 1: "bold yellow", 2: "cyan", 3: "default"}
"""Colour of a line's mark by its priority; the mark itself says the same in letters."""


def draw(
    state: Mapping[str, Any],
    connection: str,
    room: Console | None = None,
    below: Sequence[str] = (KEYS,),
    keys: Mapping[str, str] | None = None,
) -> RenderableType:
    """The picture of one moment.

    Args:
        state: The viewers' state; ``{}`` before there is one.
        connection: State of the connection, in words.
        room: Where it is to be drawn; the commentary then takes all the height that is left.
        below: Lines under all else, such as where the player stands and what the keyboard does.
        keys: Keys and what they do, listed in the place of the commentary.
    """
    episode = state.get("episode", {})
    above: list[RenderableType] = [_header(episode, connection), *_board(state), _minds(state)]
    last = [Text(line, style="dim", no_wrap=True, overflow="ellipsis") for line in below]
    if "reason" in episode:
        last.insert(0, _end(episode))
    if keys is not None:
        return Group(*above, _key_list(keys), *last)
    lines = LINES
    if room is not None:
        taken = len(room.render_lines(Group(*above, *last), pad=False))
        lines = max(LEAST_LINES, room.height - taken - 1)
    return Group(*above, _feed(state.get("feed", {}), lines, cut=room is not None), *last)


def _key_list(keys: Mapping[str, str]) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    for key, does in keys.items():
        table.add_row(Text(key, style="bold"), Text(does))
    return Panel(table, title="Keys", title_align="left")


def _board(state: Mapping[str, Any]) -> Iterator[RenderableType]:
    """What the world says in lines; where it says none, or is not here, its headline."""
    world, episode = state.get("world", {}), state.get("episode", {})
    lines = _lines(episode.get("environment"), world)
    if "result" in episode or not lines:
        lines.insert(0, world.get("headline", ""))
    text = Text("\n").join(
        Text(_plain(line, 200), no_wrap=True, overflow="ellipsis") for line in lines if line
    )
    if text.plain:
        text.stylize("bold", 0, text.plain.find("\n") if "\n" in text.plain else None)
        yield Panel(text)


class NewsLines:
    """An episode told line by line, for whom nothing can be drawn twice: a pipe, a dumb terminal."""

    def __init__(self) -> None:
        self._connection = ""
        self._episode = ""
        self._told = ""
        self._over = False

    def news(self, state: Mapping[str, Any], connection: str) -> Iterator[str]:
        """The lines that were not told before; see :func:`draw`."""
        episode = state.get("episode", {})
        if episode and episode["id"] != self._episode:
            self._episode, self._told, self._over = episode["id"], "", False
            yield _header(episode, connection).plain
        elif connection != self._connection:
            yield _plain(connection, 200)
        self._connection = connection
        feed = state.get("feed", {})
        for key in sorted(key for key in feed if key > self._told):
            self._told, line = key, feed[key]
            parts = (
                _plain(line.get("at", ""), 8),
                _plain(line.get("label", ""), 8),
                _plain(line["text"], 300),
            )
            yield " ".join(part for part in parts if part)
        if "reason" in episode and not self._over:
            self._over = True
            yield _end(episode).plain


def _end(episode: Mapping[str, Any]) -> Text:
    if "result" in episode:
        return Text(_plain(episode["result"], 200), style="bold green")
    return Text(f"{episode['reason']}: {_plain(episode.get('detail', ''), 200)}", style="bold red")


def _header(episode: Mapping[str, Any], connection: str) -> Text:
    if not episode:
        return Text(_plain(connection, 200), style="dim")
    seats = " v ".join(_plain(seat["label"], 40) for seat in episode.get("seats", {}).values())
    title = Text(_plain(episode["title"], 60), style="bold")
    title.append(f"  {seats}  seed {episode['seed']}  turn {episode['turn']}", style="dim")
    title.append(f"  {episode['status']}", style="bold red" if episode["status"] == "live" else "bold")
    title.append(f"  {_plain(connection, 200)}", style="dim")
    return title


def _lines(environment: str | None, world: Mapping[str, Any]) -> list[str]:
    """What a world says; nothing of a state that another version of it made and this one cannot read."""
    if environment not in world_names():
        return []
    told = load_world(environment).board_lines
    try:
        return [] if told is None else list(told(world))
    except (AttributeError, LookupError, TypeError, ValueError):
        return []


def _minds(state: Mapping[str, Any]) -> Table:
    """Every seat with its newest decision, the agent's first; where it is not the seat's own, why."""
    episode, decisions = state.get("episode", {}), state.get("decisions", {})
    table = Table.grid(padding=(0, 1))
    seats = sorted(episode.get("seats") or decisions, key=lambda actor: actor != episode.get("agent"))
    for actor in seats:
        decision, seat = decisions.get(actor), episode.get("seats", {}).get(actor, {})
        who = Text(_plain(actor, 20), style="bold").append(
            f" {_plain(seat.get('label', ''), 30)}", style="dim"
        )
        if decision is None:
            table.add_row(who, Text("has not decided yet", style="dim"))
            continue
        table.add_row(who, _source(decision), _told(decision))
    return table


def _source(decision: Mapping[str, Any]) -> Text:
    if decision["source"] != "fallback":
        return Text(decision["source"], style="dim")
    return Text(f"fallback: {decision.get('failure_class')}".replace("_", " "), style="bold red")


def _told(decision: Mapping[str, Any]) -> Text:
    action = decision["action"]
    told = Text(_plain(action.get("tool") or str(action), 60), style="green")
    if decision.get("reasoning"):
        told.append(f"  {_plain(decision['reasoning'], 160)}", style="default")
    if "refused" in decision:
        told.append(f"  refused: {_plain(decision['refused']['message'], 120)}", style="red")
    return told


def _feed(feed: Mapping[str, Any], lines: int, *, cut: bool) -> Table:
    """The newest lines; each on one line of the terminal where they are ``cut``."""
    table = Table.grid(padding=(0, 1))
    for key in sorted(feed, reverse=True)[:lines]:
        line = feed[key]
        style = LABEL_STYLES.get(line["priority"], "default")
        table.add_row(
            Text(_plain(line.get("at", ""), 8), style="dim"),
            Text(_plain(line.get("label", ""), 8), style=style),
            Text(_plain(line["text"], 300), no_wrap=cut, overflow="ellipsis" if cut else None),
        )
    return table


def _plain(text: str, limit: int) -> str:
    return clean_text(text, limit).replace("\n", " ")


SPEEDS: Final = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Speeds of the replay, those of the watch page."""

KEY_HELP: Final[Mapping[str, str]] = {
    "space": "stand still, or play on",
    "left / right": "one turn back or on",
    ", / .": "to the end of an over, or whatever the world calls its chapters",
    "[ / ]": "to the big moment before or after",
    "home / end": "to the beginning or the newest",
    "- / +": "slower or faster, from 0.5 to 8",
    "L": "to what is live",
    "?": "show or hide this",
    "Q": "leave; the episode goes on (Ctrl+C too)",
}
"""The keys and what they do; those of the watch page where it has the same."""

KEYS_LINE: Final = "space still  ←→ turn  ,. over  [] moment  -+ speed  L live  ? keys  Q leave"
"""The same on one line of 80 characters."""


class TerminalPlayer:
    """Keeps the moments that came and knows which of them is shown.

    It follows the newest until a key takes it elsewhere; a record is played from its beginning.

    Args:
        turn_s: Seconds that a moment is shown while older ones are played, at speed 1.
        follow: Whether to show the newest from the first on, as with what is live.

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
            "left": lambda: self._stand(self._at - 1),
            "right": lambda: self._stand(self._at + 1),
            ",": lambda: self._stand(self._before(lambda moment: moment.chapter)),
            ".": lambda: self._stand(self._after(lambda moment: moment.chapter)),
            "[": lambda: self._stand(self._before(lambda moment: moment.great)),
            "]": lambda: self._stand(self._after(lambda moment: moment.great)),
            "home": lambda: self._stand(0),
            "end": self._newest,
            "l": self._newest,
            "-": lambda: self._hurry(-1),
            "+": lambda: self._hurry(1),
            "=": lambda: self._hurry(1),
            "?": self._help,
            "q": self._leave,
        }

    def take(self, moment: WatchedMoment) -> None:
        """Keep the next moment; one of the same turn takes the place of the last, if that does not stand."""
        last, following = self.newest, self.following
        stands = not self.playing and self._at == len(self._moments) - 1
        if last is not None and not stands and _turn(moment) == _turn(last):
            self._moments[-1] = replace(
                moment, chapter=moment.chapter or last.chapter, great=moment.great or last.great
            )
            return
        self._moments.append(moment)
        if following:
            self._at = len(self._moments) - 1

    def press(self, key: str) -> None:
        """Do what a key says; one that says nothing does nothing."""
        act = self._acts.get(key.lower())
        if act is not None:
            act()

    def play_on(self, steps: int = 1) -> None:
        """Show what follows, ``steps`` moments on."""
        self._at = min(self._at + steps, len(self._moments) - 1)

    def wait_s(self) -> float | None:
        """Seconds until the next moment is due; ``None`` where none is."""
        if not self.playing or self._at >= len(self._moments) - 1:
            return None
        return self._turn_s / SPEEDS[self._speed]

    def shown(self) -> WatchedMoment | None:
        """What is to be seen now, and how the connection is now; ``None`` before the first."""
        if not self._moments:
            return None
        return replace(self._moments[self._at], connection=self._moments[-1].connection)

    @property
    def following(self) -> bool:
        """Whether the newest is shown and what comes will be."""
        return self.playing and self._follow and self._at >= len(self._moments) - 1

    @property
    def newest(self) -> WatchedMoment | None:
        """The newest moment that came; ``None`` before the first."""
        return self._moments[-1] if self._moments else None

    def line(self) -> str:
        """Where it stands, in words."""
        count = len(self._moments)
        if self._at >= count - 1:
            how = "the end" if self._over() else "newest" if self.playing else "standing still"
        else:
            how = "playing" if self.playing else "standing still"
        return f"{how} · {self._at + 1 if count else 0} of {count} · {SPEEDS[self._speed]:g}×"

    def _over(self) -> bool:
        return bool(self._moments) and self._moments[-1].over

    def _toggle(self) -> None:
        self.playing = not self.playing
        if self.playing and self._over() and self._at == len(self._moments) - 1:
            self._at = 0

    def _stand(self, at: int) -> None:
        self.playing = False
        self._at = max(0, min(at, len(self._moments) - 1))

    def _newest(self) -> None:
        self._at = max(0, len(self._moments) - 1)
        self.playing = self._follow = True

    def _hurry(self, by: int) -> None:
        self._speed = max(0, min(self._speed + by, len(SPEEDS) - 1))

    def _help(self) -> None:
        self.helping = not self.helping

    def _leave(self) -> None:
        self.left = True

    def _before(self, wanted: Callable[[WatchedMoment], bool]) -> int:
        return next((at for at in range(self._at - 1, -1, -1) if wanted(self._moments[at])), 0)

    def _after(self, wanted: Callable[[WatchedMoment], bool]) -> int:
        last = len(self._moments)
        return next((at for at in range(self._at + 1, last) if wanted(self._moments[at])), last - 1)


def _turn(moment: WatchedMoment) -> tuple[object, object]:
    """Which turn of which episode a moment is of."""
    episode = moment.state.get("episode", {})
    return episode.get("id"), episode.get("turn")
