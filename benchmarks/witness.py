"""Viewers that check for lost, doubled, reordered and changed events."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidHandshake, WebSocketException

from server.viewers.feed import MAX_MISSING
from spectator.json_values import apply_patch

LOST_CONNECTION = (OSError, WebSocketException, InvalidHandshake, httpx.TransportError, TimeoutError)
"""Errors that a viewer sees when its server dies."""

PREFIX = '{"frame":"event",'
"""Prefix of a frame before the recorded line, whose opening brace it replaces."""


@dataclass
class WitnessedEpisode:
    """One episode as a witness has seen it.

    Args:
        episode_id: Its id.
        epoch: Its numbering.
    """

    episode_id: str
    epoch: str
    state: Any = None
    seq: int = 0
    texts: dict[int, int] = field(default_factory=dict)
    """Hash of each event's text, by its number."""
    over: bool = False


class Witness:
    """A viewer that reconnects after each lost connection and counts errors.

    Args:
        base: URL of the server, which may be restarted.
        path: What it watches, such as ``/live``.
        chance: Draws its waits.
        by_events: Watch by server-sent events.
    """

    def __init__(self, base: str, path: str, chance: random.Random, *, by_events: bool = False) -> None:
        self.episodes: dict[str, WitnessedEpisode] = {}
        self.wrong: Counter[str] = Counter()
        """Errors by name: ``lost``, ``doubled``, ``reordered``, ..."""
        self.connections = self.snapshots = self.events = 0
        self.shown: WitnessedEpisode | None = None
        self.steps = 0
        """Steps seen."""
        self._base = base
        self._path = path
        self._chance = chance
        self._by_events = by_events
        self._asked: WitnessedEpisode | None = None
        self._first = True
        self._fresh = 0
        self._client: httpx.AsyncClient | None = None

    async def aclose(self) -> None:
        """Close the HTTP client."""
        if self._client is not None:
            await self._client.aclose()

    async def follow(self) -> None:
        """Watch one episode to its end, through any number of restarts of the server."""
        while not (self.shown and self.shown.over):
            await self.watch()
            await asyncio.sleep(self._chance.uniform(0.05, 0.4))

    async def watch(self, *, resume: bool = True, stall_s: float = 0.0) -> None:
        """Watch until the connection ends.

        Args:
            resume: Resume after the last event seen.
            stall_s: Seconds without reading, once.
        """
        self._asked = self.shown if resume and self.shown and self.shown.seq else None
        query = f"?epoch={self._asked.epoch}&seq={self._asked.seq}" if self._asked else ""
        lines = self._lines(query) if self._by_events else self._messages(query)
        self._first, self._fresh = True, 0
        try:
            async with contextlib.aclosing(lines):
                async for text in lines:
                    self.take(text)
                    if stall_s and self._fresh > 3:
                        await asyncio.sleep(stall_s)
                        stall_s = 0.0
        except LOST_CONNECTION:
            return

    async def _messages(self, query: str) -> AsyncGenerator[str, None]:
        url = f"ws{self._base[4:]}{self._path}{query}"
        async with connect(
            url, compression=None, max_size=None, max_queue=4, open_timeout=20, close_timeout=1, proxy=None
        ) as socket:
            self.connections += 1
            async for text in socket:
                yield str(text)

    async def _lines(self, query: str) -> AsyncGenerator[str, None]:
        if self._client is None:
            self._client = httpx.AsyncClient(timeout=40, trust_env=False)
        async with self._client.stream("GET", f"{self._base}{self._path}/events{query}") as answer:
            if answer.status_code != 200:
                return
            self.connections += 1
            async for line in answer.aiter_lines():
                if line.startswith("data: {"):
                    yield line.removeprefix("data: ")

    def take(self, text: str) -> None:
        """Check and apply one frame."""
        frame: dict[str, Any] = json.loads(text)
        match frame["frame"]:
            case "hello":
                self._greet(frame)
            case "snapshot":
                self._replace(frame)
            case "event":
                self._fold(frame, text)
            case "bye":
                if self.shown is not None and frame["code"] == 1000:
                    self.shown.over = True

    def _greet(self, frame: dict[str, Any]) -> None:
        name, epoch = frame["episode_id"], frame["epoch"]
        self.shown = self.episodes.setdefault(name, WitnessedEpisode(name, epoch))
        if self.shown.epoch != epoch:
            self.wrong["renumbered"] += 1
        self._first, self._fresh = True, self._fresh + 1

    def _replace(self, frame: dict[str, Any]) -> None:
        shown = self.shown
        assert shown is not None
        self.snapshots += 1
        asked = self._asked is shown and self._first
        if asked and shown.seq <= frame["seq"] <= shown.seq + MAX_MISSING:
            self.wrong["lost"] += frame["seq"] - shown.seq
        if frame["seq"] < shown.seq:
            self.wrong["went back"] += 1
        shown.state, shown.seq = frame["state"], frame["seq"]

    def _fold(self, frame: dict[str, Any], text: str) -> None:
        shown, seq = self.shown, frame["seq"]
        assert shown is not None
        self.events += 1
        self._fresh += 1
        self._first = False
        self.steps += frame["type"] == "step.taken"
        if seq <= shown.seq:
            self.wrong["doubled" if shown.texts.get(seq) == hash(text) else "reordered"] += 1
            return
        if seq > shown.seq + 1:
            self.wrong["lost"] += seq - shown.seq - 1
        shown.texts[seq] = hash(text)
        shown.state, shown.seq = apply_patch(shown.state, frame["patch"]), seq
        if frame["type"] == "episode.ended" and self._path != "/live":
            shown.over = True


def check(witnesses: Sequence[Witness], base: str) -> Counter[str]:
    """Compare everything seen with the record; returns all errors, counted by name."""
    wrong: Counter[str] = Counter()
    for witness in witnesses:
        wrong += witness.wrong
    with httpx.Client(base_url=base, timeout=60, trust_env=False) as client:
        for name in sorted({name for witness in witnesses for name in witness.episodes}):
            lines = client.get(f"/api/episodes/{name}/events").raise_for_status().text.splitlines()
            seen = [witness.episodes[name] for witness in witnesses if name in witness.episodes]
            wrong += _compared(lines, seen)
    return wrong


def _compared(lines: Sequence[str], seen: Sequence[WitnessedEpisode]) -> Counter[str]:
    wrong: Counter[str] = Counter()
    states: list[Any] = [{}]
    hashes = [0]
    for line in lines:
        states.append(apply_patch(states[-1], json.loads(line)["patch"]))
        hashes.append(hash(PREFIX + line[1:]))
    for one in seen:
        if one.seq > len(lines):
            wrong["never recorded"] += one.seq - len(lines)
            continue
        wrong["changed"] += sum(hashes[seq] != text for seq, text in one.texts.items())
        if one.seq and one.state != states[one.seq]:
            wrong["another state"] += 1
    return +wrong
