"""The account of looks: what every look at opened data costs in significance.

A look opens search data: a selection with its newest run, in any number of its channels. Look ``k`` may use
the share ``2 ** -k`` of the error that a campaign is allowed, in equal parts for each channel that was frozen
into its selection and holds data (also for those that the newest run leaves out: the others are chosen by
what was seen). So a p-value counts ``2 ** k x channels`` times: each look doubles the price. All shares of
any number of looks add up to at most 1: by the union bound the chance of a false claim holds under any
dependence between looks and any rule for stopping. The first look costs 0.13 sigma of five, the third 0.4,
the twentieth 2.3. Spending an error over looks: K. K. G. Lan and D. L. DeMets, Biometrika 70 (1983) 659;
shares fixed in advance: C. R. Genovese, K. Roeder, L. Wasserman, Biometrika 93 (2006) 509. Masses within the
window of a look are counted by Gross and Vitells (:mod:`mass_scan`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from spectator.environments.collider.analysis.shapes import p_of_z


@dataclass(frozen=True, slots=True)
class Look:
    """One look.

    Args:
        number: 1, 2, ... in the order in which they were taken.
        opened: What it opened; a look at the same again is the same look.
        channels: Channels that share it, opened or not.
    """

    number: int
    opened: str
    channels: int

    @property
    def trials(self) -> int:
        """How many times a p-value of this look counts."""
        return int(2**self.number * self.channels)


def charge(looks: list[Look], opened: str, channels: int) -> Look:
    """Return the look at what is opened; it is added to the account unless it was taken before."""
    known = next((look for look in looks if look.opened == opened), None)
    if known is None:
        known = Look(len(looks) + 1, opened, channels)
        looks.append(known)
    return known


def budget(looks: list[Look]) -> dict[str, Any]:
    """Return the account as JSON: the looks taken, the error left, and the price of the next look."""
    taken = len(looks)
    return {
        "taken": [{"look": look.number, "opened": look.opened, "trials": look.trials} for look in looks],
        "error_left": float(f"{2.0**-taken:.6g}"),
        "next_look_trials_per_channel": 2 ** (taken + 1),
    }


def global_p(z_local: float, upcrossings: float, trials: float) -> float:
    """Return the p-value over the window (Gross and Vitells) and the account of looks.

    >>> round(global_p(5.0, 0.0, 2) / global_p(5.0, 0.0, 1), 6)
    2.0
    """
    p = p_of_z(z_local) + upcrossings * math.exp(-0.5 * max(z_local, 0.0) ** 2)
    return min(1.0, trials * p)
