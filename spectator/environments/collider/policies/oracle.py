"""The physicist that knows the truth: it still has to measure it, and marks what a perfect plan is worth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from spectator.environments.collider.environment import ColliderEnvironment
from spectator.environments.collider.experiment import sensitivity
from spectator.environments.collider.experiment.nature import Nature, Particle
from spectator.environments.collider.physics import peaks
from spectator.environments.collider.physics.scaling import energy_gain
from spectator.environments.collider.policies import judgement
from spectator.environments.collider.policies.heuristic import Plan, PlannedPhysicist

WINDOW_SIGMA: Final = 7.0
"""Half of the window that it searches, in resolutions: it knows where to look."""


class OraclePhysicist(PlannedPhysicist):
    """Knows where the resonance is, in which channel, and whether there is one; no fair physicist."""

    source = "oracle"

    def __init__(self) -> None:
        super().__init__()
        self._nature: Nature | None = None

    def see(self, snapshot: bytes) -> None:
        """Take the world as it is; it stays the same all campaign long."""
        if self._nature is None:
            world = ColliderEnvironment()
            world.restore(snapshot)
            self._nature = world.laboratory.nature

    def plan(self) -> Plan:
        """One run where it matters."""
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
            key=lambda beam: judgement.value_of(
                beam, gains, self.affordable(beam, self.budget - reserve, days)
            ),
        )
        yield "configure_beam", {"sqrt_s_tev": beam["sqrt_s_tev"]}, "The beam that brings most."
        offers = [each for each in self.task["channels"] if each["name"] in names]
        yield "set_trigger", {"thresholds_gev": judgement.suitable_thresholds(offers)}, "Only what matters."
        money, days = self.budget - reserve, self.view["resource_usage"]["days_remaining"] - 70.0
        yield (
            "allocate_luminosity",
            {
                "luminosity_fb": self.affordable(beam, money, days),
                "tuning_fraction": 0.02,
            },
            "All of it.",
        )
        yield "collect_collisions", {}, "One run."

    def _choose(self, nature: Nature, name: str, window: list[float] | None) -> Plan:
        cuts = sensitivity.passing(nature, name)
        best = max(range(6), key=lambda cut: cuts[cut][0] ** 2 / max(cuts[cut][1], 0.02))
        yield "select_channel", {"channel": name}, "It is here."
        yield "optimise_selection", {"channel": name, "cut": best / peaks.SCORE_BINS}, "The best cut."
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
        yield "request_systematics", at, "As it must be."
        yield "estimate_significance", at, "How much is it?"
        found = dict(self.finding(name, "significance"))
        if found.get("z_global", 0.0) < 3.0:
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
