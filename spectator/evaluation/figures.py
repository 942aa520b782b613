"""The figures of an episode, measured once from its record and stored."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Any, Final, Self

from spectator.catalog import load_world
from spectator.core_events import FailedDecisions
from spectator.environments.contract import OUTCOME, Measure, Meter
from spectator.environments.world import World
from spectator.episodes.recorded_calls import streamed_with_whole_replies
from spectator.errors import (
    INVALID_ANSWERS,
    ConfigurationError,
    EndReason,
    EnvironmentFault,
    InvalidRequest,
    JournalError,
    typed_as,
)
from spectator.evaluation.certificate import Counts, count_exchanges
from spectator.events import Event, RecordedEvent
from spectator.journal.contract import EpisodeLog

MEASURES: Final = (
    Measure(
        OUTCOME, "Win share", "share", "high",
        "1 for a win, 0.5 for a tie, 0 for a loss, as the world decides it.", (0.0, 1.0),
        "By how much; the opponents are listed next to it.",
    ),
    Measure(
        "score", "Score", "share", "high",
        "The sum of the episode's rewards. Only for the agent's own seat.", (0.0, 1.0),
        "Anything that the world's rubric does not score; scores of two worlds do not compare.",
    ),
    Measure(
        "tool_validity", "Tool validity", "share", "high",
        "Of the captain's own decisions, those that the world carried out.", (0.0, 1.0),
        "Whether what was legal was wise; how many were its own: see own_share.",
    ),
    Measure(
        "own_share", "Own decisions", "share", "high",
        "Of all decisions, those that the captain made itself.", (0.0, 1.0),
        "Why the others were not: docs/failures.md lists the classes, and each decision carries its own.",
    ),
    Measure(
        "fallbacks", "Fallbacks", "share", "low",
        "Of all decisions, those that a fallback made.", (0.0, 1.0),
        "Why: docs/captains.md lists the reasons, and each decision carries its own.",
    ),
    Measure(
        "clean_answers", "Clean answers", "share", "high",
        "Answers that needed neither repair nor fallback, among those that were parsed.", (0.0, 1.0),
        "Whether the captain answered at all; see fallbacks.",
    ),
    Measure(
        "latency_s", "Time to decide", "s", "low",
        "Mean time that a decision took, waiting for the endpoint included.", (0.0, None),
        "Thought, a slow network, a busy machine: they look alike. Does not compare between machines.",
    ),
    Measure(
        "tokens", "Tokens an episode", "tokens", None,
        "Prompt and answer tokens of all decisions, counted by the endpoint, else estimated.", (0.0, None),
        "Models count with different tokenizers; each decision says whether its tokens are estimated.",
    ),
    Measure(
        "cost", "Cost an episode", "money", "low",
        "Money for these tokens at the catalogue's prices.", (0.0, None),
        "Discounts, and prices that are not in the catalogue.",
    ),
)  # fmt: skip
"""What :class:`Gauge` measures in every world."""

MOST_LOST: Final = 0.02
"""Share of a ranked captain's decisions that may say nothing about it, see :meth:`SeatFigures.lost`."""


def lost_decisions(fallbacks: Mapping[str, int], rule: FailedDecisions) -> int:
    """Return how many failed decisions say nothing about their captain.

    An answer that is not an action is the captain's own failure: a random action or a forfeit is its price.
    Other failures are not the captain's, and what the world's scripted captain decided is not either.

    Args:
        fallbacks: Failed decisions by the class of failure.
        rule: What counted in their place.

    >>> lost_decisions({"unparsable": 3, "model_infra": 1}, "random")
    1
    """
    return sum(n for why, n in fallbacks.items() if rule == "fallback" or why not in INVALID_ANSWERS)


def measures_of(
    world: World | None, options: Mapping[str, Any] = MappingProxyType({})
) -> tuple[Measure, ...]:
    """Every measure of a world, those of all worlds first; those alone when the world is not here.

    Args:
        options: The episodes' options; by them a world may reward otherwise than usual, so that the score is
            no share.
    """
    if world is None:
        return MEASURES
    profile = world.profile_of(options)
    bounds = profile.score_min, profile.score_max
    if bounds == (0.0, 1.0):  # a share, as the table says
        return (*MEASURES, *world.measures)
    core = [replace(one, unit="", range=bounds) if one.name == "score" else one for one in MEASURES]
    return (*core, *world.measures)


