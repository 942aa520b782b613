"""Captains with one plain weakness each: the lower rungs of the ladder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

from spectator.environments.cricket.captaincy.captains import Style, StyledCaptain
from spectator.environments.cricket.match.segments import Segment
from spectator.observations import Observation
from spectator.policies.base import Decision, Preset

BLOCKER: Final = Style(
    "blocker", "Stonewaller", "Guards the wicket from the first ball to the last, whatever is needed.",
    batting=(0.3, 0.3, 0.3),
)  # fmt: skip
NOVICE: Final = replace(
    BLOCKER,
    name="novice",
    label="Novice",
    summary="Hardly lifts the bat, and lets everybody bowl in turn, whoever is in.",
    batting=(0.15, 0.15, 0.15),
)


class UnbendingCaptain(StyledCaptain):
    """Keeps to its tempo whatever the rate.

    Args:
        style: How it plays.
        seed: Seed of its own generator, for the toss.
    """

    def _aggression(self, view: Mapping[str, Any]) -> float:
        """The style's own, hurried or not."""
        part: Segment = view["segment"]
        return self.style.batting[("powerplay", "middle", "death").index(part)]


class NoviceCaptain(UnbendingCaptain):
    """The same, and shares the bowling out: who has bowled least bowls next, in the order of the cards."""

    def choose(self, observation: Observation) -> Decision:
        """Decide what to do."""
        decision, view = super().choose(observation), observation.content
        asked = decision.action["arguments"]
        if "bowler" not in asked and "bowlers" not in asked:
            return decision
        name = _in_turn(view)
        arguments = asked | ({"bowler": name} if "bowler" in asked else {"bowlers": [name]})
        return Decision({**decision.action, "arguments": arguments}, "heuristic", f"It is {name}'s turn.")


def _in_turn(view: Mapping[str, Any]) -> str:
    """Who has bowled least of those who may, and usually do, bowl."""
    able = view["choices"]["bowlers"]
    own = [one for one in able if "occasional" not in one["kind"]] or able
    return str(min(own, key=lambda one: float(one["overs"]))["name"])


def _preset(style: Style, kind: type[StyledCaptain]) -> Preset:
    return Preset(style.name, style.label, style.summary, "heuristic", partial(kind, style))


WEAKER: Final = {
    style.name: _preset(style, kind) for style, kind in ((NOVICE, NoviceCaptain), (BLOCKER, UnbendingCaptain))
}
"""Presets by name, the weakest first."""
