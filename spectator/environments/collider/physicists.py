"""Scripted physicists: textbook, random, and the oracle.

The oracle knows the truth but still has to measure: it shows the score of a perfect plan.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from spectator.environments.collider import physics, sensitivity
from spectator.environments.collider.environment import ColliderEnvironment
from spectator.environments.collider.nature import Nature, Particle
from spectator.environments.collider.physics import energy_gain
from spectator.observations import Observation
from spectator.policies.policy import Decision, ScriptedPolicy, generator_snapshot, restore_generator

TURN_ON: Final = 2.2 * 1.24
"""Mass, in thresholds, from which 97.7 % pass a trigger; from the task."""

TURNED_ON: Final = 2.2 * 1.36
"""Mass, in thresholds, from which 99.9 % pass: above it the spectrum does not bend."""

BROAD: Final = 0.03
"""Resolution from which the bend of a turn-on looks like a peak: a quarter of its width."""

MARGIN_SIGMA: Final = 3.0
"""Resolutions of the lower sideband that are left to the turn-on of the trigger."""

PRIOR_FOR_TRUE: Final = 3.5
"""Twice the logarithm of how much more often an excess is a resonance than a bump of the trigger."""

MAX_CUT: Final = 0.625
"""Largest cut; above it simulation and tuning sample are too uncertain."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """An excess that a scan showed: channel, mass as measured, local significance."""

    channel: str
    mass_gev: float
    z_local: float


def value_of(beam: Mapping[str, float], gains: Mapping[str, float], luminosity_fb: float) -> float:
    """Return the expected significance of a beam, up to a common factor.

    Args:
        gains: Cross section relative to 13 TeV, by keys like ``gg 8``; empty without a theory review.
    """
    energy = f"{beam['sqrt_s_tev']:g}"
    quarks = gains.get(f"qq {energy}", (beam["sqrt_s_tev"] / 13.0) ** 1.5)
    gluons = gains.get(f"gg {energy}", (beam["sqrt_s_tev"] / 13.0) ** 2)
    signal = math.sqrt(quarks * gluons)
    isolated = 1.0 - 0.002 * beam["pileup"]
    return (
        signal
        / math.sqrt(quarks)
        * isolated
        * math.sqrt(luminosity_fb / math.sqrt(1.0 + beam["pileup"] / 100.0))
    )


def suitable_thresholds(channels: Sequence[Mapping[str, Any]], higher_sigma: float = 0.0) -> dict[str, float]:
    """Return thresholds that keep the search window and most of the sidebands.

    Args:
        higher_sigma: Resolutions to add to the thresholds.
    """
    found = {}
    for each in channels:
        resolution, lowest = each["relative_resolution"], each["fit_window_gev"][0]
        highest = lowest * math.exp((MARGIN_SIGMA + higher_sigma) * resolution) / TURN_ON
        if resolution >= BROAD:
            searched = lowest * math.exp(physics.margin(resolution))
            highest = min(highest, searched / TURNED_ON)
        found[each["name"]] = float(f"{highest:.5g}")
    return found


def fit_window(
    channel: Mapping[str, Any], threshold_gev: float, searched_gev: Sequence[float]
) -> dict[str, list[float]]:
    """Return the argument that fits only masses above the turn-on of a trigger; empty if all can be fitted.

    Args:
        threshold_gev: The highest threshold of any run.
    """
    low, high = channel["fit_window_gev"]
    above = min(float(f"{TURNED_ON * threshold_gev:.5g}"), searched_gev[0])
    return (
        {"fit_window_gev": [above, high]} if above > low and channel["relative_resolution"] >= BROAD else {}
    )


def rate_hz(channel: Mapping[str, Any], threshold_gev: float) -> float:
    """Return the rate of a channel's trigger item."""
    return float(channel["trigger_rate_hz"] * (channel["trigger_threshold_gev"] / threshold_gev) ** 4)


def best_cut(table: Sequence[Sequence[float]], tuning_events: float) -> float:
    """Return the cut of the largest gain that leaves enough tuning events to fit.

    Args:
        table: Rows of cut, signal efficiency, background efficiency, gain.
        tuning_events: Events of the tuning sample without a cut.
    """
    fit = [row for row in table if row[2] * tuning_events >= 12.0 and row[0] <= MAX_CUT] or [table[1]]
    return float(max(fit, key=lambda row: row[3])[0])


def is_inconsistent(check: Mapping[str, float]) -> bool:
    """Return whether two samples suggest a bump that only one of them has."""
    one, two = check["first_value"], check["second_value"]
    first, second = check["first_error"], check["second_error"]
    both = (one - two) ** 2 / (first**2 + second**2)
    alone = min(one / first, two / second)
    return check["p_value"] < 0.003 or both > max(alone, 0.0) ** 2 + PRIOR_FOR_TRUE


