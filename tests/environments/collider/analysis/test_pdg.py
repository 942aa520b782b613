from __future__ import annotations

import pytest

from spectator.environments.collider.analysis.open_data import PDG


@pytest.mark.parametrize("name", PDG)
def test_the_table_is_that_of_the_particle_package(name: str) -> None:
    from particle import Particle

    known, held = Particle.from_pdgid(PDG[name].pdgid), PDG[name]
    assert known.mass is not None
    assert known.mass_upper is not None
    assert known.width is not None
    assert held.mass_gev == pytest.approx(known.mass / 1000, rel=1e-6)
    assert held.mass_error_gev == pytest.approx(known.mass_upper / 1000, rel=1e-6)
    assert held.width_gev == pytest.approx(known.width / 1000, rel=1e-3)
