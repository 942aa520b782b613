"""The reference physicist, which follows the data.

It surveys all channels, follows the best excess with new data, and checks it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from spectator.environments.collider import physicists
from spectator.environments.collider.physicists import Candidate, Plan, PlannedPhysicist, Step
from spectator.environments.collider.reward import MEASURED_Z
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
            ``request_theory_review``, ``set_limit``, ``set_trigger``,
            ``follow_up``, ``channels``.
    """

    shares, within = SHARES, WITHIN

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
        money = self.shares[number] * max(0.0, self.budget - reserve)
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
            yield "build_invariant_mass", {"channel": name, **self._fitted(name)}, "The spectrum, blinded."
            if "subtract_background" not in self._without and self.result.get("tuning_events", 0) >= 10:
                yield from self._background(name)
        yield "freeze_selection", {}, "Nothing changes after this."

    def _fitted(self, name: str) -> dict[str, list[float]]:
        """Return the range to fit: above the turn-on of every threshold that is planned."""
        if self.task["real_data"]:
            return {}
        offer = next(each for each in self.task["channels"] if each["name"] == name)
        highest = max(self._thresholds(number, [name])[name] for number in (0, 1))
        return physicists.fit_window(offer, highest, self.task["search_window_gev"])

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
            if candidate.channel in chosen or candidate.z_local < live[0].z_local - self.within:
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
            yield "cross_check", _at(first), "A false bump moves with the threshold."
            if not self.result or not physicists.is_inconsistent(self.result):
                return
            self._refuted.append(first)

    def _conclude(self, names: Sequence[str]) -> Plan:
        live, published = self._live(), "published_z" in self.task
        if not live or live[0].z_local < (HINT if published else 3.3):
            yield from self._nothing(names)
            return
        best = live[0]
        yield "estimate_significance", _at(best), "How significant, wherever one looks?"
        found = dict(self.finding(best.channel, "significance"))
        if not found or (found["z_local"] < MEASURED_Z if published else found["z_global"] < 3.0):
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
        if "published_z" in self.task:
            return "submit_discovery_claim", claim, "It was published, and here it is."
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
