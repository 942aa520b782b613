"""Weigh what else could have been decided in a recorded episode.

``python -m spectator.episodes.alternatives`` answers each line of its standard input, an
:class:`AnalysisRequest` as JSON, with a line of JSON, until the input ends. It runs at the lowest priority,
so processes that play episodes come first.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from spectator.catalog import LoadWorld, load_world
from spectator.environments.contract import Analyst
from spectator.errors import ConfigurationError, EpisodeError, InvalidRequest

NICENESS: Final = 19
"""By how much the priority is lower than that of whoever started the program: as low as it can be."""


class AnalysisDiverged(EpisodeError):
    """A world does not come to a decision as it is recorded, or has nobody to weigh it."""


@dataclass(frozen=True, slots=True)
class DecisionOnRecord:
    """One decision of a record.

    Args:
        seq: Number of its event.
        actor: Who made it.
        action: What was decided.
    """

    seq: int
    actor: str
    action: Mapping[str, Any]


@dataclass(slots=True)
class DecisionsOnRecord:
    """Where an episode began, and what was decided in it: all that leads to any decision again.

    Args:
        started: Data of its first event; empty while that is not read.
        decisions: The decisions, in order.
    """

    started: Mapping[str, Any] = field(default_factory=dict)
    decisions: list[DecisionOnRecord] = field(default_factory=list)

    def read(self, lines: Sequence[bytes]) -> None:
        """Take the next events of the record, one a line; most need not be decoded."""
        for line in lines:
            if self.started and b'"decision.made"' not in line:
                continue
            event = json.loads(line)
            if event["type"] == "episode.started":
                self.started = event["data"]
            elif event["type"] == "decision.made":
                data = event["data"]
                self.decisions.append(DecisionOnRecord(event["seq"], data["actor"], data["action"]))


@dataclass(frozen=True, slots=True)
class AnalysisRequest:
    """A decision of which somebody wants to know what else there was.

    Args:
        episode_id: Of which episode.
        world: Name of its world.
        seed: Its seed.
        options: Its options.
        actors: Who made each decision, that one last.
        actions: What was decided, likewise.
    """

    episode_id: str
    world: str
    seed: int
    options: Mapping[str, Any]
    actors: Sequence[str]
    actions: Sequence[Mapping[str, Any]]

    @classmethod
    def of(cls, episode_id: str, made: DecisionsOnRecord, place: int) -> AnalysisRequest:
        """The decision at ``place`` among those of an episode."""
        until, begun = made.decisions[: place + 1], made.started
        return cls(
            episode_id, begun["environment"], begun["seed"], begun["options"],
            [one.actor for one in until], [one.action for one in until],
        )  # fmt: skip


class Analyses:
    """Brings a world's analyst to decisions; for a later one of the same episode it goes on from the last.

    Args:
        load: Finds worlds.
    """

    def __init__(self, load: LoadWorld = load_world) -> None:
        self._load = load
        self._episode: tuple[Any, ...] = ()
        self._analyst: Analyst | None = None
        self._done: list[Mapping[str, Any]] = []
        self._turn: str | None = None

    def alternatives(self, wanted: AnalysisRequest) -> dict[str, Any]:
        """What else could have been decided, as plain JSON; see :mod:`spectator.environments.contract`.

        Raises:
            AnalysisDiverged: The record does not lead there, or the world has no analyst.
        """
        before = list(wanted.actions[:-1])
        episode = wanted.episode_id, wanted.world, wanted.seed, wanted.options
        if self._analyst is None or episode != self._episode or before[: len(self._done)] != self._done:
            self._begin(wanted)
            self._episode = episode
        analyst = self._analyst
        assert analyst is not None, "it has begun"
        for action in before[len(self._done) :]:
            self._follows(wanted.actors[len(self._done)])
            self._turn = analyst.step(action).actor
            self._done.append(action)
        self._follows(wanted.actors[-1])
        return asdict(analyst.alternatives(wanted.actions[-1]))

    def _begin(self, wanted: AnalysisRequest) -> None:
        world = self._load(wanted.world)
        if world.analyst is None:
            raise AnalysisDiverged(f"{world.title} has nobody who weighs decisions")
        self._analyst, self._done = world.analyst(), []
        options = world.options_type.model_validate(wanted.options).model_dump()
        begun = self._analyst.reset(seed=wanted.seed, episode_id=wanted.episode_id, options=options)
        self._turn = begun.actor

    def _follows(self, actor: str) -> None:
        if self._turn != actor:
            place, asked = len(self._done) + 1, self._turn or "nobody"
            self._analyst = None
            raise AnalysisDiverged(f"decision {place} was made by {actor} where {asked} is asked now")


def answer(analyses: Analyses, asked: bytes) -> dict[str, Any]:
    """What one line of input is answered with: ``alternatives``, or ``error`` in words."""
    try:
        return {"alternatives": analyses.alternatives(AnalysisRequest(**json.loads(asked)))}
    except (AnalysisDiverged, ConfigurationError, InvalidRequest, ValueError) as error:
        return {"error": str(error)}


def main() -> None:
    """Answer until there is no more input."""
    if hasattr(os, "nice"):
        os.nice(NICENESS)
    analyses = Analyses()
    with suppress(BrokenPipeError):
        for asked in sys.stdin.buffer:
            told = json.dumps(answer(analyses, asked), allow_nan=False).encode()
            sys.stdout.buffer.write(told + b"\n")
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
