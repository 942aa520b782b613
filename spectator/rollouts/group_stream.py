"""The groups of a run of rollouts, one by one as they complete, for a trainer's loop.

The run is that of :func:`.fleet.run_rollouts`, in the same folder and with the same episodes: either can
resume what the other began.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Final, Self

from spectator.catalog import LoadWorld
from spectator.clock import Clock, SystemClock
from spectator.errors import FieldError, InvalidRequest, JournalError, RunHalted
from spectator.exports.groups import GroupRule, GroupState, rows_of_group
from spectator.exports.tokens import rows_of_tokens
from spectator.journal.contract import EpisodeSummary, Journal
from spectator.journal.outline import EpisodeOutline, outline_of
from spectator.llm.endpoints import ApiKey
from spectator.policies.spending import Caps, SpendLedger
from spectator.process_environment import read_cast, read_key
from spectator.rollouts.fleet import SPARE_FACTOR, FleetReport, OnBegin, Worker, opened_run, play_run
from spectator.rollouts.fleet_plan import Deadlines, FleetPlan
from spectator.rollouts.handlers import EpisodeHandler, NullHandler
from spectator.rollouts.request import RolloutRequest
from spectator.rollouts.served_policy import ServedPolicy
from spectator.runs.run_plan import Attempt, GroupShares, Job, normalised, shares_of
from spectator.steppers.local import OpenStepper, inline


class GroupWindow:
    """Limits the groups that are in hand: in play, complete and waiting, or with the trainer.

    Args:
        most: Groups in hand at once, at least 1.
        delivered: Groups that the trainer has already.
    """

    def __init__(self, jobs: Sequence[Job], most: int, delivered: Collection[str]) -> None:
        self._most = most
        self._group_of = [str(job.group) for job in jobs]
        self._left: dict[str, int] = {}
        self.members: dict[str, list[int]] = {}
        """Positions of the jobs of each group."""
        for number, name in enumerate(self._group_of):
            self.members.setdefault(name, []).append(number)
        if unknown := sorted(set(delivered) - set(self.members)):
            raise InvalidRequest([FieldError("delivered", f"the run has no group {unknown[0]!r}")])
        self._left = {name: len(numbers) for name, numbers in self.members.items()}
        self._delivered = frozenset(delivered)
        self._in_hand: set[str] = set()
        self._leased: dict[int, str] = {}
        self._left_out: set[str] = set()
        self.over: dict[int, str] = {}
        """By position of the job, the episode that counts for it."""
        self.ready: deque[str] = deque()
        """Complete groups that were not delivered, in the order of completion."""
        self.changed = asyncio.Event()
        """Set when a group is complete."""
        self.on_room: Callable[[], None] = lambda: None

    @property
    def unfinished(self) -> list[str]:
        """Groups with episodes that are not over."""
        return [name for name, left in self._left.items() if left]

    def admit(self, attempts: Sequence[Attempt]) -> list[Attempt]:
        """See :meth:`.scheduler.Window.admit`."""
        admitted, names = [], set(self._in_hand)
        for one in attempts:
            name = self._group_of[one.number]
            if name in self._left_out or name in self._delivered:
                admitted.append(one)
            elif name in names or len(names) < self._most:
                names.add(name)
                admitted.append(one)
        return admitted

    def took(self, attempts: Sequence[Attempt]) -> None:
        """See :meth:`.scheduler.Window.took`."""
        names = {self._group_of[one.number] for one in attempts}
        self._in_hand |= names - self._left_out - self._delivered
        self._leased.update((one.number, one.episode_id) for one in attempts)

    def waits_for_others(self, busy: Collection[str]) -> bool:
        """See :meth:`.scheduler.Window.waits_for_others`."""
        numbers = (number for name in self._in_hand for number in self.members[name])
        return any(number not in self.over and self._leased.get(number) not in busy for number in numbers)

    def saw(self, over: Mapping[int, str]) -> None:
        """See :meth:`.scheduler.Window.saw`."""
        for number, episode_id in over.items():
            if number in self.over:
                continue
            self.over[number] = episode_id
            name = self._group_of[number]
            self._left[name] -= 1
            if not self._left[name] and name not in self._delivered:
                self._in_hand.add(name)
                self.ready.append(name)
                self.changed.set()

    def leave_out(self, attempt: Attempt) -> None:
        """Stop waiting for the group of an episode that cannot be played here."""
        name = self._group_of[attempt.number]
        self._left_out.add(name)
        self.finish(name)

    def finish(self, name: str) -> None:
        """Note that the trainer is done with a group, so that another may begin."""
        self._in_hand.discard(name)
        self.on_room()


@dataclass(frozen=True, slots=True)
class RolloutGroup:
    """A complete group: every episode of one task, with a reward or with the reason why it has none.

    Args:
        seat: The actor whose answers it holds.
        journal: Its record, open until the loop is left.
    """

    group_id: str
    seat: str
    episodes: Sequence[EpisodeOutline]
    rule: GroupRule
    journal: Journal

    @property
    def seed(self) -> int:
        """The seed of its task."""
        return self.episodes[0].summary.seed

    @property
    def rewards(self) -> list[float | None]:
        """The reward of each episode; ``None`` without a verdict, which is not 0."""
        return [one.reward for one in self.episodes]

    @property
    def failures(self) -> list[str | None]:
        """Why each episode did not finish; ``None`` if it did."""
        return [one.failure for one in self.episodes]

    @property
    def advantages(self) -> list[float | None]:
        """The rewards relative to the mean of those that exist, over their standard deviation."""
        known = iter(normalised([reward for reward in self.rewards if reward is not None]))
        return [None if reward is None else next(known) for reward in self.rewards]

    @property
    def state(self) -> GroupState:
        """``complete`` if every episode has a reward, ``void`` if none has, else ``partial``."""
        usable = sum(reward is not None for reward in self.rewards)
        return "complete" if usable == len(self.episodes) else "partial" if usable else "void"

    @property
    def mean_reward(self) -> float | None:
        """The mean of the rewards that exist; ``None`` if there are none."""
        known = [reward for reward in self.rewards if reward is not None]
        return fmean(known) if known else None

    @property
    def own_share(self) -> float | None:
        """Share of the decisions that the model made itself; ``None`` if it was asked for none."""
        return self._shares.own

    @property
    def refused_share(self) -> float | None:
        """Share of the model's answers that were refused: of the wrong form, or not legal."""
        return self._shares.refused

    @property
    def cut_share(self) -> float | None:
        """Share of the episodes that were cut off at the length of an answer or at the step cap."""
        return self._shares.cut

    @property
    def _shares(self) -> GroupShares:
        return shares_of((one.own, one.failure) for one in self.episodes)

    async def tokens(self) -> AsyncIterator[dict[str, Any]]:
        """Yield the rows of the export ``tokens``, episode by episode.

        Raises:
            JournalError: The record cannot be read; it is closed once the loop is left.
        """
        for outline in self.episodes:
            async for row in rows_of_tokens(self.journal, outline):
                yield row

    async def row(self) -> dict[str, Any]:
        """Return its row of the export ``groups``, with prompts and completions.

        Raises:
            JournalError: The record cannot be read; it is closed once the loop is left.
        """
        attempts = [one.summary for one in self.episodes]
        rows = await rows_of_group(self.journal, attempts, self.rule, advantages=True)
        return next(one for one in rows if one["seat"] == self.seat)


