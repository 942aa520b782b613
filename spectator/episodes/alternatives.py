"""Evaluate the alternatives to a decision in a recorded episode.

``python -m spectator.episodes.alternatives`` answers each line of its standard input, an
:class:`AnalysisRequest` as JSON, with a line of JSON, until the input ends. It runs at the lowest priority,
so that it does not slow down processes that play episodes.
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
"""Added to the niceness of the parent process: the lowest possible priority."""


class AnalysisDiverged(EpisodeError):
    """A world cannot reproduce the recorded decisions, or does not support alternatives."""


@dataclass(frozen=True, slots=True)
class DecisionOnRecord:
    """One recorded decision."""

    seq: int
    actor: str
    action: Mapping[str, Any]


@dataclass(slots=True)
class DecisionsOnRecord:
    """The start and the decisions of an episode: enough to reproduce any of its decisions.

    Args:
        started: Data of the first event; empty until it is read.
        decisions: The decisions, in order.
    """

    started: Mapping[str, Any] = field(default_factory=dict)
    decisions: list[DecisionOnRecord] = field(default_factory=list)

    def read(self, lines: Sequence[bytes]) -> None:
        """Read the next recorded events, one per line; most need no decoding."""
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
    """A request for the alternatives to one decision.

    Args:
        seed: Its seed.
        actors: Who made each decision up to the requested one.
        actions: The action of each of these decisions.
        cards: Actions to evaluate as well.
    """

    episode_id: str
    world: str
    seed: int
    options: Mapping[str, Any]
    actors: Sequence[str]
    actions: Sequence[Mapping[str, Any]]
    cards: Sequence[Mapping[str, Any]] = ()

    @classmethod
    def of(cls, episode_id: str, made: DecisionsOnRecord, place: int) -> AnalysisRequest:
        """Make the request for the decision at index ``place`` of an episode."""
        until, started = made.decisions[: place + 1], made.started
        return cls(
            episode_id, started["environment"], started["seed"], started["options"],
            [one.actor for one in until], [one.action for one in until],
        )  # fmt: skip


class Analyses:
    """Replays a world's analyst up to a decision; continues for later decisions of the same episode."""

    def __init__(self, load: LoadWorld = load_world) -> None:
        self._load = load
        self._episode: tuple[Any, ...] = ()
        self._analyst: Analyst | None = None
        self._done: list[Mapping[str, Any]] = []
        self._turn: str | None = None

    def alternatives(self, wanted: AnalysisRequest) -> dict[str, Any]:
        """Return the alternatives as plain JSON; see :mod:`spectator.environments.contract`.

        Raises:
            AnalysisDiverged: The record cannot be reproduced, or the world has no analyst.
        """
        before = list(wanted.actions[:-1])
        episode = wanted.episode_id, wanted.world, wanted.seed, wanted.options
        if self._analyst is None or episode != self._episode or before[: len(self._done)] != self._done:
            self._begin(wanted)
            self._episode = episode
        analyst = self._analyst
        assert analyst is not None, "set by _begin"
        for action in before[len(self._done) :]:
            self._check_turn(wanted.actors[len(self._done)])
            self._turn = analyst.step(action).actor
            self._done.append(action)
        self._check_turn(wanted.actors[-1])
        decided = wanted.actions[-1]
        found = analyst.alternatives(decided, wanted.cards) if wanted.cards else analyst.alternatives(decided)
        return asdict(found)

    def _begin(self, wanted: AnalysisRequest) -> None:
        world = self._load(wanted.world)
        if world.analyst is None:
            raise AnalysisDiverged(f"{world.title} does not support alternatives")
        self._analyst, self._done = world.analyst(), []
        options = world.options_type.model_validate(wanted.options).model_dump()
        first = self._analyst.reset(seed=wanted.seed, episode_id=wanted.episode_id, options=options)
        self._turn = first.actor

    def _check_turn(self, actor: str) -> None:
        if self._turn != actor:
            place, expected = len(self._done) + 1, self._turn or "no actor"
            self._analyst = None
            raise AnalysisDiverged(f"{actor} made decision {place}, but the replay asks {expected}")


def answer(analyses: Analyses, line: bytes) -> dict[str, Any]:
    """Answer one line of input with ``alternatives``, or ``error`` in words."""
    try:
        return {"alternatives": analyses.alternatives(AnalysisRequest(**json.loads(line)))}
    except (AnalysisDiverged, ConfigurationError, InvalidRequest, ValueError) as error:
        return {"error": str(error)}


def main() -> None:
    """Answer until there is no more input."""
    if hasattr(os, "nice"):
        os.nice(NICENESS)
    analyses = Analyses()
    with suppress(BrokenPipeError):
        for line in sys.stdin.buffer:
            reply = json.dumps(answer(analyses, line), allow_nan=False).encode()
            sys.stdout.buffer.write(reply + b"\n")
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