@dataclass(slots=True)
class Gauge:
    """Counts one actor's decisions."""

    decisions: int = 0
    refused: int = 0
    own_last: bool = True
    reasons: Counter[str] = field(default_factory=Counter)
    parsed: int = 0
    clean: int = 0
    latency_s: float = 0.0
    tokens: int | None = None
    cost: float | None = None
    models: set[str] = field(default_factory=set)
    prompts: set[int] = field(default_factory=set)
    replies: dict[str, dict[str, int]] = field(default_factory=dict)

    def take(self, event: Event) -> None:
        """Take note of one of this actor's ``decision.made`` or ``action.refused``."""
        data = event.data
        if event.type == "action.refused":
            self.refused += self.own_last
            return
        self.decisions += 1
        self.own_last = data["source"] != "fallback"
        if not self.own_last:
            self.reasons[data.get("failure_class") or "unknown"] += 1
        count_exchanges(data, self.replies)
        for exchange in data.get("exchanges") or ():
            if (model := (exchange.get("reply") or {}).get("model")) is not None:
                self.models.add(model)
                self.prompts.add(data.get("prompt") or 1)
        self.parsed += data["parse"] is not None
        self.clean += data["parse"] == "ok"
        self.latency_s += data["latency_s"]
        for tokens in (data["tokens_in"], data["tokens_out"]):
            if tokens is not None:
                self.tokens = (self.tokens or 0) + tokens
        if data.get("cost") is not None:
            self.cost = (self.cost or 0.0) + data["cost"]

    @property
    def own(self) -> int:
        """Decisions that the captain made itself."""
        return self.decisions - self.reasons.total()

    def figures(self) -> dict[str, float]:
        """By measure; what could not be measured is left out."""
        found: dict[str, float] = {}
        if self.own:
            found["tool_validity"] = 1.0 - self.refused / self.own
        if self.decisions:
            found["own_share"] = self.own / self.decisions
            found["fallbacks"] = self.reasons.total() / self.decisions
            found["latency_s"] = self.latency_s / self.decisions
        if self.parsed:
            found["clean_answers"] = self.clean / self.parsed
        if self.tokens is not None:
            found["tokens"] = float(self.tokens)
        if self.cost is not None:
            found["cost"] = self.cost
        return found


FIGURES_VERSION: Final = 7
"""Raised whenever a measure changes its meaning, so that what was measured before is measured again."""

PROMISES: Final = 10
"""Number of equal bins from 0 to 1 for reported win chances."""

EVALUATION: Final = "evaluation:"
"""Prefix of the run ids of evaluations; episodes of these runs cannot be started over HTTP."""

LEAGUE: Final = "league"
"""Run id of a league's matches; their group is the season and the fixture, such as ``3.12``."""

EXHIBITION: Final = "exhibition"
"""Run id of matches that a server plays as a show; standings do not count them."""


@dataclass(frozen=True, slots=True)
class SeatFigures:
    """The figures of one captain in one episode.

    Args:
        actor: The seat.
        captain: Its preset.
        label: The preset's label.
        source: Kind of decision maker.
        figures: By the name of a measure; what was not measured is missing.
        decisions: Number of decisions; in a fork only those after the fork.
        fallbacks: Failed decisions among them, by the class of failure.
        fingerprint: Of a model: a digest of how it was asked, of the prompt's edition, and of the models that
            answered, as they named themselves; empty for other captains.
        models: Those models.
        replies: What was counted of its replies; see :class:`~spectator.evaluation.certificate.Replies`.
    """

    actor: str
    captain: str
    label: str
    source: str
    figures: Mapping[str, float]
    decisions: int = 0
    fallbacks: Mapping[str, int] = field(default_factory=dict)
    fingerprint: str = ""
    models: Sequence[str] = ()
    replies: Counts = field(default_factory=dict)

    @property
    def own(self) -> int:
        """Decisions that the captain made itself."""
        return self.decisions - sum(self.fallbacks.values())

    def lost(self, rule: FailedDecisions) -> int:
        """Return the decisions that say nothing about the captain, see :func:`lost_decisions`."""
        return lost_decisions(self.fallbacks, rule)

    def reached(self, rule: FailedDecisions) -> bool:
        """Whether any decision says something about the captain, where it was asked for one."""
        return self.lost(rule) < self.decisions or not self.decisions


