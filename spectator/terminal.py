"""An episode drawn in a terminal from the viewers' state; nothing a model wrote can escape."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from spectator.catalog import load_world, world_names
from spectator.text import clean_text

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


class Tale:
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
