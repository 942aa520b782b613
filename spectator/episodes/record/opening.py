"""Opens the stream of an episode: one whose view is recorded, or one whose view is derived."""

from __future__ import annotations

from dataclasses import dataclass, field

from spectator.bus.base import Bus
from spectator.clock import Clock
from spectator.episodes.record.derived_stream import DerivedStream
from spectator.episodes.record.embargo import Embargo
from spectator.episodes.record.stream import EpisodeStream
from spectator.episodes.record.view import State
from spectator.episodes.run.plan import EpisodePlan
from spectator.journal.base import EpisodeLog

Stream = EpisodeStream | DerivedStream


@dataclass(frozen=True, slots=True)
class Left:
    """Where another process left the record of an episode.

    Args:
        head_seq: Number of the last recorded event.
        view_seq: Number of the last event as viewers number them.
        state: What viewers saw last.
    """

    head_seq: int = 0
    view_seq: int = 0
    state: State = field(default_factory=dict)


def open_stream(
    plan: EpisodePlan,
    episode_id: str,
    epoch: str,
    *,
    journal: EpisodeLog,
    bus: Bus,
    clock: Clock,
    patience_s: float = 0.0,
    left: Left | None = None,
    embargo: Embargo | None = None,
) -> Stream:
    """The stream that ``plan`` asks for.

    Args:
        plan: What is played.
        episode_id: Its id.
        epoch: Identity of its numbering.
        journal: Where it is recorded.
        bus: Where it is published.
        clock: Stamps its events.
        patience_s: Seconds that a step waits for a journal that cannot be written.
        left: Where another process left it; ``None`` to begin.
        embargo: Holds back what viewers may not see yet; nothing is held back when left out.
    """
    left = left or Left()
    if plan.view == "derived":
        return DerivedStream(
            episode_id,
            epoch,
            world=plan.world,
            journal=journal,
            bus=bus,
            clock=clock,
            commit=plan.commit,
            patience_s=patience_s,
            state=left.state,
            head_seq=left.head_seq,
            view_seq=left.view_seq,
            embargo=embargo,
        )
    return EpisodeStream(
        episode_id,
        epoch,
        world=plan.world,
        journal=journal,
        bus=bus,
        clock=clock,
        patience_s=patience_s,
        state=left.state,
        head_seq=left.head_seq,
        embargo=embargo,
    )
