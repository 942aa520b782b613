"""A watchable training run: episodes are recorded in a folder while a trainer plays them."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import Counter
from collections.abc import Coroutine, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, Self

from ulid import ULID

from spectator.bus import MemoryBus
from spectator.clock import Clock, SystemClock
from spectator.core_events import EpisodeEnded, OwnDecisions, Undecided, core_fact
from spectator.episodes.derived_stream import Stream, open_stream
from spectator.episodes.plan import EpisodePlan
from spectator.episodes.steps import checked_decision, cut_short, with_total
from spectator.episodes.stream import RecordedTurns
from spectator.errors import ConfigurationError, EpisodeError, FailureClass
from spectator.journal.contract import Attachments
from spectator.journal.outline import OwnCount
from spectator.journal.sql_journal import SqlJournal
from spectator.model_calls import ModelCall
from spectator.policies.policy import Decision, Policy, Preset
from spectator.runs.attempts import end_unfinished
from spectator.runs.run_folder import JOURNAL
from spectator.training.played_episode import SelfPlayedEpisode

logger = logging.getLogger(__name__)

MAX_WAITING: Final = 1000
"""Maximum number of unrecorded answers; a trainer that plays faster has to wait."""

BATCH: Final = 100
"""Number of waiting answers, of all episodes, that are committed at once."""

BATCH_S: Final = 0.1
"""How long an answer waits for others to be committed with, seconds."""


@dataclass(frozen=True, slots=True)
class WaitingTurns:
    """Turns of an episode that wait to be recorded.

    Args:
        episode: The episode.
        turns: The turns, and the end if they include it.
        unused: Model calls behind the end that led to no action.
    """

    episode: RecordedEpisode
    turns: RecordedTurns
    unused: Sequence[ModelCall] = ()


class RecordedRun:
    """The folder of a training run, which a server shows live at ``/rollouts``.

    A separate thread records the episodes, so that the trainer does not wait for the disk. It commits answers
    together: after :data:`BATCH_S` seconds, after :data:`BATCH` answers, at the end of an episode, and at
    :meth:`flush` and :meth:`close`. If the process is killed, answers since the last commit are lost, and its
    open episodes are ended as ``interrupted`` when the folder is opened again. If an episode cannot be
    recorded, it continues and a warning is logged.

    Args:
        folder: Folder of the run; created if missing. A server shows the runs in its ``SPECTATOR_RUNS_DIR``.
        group_size: Number of episodes of one seed that form a group, in the order in which they begin; 1 for
            no groups.
        model: Display name of the agent.
        clock: Time of the events.

    Raises:
        ValueError: ``group_size`` is less than 1.
        ConfigurationError: Another process records in the folder.
        JournalError: The folder cannot be written.

    >>> import tempfile
    >>> from spectator.training.text_episode import TextEpisode
    >>> with tempfile.TemporaryDirectory() as folder, RecordedRun(folder) as run:
    ...     episode = TextEpisode("counting", {"turns": 1}, run=run)
    ...     prompt = episode.reset(seed=1)
    ...     episode.use("say", {"text": "ACTION: 1"})
    'Changed:\\nturn: 1\\nnext: 2\\nlegal now: none'
    """

    def __init__(
        self,
        folder: Path | str,
        *,
        group_size: int = 1,
        model: str = "Trained model",
        clock: Clock | None = None,
    ) -> None:
        if group_size < 1:
            raise ValueError(f"group_size must be at least 1, not {group_size}")
        self.name = Path(folder).resolve().name
        """Name of the run on the server's pages."""
        self.model = model
        """Name of the model on the server's pages."""
        self.weight_version: str | None = None
        """Version of the weights that write the next answers; set it after each update."""
        self._group_size = group_size
        self._captain = Preset("remote", model, "Is trained elsewhere.", "remote", _not_built)
        self._clock = clock or SystemClock()
        self._groups_lock = threading.Lock()
        self._begun: Counter[int] = Counter()
        self._groups: dict[int, str] = {}
        self._numbered = 0
        self._slots = threading.BoundedSemaphore(MAX_WAITING)
        self._waiting_lock = threading.Lock()
        self._waiting: list[WaitingTurns] = []
        self._order = asyncio.Lock()
        self._timer: asyncio.Task[None] | None = None  # until the waiting turns are committed
        self._playing: set[RecordedEpisode] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="recorded-run", daemon=True)
        self._thread.start()
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
            self._journal = self._wait(SqlJournal.open(f"sqlite:///{Path(folder) / JOURNAL}"))
            groups = self._wait(end_unfinished(self._journal, self._clock))
            numbers = (one[2:] for one in groups)
            self._numbered = max((int(one) + 1 for one in numbers if one.isdecimal()), default=0)
        except BaseException:
            self._stop()
            raise

    def record(self, played: SelfPlayedEpisode) -> None:
        """Record a finished episode in which the model played every seat.

        Raises:
            ConfigurationError: The run is closed.
        """
        episode = self.begin(played.plan(), every_seat=True)
        episode.own = played.own
        episode.take(played.turns)

    def begin(self, plan: EpisodePlan, *, every_seat: bool = False) -> RecordedEpisode:
        """Record a new episode.

        Args:
            plan: The plan; captain, run and group are set here.
            every_seat: Whether the model plays the other seats too.

        Raises:
            ConfigurationError: The run is closed.
        """
        if not self._thread.is_alive():
            raise ConfigurationError(f"the run {self.name} is closed; open its folder again to record in it")
        group = self._group_of(plan.seed) if self._group_size > 1 else None
        plan = replace(
            plan,
            captain=self._captain,
            opponent=self._captain if every_seat else plan.opponent,
            run_id=self.name,
            group_id=group,
            attempt=1,
            view="derived",
        )
        episode_id, epoch = f"ep-{ULID()}", str(ULID())[-8:].lower()
        stream = open_stream(
            plan, episode_id, epoch, journal=self._journal, bus=MemoryBus(), clock=self._clock
        )
        episode = RecordedEpisode(self, stream, plan)
        self._playing.add(episode)
        episode.take(RecordedTurns([(0, [core_fact(plan.started())])], [()]))
        return episode

    def flush(self) -> None:
        """Wait until all answers so far are recorded; call it before something reads the run.

        Does nothing if the run is closed.
        """
        if self._thread.is_alive():
            self._wait(self._record_waiting())

    def close(self) -> None:
        """End open episodes as cut short and close the folder. Safe to call twice."""
        if not self._thread.is_alive():
            return
        for episode in tuple(self._playing):
            episode.leave("the run was closed")
        self.flush()
        self._wait(self._journal.aclose())
        self._stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __deepcopy__(self, memo: object) -> Self:
        """Return itself: Gymnasium copies an environment's arguments."""
        return self

    def submit(self, waiting: WaitingTurns) -> None:
        """Schedule the recording of a part of an episode; its end is recorded at once."""
        self._slots.acquire()
        with self._waiting_lock:
            self._waiting.append(waiting)
            count = len(self._waiting)
        if waiting.turns.ended is not None or count == BATCH:
            asyncio.run_coroutine_threadsafe(self._record_waiting(), self._loop)
        elif count == 1:
            self._loop.call_soon_threadsafe(self._begin_batch)

    def forget(self, episode: RecordedEpisode) -> None:
        """Remove an ended episode from the open ones."""
        self._playing.discard(episode)

    def _begin_batch(self) -> None:
        if self._timer is None and self._waiting:
            self._timer = self._loop.create_task(self._end_batch())

    async def _end_batch(self) -> None:
        await self._clock.sleep(BATCH_S)
        self._timer = None
        await self._record_waiting()

    async def _record_waiting(self) -> None:
        """Record the waiting turns, all episodes in one commit if possible."""
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
        async with self._order:
            with self._waiting_lock:
                batch, self._waiting = self._waiting, []
            by_episode: dict[RecordedEpisode, list[WaitingTurns]] = {}
            for one in batch:
                by_episode.setdefault(one.episode, []).append(one)
            recordings = [episode.record(waiting) for episode, waiting in by_episode.items()]
            for error in await asyncio.gather(*recordings, return_exceptions=True):
                if error is not None:
                    logger.error("a part of an episode is not recorded", exc_info=error)
            for _ in batch:
                self._slots.release()

    def _group_of(self, seed: int) -> str:
        """Return the group of the seed's next episode: one that is not full, or a new one."""
        with self._groups_lock:
            if self._begun[seed] % self._group_size == 0:
                self._groups[seed] = f"g-{self._numbered:06d}"
                self._numbered += 1
            self._begun[seed] += 1
            return self._groups[seed]

    def _wait(self, working: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(working, self._loop).result()

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class RecordedEpisode:
    """An episode that is recorded while it is played.

    Args:
        run: Its run.
        stream: The stream for its events.
        plan: The plan of the episode.
    """

    def __init__(self, run: RecordedRun, stream: Stream, plan: EpisodePlan) -> None:
        self.episode_id = stream.episode_id
        """Id of the episode on the server."""
        self.own: OwnCount | None = None
        """The agent's decisions, if they are counted."""
        self._run = run
        self._stream = stream
        self._profile = plan.profile
        self._agent = plan.agent
        self._unrecorded = False
        self._turn = 0
        self._total = self._value = 0.0
        self._over = False

    def take(self, turns: RecordedTurns, reward: float = 0.0, value: float = 0.0) -> None:
        """Record some turns, and the end if they include it.

        Args:
            turns: The turns.
            reward: Their reward.
            value: The value of the episode so far, used if it is cut short.
        """
        if self._over:
            return
        self._turn = max([self._turn, *(turn for turn, _ in turns.steps)])
        self._total += reward
        self._value = value
        if turns.ended is not None:
            self._finish()
        self._run.submit(WaitingTurns(self, turns))

    def leave(self, detail: str, unused: Decision | None = None) -> None:
        """Record an end as cut short, with the value so far.

        Args:
            detail: The reason, as text.
            unused: The model's last answer, if it led to no action.
        """
        if self._over:
            return
        self._finish()
        ended = with_total(cut_short("step_cap", detail, self._turn), self._total, self._profile)
        if self._profile.rewards == "end":
            ended = ended.model_copy(update={"value": self._value})
        self._end(ended, unused)

    def end_invalid(
        self,
        failure: FailureClass,
        detail: str,
        *,
        penalty: float | None,
        masked: bool,
        unused: Decision | None = None,
    ) -> None:
        """Record an end at an answer that was not an action.

        Args:
            failure: The kind of failure.
            detail: What was wrong, in words.
            penalty: The episode's reward; ``None`` for no penalty.
            masked: Whether it counts for its rewards so far.
            unused: The model's answers that led to no action.
        """
        if self._over:
            return
        self._finish()
        ended = cut_short("policy_error", detail, self._turn, failure)
        ended = with_total(ended, self._total, self._profile)
        self._end(ended.model_copy(update={"penalty": penalty, "masked": masked}), unused)

    def fail(self, detail: str, unused: Decision | None = None) -> None:
        """Record an end as failed, without a score.

        Args:
            detail: The error, as text.
            unused: The model's answer that was being carried out.
        """
        if self._over:
            return
        self._finish()
        self._end(cut_short("environment_error", detail, self._turn), unused)

    def _end(self, ended: EpisodeEnded, unused: Decision | None) -> None:
        """Record an end that the world did not reach, with the words that led to no step."""
        if unused is not None and unused.calls:
            _, fact = checked_decision(self._agent, unused, 0.0)
            asked = {name: fact.data[name] for name in Undecided.model_fields}
            ended = ended.model_copy(update={"undecided": Undecided.model_validate(asked)})
        calls = () if unused is None else unused.calls
        self._run.submit(WaitingTurns(self, RecordedTurns(ended=ended), calls))

    def _finish(self) -> None:
        self._over = True
        self._run.forget(self)

    async def record(self, waiting: Sequence[WaitingTurns]) -> None:
        """Record turns in one commit, on the run's thread; after a failure, nothing more.

        Args:
            waiting: The turns, in order.
        """
        if self._unrecorded:
            return
        try:
            try:
                for one in waiting:
                    await self._emit(one.turns, one.unused)
            finally:
                await self._stream.settle()
        except EpisodeError as error:
            self._unrecorded = True
            self._finish()
            logger.warning("the rest of episode %s is not recorded: %s", self.episode_id, error)

    async def _emit(self, turns: RecordedTurns, unused: Sequence[ModelCall]) -> None:
        for turn, facts, attached in turns.turns():
            await self._stream.emit_steps([(turn, facts)], attachments=attached)
        if (ended := turns.ended) is not None:
            if self.own is not None:
                ended = ended.model_copy(update={"own_decisions": OwnDecisions(**asdict(self.own))})
            attached = Attachments([unused] if unused else (), turns.truth)
            await self._stream.emit(ended.turns, [core_fact(ended)], attachments=attached)


def _not_built(seed: int) -> Policy:
    raise NotImplementedError("the agent plays in the trainer's process")
