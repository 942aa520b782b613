"""Withhold a decision from viewers until the event that it led to.

A rival may be watching. In a world with ``withheld_until`` in its profile, a decision and everything recorded
after it are shown together with the event that it led to, in order and with their true times. If only
scripted captains play, nothing is withheld. :class:`PublicReader` applies the same rule to the records of
running episodes.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final

from spectator.catalog import LoadWorld, load_world
from spectator.episodes.plan import EpisodePlan
from spectator.episodes.reader import EpisodeReader
from spectator.episodes.view import State, replay_state
from spectator.errors import ConfigurationError, InvalidRequest
from spectator.events import Event, RecordedEvent
from spectator.journal.contract import EpisodeSummary
from spectator.observations import Profile

OUTSIDE: Final = frozenset({"model", "human", "remote"})
"""Sources of decisions whose makers may also be watching."""


class Gate:
    """Decides up to which event an episode is public.

    Args:
        until: Event types that make the decisions before them public; the end always does.

    >>> gate = Gate({"ball"})
    >>> [gate.shows(kind) for kind in ("episode.started", "decision.made", "field.set", "ball", "step.taken")]
    [True, False, False, True, True]
    """

    def __init__(self, until: Collection[str]) -> None:
        self._until = frozenset(until) | {"episode.ended"}
        self._closed = False

    def shows(self, kind: str) -> bool:
        """Return whether everything up to the next event, of type ``kind``, is public."""
        if kind in self._until:
            self._closed = False
        elif kind == "decision.made":
            self._closed = True
        return not self._closed


class Embargo:
    """Withholds the events of one episode, and keeps what its viewers see meanwhile.

    Args:
        until: See :class:`Gate`.
    """

    def __init__(self, until: Collection[str]) -> None:
        self.state: State = {}
        """The viewers' state after event ``head_seq``."""
        self.head_seq = 0
        """Number of the last public event."""
        self._gate = Gate(until)
        self._held: list[RecordedEvent] = []

    def take(self, events: Sequence[RecordedEvent], state: State | None = None) -> list[RecordedEvent]:
        """Take the next recorded events.

        Args:
            events: The events, in order, with their patches.
            state: The state after them; computed from the patches if omitted.

        Returns:
            The events that become public now, including earlier ones.
        """
        released: list[RecordedEvent] = []
        for one in events:
            self._held.append(one)
            if self._gate.shows(one.type):
                released += self._held
                self._held = []
        if released:
            self.head_seq = released[-1].seq
            whole = state is not None and not self._held
            self.state = state if whole and state is not None else replay_state(released, self.state)
        return released


def withheld_until(profile: Profile, sources: Collection[str]) -> Sequence[str]:
    """Return the event types until which decisions are withheld; empty if nothing is.

    Args:
        sources: Source of each seat's decisions, as in `seats` of its `episode.started`.
    """
    return () if OUTSIDE.isdisjoint(sources) else profile.withheld_until


def embargo_on(plan: EpisodePlan) -> Embargo | None:
    """Make the embargo on an episode of ``plan``; ``None`` if nothing is withheld."""
    sources = [plan.preset(actor).source for actor in plan.world.actors]
    if OUTSIDE.isdisjoint(sources):
        return None
    until = withheld_until(plan.profile, sources)
    return Embargo(until) if until else None


KNOWN: Final = 1024
"""Episodes whose public part is cached."""

READ_EVENTS: Final = 200
"""Events read per batch."""


