"""An episode drawn in a terminal from the viewers' state; nothing a model wrote can escape."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from spectator.text import clean_text

LINES: Final = 14
"""Newest lines of commentary that are shown."""

LABEL_STYLES: Final[Mapping[int, str]] = {0: "bold red", 1: "bold yellow", 2: "cyan", 3: "default"}
"""Colour of a line's mark by its priority; the mark itself says the same in letters."""


def draw(state: Mapping[str, Any], connection: str) -> RenderableType:
    """The picture of one moment.

    Args:
        state: The viewers' state; ``{}`` before there is one.
        connection: State of the connection, in words.
    """
    episode = state.get("episode", {})
    headline = state.get("world", {}).get("headline", "")
    parts: list[RenderableType] = [_header(episode, connection)]
    if headline:
        parts.append(Panel(Text(_plain(headline, 200), style="bold")))
    parts += [_decisions(state.get("decisions", {})), _feed(state.get("feed", {}))]
    if "reason" in episode:
        parts.append(_end(episode))
    return Group(*parts)


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


def _decisions(decisions: Mapping[str, Any]) -> Table:
    table = Table.grid(padding=(0, 1))
    for actor, decision in decisions.items():
        action = decision["action"]
        told = Text(_plain(action.get("tool") or str(action), 60), style="green")
        if decision.get("reasoning"):
            told.append(f"  {_plain(decision['reasoning'], 160)}", style="default")
        if "refused" in decision:
            told.append(f"  refused: {_plain(decision['refused']['message'], 120)}", style="red")
        table.add_row(Text(_plain(actor, 20), style="bold"), Text(decision["source"], style="dim"), told)
    return table


def _feed(feed: Mapping[str, Any]) -> Table:
    table = Table.grid(padding=(0, 1))
    for key in sorted(feed, reverse=True)[:LINES]:
        line = feed[key]
        style = LABEL_STYLES.get(line["priority"], "default")
        table.add_row(
            Text(_plain(line.get("at", ""), 8), style="dim"),
            Text(_plain(line.get("label", ""), 8), style=style),
            Text(_plain(line["text"], 300)),
        )
    return table


def _plain(text: str, limit: int) -> str:
    return clean_text(text, limit).replace("\n", " ")