def candidates_of(findings: Mapping[str, Any]) -> list[Candidate]:
    """Return the excesses of all scans, the largest first."""
    found = [
        Candidate(channel, each["mass_gev"], each["z_local"])
        for channel, kinds in findings.items()
        if "scan" in kinds
        for each in kinds["scan"]["candidates"]
    ]
    return sorted(found, key=lambda candidate: -candidate.z_local)


def spin_chances(likelihood: Mapping[str, float]) -> dict[str, float]:
    """Return the chances of the spins, with equal prior odds."""
    weights = {spin: math.exp(max(-60.0, value)) for spin, value in likelihood.items()}
    return _normalised({spin: weights.get(spin, 0.0) for spin in ("0", "1", "2")})


def channel_chances(strengths: Mapping[str, float]) -> dict[str, float]:
    """Return each channel's chance to be the one where the resonance shows best.

    Args:
        strengths: Significance of the excess in each, for equal exposure.
    """
    best = max(strengths.values())
    return _normalised({name: math.exp(1.2 * (value - best)) for name, value in strengths.items()})


def _normalised(weights: Mapping[str, float]) -> dict[str, float]:
    total = sum(weights.values())
    return {name: round(weight / total, 6) for name, weight in weights.items()}


Step = tuple[str, dict[str, Any], str]
Plan = Iterator[Step]


class PlannedPhysicist(ScriptedPolicy):
    """A physicist whose plan is a generator that yields actions and reads their results.

    ``self.view`` is the newest observation's content; ``self.refused`` is whether the last action was
    rejected.
    """

    source = "heuristic"

    def __init__(self) -> None:
        self.view: Mapping[str, Any] = {}
        self.refused = False
        self._plan: Plan | None = None

    def choose(self, observation: Observation) -> Decision:
        """Take the next step of the plan; at its end, conclude."""
        self.view, self.refused = observation.content, observation.refused is not None
        if self._plan is None or self.view["step_index"] == 0:
            self._plan = self.plan()
        tool, arguments, reason = next(self._plan, ("conclude_null", {}, "Nothing is left to be tried."))
        return Decision({"tool": tool, "arguments": arguments}, self.source, reason)  # type: ignore[arg-type]

    def plan(self) -> Plan:
        """Yield the steps of the plan."""
        raise NotImplementedError

    @property
    def task(self) -> Mapping[str, Any]:
        """The campaign's task."""
        task: Mapping[str, Any] = self.view["task"]
        return task

    @property
    def budget(self) -> float:
        """Money left."""
        return float(self.view["resource_usage"]["budget_remaining_musd"])

    @property
    def result(self) -> Mapping[str, Any]:
        """Result of the last action."""
        result: Mapping[str, Any] = {} if self.refused else self.view["last_result"] or {}
        return result

    def finding(self, channel: str, kind: str) -> Mapping[str, Any]:
        """Return the newest result of a kind; empty if there is none."""
        found: Mapping[str, Any] = self.view["findings"].get(channel, {}).get(kind, {})
        return found

    def affordable(self, beam: Mapping[str, Any], money: float, days: float) -> float:
        """Return the luminosity that ``money`` and ``days`` buy, to three digits."""
        left = self.view["resource_usage"]["luminosity_remaining_fb"]
        most = min(money / beam["cost_musd_per_fb"], days / beam["days_per_fb"], left)
        return max(0.0, float(f"{0.995 * most:.3g}"))


CHANNELS: Final = 2
"""Channels that the textbook physicist analyses."""


