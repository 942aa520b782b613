"""The embargo on decisions: viewers see what a captain decided once the ball that it led to is played.

A rival may watch, too. In a world whose profile says so (``withheld_until``), whatever is recorded from a
decision on is shown together with the event that it led to, in its order and with its true time. Where only
scripted captains play nobody could profit, and nothing is withheld.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from spectator.episodes.record.view import State, replay_state
from spectator.episodes.run.plan import EpisodePlan
from spectator.events import RecordedEvent
from spectator.profile import Profile

OUTSIDE: Final = frozenset({"model", "human", "remote"})
"""Sources of decisions behind which somebody may be who also watches."""


class Gate:
    """Says how far an episode may be seen.

    Args:
        until: Event types that make what was decided before them public; the end always does.

    >>> gate = Gate({"ball"})
    >>> [gate.shows(kind) for kind in ("episode.started", "decision.made", "field.set", "ball", "step.taken")]
    [True, False, False, True, True]
    """

    def __init__(self, until: Collection[str]) -> None:
        self._until = frozenset(until) | {"episode.ended"}
        self._closed = False

    def shows(self, kind: str) -> bool:
        """Whether everything up to the next event, which is of this kind, may be seen."""
        if kind in self._until:
            self._closed = False
        elif kind == "decision.made":
            self._closed = True
        return not self._closed


class Embargo:
    """Holds back the events of one episode, and knows what its viewers see meanwhile.

    Args:
        until: See :class:`Gate`.
    """

    def __init__(self, until: Collection[str]) -> None:
        self.state: State = {}
        """What viewers see after event ``head_seq``."""
        self.head_seq = 0
        """Number of the last event that viewers were given."""
        self._gate = Gate(until)
        self._held: list[RecordedEvent] = []

    def take(self, events: Sequence[RecordedEvent], state: State | None = None) -> list[RecordedEvent]:
        """Take the events that were recorded next.

        Args:
            events: In their order, with their patches.
            state: What viewers would see after them; found from the patches where it is left out.

        Returns:
            Those that viewers may see now, earlier ones among them.
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
    """The event types until which decisions are withheld; none where nothing is.

    Args:
        profile: That of the episode.
        sources: Who decides in each seat, as `seats` of its `episode.started` has it.
    """
    return () if OUTSIDE.isdisjoint(sources) else profile.withheld_until


def embargo_on(plan: EpisodePlan) -> Embargo | None:
    """The embargo on an episode that is played by ``plan``; ``None`` where nothing is withheld."""
    sources = [plan.preset(actor).source for actor in plan.world.actors]
    if OUTSIDE.isdisjoint(sources):
        return None
    until = withheld_until(plan.profile, sources)
    return Embargo(until) if until else None