class PublicReader:
    """Reads the public part of episodes; ended episodes are entirely public.

    Args:
        load: Finds worlds, whose profiles say what is withheld; the catalogue if omitted.
    """

    def __init__(self, records: EpisodeReader, load: LoadWorld | None = None) -> None:
        self._records = records
        self._load = load or load_world
        self._seen: OrderedDict[str, _Seen] = OrderedDict()

    async def read(
        self, episode_id: str, *, after_seq: int = 0, limit: int | None = None
    ) -> Sequence[RecordedEvent]:
        """Read the public events with ``seq > after_seq``, in order.

        Raises:
            JournalError: The record cannot be read.
        """
        if (last := await self.last_seen(episode_id)) is not None:
            limit = _lesser(limit, last, after_seq)
        return [] if limit == 0 else await self._records.read(episode_id, after_seq=after_seq, limit=limit)

    async def texts(self, episode_id: str, *, after_seq: int = 0, limit: int | None = None) -> Sequence[str]:
        """Read the same events, not decoded; raises like :meth:`read`."""
        if (last := await self.last_seen(episode_id)) is not None:
            limit = _lesser(limit, last, after_seq)
        return [] if limit == 0 else await self._records.texts(episode_id, after_seq=after_seq, limit=limit)

    async def episode(self, episode_id: str) -> EpisodeSummary | None:
        """Return the public summary of one episode: under embargo it has no digest."""
        summary = await self._records.episode(episode_id)
        return None if summary is None else await self.summary(summary)

    async def summary(self, summary: EpisodeSummary) -> EpisodeSummary:
        """Limit ``summary``, in the records' numbers, to the public part."""
        seen = self._seen.get(summary.episode_id)
        if seen is not None and seen.epoch != summary.epoch:  # the database went back in time
            del self._seen[summary.episode_id]
        last = None if summary.ended_at is not None else await self.last_seen(summary.episode_id)
        if last is None or last >= summary.head_seq:
            return summary
        return replace(summary, head_seq=last, digest=None)

    async def suspended(self, episode_id: str) -> bool:
        """Return whether an episode was suspended by a failed decision."""
        summary = await self._records.episode(episode_id)
        if summary is None or summary.ended_at is not None:
            return False
        last = await self._records.read(episode_id, after_seq=summary.head_seq - 1, limit=1)
        return bool(last) and last[0].type == "episode.suspended"

    async def last_seen(self, episode_id: str) -> int | None:
        """Return the number of the last public event; ``None`` if nothing is withheld.

        Raises:
            JournalError: The record cannot be read.
        """
        seen = self._seen.get(episode_id)
        if seen is None:
            begun = await self._records.read(episode_id, limit=1)
            if not begun:
                return None
            summary = await self._records.episode(episode_id)
            over = summary is not None and summary.ended_at is not None
            seen = _Seen(() if over else await asyncio.to_thread(self._until, begun[0].event))
            seen.epoch = "" if summary is None else summary.epoch
            self._keep(episode_id, seen)
        if seen.whole:
            return None
        more = True
        while more:
            batch = await self._records.read(episode_id, after_seq=seen.read_seq, limit=READ_EVENTS)
            seen.take(batch)
            more = len(batch) == READ_EVENTS
        return None if seen.whole else seen.last

    def _until(self, started: Event) -> Sequence[str]:
        """Return the event types of its world; none if it is not installed, as then it is not running."""
        try:
            world = self._load(started.data["environment"])
        except (InvalidRequest, ConfigurationError):
            return ()
        sources = [seat["source"] for seat in started.data["seats"].values()]
        return withheld_until(world.profile_of(started.data["options"]), sources)

    def _keep(self, episode_id: str, seen: _Seen) -> None:
        self._seen[episode_id] = seen
        while len(self._seen) > KNOWN:
            self._seen.popitem(last=False)


class _Seen:
    """The public part of one episode, found event by event."""

    def __init__(self, until: Collection[str]) -> None:
        self.epoch = ""
        self.whole = not until
        self.read_seq = 0
        self.last = 0
        self._gate = Gate(until)

    def take(self, events: Sequence[RecordedEvent]) -> None:
        """Take the next events; ignores those already taken by another reader."""
        for one in events:
            if one.seq == self.read_seq + 1:
                self.read_seq = one.seq
                self.whole |= one.type == "episode.ended"
                if self._gate.shows(one.type):
                    self.last = one.seq


def _lesser(limit: int | None, last: int, after_seq: int) -> int:
    """Lower ``limit`` so that nothing after event ``last`` is read."""
    left = max(0, last - after_seq)
    return left if limit is None else min(limit, left)
