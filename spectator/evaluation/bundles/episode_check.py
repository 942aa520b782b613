"""Checks one episode of a bundle: its chain, its beginning, its attachments, its world and its decisions."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from spectator.episodes.plan import EpisodePlan
from spectator.episodes.recorded_calls import streamed_with_whole_replies
from spectator.episodes.replayer import Replay, ReplayDivergence, verify_attachments
from spectator.episodes.view import is_derived
from spectator.errors import BundleError, typed_as
from spectator.evaluation.bundles.manifest import BundledEpisode
from spectator.evaluation.bundles.redeciding import RecordedDecisions
from spectator.evaluation.figures import EpisodeFigures, Reading
from spectator.events import Event
from spectator.journal.contract import Chain, Journal
from spectator.steppers.local import inline

MOST_TOLD = 5
"""Discrepancies of one episode that are told; what follows one is often more of the same."""

_AT_A_DECISION = ("policy_error", "step_cap")
"""Ends that come where somebody is asked to decide, with nothing left to be told; others come at any time."""


@dataclass(frozen=True, slots=True)
class Misstatement:
    """Something that is not as a bundle claims.

    Args:
        message: What, in a sentence, with the field that it is about.
        episode_id: In which episode; ``None`` where it is about the whole.
        seq: At which event of it.
    """

    message: str
    episode_id: str | None = None
    seq: int | None = None

    def __str__(self) -> str:
        if self.episode_id is None:
            return self.message
        where = self.episode_id if self.seq is None else f"{self.episode_id}, event {self.seq}"
        return f"{where}: {self.message}"


@dataclass(slots=True)
class CheckedEpisode:
    """What came of checking one episode.

    Args:
        found: What is not as claimed, in order.
        figures: Its figures; ``None`` where its record has no end or cannot be read.
    """

    found: list[Misstatement] = field(default_factory=list)
    figures: EpisodeFigures | None = None


async def check_episode(
    journal: Journal, stated: BundledEpisode, plan: EpisodePlan, *, replay: bool
) -> CheckedEpisode:
    """Check an episode of a bundle and read its figures.

    Args:
        journal: The bundle's, its files' digests checked.
        stated: What the manifest says of the episode.
        plan: How it must have been played.
        replay: Whether its world is played again and its decisions are made again; else only the record is
            checked against the digests, and read.
    """
    checked = CheckedEpisode()
    broken = await _chain(journal, stated)
    if not broken:
        broken = await _contents(journal, stated.id, plan, checked, replay=replay)
    checked.found = [Misstatement(message, stated.id, seq) for seq, message in broken][:MOST_TOLD]
    return checked


async def _chain(journal: Journal, stated: BundledEpisode) -> list[tuple[int, str]]:
    chain = Chain(head_seq=stated.events, digest=bytes.fromhex(stated.digest))
    broken = []
    async for links in journal.links(stated.id):
        broken += list(chain.check(links))
        if broken:
            break
    else:
        broken += list(chain.finish())
    return [(one.seq, one.message) for one in broken]


async def _contents(
    journal: Journal, episode_id: str, plan: EpisodePlan, checked: CheckedEpisode, *, replay: bool
) -> list[tuple[int, str]]:
    found: list[tuple[int, str]] = []
    at = [1]
    try:
        with typed_as(lambda error: BundleError(f"it cannot be read: {error!r:.200}")):
            async for discrepancy in verify_attachments(journal, episode_id):
                found.append((discrepancy.seq, discrepancy.message))
                if len(found) >= MOST_TOLD:
                    return found
        with typed_as(lambda error: BundleError(f"it cannot be followed: {error!r:.200}")):
            async with aclosing(_read(journal, episode_id, plan, checked, replay)) as told:
                async for seq, message in told:
                    at[0] = seq
                    if message:
                        found.append((seq, message))
    except BundleError as error:
        found.append((at[0], str(error)))
    return found


async def _read(
    journal: Journal, episode_id: str, plan: EpisodePlan, checked: CheckedEpisode, replay: bool
) -> AsyncGenerator[tuple[int, str], None]:
    """Read an episode to its end: the number of each event, and what is wrong with it, if anything is."""
    reading, again = Reading(), None
    recorded = streamed_with_whole_replies(journal, episode_id, journal.stream(episode_id))
    try:
        async with aclosing(recorded) as events:
            async for one in events:
                yield one.seq, ""
                if one.seq == 1:
                    wrong = _beginning(one.event, plan)
                    for message in wrong:
                        yield 1, message
                    if wrong:
                        return
                    again = _PlayedAgain(plan, one.event) if replay else None
                if again is not None:
                    try:
                        for message in await again.compare(one.event):
                            yield one.seq, message
                    except ReplayDivergence as divergence:
                        yield one.seq, str(divergence)
                        return
                reading.take(one)
        checked.figures = reading.figures()
    finally:
        if again is not None:
            await again.aclose()


def _beginning(started: Event, plan: EpisodePlan) -> list[str]:
    """What the first event says otherwise than the schedule has it."""
    if started.type != "episode.started":
        return [f"the record begins with {started.type}"]
    due: dict[str, Any] = plan.started().model_dump(mode="json")
    names = sorted((due.keys() | started.data.keys()) - {"spectator_version", "title"})
    return [
        f"{name} is recorded as {started.data.get(name)!r:.120}, and the schedule has {due.get(name)!r:.120}"
        for name in names
        if started.data.get(name) != due.get(name)
    ]


class _PlayedAgain:
    """An episode played again beside its record."""

    def __init__(self, plan: EpisodePlan, started: Event) -> None:
        self._stepper = inline(plan.world, started.episode_id)
        self._replay = Replay(plan.world, self._stepper, derived=is_derived(started))
        self._decisions = RecordedDecisions(plan, self._stepper)

    async def compare(self, event: Event) -> list[str]:
        """What of ``event`` comes out otherwise.

        Raises:
            ReplayDivergence: The world does not come to this event at all.
        """
        found = []
        stepped = self._replay.stepped
        if event.type == "episode.ended" and event.data["reason"] in _AT_A_DECISION and self._replay.due:
            found.append(f"{self._replay.due[0].type} is due before the end")
        if stepped is not None and not self._replay.due:
            seen = stepped.observation
            if event.type == "decision.made" and event.data["actor"] == seen.actor:
                found = await self._decisions.again(event, seen)
            elif event.type == "episode.ended" and event.data.get("forfeited") is not None:
                found = await self._decisions.forfeit(event, seen)
        return [*found, *await self._replay.compare(event)]

    async def aclose(self) -> None:
        """Let go of the world."""
        await self._stepper.aclose()
