"""Physicists for reports: blind scripts, and a physicist whose decisions a learner searches.

The blind ones ignore the data: the best of them shows the score of a search without its data.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from spectator.environments.collider import physicists
from spectator.environments.collider.physicists import Candidate, Plan, PlannedPhysicist, suitable_thresholds


@dataclass(frozen=True, slots=True)
class BlindScript:
    """A plan that reads the task but ignores the data.

    Args:
        sqrt_s_tev: Beam energy.
        channels: Number of channels, counted from the first.
        threshold: Factor on the thresholds that suit the windows.
        share: Share of the budget that goes into runs.
        runs: Number of runs.
        cut: Bin of the score.
        function: Background function.
        ending: ``null``, ``limits`` (null after setting limits), or a claim at ``place``.
        place: Claimed mass: 0 at the low end of the search window, 1 at the high end.
        error: Quoted relative error of the mass.
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
"""Values that the search for the best script tries."""


def drawn(source: random.Random) -> BlindScript:
    """Draw a random script."""
    return BlindScript(**{name: source.choice(values) for name, values in CHOICES.items()})


def varied(script: BlindScript, source: random.Random) -> BlindScript:
    """Return ``script`` with one or two choices changed."""
    names = source.sample(sorted(CHOICES), source.choice((1, 2)))
    changes: dict[str, Any] = {name: source.choice(CHOICES[name]) for name in names}
    return replace(script, **changes)


class BlindPhysicist(PlannedPhysicist):
    """A physicist that plays a :class:`BlindScript`.

    Args:
        script: The script.
    """

    def __init__(self, script: BlindScript) -> None:
        super().__init__()
        self._script = script

    def plan(self) -> Plan:
        """Play the script."""
        script = self._script
        offers = self.task["channels"][: script.channels]
        names = [each["name"] for each in offers]
        beam = next(each for each in self.task["beams"] if each["sqrt_s_tev"] == script.sqrt_s_tev)
        yield "configure_beam", {"sqrt_s_tev": script.sqrt_s_tev}, ""
        suited = suitable_thresholds(offers)
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
        yield "estimate_significance", at, ""
        yield "fit_resonance", at, ""
        claim = {
            "kind": script.ending,
            "mass_error_gev": script.error * mass,
            "z_local": 5.5,
            "z_global": 5.1,
        }
        yield "submit_discovery_claim", at | claim, ""


TUNABLE_FUNCTIONS: Final = ("", "exponential", "cubic", "quartic", "dijet")
"""Background functions to choose from; ``""`` leaves the choice to the library."""

MIN_RUN_SHARE: Final = 0.1
"""Least share of the remaining budget for a second run; a smaller one is skipped."""

RANGES: Final[Mapping[str, tuple[float, float]]] = {
    "first_share": (0.05, 0.95),
    "second_share": (0.0, 0.95),
    "energy_exponent": (-1.0, 3.0),
    "threshold": (0.2, 0.8),
    "second_threshold": (0.8, 1.4),
    "cut": (0.0, 0.875),
    "channels": (0.0, 1.0),
    "follow_z": (0.0, 6.0),
    "look_z": (0.0, 6.0),
    "evidence_z": (1.0, 6.0),
    "discovery_z": (2.0, 8.0),
    "error_factor": (0.2, 5.0),
    "null_probability": (0.0, 1.0),
}
"""Smallest and largest value of each continuous decision of :class:`Decisions`."""

SWITCHES: Final = (
    "trust_bad_fits", "calibrate", "cross_check", "measure_spin", "set_limits",
)  # fmt: skip
"""Yes-or-no decisions of :class:`Decisions`."""

SIZE: Final = len(RANGES) + len(SWITCHES) + len(TUNABLE_FUNCTIONS)
"""Number of numbers that encode :class:`Decisions`."""


