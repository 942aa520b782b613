from __future__ import annotations

import numpy as np
import pytest

from spectator.environments.collider.analysis.checks import InvalidAnalysis
from spectator.environments.collider.analysis.mass_scan import (
    GlobalSignificance,
    dataset_digest,
    dataset_generator,
    global_significance,
)
from spectator.environments.collider.analysis.shapes import design, poisson_regression, z_of_p
from tests.hash_seeds import printed

EDGES = np.linspace(100.0, 160.0, 121)
BACKGROUND = 1500.0 * np.exp(-(EDGES[:-1] - 99.75) / 33.0)


def corrected(z: float, toys: int = 4000) -> GlobalSignificance:
    return global_significance(EDGES, BACKGROUND, z, 1.6, window_gev=(110, 150), toys=toys)


@pytest.mark.parametrize(
    ("local", "expected"), [(3.0, 1.79), (3.5, 2.45), (4.0, 3.06), (4.1, 3.18), (4.5, 3.65)]
)
def test_the_published_search_for_the_higgs_boson(local: float, expected: float) -> None:
    """CMS-PAS-HIG-12-015: 4.1 local is 3.2 global in 110-150 GeV."""
    assert corrected(local).z_global == pytest.approx(expected, abs=0.05)


def test_four_point_one_is_three_point_two() -> None:
    assert corrected(4.1).z_global == pytest.approx(3.20, abs=0.05)
    assert corrected(4.1, toys=400).z_global == pytest.approx(3.20, abs=0.06)


def test_the_bound_is_what_toys_say_directly() -> None:
    found = corrected(2.8, toys=20_000)
    assert found.p_toys == pytest.approx(found.p_global, rel=0.12)
    assert z_of_p(found.p_toys) == pytest.approx(found.z_global, abs=0.05)


def test_a_wider_search_costs_more_and_a_better_resolution_too() -> None:
    narrow = global_significance(EDGES, BACKGROUND, 4.0, 1.6, window_gev=(120, 130))
    sharp = global_significance(EDGES, BACKGROUND, 4.0, 0.8, window_gev=(110, 150))
    assert narrow.z_global > corrected(4.0).z_global > sharp.z_global
    assert sharp.upcrossings == pytest.approx(2 * corrected(4.0).upcrossings, rel=0.15)


def test_no_correction_helps_and_chance_is_at_most_one() -> None:
    for z in (-1.0, 0.0, 0.5, 2.0, 7.0):
        found = corrected(z, toys=100)
        assert found.z_global <= max(z, 0.0) + 1e-9
        assert 0 < found.p_global <= 1
        assert found.p_global >= found.p_local


def test_asking_again_gives_the_same_answer_and_other_data_another() -> None:
    assert corrected(4.0, toys=100) == corrected(4.0, toys=100)
    more = BACKGROUND + np.eye(120)[3]
    assert dataset_digest(EDGES, more) != dataset_digest(EDGES, BACKGROUND)
    first = dataset_generator(EDGES, BACKGROUND, "toys").random()
    assert first == dataset_generator(EDGES.tolist(), BACKGROUND.tolist(), "toys").random()
    assert first != dataset_generator(EDGES, BACKGROUND, "other").random()
    assert first != dataset_generator(EDGES, more, "toys").random()


def test_the_stream_of_a_spectrum_is_the_same_in_every_process() -> None:
    code = (
        "from spectator.environments.collider.analysis.mass_scan import dataset_generator;"
        "print(dataset_generator([1.0, 2.0, 3.0, 4.0], [5, 6, 7], 'toys').random())"
    )
    said = {printed(code, hash_seed) for hash_seed in (1, 2)}
    assert said == {f"{dataset_generator([1.0, 2.0, 3.0, 4.0], [5, 6, 7], 'toys').random()}\n"}


@pytest.mark.parametrize("background", ["quadratic", "cubic", "quartic"])
def test_a_billion_events_over_a_wide_range_are_corrected_too(background: str) -> None:
    """A start of the background fit far from the data once ended in bins of 1e60 events: no toys of those."""
    edges = np.geomspace(0.2, 200.0, 401)
    shape = np.exp(-0.05 * (edges[1:] + edges[:-1]))
    counts = np.random.default_rng(0).poisson(1e9 * shape / shape.sum()).astype(float)
    fit = poisson_regression(design(background, edges), counts, np.diff(edges))
    assert fit.converged and fit.expected.sum() == pytest.approx(counts.sum(), rel=1e-3)
    found = global_significance(edges, counts, 4.0, lambda mass: 0.015 * mass, background=background, toys=50)
    assert found.p_local < found.p_global < 1.0 and found.upcrossings > 1.0


def test_spectra_too_large_for_toys_are_rejected() -> None:
    with pytest.raises(InvalidAnalysis, match=r"counts.*toys can be drawn"):
        global_significance(EDGES, np.full(120, 1e19), 3.0, 1.6)
