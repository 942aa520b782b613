"""Putting an episode together: its stream with what viewers are not shown yet, its driver, its handle."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from spectator.bus.base import Bus
from spectator.catalog import LoadWorld
from spectator.clock import Clock
from spectator.episodes.host.external import ExternalDriver
from spectator.episodes.host.handle import EpisodeHandle
from spectator.episodes.host.preparing import prepare
from spectator.episodes.record.embargo import Embargo, embargo_on
from spectator.episodes.record.opening import Left, Stream, open_stream
from spectator.episodes.record.reader import ViewReader
from spectator.episodes.record.stream import EpisodeStream
from spectator.episodes.replay.checkpoints import Checkpointer
from spectator.episodes.replay.restore import Rebuilt
from spectator.episodes.run.controls import Control
from spectator.episodes.run.limits import EpisodeLimits
from spectator.episodes.run.pacing import Pace
from spectator.episodes.run.partial_decision import Thinking
from spectator.episodes.run.plan import EpisodePlan
from spectator.episodes.run.ports import Past
from spectator.journal.base import Journal
from spectator.policies.spending import SpendLedger
from spectator.steppers.base import Stepper


class EpisodeAssembly:
    """Makes episodes of plans, with the ports of one process.

    Args:
        journal: Where their events are recorded.
        bus: Where they are published.
        clock: Time.
        limits: How long an episode may wait for whom.
        ledger: What asking models may take.
        patience_s: Seconds that an episode stands still for a journal that cannot be written.
        load: Finds worlds; the catalogue's own function when left out.
        fair: Whether viewers may be rivals, who see nothing of a decision before what it led to.
    """

    def __init__(
        self,
        *,
        journal: Journal,
        bus: Bus,
        clock: Clock,
        limits: EpisodeLimits,
        ledger: SpendLedger,
        patience_s: float,
        load: LoadWorld | None,
        fair: bool,
    ) -> None:
        self._journal = journal
        self._bus = bus
        self._clock = clock
        self._limits = limits
        self._ledger = ledger
        self._patience_s = patience_s
        self._load = load
        self._fair = fair

    def stream(
        self,
        episode_id: str,
        epoch: str,
        plan: EpisodePlan,
        *,
        left: Left | None = None,
        embargo: Embargo | None = None,
    ) -> Stream:
        """The stream of an episode; that of a fork is given its parent's past before anything else.

        Args:
            episode_id: Its id.
            epoch: Identity of its numbering.
            plan: What is played.
            left: Where another process left it; ``None`` to begin.
            embargo: What :meth:`embargo_left` says of it then.
        """
        if left is None and self._fair:
            embargo = embargo_on(plan)
        return open_stream(
            plan,
            episode_id,
            epoch,
            journal=self._journal,
            bus=self._bus,
            clock=self._clock,
            patience_s=self._patience_s,
            left=left,
            embargo=embargo,
        )

    async def embargo_left(self, rebuilt: Rebuilt) -> Embargo | None:
        """The embargo on what another process left, where viewers saw it last."""
        embargo = embargo_on(rebuilt.plan) if self._fair else None
        if embargo is not None:
            async for one in ViewReader(self._journal, self._load).stream(rebuilt.episode_id):
                embargo.take([one])
        return embargo

    def episode(
        self,
        plan: EpisodePlan,
        stream: Stream,
        stepper: Stepper,
        *,
        past: Past | None = None,
        left: Mapping[str, Any] | None = None,
    ) -> EpisodeHandle:
        """An episode that is played here.

        Args:
            plan: What is played, by whom.
            stream: Takes what happens.
            stepper: Its environment, closed by its driver.
            past: Where another process or a parent left it; ``None`` to begin.
            left: What viewers saw of it last (``state["episode"]``); ``None`` where it begins here.
        """
        checkpoints = None  # where the view is derived, which has none to keep, or the world is elsewhere
        if isinstance(stream, EpisodeStream) and plan.world.remote is None:
            checkpoints = Checkpointer(self._journal, stream, plan.world, self._clock)
        ready = prepare(
            plan,
            stream,
            stepper,
            clock=self._clock,
            limits=self._limits,
            ledger=self._ledger,
            pace=None if left is None else Pace(left["pace"]),
            paused=left is not None and left["status"] == "paused",
            past=past,
            checkpoints=checkpoints,
        )
        started_at = self._clock.now() if left is None else datetime.fromisoformat(left["started_at"])
        return EpisodeHandle(
            plan,
            stream=stream,
            control=ready.control,
            driver=ready.driver,
            thinking=ready.thinking,
            started_at=started_at,
        )

    def shown(self, plan: EpisodePlan, stream: Stream) -> tuple[EpisodeHandle, ExternalDriver]:
        """An episode that is played elsewhere and shown here, with what takes its facts and its end."""
        control = Control(plan.pace, self._clock)
        driver = ExternalDriver(stream, control, self._limits.characters)
        episode = EpisodeHandle(
            plan,
            stream=stream,
            control=control,
            driver=driver,
            thinking=Thinking(self._clock),
            started_at=self._clock.now(),
        )
        return episode, driver