@dataclass(frozen=True, slots=True)
class EpisodeFigures:
    """The figures of one episode.

    Args:
        environment: Its world.
        environment_version: Version of the world.
        options: Every option of the world.
        ended_at: RFC 3339.
        reason: Why it ended.
        result: The result in words, when it finished.
        forked: Whether its beginning was another episode's, so that others made its first decisions.
        seats: Every actor's, the agent's own first.
        run_id: The run that it was played for.
        failed_decisions: What counted where a captain did not decide.
        forfeited: The actor who lost it by not deciding.
        promised: Reported win chances of the agent's seat, by tenths from 0: their number, sum and sum of
            squares; empty without any.
    """

    episode_id: str
    environment: str
    environment_version: str
    pack: str
    seed: int
    options: Mapping[str, Any]
    ended_at: str
    reason: EndReason
    result: str | None
    forked: bool
    seats: tuple[SeatFigures, ...]
    run_id: str | None = None
    failed_decisions: FailedDecisions = "fallback"
    forfeited: str | None = None
    promised: tuple[tuple[int, float, float], ...] = ()

    @property
    def evaluated(self) -> bool:
        """Whether it is a match of an evaluation, which alone ranks."""
        return self.run_id is not None and self.run_id.startswith(EVALUATION)

    @property
    def finished(self) -> bool:
        """Whether there is a result: the world finished, or the match was forfeited."""
        return self.reason == "finished" or self.forfeited is not None

    @property
    def reached(self) -> bool:
        """Whether every captain was reached, or the match was forfeited."""
        rule = self.failed_decisions
        return self.forfeited is not None or all(seat.reached(rule) for seat in self.seats)

    @property
    def counts(self) -> bool:
        """Whether the figures count: it finished, and all captains were reached."""
        return self.finished and self.reached

    @property
    def outcome(self) -> float | None:
        """1 if the agent won, 0 if it lost, 0.5 for a tie; ``None`` where no such result counts."""
        return self.seats[0].figures.get(OUTCOME) if self.counts else None

    def seat(self, actor: str) -> SeatFigures:
        """Of one actor.

        Raises:
            KeyError: There is no such actor.
        """
        for seat in self.seats:
            if seat.actor == actor:
                return seat
        raise KeyError(actor)

    def to_json(self) -> str:
        """As text, for :meth:`from_json`."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Inverse of :meth:`to_json`."""
        fields = json.loads(text)
        seats = tuple(SeatFigures(**seat) for seat in fields["seats"])
        promised = tuple((count, total, squares) for count, total, squares in fields.get("promised", ()))
        return cls(**{**fields, "seats": seats, "promised": promised})


