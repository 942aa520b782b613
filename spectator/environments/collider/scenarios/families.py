"""Kinds of search: where to look, in which channels, and what could be there.

A campaign's kind and its window are drawn before, and apart from, what is true: they tell nothing of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from spectator.environments.collider.physics.scaling import Initial


@dataclass(frozen=True, slots=True)
class Family:
    """A kind of search.

    Args:
        name: Its name.
        centre_gev: Range of the middle of the search window.
        channels: Channels on offer; the first sets the scale of the window.
        production: How a resonance would be made.
        spins: Spins it may have, where its channel allows them.
        budget_musd: Range of the budget.
        lowest_gev: No search window begins below this: known resonances lie there, which are not simulated.
    """

    name: str
    centre_gev: tuple[float, float]
    channels: tuple[str, ...]
    production: Initial
    spins: tuple[int, ...]
    budget_musd: tuple[float, float]
    lowest_gev: float = 0.0


FAMILIES: Final[Mapping[str, Family]] = {
    family.name: family
    for family in (
        Family("higgs_like", (115.0, 200.0),
               ("diphoton", "four_lepton", "dilepton_mumu", "bb", "dilepton_ee"),
               "gg", (0, 2), (100.0, 160.0), 110.0),
        Family("zprime", (400.0, 2000.0), ("dilepton_mumu", "dilepton_ee", "dijet", "bb"),
               "qq", (1, 0, 2), (90.0, 150.0)),
        Family("graviton", (400.0, 1500.0), ("diphoton", "dilepton_ee", "dilepton_mumu", "dijet"),
               "gg", (2, 0), (90.0, 150.0)),
        Family("dark_photon", (20.0, 36.0), ("dilepton_mumu", "dilepton_ee"), "qq", (1, 0),
               (60.0, 110.0), 12.0),
        Family("dijet_resonance", (1500.0, 3500.0), ("dijet", "dilepton_mumu", "dilepton_ee", "bb"),
               "qq", (1, 0, 2), (80.0, 140.0)),
    )
}  # fmt: skip
"""Kinds of search by name."""
