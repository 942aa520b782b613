"""Recovers episodes that an earlier process left without an end."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from spectator.clock import Clock, timestamp
from spectator.episodes.host.supervisor import Supervisor
from spectator.episodes.record.derived import is_derived
from spectator.episodes.record.view import replay_state, unchanged, with_patch
from spectator.episodes.replay.recorded_calls import with_whole_replies
from spectator.episodes.replay.restore import rebuild
from spectator.episodes.run.step_events import cut_short
from spectator.errors import EpisodeDamaged, EpisodeError, JournalError, SequenceConflict
from spectator.events import RecordedEvent, core_fact, record
from spectator.journal.base import EpisodeFilter, Journal

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Recovered:
    """What became of episodes without an end.

    Args:
        playing: Ids of those that are played on.
        interrupted: Ids of those that were ended.
    """

    playing: list[str] = field(default_factory=list)
    interrupted: list[str] = field(default_factory=list)


async def recover(
    journal: Journal, clock: Clock, supervisor: Supervisor | None = None, *, limit_s: float = 60.0
) -> Recovered:
    """Play on every episode that has no end, or end it as ``interrupted``. Call before any is started.

    The newest are played on first, as far as there are slots. One whose record is damaged is left as it is.

    Args:
        journal: Where they are.
        clock: Stamps the ends.
        supervisor: Who plays on; without one, all are ended.
        limit_s: Seconds that rebuilding one may take.

    Raises:
        JournalError: The journal cannot be written.
    """
    recovered, before = Recovered(), None
    while unended := await journal.episodes(EpisodeFilter(ended=False, before=before)):
        for summary in unended:
            before = summary.episode_id
            try:
                recorded = await _recorded(journal, before)
            except (JournalError, ValueError, LookupError, TypeError):
                logger.exception("episode %s was left without an end and cannot be read", before)
                continue
            why = await _play_on(recorded, supervisor, limit_s)
            if why is None:
                recovered.playing.append(before)
                continue
            try:
                await journal.append([interrupted(recorded, clock, why)])
            except SequenceConflict:
                logger.exception("episode %s was left without an end and its record is damaged", before)
                continue
            logger.warning("episode %s was left without an end: interrupted: %s", before, why)
            recovered.interrupted.append(before)
    return recovered


async def _recorded(journal: Journal, episode_id: str) -> Sequence[RecordedEvent]:
    """All events of an episode.

    Raises:
        EpisodeDamaged: They do not begin with its start.
        JournalError: They cannot be read.
    """
    recorded = await with_whole_replies(journal, await journal.read(episode_id))
    if not recorded or recorded[0].type != "episode.started":
        raise EpisodeDamaged(f"the record of {episode_id} does not begin with its start")
    return recorded


async def _play_on(
    recorded: Sequence[RecordedEvent], supervisor: Supervisor | None, limit_s: float
) -> str | None:
    """Why the episode cannot be played on; ``None`` when it is."""
    if supervisor is None:
        return "the server went away before the end"
    try:
        if len(supervisor.running()) >= supervisor.slots:
            return "the server went away before the end, and every slot is taken"
        episode = await supervisor.play_on(await rebuild(recorded, limit_s=limit_s, load=supervisor.load))
    except EpisodeError as error:
        return f"the server went away before the end, and it could not be played on: {error}"
    logger.info("episode %s is played on from turn %d", episode.episode_id, episode.turn)
    return None


def interrupted(recorded: Sequence[RecordedEvent], clock: Clock, why: str) -> RecordedEvent:
    """The event that ends an episode which cannot be played on.

    Args:
        recorded: All its events so far.
        clock: Stamps it.
        why: In words.
    """
    last = recorded[-1].event
    ended = cut_short("interrupted", why, last.turn)
    fact = core_fact(ended)
    draft = replace(
        last, seq=last.seq + 1, at=timestamp(clock.now()), type=fact.type, data=fact.data, patch={}
    )
    if is_derived(recorded[0].event):
        return record(draft)
    return record(with_patch(replay_state(recorded), draft, unchanged))