class HeuristicPhysicist(PlannedPhysicist):
    """The textbook plan: cheapest beam, first two channels, one run, one function, one look."""

    def plan(self) -> Plan:
        """Plan one run, two channels and one look."""
        beam = min(self.task["beams"], key=lambda beam: beam["cost_musd_per_fb"])
        offers = self.task["channels"][:CHANNELS]
        names = [each["name"] for each in offers]
        yield "configure_beam", {"sqrt_s_tev": beam["sqrt_s_tev"]}, "The cheapest luminosity."
        thresholds = suitable_thresholds(offers)
        yield "set_trigger", {"thresholds_gev": thresholds}, "Full efficiency over the window."
        days = self.view["resource_usage"]["days_remaining"] - 70.0
        luminosity = self.affordable(beam, 0.85 * self.budget, days)
        yield "allocate_luminosity", {"luminosity_fb": luminosity}, "Most of the money goes into data."
        yield "collect_collisions", {}, "Take the run."
        for offer in offers:
            name = offer["name"]
            above = fit_window(offer, thresholds[name], self.task["search_window_gev"])
            yield "select_channel", {"channel": name}, "One of the first channels on the list."
            yield "build_invariant_mass", {"channel": name, **above}, "Look at the blinded spectrum."
            yield "subtract_background", {"channel": name, "function": "dijet"}, "The usual function."
        yield "freeze_selection", {}, "Freeze before looking."
        for name in names:
            yield "unblind", {"channel": name}, "Open the box."
            yield "scan_bump", {"channel": name}, "Look for a bump."
        found = candidates_of(self.view["findings"])
        if not found:
            return
        best = {"channel": found[0].channel, "mass_gev": found[0].mass_gev}
        yield "estimate_significance", best, "How significant is it?"
        if self.finding(found[0].channel, "significance").get("z_global", 0.0) < 3.0:
            for name in names:
                yield "set_limit", {**best, "channel": name}, "What can be excluded?"
            return
        yield "fit_resonance", best, "Measure it."
        yield self.conclude(found[0].channel)

    def conclude(self, channel: str) -> Step:
        """Claim what the significance allows."""
        found, fit = self.finding(channel, "significance"), self.finding(channel, "fit")
        if not fit:
            return "conclude_null", {}, "The fit found nothing."
        claim = {
            "kind": "discovery" if found["z_global"] >= 5.0 else "evidence",
            "channel": channel,
            "mass_gev": fit["corrected_mass_gev"],
            "mass_error_gev": max(fit["corrected_error_gev"], 1e-6),
            "z_local": found["z_local"],
            "z_global": found["z_global"],
        }
        return "submit_discovery_claim", claim, f"{found['z_global']:g} sigma global."


ENDINGS = ("submit_discovery_claim", "conclude_null")


class RandomPhysicist(ScriptedPolicy):
    """A physicist that draws legal actions evenly; endings come late, or every campaign would end at once."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def choose(self, observation: Observation) -> Decision:
        """Draw an action."""
        view, legal = (
            observation.content,
            {each["tool"]: each["arguments"] for each in observation.legal_actions},
        )
        late = view["step_index"] >= 25 or self._random.random() < 0.02
        tools = [tool for tool in legal if late or tool not in ENDINGS]
        tool = self._random.choice(tools or list(legal))
        return Decision(
            {"tool": tool, "arguments": self._arguments(tool, legal[tool], view)}, "random", "drawn at random"
        )

    def snapshot(self) -> Any:
        """Return the state of the generator."""
        return generator_snapshot(self._random)

    def restore(self, snapshot: Any) -> None:
        """Restore the state of the generator."""
        restore_generator(self._random, snapshot)

    def _arguments(self, tool: str, schema: Mapping[str, Any], view: Mapping[str, Any]) -> dict[str, Any]:
        draw, task = self._random, view["task"]
        low, high = task["search_window_gev"]
        special: dict[str, Any] = {
            "thresholds_gev": {
                channel["name"]: round(channel["trigger_threshold_gev"] * draw.uniform(0.6, 1.6), 3)
                for channel in task["channels"]
            },
            "luminosity_fb": round(draw.uniform(0.05, 0.6) * task["luminosity_fb"], 2),
            "mass_gev": float(f"{math.exp(draw.uniform(math.log(low), math.log(high))):.5g}"),
            "mass_error_gev": float(f"{0.01 * low:.3g}"),
            "z_local": 5.0,
            "z_global": 5.0,
            "cut": draw.randrange(8) / 8,
        }
        required = schema.get("required", [])
        return {
            name: _within(special[name], rule) if name in special else self._any(rule)
            for name, rule in schema.get("properties", {}).items()
            if name in required
        }

    def _any(self, rule: Mapping[str, Any]) -> Any:
        if "enum" in rule:
            return self._random.choice(rule["enum"])
        return rule.get("default", 0.5)


def _within(value: Any, rule: Mapping[str, Any]) -> Any:
    """Return a number, moved to the nearest that its rule allows."""
    if not isinstance(value, float):
        return value
    return min(max(value, rule.get("minimum", value)), rule.get("maximum", value))


WINDOW_SIGMA: Final = 7.0
"""Half-width of the oracle's search window, in resolutions."""


