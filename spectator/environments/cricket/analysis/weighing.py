"""Weighs calls against each other by the same futures, and picks those worth looking at."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spectator.environments.alternatives import Alternative, Alternatives
from spectator.environments.cricket.analysis.words import call_words

SHOWN: Final = 5
"""Alternatives that are told, what was decided among them."""
OF_A_KIND: Final = 2
"""Of these that name the same tool, where there is another: five lengths of one plan say less than two."""

Outcomes = NDArray[np.float64]
"""Share of a win for whoever decides, in each future or row of futures, shape ``(n,)``."""


class Call(NamedTuple):
    """One call that was weighed.

    Args:
        tool: Its tool.
        given: Its arguments, as accepted.
        outcomes: What comes of it, beyond what :class:`Weighed` says of all.
        words: The call in words, where they do not follow from tool and arguments.
    """

    tool: str
    given: Mapping[str, Any]
    outcomes: Outcomes
    words: str = ""


class Weighed(NamedTuple):
    """All calls that were weighed at a decision.

    Args:
        calls: The calls.
        futures: How many futures were played.
        how: What is simulated, in a sentence.
        level: Chance that ``outcomes`` come on top of, and its standard error.
    """

    calls: Sequence[Call]
    futures: int
    how: str
    level: tuple[float, float] = (0.0, 0.0)


def best_of(weighed: Weighed, decided: Call) -> Alternatives:
    """The best calls and what was decided, best first.

    Args:
        weighed: What else there was.
        decided: What was decided, by the same futures.
    """
    others = [one for one in weighed.calls if not _same(one, decided)]
    ranked = sorted([decided, *others], key=lambda one: -float(one.outcomes.mean()))
    of_a_kind = OF_A_KIND if len({one.tool for one in others}) > 1 else SHOWN
    kept, kinds = [decided], Counter[str]()
    for one in ranked:
        if one is not decided and len(kept) < SHOWN and kinds[one.tool] < of_a_kind:
            kept.append(one)
            kinds[one.tool] += 1
    places = {id(one): place for place, one in enumerate(ranked, 1)}
    kept.sort(key=lambda one: places[id(one)])
    told = [_alternative(one, decided, places[id(one)], *weighed.level) for one in kept]
    return Alternatives(told, len(ranked), weighed.futures, weighed.how)


def _same(one: Call, decided: Call) -> bool:
    """Whether a call is what was decided, however that was spelt: it comes to the same in every future."""
    spelt_out = one.tool == decided.tool or bool(decided.words)  # what is set for the ball is in its words
    return spelt_out and np.array_equal(one.outcomes, decided.outcomes)


def _alternative(call: Call, decided: Call, place: int, level: float, level_error: float) -> Alternative:
    gain = call.outcomes - decided.outcomes
    return Alternative(
        action={"tool": call.tool, "arguments": _told(call.given)},
        words=call.words or call_words(call.tool, call.given),
        chance=min(1.0, max(0.0, level + float(call.outcomes.mean()))),
        error=math.hypot(level_error, _error(call.outcomes)),
        gain=float(gain.mean()),
        gain_error=_error(gain),
        played=call is decided,
        place=place,
    )


def _error(values: Outcomes) -> float:
    return float(values.std()) / math.sqrt(len(values))


def _told(given: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments without those left at nothing."""
    return {name: value for name, value in given.items() if value not in (None, "", [])}
