"""Start, find and end the episodes of this process, within its slots."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from spectator.bus import Bus
from spectator.catalog import LoadWorld
from spectator.clock import Clock, whole
from spectator.core_events import EpisodeEnded, EpisodeRecovered, Warned, core_fact
from spectator.environments.contract import Stepper
from spectator.episodes.checkpoints import Checkpointer
from spectator.episodes.controls import Control, EndRequest, EpisodeLimits, Pace
from spectator.episodes.crash_log import CrashLog
from spectator.episodes.decisions import Thinking
from spectator.episodes.derived_stream import Stream, open_stream
from spectator.episodes.driver import Past
from spectator.episodes.embargo import Embargo, embargo_on
from spectator.episodes.fork import ForkRequest, copy_past, give_up_staged, start_fork
from spectator.episodes.handle import EpisodeHandle, ExternalDriver, let_end, prepare
from spectator.episodes.plan import EpisodePlan, EpisodeRequest, plan_episode
from spectator.episodes.reader import ViewReader
from spectator.episodes.restore import RestoredEpisode, StopRequests
from spectator.episodes.stream import EpisodeStream, RecordPosition, TurnFacts
from spectator.errors import (
    EpisodeBusy,
    EpisodeElsewhere,
    EpisodeError,
    EpisodeNotFound,
    EpisodeOver,
    JournalUnavailable,
)
from spectator.events import Fact
from spectator.journal.contract import Attachments, Journal
from spectator.policies.spending import Caps, SpendLedger
from spectator.steppers.local import OpenStepper, on_a_thread

logger = logging.getLogger(__name__)


class Supervisor:
    """Runs episodes, at most ``slots`` at once.

    Args:
        tasks: The task group that plays them; belongs to the caller.
        slots: Maximum number of running episodes, at least 1.
        limits: Time and size limits of an episode.
        new_id: Makes an id for an episode; ids sort by time.
        new_epoch: Makes the id of a numbering.
        draw_seed: Draws a seed if none is given.
        patience_s: Seconds that an episode waits for a journal that cannot be written before it is ended;
            0 ends it at once.
        load: Finds worlds; the catalogue if omitted.
        ledger: Limits what models may spend; no limit if omitted.
        open_stepper: Makes the stepper of each episode's environment.
        stops: Remembers stops that cannot be recorded; in memory only if omitted.
        crashes: Tells which deaths of the server an episode may have caused; all if omitted.
        fair: Whether viewers may be rivals, so that decisions are withheld until what they lead to.
        load_left: Finds the world of a resumed episode by the data of its first event; ``load`` if omitted.
    """

    def __init__(
        self,
        *,
        journal: Journal,
        bus: Bus,
        clock: Clock,
        tasks: asyncio.TaskGroup,
        slots: int,
        limits: EpisodeLimits,
        new_id: Callable[[], str],
        new_epoch: Callable[[], str],
        draw_seed: Callable[[], int],
        patience_s: float = 0.0,
        load: LoadWorld | None = None,
        ledger: SpendLedger | None = None,
        open_stepper: OpenStepper = on_a_thread,
        stops: StopRequests | None = None,
        crashes: CrashLog | None = None,
        fair: bool = False,
        load_left: Callable[[Mapping[str, Any]], LoadWorld] | None = None,
    ) -> None:
        if slots < 1:
            raise ValueError(f"slots must be at least 1, not {slots}")
        self.slots = slots
        self.load = load
        self._load_left = load_left
        self.open_stepper = open_stepper
        self.promised = 0
        """Slots reserved for waiting requests; a request returns its slot before it starts."""
        self.stops = StopRequests() if stops is None else stops
        self.crashes = crashes
        self._ledger = ledger or SpendLedger(Caps(), Caps(), clock)
        self._patience_s = patience_s
        self._fair = fair
        self._journal = journal
        self._bus = bus
        self._clock = clock
        self._tasks = tasks
        self._limits = limits
        self.new_id = new_id
        """Makes an id for an episode."""
        self._new_epoch = new_epoch
        self._draw_seed = draw_seed
        self._running: dict[str, EpisodeHandle] = {}
        self._forking = 0  # forks being prepared, each of which will take a slot
        self._external: dict[str, EpisodeHandle] = {}
        self._closing = False
        self._imported: set[str] = set()  # worlds that were loaded before

    def running(self) -> list[EpisodeHandle]:
        """List the episodes that hold a slot, oldest first."""
        return list(self._running.values())

    @property
    def free_slots(self) -> int:
        """Number of slots that are neither held nor reserved."""
        taken = len(self._running) + self._forking + self.promised
        return 0 if self._closing else max(0, self.slots - taken)

    def external(self) -> list[EpisodeHandle]:
        """List the episodes played elsewhere and shown here, oldest first; they hold no slot."""
        return list(self._external.values())

    def showing(self) -> list[EpisodeHandle]:
        """List all episodes that can be watched live here."""
        return [*self._running.values(), *self._external.values()]

    def live(self, episode_id: str) -> EpisodeHandle | None:
        """Return the episode if it can be watched live here."""
        return self._running.get(episode_id) or self._external.get(episode_id)

    def find(self, episode_id: str | None) -> EpisodeHandle:
        """Return the running episode; without an id, the newest one.

        Raises:
            EpisodeNotFound: It does not run here.
            EpisodeElsewhere: It is only shown here.
        """
        if episode_id in self._external:
            raise EpisodeElsewhere(episode_id)
        if episode_id is None and self._running:
            return self.running()[-1]
        episode = self._running.get(episode_id or "")
        if episode is None:
            raise EpisodeNotFound(episode_id)
        return episode

    def plan(self, request: EpisodeRequest, load: LoadWorld | None = None) -> EpisodePlan:
        """Plan the episode that :meth:`start` would play for ``request``; may import a world.

        Args:
            load: Finds the world; the supervisor's ``load`` if omitted.

        Raises:
            InvalidRequest: A field is invalid.
        """
        return plan_episode(request, draw_seed=self._draw_seed, load=load or self.load)

    def load_left(self, started: Mapping[str, Any]) -> LoadWorld | None:
        """Return the loader for a resumed episode, by the data of its first event."""
        return self.load if self._load_left is None else self._load_left(started)

    async def _planned(self, request: EpisodeRequest) -> EpisodePlan:
        """Plan like :meth:`plan`, in a thread the first time, as that may import a world."""
        if request.environment in self._imported:
            return self.plan(request)
        plan = await asyncio.to_thread(self.plan, request)
        self._imported.add(request.environment)
        return plan

    async def start(self, wanted: EpisodeRequest | EpisodePlan) -> EpisodeHandle:
        """Start an episode; returns once its first event is recorded and published.

        Raises:
            InvalidRequest: A field is invalid; no slot was taken.
            EpisodeBusy: Every slot is taken.
            JournalError: Its first event could not be recorded; no slot is held.
        """
        if not self.free_slots:
            await let_end(self.running())
        self._need_slot()
        plan = wanted if isinstance(wanted, EpisodePlan) else await self._planned(wanted)
        self._need_slot()  # no await from here until the slot is taken
        stream = self._stream(self.new_id(), self._new_epoch(), plan)
        stepper = self.open_stepper(plan.world, stream.episode_id)
        return await self._begin(self._episode(plan, stream, stepper), [(0, [core_fact(plan.started())])])

    async def fork(self, request: ForkRequest, plan: EpisodePlan | None = None) -> EpisodeHandle:
        """Fork an episode with other captains; returns once the fork's past is recorded.

        Args:
            plan: The result of :func:`plan_fork` for ``request``; computed if omitted.

        Raises:
            EpisodeNotFound: There is no such parent.
            InvalidRequest: The fork cannot begin there, or a captain is invalid; no slot was taken.
            EpisodeBusy: Every slot is taken.
            JournalError: Its past could not be recorded; no slot is held.
            StepTimeout: Replaying the parent took longer than ``limits.reset_s``.
        """
        if not self.free_slots:
            await let_end(self.running())
        self._need_slot()
        episode_id = self.new_id()
        self._forking += 1
        try:
            forked = await start_fork(
                self._journal, request, episode_id, limit_s=self._limits.reset_s,
                characters=self._limits.characters, load=self.load, open_stepper=self.open_stepper, plan=plan,
            )  # fmt: skip
            stream = self._stream(episode_id, self._new_epoch(), forked.plan)
            try:
                opening, attached = await copy_past(forked.parent, forked.plan, stream, self._check_open)
            except BaseException:
                await forked.stepper.aclose()
                await whole(give_up_staged(self._journal, episode_id))
                raise
        finally:
            self._forking -= 1
        # No await between releasing the reserved slot above and taking it below.
        episode = self._episode(forked.plan, stream, forked.stepper, past=forked.past)
        return await self._begin(episode, opening, attachments=attached, staged=True)

    async def leave_begun(self, plan: EpisodePlan) -> str:
        """Record the start of an episode for another process to play; return its id.

        Raises:
            EpisodeBusy: The server is shutting down.
            JournalError: It could not be recorded, so there is no episode.
        """
        self._check_open()
        stream = self._stream(self.new_id(), self._new_epoch(), plan)
        try:
            await stream.emit_steps([(0, [core_fact(plan.started())])], patient=False)
            await stream.settle()
        finally:
            self._bus.finish(stream.episode_id)
        return stream.episode_id

    async def show(self, plan: EpisodePlan, episode_id: str) -> ExternalDriver:
        """Show an episode played elsewhere; returns once its first event is recorded and published.

        It holds no slot and cannot be controlled here.

        Args:
            episode_id: Made by ``new_id``.

        Returns:
            The driver that takes its facts and its end.

        Raises:
            EpisodeBusy: The server is shutting down.
            JournalError: Its first event could not be recorded.
        """
        self._check_open()
        stream = self._stream(episode_id, self._new_epoch(), plan)
        episode, driver = self._shown(plan, stream)
        await self._begin(episode, [(0, [core_fact(plan.started())])], self._external)
        return driver

    async def play_on(self, rebuilt: RestoredEpisode, lost_until: int | None = None) -> EpisodeHandle:
        """Resume an episode that another process left; returns once that is recorded and published.

        If events may be lost that viewers saw, it continues in a new epoch, with a warning.

        Args:
            lost_until: See :meth:`.Journal.lost_until`.

        Raises:
            EpisodeBusy: Every slot is taken.
            JournalError: It could not be recorded; no slot is held.
        """
        plan = rebuilt.plan
        try:
            embargo = await self._embargo_left(rebuilt)
            self._need_slot()
        except EpisodeError:
            await rebuilt.stepper.aclose()
            raise
        epoch = rebuilt.epoch if lost_until is None else self._new_epoch()
        stream = self._stream(rebuilt.episode_id, epoch, plan, left=rebuilt.left, embargo=embargo)
        episode = self._episode(
            plan, stream, rebuilt.stepper, past=rebuilt.past, left=rebuilt.left.state["episode"]
        )
        opening = [core_fact(EpisodeRecovered(attempt=rebuilt.attempt))]
        if lost_until is not None:
            opening.append(_loss(rebuilt.left.head_seq, lost_until))
        return await self._begin(episode, [(rebuilt.past.turn, opening)])

    def _stream(
        self,
        episode_id: str,
        epoch: str,
        plan: EpisodePlan,
        *,
        left: RecordPosition | None = None,
        embargo: Embargo | None = None,
    ) -> Stream:
        """Make the stream of an episode; for a fork, the caller emits the parent's past first.

        Args:
            left: Where another process left it; ``None`` to begin.
            embargo: The result of :meth:`_embargo_left` if another process left it.
        """
        if left is None and self._fair:
            embargo = embargo_on(plan)
        return open_stream(
            plan, episode_id, epoch, journal=self._journal, bus=self._bus, clock=self._clock,
            patience_s=self._patience_s, left=left, embargo=embargo,
        )  # fmt: skip

    async def _embargo_left(self, rebuilt: RestoredEpisode) -> Embargo | None:
        """Rebuild the embargo on an episode that another process left."""
        embargo = embargo_on(rebuilt.plan) if self._fair else None
        if embargo is not None:
            async for one in ViewReader(self._journal, self.load).stream(rebuilt.episode_id):
                embargo.take([one])
        return embargo

    def _episode(
        self,
        plan: EpisodePlan,
        stream: Stream,
        stepper: Stepper,
        *,
        past: Past | None = None,
        left: Mapping[str, Any] | None = None,
    ) -> EpisodeHandle:
        """Make the handle of an episode that is played here.

        Args:
            stepper: Its environment, closed by its driver.
            past: Where another process or a parent left it; ``None`` to begin.
            left: Its last ``state["episode"]`` in another process; ``None`` if it begins here.
        """
        checkpoints = None  # none for a derived view or a remote world
        if isinstance(stream, EpisodeStream) and plan.world.remote is None:
            checkpoints = Checkpointer(self._journal, stream, plan.world, self._clock)
        driver = prepare(
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
            control=driver.control,
            driver=driver,
            thinking=driver.thinking,
            started_at=started_at,
        )

    def _shown(self, plan: EpisodePlan, stream: Stream) -> tuple[EpisodeHandle, ExternalDriver]:
        """Make the handle of an episode played elsewhere and the driver that takes its facts."""
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

    async def _begin(
        self,
        episode: EpisodeHandle,
        opening: Sequence[TurnFacts],
        among: dict[str, EpisodeHandle] | None = None,
        attachments: Attachments | None = None,
        staged: bool = False,
    ) -> EpisodeHandle:
        (self._running if among is None else among)[episode.episode_id] = episode
        playing = self._play(episode, opening, attachments, staged)
        try:
            self._tasks.create_task(playing, name=episode.episode_id)
        except RuntimeError:  # the group is closing
            playing.close()
            self._release(episode)
            raise
        await episode.begin()
        return episode

    async def stop(self, episode_id: str | None, *, by: str) -> EpisodeEnded:
        """End an episode as ``stopped`` and wait until that is recorded.

        Raises:
            EpisodeNotFound: It does not run here.
            JournalUnavailable: It is stopped, but that cannot be recorded now; it will be as soon as
                possible, by the next process if necessary.
        """
        episode, detail = self.find(episode_id), f"stopped by {by}"
        try:
            return await episode.end(EndRequest("stopped", detail))
        except JournalUnavailable as error:
            kept = await asyncio.to_thread(self.stops.note, episode.episode_id, detail)
            after = "a restart ends it too" if kept else "a restart may resume it"
            raise JournalUnavailable(f"{error}; {after}") from error

    async def pause(self, episode_id: str | None, *, by: str) -> EpisodeHandle:
        """Pause an episode.

        Raises:
            EpisodeNotFound: It does not run here.
            EpisodeOver: It has just ended.
        """
        episode = self._unended(episode_id)
        await episode.pause(by)
        return episode

    async def resume(self, episode_id: str | None, *, by: str) -> EpisodeHandle:
        """Resume an episode; see :meth:`pause`."""
        episode = self._unended(episode_id)
        await episode.resume(by)
        return episode

    async def set_pace(self, episode_id: str | None, pace: Pace, *, by: str) -> EpisodeHandle:
        """Change the pace of an episode; see :meth:`pause`."""
        episode = self._unended(episode_id)
        await episode.set_pace(pace, by)
        return episode

    async def aclose(self) -> None:
        """End all episodes as ``interrupted``, and start no more."""
        await self._close(EndRequest("interrupted", "the server went away"))

    async def suspend(self) -> None:
        """Leave all episodes without an end, for another process to resume, and start no more."""
        await self._close(EndRequest("suspended", None))

    async def _close(self, request: EndRequest) -> None:
        self._closing = True
        await asyncio.gather(*(episode.end(request) for episode in self.showing()), return_exceptions=True)

    def _need_slot(self) -> None:
        if not self.free_slots:
            raise self.busy()

    def _check_open(self) -> None:
        if self._closing:
            raise self.busy()

    def busy(self) -> EpisodeBusy:
        """Return the error for requests that find no free slot."""
        if self._closing:
            return EpisodeBusy([], self.slots)
        return EpisodeBusy(list(self._running), self.slots, self._forking + self.promised)

    def _unended(self, episode_id: str | None) -> EpisodeHandle:
        episode = self.find(episode_id)
        if episode.ended:
            raise EpisodeOver(episode.episode_id)
        return episode

    async def _play(
        self,
        episode: EpisodeHandle,
        opening: Sequence[TurnFacts],
        attachments: Attachments | None,
        staged: bool,
    ) -> None:
        try:
            await episode.play(opening, attachments)
        finally:
            self._release(episode)
            if episode.end_recorded:
                self.stops.forget(episode.episode_id)
            if staged:  # does nothing unless its opening could not be recorded
                await give_up_staged(self._journal, episode.episode_id)

    def _release(self, episode: EpisodeHandle) -> None:
        for among in (self._running, self._external):
            among.pop(episode.episode_id, None)
        self._bus.finish(episode.episode_id)


def _loss(head_seq: int, lost_until: int) -> Fact:
    """Return the warning that events after ``head_seq`` were lost, up to ``lost_until`` if that is later."""
    message = f"The database was restarted or replaced, and events after {head_seq} may be lost."
    if lost_until > head_seq:
        message = f"The database went back in time: events {head_seq + 1} to {lost_until} were lost."
    return core_fact(Warned(message=f"{message} Play continues from event {head_seq}."))
