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

from spectator.catalog import load_world
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


MOST_FOLLOWED: Final = 4
"""Episodes whose analysts are kept, since viewers of several may ask in turn."""


class Analyses:
    """Replays worlds' analysts up to a decision; continues for later decisions of the same episodes."""

    def __init__(self) -> None:
        self._followed: list[_FollowedDecisions] = []

    def alternatives(self, wanted: AnalysisRequest) -> dict[str, Any]:
        """Return the alternatives as plain JSON; see :mod:`spectator.environments.contract`.

        Raises:
            AnalysisDiverged: The record cannot be reproduced, or the world has no analyst.
        """
        known = next((one for one in self._followed if one.leads_to(wanted)), None)
        if known is not None:
            self._followed.remove(known)
        followed = known or _FollowedDecisions(wanted)
        found = followed.alternatives(wanted)
        self._followed = [*self._followed, followed][-MOST_FOLLOWED:]
        return found


class _FollowedDecisions:
    """An analyst and the decisions that it has followed."""

    def __init__(self, wanted: AnalysisRequest) -> None:
        world = load_world(wanted.world)
        if world.analyst is None:
            raise AnalysisDiverged(f"{world.title} does not support alternatives")
        self._analyst: Analyst = world.analyst()
        self._episode = _episode_of(wanted)
        self._done: list[Mapping[str, Any]] = []
        options = world.options_type.model_validate(wanted.options).model_dump()
        first = self._analyst.reset(seed=wanted.seed, episode_id=wanted.episode_id, options=options)
        self._turn = first.actor

    def leads_to(self, wanted: AnalysisRequest) -> bool:
        """Whether the decision is one of the same episode, and not before those followed."""
        before = list(wanted.actions[:-1])
        return _episode_of(wanted) == self._episode and before[: len(self._done)] == self._done

    def alternatives(self, wanted: AnalysisRequest) -> dict[str, Any]:
        for action in wanted.actions[len(self._done) : -1]:
            self._check_turn(wanted.actors[len(self._done)])
            self._turn = self._analyst.step(action).actor
            self._done.append(action)
        self._check_turn(wanted.actors[-1])
        decided, cards = wanted.actions[-1], wanted.cards
        found = self._analyst.alternatives(decided, cards) if cards else self._analyst.alternatives(decided)
        return asdict(found)

    def _check_turn(self, actor: str) -> None:
        if self._turn != actor:
            place, expected = len(self._done) + 1, self._turn or "no actor"
            raise AnalysisDiverged(f"{actor} made decision {place}, but the replay asks {expected}")


def _episode_of(wanted: AnalysisRequest) -> tuple[Any, ...]:
    return wanted.episode_id, wanted.world, wanted.seed, wanted.options


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
