"""Bugs that are planted in the processes of a run, to prove that the checks find them.

Each replaces a function of the product in a forked process only; see :mod:`.fork_server`.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from server.background import recovery
from server.viewers import feed, other_servers, wire
from spectator.episodes import stream
from spectator.errors import JournalError, LeaseLost, SequenceConflict
from spectator.events import record
from spectator.journal import coordination, writer
from spectator.journal.contract import GENESIS
from spectator.journal.sql_journal import SqlJournal

UNRECORDED_S: Final = 0.2
"""Seconds between showing and recording in the bugs that have such a gap."""


@dataclass(frozen=True, slots=True)
class PlantedBug:
    """A bug.

    Args:
        promise: The promise that it breaks.
        plant: Plants it in this process.
        nemeses: Nemeses that can reveal it.
        postgres: Where the journal is; any if omitted.
    """

    promise: str
    plant: Callable[[], None]
    nemeses: Sequence[str]
    postgres: bool | None = None


def _put(owner: Any, name: str, value: Any) -> None:
    getattr(owner, name)  # or the bug would be planted where nothing looks
    setattr(owner, name, value)


def _shown_before_recorded() -> None:
    record, publish = stream.Recorder.record, stream.EpisodeStream._visible

    async def late(self: Any, events: Any, **options: Any) -> float:
        await asyncio.sleep(UNRECORDED_S)
        return await record(self, events, **options)

    async def shown_first(self: Any, facts: Any, patient: bool, attachments: Any = None) -> float:
        ends = facts[-1][1].type == "episode.ended"
        events, view = self._fold(facts, self._world.projection, self._world.commentator)
        self.state, self.head_seq = view.state, view.seq
        self._bus.publish(publish(self, events, view.state))
        waited: float = await late(
            self._recorder, events, patient=patient, last=ends, attachments=attachments
        )
        self.ended = ends
        return waited

    _put(stream.EpisodeStream, "_record", shown_first)


def _resumed_at(offset: int) -> Callable[[], None]:
    def plant() -> None:
        send = feed.EpisodeFeed._send_missing

        async def moved(self: Any, episode_id: str, after_seq: int, head: int) -> None:
            await send(self, episode_id, max(0, after_seq + offset), head)

        _put(feed.EpisodeFeed, "_send_missing", moved)

    return plant


def _stale_snapshot() -> None:
    snapshot = wire.snapshot

    def stale(epoch: str, seq: int, state: Mapping[str, Any]) -> Any:
        episode = dict(state.get("episode", {}), status="unknown")
        return snapshot(epoch, seq, {**state, "episode": episode})

    _put(wire, "snapshot", stale)


def _torn_step() -> None:
    append = SqlJournal.append

    async def torn(self: Any, events: Any, *, attachments: Any = None) -> None:
        if len(events) > 1 and attachments is None:
            await append(self, events[:1])
            await asyncio.sleep(UNRECORDED_S)
            events = events[1:]
        await append(self, events, attachments=attachments)

    _put(SqlJournal, "append", torn)


def _unwritten_end() -> None:
    append = SqlJournal.append

    async def forgetful(self: Any, events: Any, *, attachments: Any = None) -> None:
        if not (events and events[-1].type == "episode.ended"):
            await append(self, events, attachments=attachments)

    _put(SqlJournal, "append", forgetful)


def _swallowed_failure() -> None:
    append = SqlJournal.append

    async def swallowing(self: Any, events: Any, *, attachments: Any = None) -> None:
        try:
            await append(self, events, attachments=attachments)
        except JournalError:
            pass

    _put(SqlJournal, "append", swallowing)


def _former_owner_writes() -> None:
    append = SqlJournal.append

    async def write_on(self: Any, events: Any, *, attachments: Any = None) -> None:
        try:
            await append(self, events, attachments=attachments)
        except (LeaseLost, SequenceConflict):
            episode_id = events[0].episode_id

            def take_back(connection: Any) -> None:
                mine = coordination.leases.c.episode_id == episode_id
                connection.execute(coordination.leases.delete().where(mine))
                self._database.fences.committed([], {}, [episode_id])

            await self.transact(take_back)
            head = len(await self.texts(episode_id))
            again = [record(replace(one.event, seq=head + number)) for number, one in enumerate(events, 1)]
            await append(self, again, attachments=attachments)

    _put(SqlJournal, "append", write_on)


def _no_takeover() -> None:
    async def idle(self: Any, recovering: Any) -> None:
        return None

    _put(recovery.Takeover, "take_over", idle)


def _dead_keep_leases() -> None:
    _put(recovery, "SILENT_CHECKS", 10**9)


def _unreserved_cap() -> None:
    async def grant(self: Any, what: str, *, cap: float, amount: float, overdrawn: float = 0.0) -> Any:
        return coordination.Reserved(coordination.EVER, amount, math.inf)

    _put(coordination.RunReservations, "reserve", grant)


def _silent_wait() -> None:
    async def forever(self: Any, seconds: float) -> None:
        await asyncio.sleep(3600)

    _put(stream.Recorder, "_pause", forever)
    _put(stream.Recorder, "_set", lambda self, trouble: None)


def _renewed_epoch() -> None:
    begin = stream.NumberedStream.__init__

    def renewed(self: Any, episode_id: str, epoch: str, **options: Any) -> None:
        if options.get("left", stream.BEGINNING).head_seq:
            epoch = epoch[::-1]
        begin(self, episode_id, epoch, **options)

    _put(stream.NumberedStream, "__init__", renewed)


def _standing_follower() -> None:
    _put(other_servers, "INTERVAL_S", 3600.0)
    _put(other_servers, "SLOW_INTERVAL_S", 3600.0)
    _put(other_servers.FollowedEpisodes, "wake", lambda self, episode_ids: None)


def _moved_back() -> None:
    async def ignored(self: Any, episode_id: str, seen_seq: int) -> None:
        return None

    _put(other_servers.FollowedEpisodes, "reach", ignored)


def _forgotten_digest() -> None:
    read = writer.Writer._read_head

    def forgotten(self: Any, connection: Any, episode_id: str) -> Any:
        head = read(self, connection, episode_id)
        return head._replace(digest=GENESIS)

    _put(writer.Writer, "_read_head", forgotten)


def _repeated_commit() -> None:
    def repeated(self: Any, connection: Any, group: Any, heads: Any) -> Any:
        again = []
        for append in group:
            head = self._read_head(connection, append.events[0].episode_id)
            if head.seq >= append.events[0].seq:
                self._heads.pop(append.events[0].episode_id, None)
                numbered = enumerate(append.events, head.seq + 1)
                append = append._replace(
                    events=[record(replace(one.event, seq=seq)) for seq, one in numbered]
                )
            again.append(append)
        return again

    _put(writer.Writer, "_unrecorded", repeated)


def _no_patience() -> None:
    begin = stream.Recorder.__init__

    def impatient(self: Any, episode_id: str, journal: Any, clock: Any, patience_s: float) -> None:
        begin(self, episode_id, journal, clock, 0.0)

    _put(stream.Recorder, "__init__", impatient)


BUGS: Final[Mapping[str, PlantedBug]] = {
    "shown-before-recorded": PlantedBug("what was shown is recorded", _shown_before_recorded, ["kill"]),
    "resume-repeats": PlantedBug("no event twice", _resumed_at(-1), ["kill"]),
    "resume-skips": PlantedBug("no event is missing", _resumed_at(1), ["kill"]),
    "stale-snapshot": PlantedBug("a snapshot is the fold of the record", _stale_snapshot, ["stall"]),
    "torn-step": PlantedBug("a step is recorded whole", _torn_step, ["kill"]),
    "unwritten-end": PlantedBug("an acknowledged stop is recorded", _unwritten_end, ["stall"]),
    "swallowed-failure": PlantedBug(
        "what was shown is recorded", _swallowed_failure, ["database-dies", "partition"], True
    ),
    "former-owner-writes": PlantedBug("one owner at a time", _former_owner_writes, ["depose"], True),
    "no-takeover": PlantedBug("unended episodes are played", _no_takeover, ["kill"], True),
    "dead-keep-leases": PlantedBug("no lease is held by the dead", _dead_keep_leases, ["kill"], True),
    "unreserved-cap": PlantedBug("spending under its cap", _unreserved_cap, ["worker-dies"], True),
    "silent-wait": PlantedBug(
        "unended episodes are played or named", _silent_wait, ["database-dies", "partition"], True
    ),
    "renewed-epoch": PlantedBug("numbers stay valid without a loss", _renewed_epoch, ["kill"]),
    "standing-follower": PlantedBug("every viewer sees the end", _standing_follower, ["stall"], True),
    "moved-back": PlantedBug("no viewer is moved back", _moved_back, ["stale-notices", "kill"], True),
    "forgotten-digest": PlantedBug("the chain of digests holds", _forgotten_digest, ["kill"]),
    "repeated-commit": PlantedBug("a commit counts once", _repeated_commit, ["lost-answers"], True),
    "no-patience": PlantedBug("play waits for a full disk", _no_patience, ["disk-full", "disk-error"], False),
}
"""All bugs, by name."""


def plant(name: str) -> None:
    """Plant a bug in this process."""
    BUGS[name].plant()