class Reading:
    """Reads the figures off an episode's record, event by event."""

    def __init__(self) -> None:
        self._started: Event | None = None
        self._ended: Event | None = None
        self._gauges: dict[str, Gauge] = {}
        self._meter: Meter | None = None
        self._borrowed = 0
        self._promise: Callable[[Event], float | None] | None = None
        self._promised: list[tuple[int, float, float]] = []

    def take(self, recorded: RecordedEvent) -> None:
        """Take note of the next event.

        Raises:
            JournalError: The record does not begin with ``episode.started``, or an event in it lacks what
                its type should have.
            EnvironmentFault: The world's meter failed.
        """
        event = recorded.event
        try:
            if event.type == "episode.started":
                self._begin(event)
            elif self._started is None:
                raise JournalError(
                    f"the record of {event.episode_id} lacks its beginning, the event episode.started"
                )
            elif event.type in ("decision.made", "action.refused"):
                if event.turn > self._borrowed:
                    self._gauges[event.data["actor"]].take(event)
            elif event.type == "episode.ended":
                self._ended = event
                if (failed := event.data.get("undecided")) is not None:
                    count_exchanges(failed, self._gauges[failed["actor"]].replies)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise JournalError(
                f"event {event.seq} of {event.episode_id} cannot be measured: {error!r}"
            ) from error
        if self._meter is not None or self._promise is not None:
            self._measure(event)

    def _measure(self, event: Event) -> None:
        with typed_as(partial(_meter_failed, event.episode_id), passing=()):
            if self._meter is not None:
                self._meter.take(event)
            if self._promise is not None and (chance := self._promise(event)) is not None:
                self._count_chance(chance)

    def _count_chance(self, chance: float) -> None:
        """Count a reported win chance."""
        if not 0.0 <= chance <= 1.0:
            raise ValueError(f"a chance is from 0 to 1, not {chance}")
        promised = self._promised = self._promised or [(0, 0.0, 0.0)] * PROMISES
        tenth = min(PROMISES - 1, int(PROMISES * chance))
        count, total, squares = promised[tenth]
        promised[tenth] = count + 1, total + chance, squares + chance**2

    def figures(self) -> EpisodeFigures | None:
        """What was found; ``None`` while the record has no end.

        Raises:
            EnvironmentFault: The world's meter failed.
        """
        started, ended = self._started, self._ended
        if started is None or ended is None:
            return None
        own: Mapping[str, Mapping[str, float]] = {}
        if self._meter is not None:
            with typed_as(partial(_meter_failed, started.episode_id), passing=()):
                own = self._meter.figures()
        agent = started.data["agent"]
        actors = sorted(started.data["seats"], key=lambda actor: actor != agent)
        return EpisodeFigures(
            episode_id=started.episode_id,
            environment=started.data["environment"],
            environment_version=started.data["environment_version"],
            pack=started.data["pack"],
            seed=started.data["seed"],
            options=started.data["options"],
            ended_at=ended.at,
            reason=ended.data["reason"],
            result=ended.data["result"],
            forked=started.data.get("parent") is not None,
            seats=tuple(self._seat(actor, started, ended, own.get(actor, {})) for actor in actors),
            run_id=started.data.get("run_id"),
            failed_decisions=started.data.get("failed_decisions", "fallback"),
            forfeited=ended.data.get("forfeited"),
            promised=tuple(self._promised),
        )

    def _begin(self, started: Event) -> None:
        self._started = started
        self._borrowed = (started.data.get("parent") or {}).get("turn", 0)
        self._gauges = {actor: Gauge() for actor in started.data["seats"]}
        try:
            world = load_world(started.data["environment"])
        except (InvalidRequest, ConfigurationError):
            return
        # another version's events may mean something else
        if world.version == started.data["environment_version"]:
            self._meter = None if world.meter is None else world.meter()
            self._promise = world.promise

    def _seat(self, actor: str, started: Event, ended: Event, own: Mapping[str, float]) -> SeatFigures:
        seat = started.data["seats"][actor]
        gauge = self._gauges[actor]
        figures = gauge.figures()
        if gauge.own or not gauge.decisions:
            figures |= own
            if actor == started.data["agent"] and ended.data["score"] is not None:
                figures["score"] = ended.data["score"]
        if (loser := ended.data.get("forfeited")) is not None:
            figures = _forfeited(figures, lost=actor == loser, alone=len(self._gauges) == 1)
        asked = seat.get("fingerprint")
        identity = json.dumps([asked, sorted(gauge.prompts), sorted(gauge.models)])
        return SeatFigures(
            actor,
            seat["policy"],
            seat["label"],
            seat["source"],
            figures,
            gauge.decisions,
            dict(gauge.reasons),
            hashlib.sha256(identity.encode()).hexdigest()[:12] if asked is not None or gauge.models else "",
            sorted(gauge.models),
            gauge.replies,
        )


def figures_of(recorded: Iterable[RecordedEvent]) -> EpisodeFigures | None:
    """The figures of a whole record; ``None`` when it has no end.

    Raises:
        JournalError: It does not begin with ``episode.started``.
    """
    reading = Reading()
    for one in recorded:
        reading.take(one)
    return reading.figures()


async def recorded_figures(journal: EpisodeLog, episode_id: str) -> EpisodeFigures | None:
    """The figures of an episode of a journal, with all replies; ``None`` when it has no end.

    Raises:
        JournalError: It cannot be read, or does not begin with ``episode.started``.
    """

    async def events() -> AsyncIterator[RecordedEvent]:
        for one in await journal.read(episode_id):
            yield one

    return figures_of([one async for one in streamed_with_whole_replies(journal, episode_id, events())])


def _forfeited(figures: dict[str, float], *, lost: bool, alone: bool) -> dict[str, float]:
    """The figures of a seat in a match that was forfeited: won or lost, and alone worth nothing."""
    return {**figures, "score": 0.0} if alone else {**figures, OUTCOME: 0.0 if lost else 1.0}


def _meter_failed(episode_id: str, error: Exception) -> EnvironmentFault:
    return EnvironmentFault(f"the meter of {episode_id} failed: {error!r}")
