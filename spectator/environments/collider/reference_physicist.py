"""Physicists that follow the data: the reference, and one that a learner can tune.

The reference surveys all channels, follows the best excess with new data, and checks it. The decisions of the
tunable one are numbers: runs, beam, trigger, cut, thresholds.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from spectator.environments.collider import physicists
from spectator.environments.collider.physicists import Candidate, Plan, PlannedPhysicist, Step
from spectator.environments.collider.task import BANDWIDTH_HZ

FUNCTIONS: Final = ("dijet", "cubic", "quartic")
"""Background functions in the order in which they are tried."""

GOOD_FIT: Final = 0.03
"""Least p-value of an accepted background."""

SHARES: Final = (0.6, 0.6, 1.0)
"""Share of the remaining money for the first, second and third run."""

SHIFTED_RUNS: Final = (False, True, False)
"""Runs with higher thresholds: false bumps of the trigger move with them."""

SHIFT_SIGMA: Final = 4.0
"""Resolutions by which those thresholds are higher."""

WITHIN: Final = 1.5
"""Excesses of other channels are followed if they are within this many sigma of the largest."""

CROWDED: Final = 1.3
"""Most of the bandwidth that the menu for this may ask for, as a factor."""

UNMISTAKABLE: Final = 20.0
"""Significance, in sigma, of a peak that counts even if the background does not fit."""

FURTHER: Final = 5.5
"""Local significance from which further peaks are claimed."""

HINT: Final = 2.0
"""Local significance from which an excess is followed."""


class ReferencePhysicist(PlannedPhysicist):
    """Survey, follow-up, check, measurement, claim; each step depends on the data so far.

    Args:
        without: Names of abilities to switch off, for the ablation: ``calibrate_detector``,
            ``optimise_selection``, ``subtract_background``, ``cross_check``, ``measure_angular``,
            ``request_theory_review``, ``request_systematics``, ``set_limit``, ``set_trigger``,
            ``follow_up``, ``channels``.
    """

    def __init__(self, without: Collection[str] = ()) -> None:
        super().__init__()
        self._without = frozenset(without)
        self._beam: Mapping[str, Any] = {}
        self._refuted: list[Candidate] = []

    def plan(self) -> Plan:
        """Plan the whole campaign."""
        self._refuted = []
        yield from self._choose_beam()
        names = [each["name"] for each in self.task["channels"]]
        if "channels" in self._without:
            names = names[:1]
        yield from self._run(0, names)
        yield from self._prepare(names)
        yield from self._open(names)
        for number in (1, 2):
            if self._settled() or ("follow_up" in self._without and number == 1):
                break
            chosen = self._promising(names)
            yield from self._run(number, chosen)
            if self.refused:
                break
            yield from self._open(chosen)
            yield from self._check_runs()
        yield from self._conclude(names)

    def _choose_beam(self) -> Plan:
        low, high = self.task["search_window_gev"]
        gains: Mapping[str, float] = {}
        if "request_theory_review" not in self._without:
            mass = float(f"{(low * high) ** 0.5:.5g}")
            yield (
                "request_theory_review",
                {"mass_gev": mass},
                "How do signal and background grow with energy?",
            )
            gains = self.result.get("energy_gain", {})
        days = self.view["resource_usage"]["days_remaining"] - 90.0
        self._beam = max(
            self.task["beams"],
            key=lambda beam: physicists.value_of(beam, gains, self.affordable(beam, 0.8 * self.budget, days)),
        )
        energy = self._beam["sqrt_s_tev"]
        yield "configure_beam", {"sqrt_s_tev": energy}, f"{energy:g} TeV buys the most significance."

    def _run(self, number: int, names: Sequence[str]) -> Plan:
        thresholds = self._thresholds(number, names)
        if thresholds != self.view["trigger"]["thresholds_gev"]:
            yield "set_trigger", {"thresholds_gev": thresholds}, self._why_trigger(number, names)
        reserve = 9.0 + 4.3 * len(self.task["channels"]) if number == 0 else 9.0
        money = SHARES[number] * max(0.0, self.budget - reserve)
        if "follow_up" in self._without:
            money = max(0.0, self.budget - reserve)
        days = self.view["resource_usage"]["days_remaining"] - (110.0 if number == 0 else 40.0)
        luminosity = self.affordable(self._beam, money, days)
        if luminosity < 0.005 * self.task["luminosity_fb"]:
            self.refused = True
            return
        yield (
            "allocate_luminosity",
            {"luminosity_fb": luminosity},
            f"{luminosity:g} fb^-1 now, the rest later.",
        )
        yield "collect_collisions", {}, "Take the run."

    def _thresholds(self, number: int, names: Sequence[str]) -> dict[str, float]:
        channels = [each for each in self.task["channels"] if each["name"] in names]
        if "set_trigger" in self._without:
            return {each["name"]: each["trigger_threshold_gev"] for each in channels}
        higher = SHIFT_SIGMA if SHIFTED_RUNS[number] and "cross_check" not in self._without else 0.0
        return physicists.suitable_thresholds(channels, higher)

    def _why_trigger(self, number: int, names: Sequence[str]) -> str:
        if number == 0:
            return "Full efficiency over the whole window, in every channel."
        return f"Follow {', '.join(names)}; other thresholds, so that a false bump would move."

    def _prepare(self, names: Sequence[str]) -> Plan:
        for name in names:
            yield "select_channel", {"channel": name}, "Nobody knows where it would show."
            if "optimise_selection" not in self._without and not self.task["real_data"]:
                yield from self._cut(name)
            yield "build_invariant_mass", {"channel": name}, "The spectrum, blinded."
            if "subtract_background" not in self._without and self.result.get("tuning_events", 0) >= 10:
                yield from self._background(name)
        yield "freeze_selection", {}, "Nothing changes after this."

    def _cut(self, name: str) -> Plan:
        yield "optimise_selection", {"channel": name, "cut": 0.25}, "What would each cut keep?"
        table = self.result.get("table")
        if not table:
            return
        cut = physicists.best_cut(table, self.result["tuning_events"])
        if cut != 0.25:
            yield "optimise_selection", {"channel": name, "cut": cut}, "The cut of the largest gain."

    def _background(self, name: str) -> Plan:
        tried: list[tuple[float, str]] = []
        for function in FUNCTIONS:
            yield "subtract_background", {"channel": name, "function": function}, "Does it describe the data?"
            if not self.result:
                return
            beside = self.result.get("sideband_p_value")
            fit = min(self.result["p_value"], 1.0 if beside is None else beside)
            if fit >= GOOD_FIT:
                return
            tried.append((fit, function))
        best = max(tried)[1]
        if best != FUNCTIONS[-1]:
            yield "subtract_background", {"channel": name, "function": best}, "The best of them."

    def _open(self, names: Sequence[str]) -> Plan:
        for name in names:
            yield "unblind", {"channel": name}, "Open the box."
            if not self.refused:
                yield "scan_bump", {"channel": name}, "Is there anything?"

    def _live(self) -> list[Candidate]:
        """Return candidates that no check has refuted, the largest first."""
        return [
            candidate
            for candidate in physicists.candidates_of(self.view["findings"])
            if not any(_same(candidate, refuted) for refuted in self._refuted)
        ]

    def _settled(self) -> bool:
        """Return whether an excess above 7 sigma in two runs makes more data needless."""
        live = self._live()
        return bool(live) and len(self.view["runs"]) > 1 and live[0].z_local > 7.0

    def _promising(self, names: Sequence[str]) -> list[str]:
        """Return channels worth the bandwidth: those of the largest excesses, or all."""
        live = [candidate for candidate in self._live() if candidate.z_local >= HINT]
        if not live or "follow_up" in self._without:
            return list(names)
        chosen: list[str] = []
        rate = 0.0
        offers = {each["name"]: each for each in self.task["channels"]}
        for candidate in live:
            if candidate.channel in chosen or candidate.z_local < live[0].z_local - WITHIN:
                continue
            offer = offers[candidate.channel]
            rate += physicists.rate_hz(offer, physicists.suitable_thresholds([offer])[candidate.channel])
            if chosen and rate > CROWDED * BANDWIDTH_HZ:
                break
            chosen.append(candidate.channel)
        return chosen

    def _check_runs(self) -> Plan:
        """Compare runs for the largest excesses, until one passes."""
        for _ in range(3):
            live = self._live()
            if not live or live[0].z_local < HINT:
                return
            first = live[0]
            if first.z_local < UNMISTAKABLE and not self.finding(first.channel, "scan").get("shape_ok"):
                self._refuted.append(first)
                continue
            opened = self.view["selection"]["channels"][first.channel]["opened_runs"]
            if "cross_check" in self._without or first.z_local < 3.0 or len(opened) < 2:
                return
            yield "cross_check", _at(first) | {"kind": "runs"}, "A false bump moves with the threshold."
            if not self.result or not physicists.is_inconsistent(self.result):
                return
            self._refuted.append(first)

    def _conclude(self, names: Sequence[str]) -> Plan:
        live = self._live()
        if not live or live[0].z_local < 3.3:
            yield from self._nothing(names)
            return
        best = live[0]
        if "request_systematics" not in self._without:
            yield "request_systematics", _at(best), "Could another background fake it?"
        yield "estimate_significance", _at(best), "How significant, wherever one looks?"
        found = dict(self.finding(best.channel, "significance"))
        if not found or found["z_global"] < 3.0:
            yield from self._nothing(names)
            return
        yield from self._measure(best, found)

    def _measure(self, best: Candidate, found: Mapping[str, Any]) -> Plan:
        if "calibrate_detector" not in self._without:
            detector = next(e["detector"] for e in self.task["channels"] if e["name"] == best.channel)
            for candle in self.task["candles"]:
                if candle["detector"] == detector:
                    yield "calibrate_detector", {"candle": candle["name"]}, "Where does it lie exactly?"
        yield "fit_resonance", _at(best), "Its mass."
        fit = dict(self.finding(best.channel, "fit"))
        spins = {}
        if "measure_angular" not in self._without and not self.task["real_data"]:
            yield "measure_angular", _at(best), "Its spin."
            spins = physicists.spin_chances(self.result.get("log_likelihood", {"0": 0.0, "1": 0.0, "2": 0.0}))
        if not fit:
            return
        yield self._claim(best, found, fit, spins)

    def _claim(
        self, best: Candidate, found: Mapping[str, Any], fit: Mapping[str, Any], spins: dict[str, float]
    ) -> Step:
        strengths = {
            name: max(
                (each["z_local"] for each in kinds["scan"]["candidates"] if _near(each, best)), default=0.5
            )
            for name, kinds in self.view["findings"].items()
            if "scan" in kinds
        }
        claim = {
            "kind": "discovery" if found["z_global"] >= 5.0 else "evidence",
            "channel": best.channel,
            "mass_gev": fit["corrected_mass_gev"],
            "mass_error_gev": fit["corrected_error_gev"],
            "z_local": found["z_local"],
            "z_global": found["z_global"],
            "probability": 0.999 if found["z_global"] >= 5.0 else 0.95,
            "channel_probabilities": physicists.channel_chances(strengths),
            "spin_probabilities": spins,
            "other_masses_gev": [
                each.mass_gev
                for each in self._live()
                if each.z_local >= FURTHER and not _near(asdict(each), best)
            ][:3],
        }
        return "submit_discovery_claim", claim, f"{found['z_global']:g} sigma global, and two runs agree."

    def _nothing(self, names: Sequence[str]) -> Plan:
        if "set_limit" not in self._without:
            low, high = self.task["search_window_gev"]
            mass = float(f"{(low * high) ** 0.5:.5g}")
            for name in names:
                yield "set_limit", {"channel": name, "mass_gev": mass}, "What can be excluded?"
        live = self._live()
        chance = 0.35 if live and live[0].z_local > 3.3 else 0.12
        yield "conclude_null", {"probability": chance}, "Nothing that would stand."


def _at(candidate: Candidate) -> dict[str, Any]:
    return {"channel": candidate.channel, "mass_gev": candidate.mass_gev}


def _same(one: Candidate, other: Candidate) -> bool:
    return one.channel == other.channel and abs(one.mass_gev / other.mass_gev - 1.0) < 0.035


def _near(found: Mapping[str, float], best: Candidate) -> bool:
    return abs(found["mass_gev"] / best.mass_gev - 1.0) < 0.04


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
    "trust_bad_fits", "calibrate", "cross_check", "systematics", "measure_spin", "set_limits",
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
        systematics: Whether other backgrounds are tried.
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
    systematics: bool
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
                yield "cross_check", at | {"kind": "runs"}, "Do the runs agree?"
                if self.result and physicists.is_inconsistent(self.result):
                    continue
            if self._by.systematics:
                yield "request_systematics", at, "Could another background fake it?"
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
