"""Draw the moments of an episode in a terminal, or print them line by line.

All text is cleaned before it is drawn, so model output cannot send escape sequences to the terminal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, Final

from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from spectator.catalog import load_world, world_names
from spectator.text import clean_text, emblem

LINES: Final = 14
"""Lines of commentary shown if the height is unknown."""

LEAST_LINES: Final = 3
"""Minimum lines of commentary shown."""

KEYS: Final = "Ctrl+C quits; the episode goes on"
"""Key help if keys are not read one by one."""

LABEL_STYLES: Final[Mapping[int, str]] = {0: "bold red", 1: "bold yellow", 2: "cyan", 3: "default"}
"""Style of a line's label by its priority; the label says the same in letters."""


def draw(
    state: Mapping[str, Any],
    connection: str,
    room: Console | None = None,
    below: Sequence[str] = (KEYS,),
    keys: Mapping[str, str] | None = None,
) -> RenderableType:
    """Draw one moment.

    Args:
        state: The viewers' state; ``{}`` before there is one.
        connection: State of the connection, in words.
        room: The console to draw on; the commentary then fills the remaining height.
        below: Lines at the bottom, such as the player's position and key help.
        keys: Keys and what they do, shown instead of the commentary.
    """
    episode = state.get("episode", {})
    above: list[RenderableType] = [_header(state, connection), *_board(state), _minds(state)]
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
    """Yield the world's board; its headline if there are no lines or the world is not installed."""
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
    """Prints an episode line by line, for outputs that cannot be redrawn: pipes, dumb terminals."""

    def __init__(self) -> None:
        self._connection = ""
        self._episode = ""
        self._printed = ""  # key of the last printed line
        self._over = False

    def news(self, state: Mapping[str, Any], connection: str) -> Iterator[str]:
        """Yield the lines not printed before; see :func:`draw` for the arguments."""
        episode = state.get("episode", {})
        if episode and episode["id"] != self._episode:
            self._episode, self._printed, self._over = episode["id"], "", False
            yield _header(state, connection).plain
        elif connection != self._connection:
            yield _plain(connection, 200)
        self._connection = connection
        feed = state.get("feed", {})
        for key in sorted(key for key in feed if key > self._printed):
            self._printed, line = key, feed[key]
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


def _header(state: Mapping[str, Any], connection: str) -> Text:
    episode, sides = state.get("episode", {}), _sides(state)
    if not episode:
        return Text(_plain(connection, 200), style="dim")
    seats = " v ".join(
        _plain(seat["label"], 40) + (f" ({_plain(side, 40)})" if (side := sides.get(actor, ("",))[0]) else "")
        for actor, seat in episode.get("seats", {}).items()
    )
    title = Text(_plain(episode["title"], 60), style="bold")
    title.append(f"  {seats}  seed {episode['seed']}  turn {episode['turn']}", style="dim")
    title.append(f"  {episode['status']}", style="bold red" if episode["status"] == "live" else "bold")
    title.append(f"  {_plain(connection, 200)}", style="dim")
    return title


def _lines(environment: str | None, world: Mapping[str, Any]) -> list[str]:
    """Return the world's board lines; none for a state of a version that this one cannot read."""
    if environment not in world_names():
        return []
    board_lines = load_world(environment).board_lines
    try:
        return [] if board_lines is None else list(board_lines(world))
    except (AttributeError, LookupError, TypeError, ValueError):
        return []


def _sides(state: Mapping[str, Any]) -> Mapping[str, tuple[str | None, float | None]]:
    """Return the side's name and its chance to win of each actor; ``None`` where unknown."""
    environment, own = state.get("episode", {}).get("environment"), state.get("world", {})
    if environment not in world_names():
        return {}
    world = load_world(environment)
    try:
        sides = [] if world.sides is None else world.sides(own)
        line = [] if world.chances is None else world.chances(own)
    except (AttributeError, LookupError, TypeError, ValueError):  # a state of another version
        return {}
    chances = (line[-1], 1.0 - line[-1]) if line else ()
    return dict(zip(world.actors, zip_longest(sides, chances), strict=False))


def _who(actor: str, seat: Mapping[str, Any], side: str | None, chance: float | None) -> Text:
    """Draw a seat: emblem, side, captain and chance."""
    label = _plain(seat.get("label", ""), 30)
    letters, look = emblem(label)
    colour = "green" if look in (0, 10, 11) else ("red", "yellow", "cyan")[look % 3]
    who = Text(f" {letters} ", style=f"bold reverse {colour}")
    who.append(f" {_plain(side or actor, 20)}", style="not reverse bold default")
    who.append(f" {label}", style="not reverse not bold dim default")
    if chance is not None:
        who.append(f" {100 * chance:.0f} %", style="not reverse bold default")
    return who


def _minds(state: Mapping[str, Any]) -> Table:
    """Draw every seat with its newest decision, the agent's first, and why a fallback decided."""
    episode, decisions = state.get("episode", {}), state.get("decisions", {})
    table = Table.grid(padding=(0, 1))
    seats = sorted(episode.get("seats") or decisions, key=lambda actor: actor != episode.get("agent"))
    sides = _sides(state)
    for actor in seats:
        decision, seat = decisions.get(actor), episode.get("seats", {}).get(actor, {})
        who = _who(actor, seat, *sides.get(actor, (None, None)))
        if decision is None:
            table.add_row(who, Text("has not decided yet", style="dim"))
            continue
        table.add_row(who, _source(decision), _decision_text(decision))
    return table


def _source(decision: Mapping[str, Any]) -> Text:
    if decision["source"] != "fallback":
        return Text(decision["source"], style="dim")
    return Text(f"fallback: {decision.get('failure_class')}".replace("_", " "), style="bold red")


def _decision_text(decision: Mapping[str, Any]) -> Text:
    action = decision["action"]
    text = Text(_plain(action.get("tool") or str(action), 60), style="green")
    if decision.get("reasoning"):
        text.append(f"  {_plain(decision['reasoning'], 160)}", style="default")
    if "refused" in decision:
        text.append(f"  refused: {_plain(decision['refused']['message'], 120)}", style="red")
    return text


def _feed(feed: Mapping[str, Any], lines: int, *, cut: bool) -> Table:
    """Draw the newest lines of commentary; with ``cut``, each on one line of the terminal."""
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