@dataclass(frozen=True, slots=True)
class Decisions:
    """Decisions of a :class:`TunablePhysicist`.

    Args:
        first_share: Share of money and days for the first run.
        second_share: Share of the rest for the second run.
        energy_exponent: Power of the beam energy in its weight; the luminosity has power 0.5.
        threshold: Trigger threshold over the low end of the fitted masses.
        second_threshold: Factor on the threshold in the second run.
        cut: Least score that is kept.
        channels: Share of the channels to search, counted from the first.
        follow_z: Local significance from which the second run takes only the channels that have it.
        look_z: Local significance from which an excess is examined.
        evidence_z: Global significance from which evidence is claimed; below it, nothing.
        discovery_z: Global significance from which a discovery is claimed.
        error_factor: Factor on the fit's error of the mass in the claim.
        null_probability: Stated chance of a resonance if none is claimed.
        trust_bad_fits: Whether an excess counts if the background fits badly.
        calibrate: Whether known resonances calibrate the mass.
        cross_check: Whether runs are compared at an excess, which is dropped if they disagree.
        measure_spin: Whether decay angles are measured.
        set_limits: Whether limits are set if nothing is claimed.
        function: One of :data:`TUNABLE_FUNCTIONS`.
    """

    first_share: float
    second_share: float
    energy_exponent: float
    threshold: float
    second_threshold: float
    cut: float
    channels: float
    follow_z: float
    look_z: float
    evidence_z: float
    discovery_z: float
    error_factor: float
    null_probability: float
    trust_bad_fits: bool
    calibrate: bool
    cross_check: bool
    measure_spin: bool
    set_limits: bool
    function: str


def decisions_of(numbers: Sequence[float]) -> Decisions:
    """Map unbounded numbers to decisions.

    Args:
        numbers: ``SIZE`` of them: continuous decisions (0 is the middle of the range), switches (yes above
            0), then a weight for each function, of which the largest wins.

    Raises:
        ValueError: There are not ``SIZE`` numbers.
    """
    if len(numbers) != SIZE:
        raise ValueError(f"numbers must have {SIZE} values, not {len(numbers)}")
    given = iter(numbers)
    values: dict[str, Any] = {
        name: low + (high - low) / (1.0 + math.exp(-max(-30.0, min(30.0, next(given)))))
        for name, (low, high) in RANGES.items()
    }
    values |= {name: next(given) > 0.0 for name in SWITCHES}
    weights = list(given)
    return Decisions(**values, function=TUNABLE_FUNCTIONS[weights.index(max(weights))])


