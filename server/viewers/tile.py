"""A tile: an episode as the wall and the lobby show it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from spectator.catalog import load_world, world_names
from spectator.episodes.host.episode_view import EpisodeView

from ..security.masking import NameMask

LINE_LENGTH: Final = 160
"""Characters of the newest line of commentary, and of the headline, that a tile shows."""

MOST_CHANCES: Final = 120
"""Points of the line of chances; of longer ones every other, or every third, and so on."""

TOGETHER: Final = 10
"""Points that stand together: a further one changes no others."""

Tile = dict[str, Any]


class TileOf:
    """An episode's tile; what its world reads from a state is read once for each.

    Args:
        live: The episode.
    """

    def __init__(self, live: EpisodeView) -> None:
        self.live = live
        self._read: Tile = {}
        self._read_at = -1

    def now(self, mask: NameMask) -> Tile:
        """As it stands; without ``None``, so that changes travel as merge patches."""
        if self._read_at != self.live.head_seq:
            self._read, self._read_at = _read_by_world(self.live.state), self.live.head_seq
        read: Tile = mask.value(self._read, free=True)
        return _told(self.live.state, mask) | {"turn": self.live.turn} | read


def tile_of(state: Mapping[str, Any], mask: NameMask) -> Tile:
    """The tile of an episode as its viewers see it, without its ``turn``.

    Args:
        state: What they see.
        mask: Takes hidden names away.
    """
    read: Tile = mask.value(_read_by_world(state), free=True)
    return _told(state, mask) | read


def _told(state: Mapping[str, Any], mask: NameMask) -> Tile:
    episode = mask.value(state["episode"])
    world, feed = state.get("world", {}), state.get("feed", {})
    glance = world.get("glance")
    tile: Tile = {
        "environment": episode["environment"],
        "title": episode["title"],
        "seats": [seat["label"] for seat in episode["seats"].values()],
        "seed": episode["seed"],
        "started_at": episode["started_at"],
        "status": episode["status"],
        "pace": episode["pace"],
        "headline": mask.text(str(world.get("headline", "")))[:LINE_LENGTH],
    }
    if isinstance(glance, Mapping):
        tile["glance"] = mask.value(dict(glance), free=True)
    if "parent" in episode:
        tile["parent"] = episode["parent"]["episode_id"]
    if "reason" in episode:
        tile["reason"] = episode["reason"]
    return tile | _newest_line(feed, mask)


def _read_by_world(state: Mapping[str, Any]) -> Tile:
    """The agent's chances and what the picture is drawn from, where the world tells them."""
    name = str(state["episode"]["environment"])
    world = load_world(name) if name in world_names() else None
    if world is None:
        return {}
    own, read = state.get("world", {}), Tile()
    if world.chances is not None and (line := world.chances(own)):
        read |= {"chance": round(line[-1], 3), "chances": chances_told(line)}
    if world.picture is not None:
        read["picture"] = dict(world.picture(own))
    return read


def chances_told(line: Sequence[float]) -> dict[str, Any]:
    """A line of chances so that a further one makes a small merge patch.

    Args:
        line: Each in [0, 1], oldest first; at least one.

    Returns:
        ``count`` of them; ``percent``, of every ``every``-th from the first on, :data:`TOGETHER` to a member.

    >>> chances_told([0.5, 0.514, 0.2])
    {'count': 3, 'every': 1, 'percent': {'0': [50, 51, 20]}}
    """
    every = -(-len(line) // MOST_CHANCES)
    percent = [round(100 * chance) for chance in line[::every]]
    parts = range(-(-len(percent) // TOGETHER))
    return {
        "count": len(line),
        "every": every,
        "percent": {str(part): percent[TOGETHER * part : TOGETHER * (part + 1)] for part in parts},
    }


def _newest_line(feed: Mapping[str, Mapping[str, Any]], mask: NameMask) -> Tile:
    if not feed:
        return {}
    line = feed[next(reversed(feed))] if isinstance(feed, dict) else feed[max(feed)]
    shown = {"text": mask.text(str(line["text"]))[:LINE_LENGTH], "priority": line["priority"]}
    return {"line": mask.value(shown | {name: line[name] for name in ("at", "label") if name in line})}