class OraclePhysicist(PlannedPhysicist):
    """A physicist that reads the truth: whether, where and in which channel there is a resonance."""

    source = "oracle"

    def __init__(self) -> None:
        super().__init__()
        self._nature: Nature | None = None

    def see(self, snapshot: bytes) -> None:
        """Read the truth from the first snapshot; it does not change later."""
        if self._nature is None:
            world = ColliderEnvironment()
            world.restore(snapshot)
            self._nature = world.laboratory.nature

    def plan(self) -> Plan:
        """Plan one run in the right channel."""
        nature = self._nature
        if nature is None:
            return
        if nature.particles:
            yield from self._measure(nature, nature.particles[0], nature.primary)
        else:
            yield from self._exclude(nature)

    def _run(self, names: Sequence[str], reserve: float, particle: Particle | None) -> Plan:
        low, high = self.task["search_window_gev"]
        mass = particle.mass_gev if particle else (low * high) ** 0.5
        gains = {
            f"{initial} {beam['sqrt_s_tev']:g}": energy_gain(initial, mass, beam["sqrt_s_tev"])
            for beam in self.task["beams"]
            for initial in ("gg", "qq")
        }
        days = self.view["resource_usage"]["days_remaining"] - 70.0
        beam = max(
            self.task["beams"],
            key=lambda beam: value_of(beam, gains, self.affordable(beam, self.budget - reserve, days)),
        )
        yield "configure_beam", {"sqrt_s_tev": beam["sqrt_s_tev"]}, "The beam that brings most."
        offers = [each for each in self.task["channels"] if each["name"] in names]
        yield "set_trigger", {"thresholds_gev": suitable_thresholds(offers)}, "Only what matters."
        money, days = self.budget - reserve, self.view["resource_usage"]["days_remaining"] - 70.0
        yield (
            "allocate_luminosity",
            {"luminosity_fb": self.affordable(beam, money, days), "tuning_fraction": 0.02},
            "All of it.",
        )
        yield "collect_collisions", {}, "One run."

    def _choose(self, nature: Nature, name: str, window: list[float] | None) -> Plan:
        cuts = sensitivity.passing(nature, name)
        best = max(range(6), key=lambda cut: cuts[cut][0] ** 2 / max(cuts[cut][1], 0.02))
        yield "select_channel", {"channel": name}, "It is here."
        yield "optimise_selection", {"channel": name, "cut": best / physics.SCORE_BINS}, "The best cut."
        arguments: dict[str, Any] = (
            {"channel": name} if window is None else {"channel": name, "window_gev": window}
        )
        yield "build_invariant_mass", arguments, "Here and nowhere else."
        yield "subtract_background", {"channel": name, "function": "dijet"}, "The right function."

    def _measure(self, nature: Nature, particle: Particle, name: str) -> Plan:
        yield from self._run([name], 8.0, particle)
        offer = next(each for each in self.task["channels"] if each["name"] == name)
        seen = particle.mass_gev * nature.scale_at(offer["detector"], particle.mass_gev)
        reach = WINDOW_SIGMA * offer["relative_resolution"] * seen
        low, high = self.task["search_window_gev"]
        window = [max(low, round(seen - reach, 3)), min(high, round(seen + reach, 3))]
        yield from self._choose(nature, name, window)
        yield "freeze_selection", {}, "Frozen."
        yield "unblind", {"channel": name}, "Open."
        at = {"channel": name, "mass_gev": float(f"{seen:.6g}")}
        yield "estimate_significance", at, "How much is it?"
        found = dict(self.finding(name, "significance"))
        if found.get("z_global", 0.0) < 3.0 and "published_z" not in self.task:
            yield "conclude_null", {"probability": 1.0}, "There is one, and it cannot be shown."
            return
        yield "fit_resonance", at, "Its mass."
        fit = self.finding(name, "fit")
        yield (
            "submit_discovery_claim",
            {
                "kind": "discovery" if found["z_global"] >= 5.0 else "evidence",
                "channel": name,
                "mass_gev": particle.mass_gev,
                "mass_error_gev": 0.9 * fit["mass_error_gev"],
                "z_local": found["z_local"],
                "z_global": found["z_global"],
                "probability": 1.0,
                "spin_probabilities": {str(particle.spin): 1.0},
                "other_masses_gev": [other.mass_gev for other in nature.particles[1:]],
            },
            "It knew.",
        )

    def _exclude(self, nature: Nature) -> Plan:
        names = [each["name"] for each in self.task["channels"]]
        yield from self._run(names, 6.0 + 4.2 * len(names), None)
        for name in names:
            yield from self._choose(nature, name, None)
        yield "freeze_selection", {}, "Frozen."
        low, high = self.task["search_window_gev"]
        mass = float(f"{(low * high) ** 0.5:.5g}")
        for name in names:
            yield "unblind", {"channel": name}, "Open."
            yield "set_limit", {"channel": name, "mass_gev": mass}, "Exclude."
        yield "conclude_null", {"probability": 0.0}, "There is none."