class TunablePhysicist(PlannedPhysicist):
    """A physicist with a fixed order of steps, parametrised by :class:`Decisions`.

    Args:
        decisions: The decisions.
    """

    def __init__(self, decisions: Decisions) -> None:
        super().__init__()
        self._by = decisions
        self._beam: Mapping[str, Any] = {}

    def plan(self) -> Plan:
        """Plan up to two runs, one frozen selection, and the conclusion."""
        by, offers = self._by, self.task["channels"]
        offers = offers[: max(1, math.ceil(by.channels * len(offers)))]
        days = self.view["resource_usage"]["days_remaining"]
        self._beam = max(
            self.task["beams"],
            key=lambda beam: (
                math.sqrt(self.affordable(beam, self.budget, days)) * beam["sqrt_s_tev"] ** by.energy_exponent
            ),
        )
        yield "configure_beam", {"sqrt_s_tev": self._beam["sqrt_s_tev"]}, "The beam of the largest weight."
        yield from self._run(offers, by.first_share, 1.0)
        names = [each["name"] for each in offers]
        yield from self._prepare(names)
        yield from self._look(names)
        if by.second_share >= MIN_RUN_SHARE:
            strong = {found.channel for found in self._candidates() if found.z_local >= by.follow_z}
            chosen = [each for each in offers if each["name"] in strong] or offers
            yield from self._run(chosen, by.second_share, by.second_threshold)
            yield from self._look([each["name"] for each in chosen])
        yield from self._conclude(names)

    def _run(self, offers: Sequence[Mapping[str, Any]], share: float, factor: float) -> Plan:
        thresholds = {
            each["name"]: float(f"{factor * self._by.threshold * each['fit_window_gev'][0]:.5g}")
            for each in offers
        }
        yield "set_trigger", {"thresholds_gev": thresholds}, "A fixed ratio to the masses that are fitted."
        days = self.view["resource_usage"]["days_remaining"]
        luminosity = self.affordable(self._beam, share * self.budget, share * days)
        if luminosity > 0.0:
            yield "allocate_luminosity", {"luminosity_fb": luminosity}, f"{share:.0%} of what is left."
            yield "collect_collisions", {}, "Take the run."

    def _prepare(self, names: Sequence[str]) -> Plan:
        for name in names:
            yield "select_channel", {"channel": name}, "One of the channels that are searched."
            cut = math.floor(8.0 * self._by.cut) / 8.0
            yield "optimise_selection", {"channel": name, "cut": cut}, "The usual cut."
            if self._by.function:
                arguments = {"channel": name, "function": self._by.function}
                yield "subtract_background", arguments, "The usual background."
        yield "freeze_selection", {}, "Freeze before looking."

    def _look(self, names: Sequence[str]) -> Plan:
        for name in names:
            yield "unblind", {"channel": name}, "Open the box."
            if not self.refused:
                yield "scan_bump", {"channel": name}, "Is there anything?"

    def _candidates(self) -> list[Candidate]:
        return [
            found
            for found in physicists.candidates_of(self.view["findings"])
            if self._by.trust_bad_fits or self.finding(found.channel, "scan").get("shape_ok")
        ]

    def _conclude(self, names: Sequence[str]) -> Plan:
        for found in self._candidates()[:2]:
            if found.z_local < self._by.look_z:
                break
            at = {"channel": found.channel, "mass_gev": found.mass_gev}
            if self._by.cross_check:
                yield "cross_check", at, "Do the runs agree?"
                if self.result and physicists.is_inconsistent(self.result):
                    continue
            yield "estimate_significance", at, "How significant, wherever one looks?"
            if self.result.get("z_global", 0.0) >= self._by.evidence_z:
                yield from self._claim(at, self.result)
            break
        if self._by.set_limits:
            low, high = self.task["search_window_gev"]
            for name in names:
                mass = float(f"{math.sqrt(low * high):.5g}")
                yield "set_limit", {"channel": name, "mass_gev": mass}, "What can be excluded?"
        yield "conclude_null", {"probability": self._by.null_probability}, "Not enough for a claim."

    def _claim(self, at: Mapping[str, Any], found: Mapping[str, Any]) -> Plan:
        if self._by.calibrate:
            detector = next(e["detector"] for e in self.task["channels"] if e["name"] == at["channel"])
            for candle in self.task["candles"]:
                if candle["detector"] == detector:
                    yield "calibrate_detector", {"candle": candle["name"]}, "Where does it lie exactly?"
        yield "fit_resonance", dict(at), "Its mass."
        fit, spins = self.finding(at["channel"], "fit"), {}
        if self._by.measure_spin:
            yield "measure_angular", dict(at), "Its spin."
            spins = physicists.spin_chances(self.result.get("log_likelihood", {"0": 0.0, "1": 0.0, "2": 0.0}))
        if not fit:
            return
        claim = {
            "kind": "discovery" if found["z_global"] >= self._by.discovery_z else "evidence",
            "channel": at["channel"],
            "mass_gev": fit["corrected_mass_gev"],
            "mass_error_gev": self._by.error_factor * fit["corrected_error_gev"],
            "z_local": found["z_local"],
            "z_global": found["z_global"],
            "probability": 0.95,
            "spin_probabilities": spins,
        }
        yield "submit_discovery_claim", claim, f"{found['z_global']:g} sigma global."
