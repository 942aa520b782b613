"""A viewer who comes back as the page does: to any server that answers, with the number of the last event."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any

from websockets.exceptions import ConnectionClosed, InvalidHandshake
from websockets.sync.client import connect

from spectator.json_values import apply_patch
from tests.serving import PATIENCE_S


@dataclass
class Seen:
    """What a viewer saw until the end, over any number of connections."""

    connections: int = 0
    snapshots: int = 0
    epochs: set[str] = field(default_factory=set)
    first: int = 0
    seq: int | None = None
    """Number of the last event that the viewer has, be it in a snapshot; ``None`` before there is one."""

    numbers: list[int] = field(default_factory=list)
    state: dict[str, Any] = field(default_factory=dict)
    over: bool = False

    def take(self, frame: dict[str, Any]) -> None:
        """Take a frame in."""
        match frame["frame"]:
            case "hello":
                self.epochs.add(frame["epoch"])
            case "snapshot":
                self.snapshots += 1
                self.seq, self.state = frame["seq"], frame["state"]
                self.first = self.seq + 1
            case "event":
                self.seq = frame["seq"]
                self.numbers.append(self.seq)
                self.state = apply_patch(self.state, frame["patch"])
            case "bye":
                self.over = frame["code"] == 1000

    def check(self, events: Sequence[dict[str, Any]]) -> None:
        """Prove that the viewer saw every event of a record once, in order, and never began anew."""
        assert self.over
        assert self.numbers == list(range(self.first, len(events) + 1)), "each once, in order, none missing"
        assert (self.snapshots, len(self.epochs)) == (1, 1), "one goes on where one was"
        state: dict[str, Any] = {}
        for event in events:
            state = apply_patch(state, event["patch"])
        assert self.state == state


def watch(base_urls: Sequence[str], episode_id: str, seen: Seen | None = None) -> Seen:
    """Watch to the end; whenever the connection is lost, come back to the next server and say where one was.

    Args:
        base_urls: The servers, the first of which is taken first.
        episode_id: What to watch.
        seen: Takes what is seen, for whoever looks on.
    """
    seen = Seen() if seen is None else seen
    deadline = time.monotonic() + 2 * PATIENCE_S
    for base_url in cycle(base_urls):
        if seen.over or time.monotonic() > deadline:
            break
        at = "" if seen.seq is None else f"?epoch={next(iter(seen.epochs))}&seq={seen.seq}"
        try:
            with connect(f"ws{base_url[4:]}/live/{episode_id}{at}", close_timeout=1) as socket:
                seen.connections += 1
                for text in socket:
                    seen.take(json.loads(text))
        except (ConnectionClosed, InvalidHandshake, OSError):
            time.sleep(0.1)
    return seen
