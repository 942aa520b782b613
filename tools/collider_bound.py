"""Split the oracle's lead over the reference physicist into what can be had and what cannot.

Four policies play the same seeds: the reference; the best of several fair ones, chosen on other seeds; one
that knows where a resonance is, or that there is none, but has to measure and decide by the data; and the
oracle, which quotes the truth.

    python -m tools.collider_bound --seeds 200 --page
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from spectator.environments.collider import physicists
from spectator.environments.collider.nature import Nature, Particle
from spectator.environments.collider.physicists import OraclePhysicist, Plan
from spectator.environments.collider.reference_physicist import ReferencePhysicist
from spectator.environments.collider.scenarios import TIERS
from spectator.policies.policy import ScriptedPolicy
from tools.collider_skill import BOUND, PAGE, campaign, mean_of, with_section

CHOSEN_FROM: Final = 110_000
"""First seed on which the best fair policy is chosen."""

PLAYED_FROM: Final = 120_000
"""First seed of the figures."""


class KnownMassPhysicist(OraclePhysicist):
    """A physicist that knows channel and mass of a resonance; the claim is by its own measurement."""

    def _measure(self, nature: Nature, particle: Particle, name: str) -> Plan:
        spins: dict[str, float] = {}
        for tool, given, why in super()._measure(nature, particle, name):
            if tool == "fit_resonance":
                detector = next(e["detector"] for e in self.task["channels"] if e["name"] == name)
                for candle in self.task["candles"]:
                    if candle["detector"] == detector:
                        yield "calibrate_detector", {"candle": candle["name"]}, "Where does it lie exactly?"
            if tool == "submit_discovery_claim":
                yield tool, given | self._measured(name, spins), why
                continue
            yield tool, given, why
            if tool == "fit_resonance" and not self.task["real_data"]:
                yield "measure_angular", given, "Its spin."
                even = {"0": 0.0, "1": 0.0, "2": 0.0}
                spins = physicists.spin_chances(self.result.get("log_likelihood", even))

    def _measured(self, name: str, spins: Mapping[str, float]) -> dict[str, Any]:
        fit = self.finding(name, "fit")
        return {
            "mass_gev": fit["corrected_mass_gev"],
            "mass_error_gev": fit["corrected_error_gev"],
            "spin_probabilities": dict(spins),
            "other_masses_gev": [],
        }


def varied(first: float, second: float, within: float) -> type[ReferencePhysicist]:
    """Return the reference with other shares of money for its runs, and other excesses that it follows."""
    constants = {"shares": (first, second, 1.0), "within": within}
    return type("VariedPhysicist", (ReferencePhysicist,), constants)


FAIR: Final[Mapping[str, Callable[[], ScriptedPolicy]]] = {
    f"runs of {first:.0%} and {second:.0%}, follows within {within:g} sigma": varied(first, second, within)
    for first, second, within in (
        (0.6, 0.6, 1.5), (0.45, 0.6, 1.5), (0.75, 0.8, 1.5), (0.9, 0.9, 1.5), (0.6, 0.6, 0.7),
        (0.6, 0.6, 3.0), (0.75, 0.8, 3.0),
    )
}  # fmt: skip
"""Fair policies by what they do, the reference first; none sees more than the observation."""


def row(tier: str, chosen_on: int, seeds: Sequence[int]) -> str:
    """Return a tier's row of the table."""

    def scores(make: Callable[[], ScriptedPolicy], of: Sequence[int]) -> NDArray[np.float64]:
        return np.array([campaign(make(), seed, tier).score for seed in of])

    trial = range(CHOSEN_FROM, CHOSEN_FROM + chosen_on)
    best = max(FAIR, key=lambda name: scores(FAIR[name], trial).mean())
    reference, fair = scores(ReferencePhysicist, seeds), scores(FAIR[best], seeds)
    known, oracle = scores(KnownMassPhysicist, seeds), scores(OraclePhysicist, seeds)
    parts = (reference, fair - reference, known - fair, oracle - known)
    return f"| {tier} | " + " | ".join(mean_of(list(part)) for part in parts) + f" | {best} |"


WORDS: Final = """Means over {seeds} seeds of the scenario `mixed` with 95 % intervals, the seeds the same
for all. *Best fair*: the best of {fair} policies that see only the observation, chosen on {chosen} others.
*Known mass*: it knows channel and mass, and that there is nothing in a null, but it measures, and claims no
more than its data allow. What it adds is the price of not knowing where to look: a better search can win a
part of it. No fair policy can have what the oracle adds, which quotes the true mass and spin. Written by
`python -m tools.collider_bound --seeds {seeds} --chosen {chosen} --page`.

| tier | reference | best fair adds | known mass adds | the oracle adds | best fair policy |
|---|---|---|---|---|---|
"""


def main() -> None:
    """Print the table, and write it into the page if ``--page`` is given."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--chosen", type=int, default=100, help="seeds on which the fair policy is chosen")
    parser.add_argument("--page", action="store_true")
    asked = parser.parse_args()
    seeds = range(PLAYED_FROM, PLAYED_FROM + asked.seeds)
    rows = []
    for tier in TIERS:
        rows.append(row(tier, asked.chosen, seeds))
        print(rows[-1], flush=True)
    words = WORDS.format(seeds=asked.seeds, chosen=asked.chosen, fair=len(FAIR)) + "\n".join(rows)
    if asked.page:
        PAGE.write_text(with_section(PAGE.read_text(encoding="utf-8"), BOUND, words), encoding="utf-8")


if __name__ == "__main__":
    main()
