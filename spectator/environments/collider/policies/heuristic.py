"""The physicist by the textbook: one plan for every campaign, whatever the data say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from spectator.environments.collider.policies import judgement
from spectator.observations import Observation
from spectator.policies.base import Decision, ScriptedPolicy

Step = tuple[str, dict[str, Any], str]
Plan = Iterator[Step]


class PlannedPhysicist(ScriptedPolicy):
    """A physicist whose plan is a generator: it yields an action and reads what came of it.

    ``self.view`` is the newest observation's content, ``self.refused`` whether the last action was refused.
    """

    source = "heuristic"

    def __init__(self) -> None:
        self.view: Mapping[str, Any] = {}
        self.refused = False
        self._plan: Plan | None = None

    def choose(self, observation: Observation) -> Decision:
        """Take the next step of the plan; without one, conclude."""
        self.view, self.refused = observation.content, observation.refused is not None
        if self._plan is None or self.view["step_index"] == 0:
            self._plan = self.plan()
        tool, arguments, reason = next(self._plan, ("conclude_null", {}, "Nothing is left to be tried."))
        return Decision({"tool": tool, "arguments": arguments}, self.source, reason)  # type: ignore[arg-type]

    def plan(self) -> Plan:
        """The plan."""
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
        """What the last action showed."""
        result: Mapping[str, Any] = {} if self.refused else self.view["last_result"] or {}
        return result

    def finding(self, channel: str, kind: str) -> Mapping[str, Any]:
        """The newest result of a kind; empty when there is none."""
        found: Mapping[str, Any] = self.view["findings"].get(channel, {}).get(kind, {})
        return found

    def affordable(self, beam: Mapping[str, Any], money: float, days: float) -> float:
        """Luminosity that ``money`` and ``days`` buy, rounded down to three digits."""
        left = self.view["resource_usage"]["luminosity_remaining_fb"]
        most = min(money / beam["cost_musd_per_fb"], days / beam["days_per_fb"], left)
        return max(0.0, float(f"{0.995 * most:.3g}"))


CHANNELS: Final = 2
"""How many channels the textbook physicist has people for."""


class HeuristicPhysicist(PlannedPhysicist):
    """Cheapest beam, the first two channels, one run, one function, one look, and what it says."""

    def plan(self) -> Plan:
        """One run, two channels, one look."""
        beam = min(self.task["beams"], key=lambda beam: beam["cost_musd_per_fb"])
        offers = self.task["channels"][:CHANNELS]
        names = [each["name"] for each in offers]
        yield "configure_beam", {"sqrt_s_tev": beam["sqrt_s_tev"]}, "The cheapest luminosity."
        thresholds = judgement.suitable_thresholds(offers)
        yield "set_trigger", {"thresholds_gev": thresholds}, "Full efficiency over the window."
        days = self.view["resource_usage"]["days_remaining"] - 70.0
        luminosity = self.affordable(beam, 0.85 * self.budget, days)
        yield "allocate_luminosity", {"luminosity_fb": luminosity}, "Most of the money goes into data."
        yield "collect_collisions", {}, "Take the run."
        for name in names:
            yield "select_channel", {"channel": name}, "One of the first channels on the list."
            yield "build_invariant_mass", {"channel": name}, "Look at the blinded spectrum."
            yield "subtract_background", {"channel": name, "function": "dijet"}, "The usual function."
        yield "freeze_selection", {}, "Freeze before looking."
        for name in names:
            yield "unblind", {"channel": name}, "Open the box."
            yield "scan_bump", {"channel": name}, "Look for a bump."
        found = judgement.candidates_of(self.view["findings"])
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
        """Claim what the numbers allow."""
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