SPARE_GROUPS: Final = 1
"""Groups in hand by default beyond those that keep every place busy."""


class RolloutGroups:
    """The groups of a run as they complete; made by :func:`rollout_groups`.

    ``async for`` over it stops the run when the loop is left; inside ``async with``, the loop can be left and
    continued, and the run stops at the end of the block. Episodes in play are then left to be resumed by the
    next call.

    Example::

        async with rollout_groups(request, folder, version=0) as groups:
            async for group in groups:
                train(group.advantages, [row async for row in group.tokens()])
                groups.update_policy(step)
    """

    def __init__(self, plan: FleetPlan, folder: Path, worker: dict[str, Any], **loop: Any) -> None:
        self._plan = plan
        self._folder = folder
        self._worker = worker
        self._groups_in_hand: int = loop["groups_in_hand"]
        self._delivered: Collection[str] = loop["delivered"]
        self._served = ServedPolicy()
        self._open = AsyncExitStack()
        self._window: GroupWindow | None = None
        self._playing: asyncio.Task[FleetReport] | None = None
        self._given: deque[RolloutGroup] = deque()
        self._last: str | None = None
        self._closed = self._ended = False

    @property
    def report(self) -> FleetReport | None:
        """The results of this process; ``None`` until the run has ended or was stopped."""
        task = self._playing
        over = task is not None and task.done() and not task.cancelled() and task.exception() is None
        return task.result() if task is not None and over else None

    def update_policy(self, version: int, *, base_url: str | None = None, model: str | None = None) -> None:
        """Mark all that is sampled from now on, by this process, with another version of the weights.

        Call it when the endpoint serves them. Requests under way keep the version at which they were sent;
        of a streamed answer, the tokens that arrive later have the new one. What the endpoint itself reports
        (SGLang does) is recorded instead.

        Args:
            version: Number of the weights, such as the training step; never less than the last one.
            base_url: URL of the endpoint for later requests; unchanged if omitted.
            model: Name of the weights at the endpoint for later requests; unchanged if omitted.

        Raises:
            InvalidRequest: The version is older or invalid, or the loop is over.
            ConfigurationError: The URL is invalid.
        """
        if self._closed or self._ended:
            rule = "the loop is over, so nothing is sampled any more; call rollout_groups again"
            raise InvalidRequest([FieldError("version", rule)])
        self._served.update(version, base_url=base_url, model=model)

    async def __aenter__(self) -> Self:
        if self._playing is not None or self._closed:
            raise InvalidRequest([FieldError("rollout_groups", "it was used before; call it again")])
        made = self._worker
        opened = opened_run(self._folder, self._plan, made["clock"], made["load"], made["rng"])
        try:
            row, journal, planned = await self._open.enter_async_context(opened)
            window = self._window = GroupWindow(planned.run.jobs, self._groups_in_hand, self._delivered)
            worker = Worker(journal, **made, served=self._served, window=window)
            self._journal = journal
            self._playing = asyncio.get_running_loop().create_task(play_run(row, worker))
            self._playing.add_done_callback(lambda _: window.changed.set())
        except BaseException:
            await self._open.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Stop: episodes in play are left to be resumed, and the record is closed."""
        self._closed = True
        if self._playing is not None:
            self._playing.cancel()
            await asyncio.gather(self._playing, return_exceptions=True)
        await self._open.aclose()

    def __aiter__(self) -> AsyncIterator[RolloutGroup]:
        return self._alone() if self._playing is None else self

    async def _alone(self) -> AsyncIterator[RolloutGroup]:
        async with self:
            async for group in self:
                yield group

    async def __anext__(self) -> RolloutGroup:
        """Wait for the next group.

        Raises:
            RunHalted: The run stopped before every group was complete.
            SpectatorError: It cannot be played.
        """
        window, playing = self._window, self._playing
        if window is None or playing is None or self._closed:
            raise InvalidRequest([FieldError("rollout_groups", "the loop was left; call it again to resume")])
        if self._given:
            return self._given.popleft()
        if self._last is not None:
            window.finish(self._last)
            self._last = None
        while not window.ready:
            window.changed.clear()
            if playing.done():
                self._ended = True
                self._check_end(playing.result(), window)
                raise StopAsyncIteration
            await window.changed.wait()
        name = window.ready[0]
        self._given.extend(await self._read(window, name))
        self._last = window.ready.popleft()
        return self._given.popleft()

    def _check_end(self, report: FleetReport, window: GroupWindow) -> None:
        if left := window.unfinished:
            named = f"{', '.join(left[:3])}{', ...' if len(left) > 3 else ''}"
            why = report.halted or "it was stopped, or an episode could not be played here"
            raise RunHalted(
                f"the run stopped with {len(left)} groups unfinished ({named}): {why}; "
                "call rollout_groups again with the same folder to resume it"
            )

    async def _read(self, window: GroupWindow, name: str) -> list[RolloutGroup]:
        outlines = []
        for number in window.members[name]:
            episode_id = window.over[number]
            summary: EpisodeSummary | None = await self._journal.episode(episode_id)
            if summary is None:
                raise JournalError(f"the record of {episode_id} was removed while the run was played")
            outlines.append(await outline_of(self._journal, summary))
        rule = GroupRule(size=len(outlines))
        seats: dict[str | None, list[EpisodeOutline]] = {}
        for outline in outlines:
            for one in outline.of_seats():
                seats.setdefault(one.seat, []).append(one)
        return [
            RolloutGroup(str(of_seat[0].group_id), of_seat[0].agent, of_seat, rule, self._journal)
            for of_seat in seats.values()
        ]


def rollout_groups(
    request: RolloutRequest,
    folder: Path,
    *,
    concurrency: int = 16,
    groups_in_hand: int | None = None,
    delivered: Collection[str] = (),
    version: int | None = None,
    clock: Clock | None = None,
    load: LoadWorld | None = None,
    rng: random.Random | None = None,
    key: ApiKey | None = None,
    handler: EpisodeHandler | None = None,
    ledger: SpendLedger | None = None,
    open_stepper: OpenStepper = inline,
    deadlines: Deadlines | None = None,
    on_begin: OnBegin = lambda running: None,
) -> RolloutGroups:
    """Play the remaining episodes of ``request`` in ``folder`` and yield each group as it completes.

    Every group is yielded once: first those that are complete in the record, except for ``delivered``, then
    the others as they complete. A group is complete once no attempt at any of its episodes is to come, even
    if none of them has a reward. Where the model plays every seat (``opponent="self"``), each seat has a
    group of its own, and those of one task follow each other.

    Args:
        request: The run's request.
        folder: The run's folder; created if missing.
        concurrency: Episodes at once, at least 1.
        groups_in_hand: Groups at once that are in play, complete and waiting, or in the body of the loop, at
            least 1; a body that takes long thus bounds what is sampled meanwhile. With 1, nothing is sampled
            while the body runs. If omitted, one more than keeps all of ``concurrency`` busy.
        delivered: Names of groups not to be yielded again, from the trainer's own checkpoint.
        version: Number of the weights that the endpoint serves at the beginning; see
            :meth:`RolloutGroups.update_policy`.

    The run and the other arguments are those of :func:`.fleet.run_rollouts`.

    Raises:
        InvalidRequest: An argument is invalid. What :func:`.fleet.run_rollouts` raises is raised by the loop.
    """
    clock, rng = clock or SystemClock(), rng or random.SystemRandom()
    counts = {"concurrency": concurrency, "groups_in_hand": groups_in_hand}
    low = {name: count for name, count in counts.items() if count is not None and count < 1}
    if low:
        raise InvalidRequest([FieldError(name, f"is {n}; it must be at least 1") for name, n in low.items()])
    day, episode, whole = (ledger or SpendLedger(Caps(), Caps(), clock)).caps
    worker = {
        "concurrency": concurrency, "clock": clock, "load": load or read_cast().load, "rng": rng,
        "key": read_key if key is None else lambda variable: key, "day": day, "episode": episode,
        "handler": handler or NullHandler(), "open_stepper": open_stepper, "spare_factor": SPARE_FACTOR,
        "patience_s": 0.0, "on_begin": on_begin,
    }  # fmt: skip
    plan = FleetPlan.of(request, deadlines=deadlines, whole=whole)
    in_hand = groups_in_hand or math.ceil(concurrency / request.group_size) + SPARE_GROUPS
    groups = RolloutGroups(plan, folder, worker, groups_in_hand=in_hand, delivered=delivered)
    if version is not None:
        groups.update_policy(version)
    return groups
