"""The view of an episode that nobody watched, made when somebody reads its record.

Such a record (``view`` of its ``episode.started`` is ``derived``) holds what happened and what was decided,
without patches and without commentary. Both follow from it, and so do the numbers that viewers see, which
count the lines of commentary: event 7 of the record may be event 11 of the view. The view of a record is what
a viewer of the same episode, played live, would have been given, byte for byte.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from copy import copy
from dataclasses import replace
from hashlib import sha256

from spectator.catalog import LoadWorld
from spectator.environments.base import Projection
from spectator.environments.world import World
from spectator.episodes.record.view import State, ViewFold, unchanged
from spectator.errors import EnvironmentFault, InvalidRequest, typed_as
from spectator.events import Event, RecordedEvent
from spectator.narration.base import Commentator, silent

logger = logging.getLogger(__name__)


def is_derived(started: Event) -> bool:
    """Whether the record that begins with ``started`` holds neither patches nor commentary.

    False for a copy of it with both, such as an export: there ``started`` has its patch.
    """
    return started.data.get("view") == "derived" and not started.patch


class DerivedView:
    """Makes the view of a derived record, one recorded event after the other.

    Where the world's own part of the view fails, it is left out from there on, rather than the view.

    Args:
        world: Whose projection folds and whose commentator speaks; ``None`` shows what every world has.
        epoch: Identity of the view's numbering.
        state: What viewers saw up to ``recorded_seq``.
        seq: Number of the view's last event up to there.
        recorded_seq: Number of the last recorded event that was taken.
    """

    def __init__(
        self,
        world: World | None,
        epoch: str,
        *,
        state: State | None = None,
        seq: int = 0,
        recorded_seq: int = 0,
    ) -> None:
        self.epoch = epoch
        self.state: State = {} if state is None else state
        self.seq = seq
        self.recorded_seq = recorded_seq
        self.fault: str | None = None
        """Why the world's own part is left out, where it is."""
        self._projection: Projection = unchanged if world is None else world.projection
        self._commentator: Commentator = silent if world is None else world.commentator

    @classmethod
    def of(cls, started: Event, load: LoadWorld) -> DerivedView:
        """The view of the record that begins with ``started``, nothing of it taken yet.

        Another version of the world may say other lines, so its numbers are of another epoch: a viewer that
        resumes by a number of one is never given events of the other.
        """
        data = started.data
        try:
            world = load(data["environment"])
        except InvalidRequest:
            logger.warning("%s is shown without its world: %s", started.episode_id, data["environment"])
            return cls(None, _other_epoch(started.epoch, ""))
        known = world.version == data["environment_version"]
        return cls(world, started.epoch if known else _other_epoch(started.epoch, world.version))

    def further_on(self, state: State, seq: int, recorded_seq: int) -> DerivedView:
        """The same view where it stands further on; see the arguments of the class."""
        view = copy(self)
        view.state, view.seq, view.recorded_seq = state, seq, recorded_seq
        return view

    def take(self, recorded: Iterable[RecordedEvent]) -> list[RecordedEvent]:
        """The view's events that the next recorded ones come to."""
        return [shown for one in recorded for shown in self.show(one.event)]

    def show(self, event: Event) -> list[RecordedEvent]:
        """The view's events that the next recorded one comes to."""
        fact = event if event.epoch == self.epoch else replace(event, epoch=self.epoch)
        try:
            with typed_as(lambda error: EnvironmentFault(f"event {event.seq}: {error!r}"), passing=()):
                fold, made = self._fold(fact)
        except EnvironmentFault as error:
            logger.exception("the world's view of %s fails and is left out", event.episode_id)
            self.fault = str(error)
            self._projection, self._commentator = unchanged, silent
            fold, made = self._fold(fact)
        self.state, self.seq, self.recorded_seq = fold.state, fold.seq, event.seq
        return made

    def _fold(self, fact: Event) -> tuple[ViewFold, list[RecordedEvent]]:
        fold = ViewFold(self._projection, self._commentator, state=self.state, seq=self.seq)
        return fold, fold.add(fact)


def _other_epoch(epoch: str, version: str) -> str:
    return sha256(f"{epoch}\x1f{version}".encode()).hexdigest()[:16]
