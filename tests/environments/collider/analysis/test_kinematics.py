"""Masses from momenta: against the formula, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from spectator.environments.collider.analysis import InvalidAnalysis, bin_masses, invariant_mass, pair_mass


def test_a_mass_does_not_change_with_the_frame() -> None:
    """Two massless particles: m^2 = 2 pt1 pt2 (cosh(eta1 - eta2) - cos(phi1 - phi2))."""
    rng = np.random.default_rng(3)
    pt, eta, phi = rng.uniform(1, 90, (2, 50)), rng.uniform(-3, 3, (2, 50)), rng.uniform(-3, 3, (2, 50))
    expected = np.sqrt(2 * pt[0] * pt[1] * (np.cosh(eta[0] - eta[1]) - np.cos(phi[0] - phi[1])))
    assert invariant_mass(pt, eta, phi, 0.0) == pytest.approx(expected, rel=1e-6)
    boosted = invariant_mass(pt, eta + 1.7, phi + 0.4, 0.0)
    assert boosted == pytest.approx(expected, rel=1e-6)
    assert pair_mass(pt[0], eta[0], phi[0], pt[1], eta[1], phi[1], 0.0) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (([[1.0]], [[711.0]], [[0.0]], 0.1), "eta"),
        (([[1.0]], [[np.nan]], [[0.0]], 0.1), "eta"),
        (([[-1.0]], [[0.0]], [[0.0]], 0.1), "pt_gev"),
        (([[1.0]], [[0.0]], [[0.0]], -0.1), "mass_gev"),
        (([[1.0]], [[0.0]], [[0.0, 1.0]], 0.1), "phi"),
    ],
)
def test_what_has_no_mass_is_refused_by_name(arguments: tuple[object, ...], field: str) -> None:
    with pytest.raises(InvalidAnalysis, match=field):
        invariant_mass(*arguments)  # type: ignore[arg-type]


def test_masses_outside_the_edges_are_not_counted() -> None:
    assert bin_masses([0.5, 1.0, 2.0, 3.0], [1.0, 2.0, 3.0]).tolist() == [1.0, 1.0]
    with pytest.raises(InvalidAnalysis, match="masses_gev"):
        bin_masses([np.inf], [1.0, 2.0])
