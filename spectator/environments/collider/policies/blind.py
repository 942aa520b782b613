"""Physicists that ignore what they see: what a search for the best of them is worth, the data are not."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from spectator.environments.collider.policies import judgement
from spectator.environments.collider.policies.heuristic import Plan, PlannedPhysicist


@dataclass(frozen=True, slots=True)
class BlindScript:
    """A plan that is the same whatever the data say; it reads the task, which is the same for all of them.

    Args:
        sqrt_s_tev: Beam energy.
        channels: How many channels it analyses, the first ones.
        threshold: Factor on the thresholds that suit the windows.
        share: Share of the budget that goes into runs.
        runs: How many runs.
        cut: Bin of the score.
        function: Background function.
        ending: What it says in the end: ``null``, with limits or at once, or a claim at ``place``.
        place: Where in the search window it claims, 0 at the low end and 1 at the high one.
        error: Relative error of the mass that it quotes.
    """

    sqrt_s_tev: float = 13.0
    channels: int = 5
    threshold: float = 1.0
    share: float = 0.7
    runs: int = 1
    cut: int = 2
    function: str = "dijet"
    ending: Literal["null", "limits", "evidence", "discovery"] = "limits"
    place: float = 0.5
    error: float = 0.01


CHOICES: Final[dict[str, tuple[Any, ...]]] = {
    "sqrt_s_tev": (7.0, 8.0, 13.0, 14.0),
    "channels": (1, 2, 3, 5),
    "threshold": (0.6, 0.8, 1.0, 1.2, 1.5),
    "share": (0.05, 0.3, 0.5, 0.6, 0.7, 0.8),
    "runs": (1, 2, 3),
    "cut": (0, 1, 2, 3, 4, 5),
    "function": ("exponential", "power_law", "quadratic", "cubic", "quartic", "dijet"),
    "ending": ("null", "limits", "limits", "evidence", "discovery"),
    "place": (0.1, 0.3, 0.5, 0.7, 0.9),
    "error": (0.001, 0.01, 0.03, 0.2),
}
"""What the search varies."""


def drawn(source: random.Random) -> BlindScript:
    """Any script."""
    return BlindScript(**{name: source.choice(values) for name, values in CHOICES.items()})


def varied(script: BlindScript, source: random.Random) -> BlindScript:
    """``script`` with one or two things changed."""
    names = source.sample(sorted(CHOICES), source.choice((1, 2)))
    changes: dict[str, Any] = {name: source.choice(CHOICES[name]) for name in names}
    return replace(script, **changes)


class BlindPhysicist(PlannedPhysicist):
    """Plays a :class:`BlindScript`.

    Args:
        script: What to play.
    """

    def __init__(self, script: BlindScript) -> None:
        super().__init__()
        self._script = script

    def plan(self) -> Plan:
        """The script."""
        script = self._script
        offers = self.task["channels"][: script.channels]
        names = [each["name"] for each in offers]
        beam = next(each for each in self.task["beams"] if each["sqrt_s_tev"] == script.sqrt_s_tev)
        yield "configure_beam", {"sqrt_s_tev": script.sqrt_s_tev}, ""
        suited = judgement.suitable_thresholds(offers)
        thresholds = {name: script.threshold * value for name, value in suited.items()}
        yield "set_trigger", {"thresholds_gev": thresholds}, ""
        money = script.share * self.task["budget_musd"] / script.runs
        days = 0.6 * self.task["days"] / script.runs
        for _ in range(script.runs):
            yield "allocate_luminosity", {"luminosity_fb": max(0.001, self.affordable(beam, money, days))}, ""
            yield "collect_collisions", {}, ""
        for name in names:
            yield "select_channel", {"channel": name}, ""
            yield "optimise_selection", {"channel": name, "cut": script.cut / 8}, ""
            yield "subtract_background", {"channel": name, "function": script.function}, ""
        yield "freeze_selection", {}, ""
        yield from self._end(names)

    def _end(self, names: list[str]) -> Plan:
        script = self._script
        low, high = self.task["search_window_gev"]
        mass = float(f"{low * (high / low) ** script.place:.6g}")
        if script.ending in ("null", "limits"):
            for name in names:
                yield "unblind", {"channel": name}, ""
                if script.ending == "limits":
                    yield "set_limit", {"channel": name, "mass_gev": mass}, ""
            yield "conclude_null", {"probability": 0.5}, ""
            return
        at = {"channel": names[0], "mass_gev": mass}
        yield "unblind", {"channel": names[0]}, ""
        yield "request_systematics", at, ""
        yield "estimate_significance", at, ""
        yield "fit_resonance", at, ""
        claim = {
            "kind": script.ending,
            "mass_error_gev": script.error * mass,
            "z_local": 5.5,
            "z_global": 5.1,
        }
        yield "submit_discovery_claim", at | claim, ""
