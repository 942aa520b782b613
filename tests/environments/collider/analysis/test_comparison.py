from __future__ import annotations

import numpy as np
import pytest

from spectator.environments.collider.analysis.checks import InvalidAnalysis
from spectator.environments.collider.analysis.counting import expected_significance, template_fit
from spectator.environments.collider.analysis.shapes import gauss_bins
from spectator.environments.collider.analysis.significance import background_misfit, spurious_signal


def test_a_wrong_background_makes_up_a_signal_and_it_is_reported() -> None:
    edges = np.linspace(100, 160, 61)
    centres = 0.5 * (edges[1:] + edges[:-1])
    bent = 5000 * (centres / 100) ** -4 * (1 + 0.02 * np.sin(centres / 12))
    wide = spurious_signal(edges, np.random.default_rng(3).poisson(bent), 130.0, 3.0, background="cubic")
    assert set(wide.by_background) >= {"cubic"}
    flat = spurious_signal(edges, np.full(61 - 1, 500.0), 130.0, 1.5)
    assert set(flat.by_background) == {"exponential", "power_law", "quadratic", "cubic"}
    assert flat.signal < 0.2 * flat.nominal.signal_error


@pytest.mark.parametrize(
    ("bend", "peaks", "fits"),
    [
        (0.0, (130.0,), True),
        (0.0, (130.0, 115.0, 146.0), True),  # further peaks are no flaw of the background
        (0.4, (130.0,), False),
        (0.4, (), False),
    ],
    ids=["peak", "three peaks", "peak on a turn-on", "turn-on"],
)
def test_a_background_that_does_not_fit_takes_what_it_makes_up(
    bend: float, peaks: tuple[float, ...], fits: bool
) -> None:
    edges = np.linspace(100, 160, 121)
    centres = 0.5 * (edges[1:] + edges[:-1])
    expected = 4000 * (centres / 100) ** -4 * (1.0 - bend * np.exp(-((centres - 100) / 8.0)))
    expected += 600 * sum(gauss_bins(edges, mass, 1.0) for mass in peaks)
    counts = np.random.default_rng(4).poisson(expected)
    misfit = background_misfit(edges, counts, 130.0, 1.0, background="power_law")
    systematics = spurious_signal(edges, counts, 130.0, 1.0, background="power_law")
    assert misfit.fits is systematics.fits is fits
    assert (misfit.signal > 0.0) is not fits and systematics.signal >= misfit.signal


def test_templates_reach_the_counting_formula_in_one_bin() -> None:
    assert expected_significance([50.0], [100.0]) == pytest.approx(4.652, abs=1e-3)
    assert expected_significance([50.0], [100.0], 0.10) == pytest.approx(3.173, abs=0.15)


def test_a_template_fit_returns_what_was_put_in() -> None:
    rng = np.random.default_rng(2)
    signal, background = np.array([1.0, 9.0, 30.0, 9.0, 1.0]), np.full(5, 40.0)
    fits = [
        template_fit(rng.poisson(1.3 * signal + 1.05 * background), signal, background, 0.1)
        for _ in range(200)
    ]
    assert np.mean([fit.mu for fit in fits]) == pytest.approx(1.3, abs=0.12)
    assert np.mean([fit.background_pull for fit in fits]) == pytest.approx(0.35, abs=0.2)
    pulls = np.array([(fit.mu - 1.3) / fit.mu_error for fit in fits])
    assert 0.7 < pulls.std() < 1.2


def test_a_template_fit_of_a_deficit_claims_nothing() -> None:
    fit = template_fit([4, 2, 4], [0.5, 6.0, 0.5], [5.0, 5.0, 5.0])
    assert fit.mu < 0
    assert fit.z_observed == 0.0


@pytest.mark.parametrize(
    ("counts", "signal", "background", "mu", "error"),
    [
        ([0], [3.0], [1.0], -1 / 3, 1 / 6),
        ([0, 0], [3.0, 1.0], [1.0, 1.0], -1 / 3, 1 / 8),
        ([0], [0.5], [8.0], -16.0, 1.0),
    ],
)
def test_a_template_fit_at_its_edge_has_the_error_of_its_likelihood(
    counts: list[int], signal: list[float], background: list[float], mu: float, error: float
) -> None:
    """Without events -2 ln L rises by twice the signal: by 1 over half the inverse of the template."""
    fit = template_fit(counts, signal, background)
    assert fit.mu == pytest.approx(mu, rel=0.02)
    assert fit.mu_error == pytest.approx(error, rel=0.05)


def test_a_spurious_signal_without_events_under_the_peak_is_rejected() -> None:
    counts = np.zeros(60)
    counts[:20] = 100.0
    for mass in (130.0, 155.0):
        with pytest.raises(InvalidAnalysis, match=r"counts.*events under the peak"):
            spurious_signal(np.linspace(100.0, 160.0, 61), counts, mass, 1.5)


def test_four_events_that_leave_the_background_open_have_an_error() -> None:
    edges, counts = np.geomspace(1800.0, 5900.0, 25), np.zeros(24)
    counts[[2, 3, 11, 13]] = 1.0
    found = spurious_signal(edges, counts, 3425.0, 423.0, background="dijet")
    assert found.nominal.signal_error > 1.0 and 0.0 < found.nominal.z_local < 4.0


def test_a_bend_that_looks_like_a_broad_peak_is_allowed_for() -> None:
    """No family of four parameters describes it, so that comparing those shows nothing."""
    edges = np.geomspace(564.0, 4450.0, 98)
    u = np.log(np.sqrt(edges[1:] * edges[:-1]) / 2000.0)
    smooth = np.exp(-5.1 * u - 0.6 * u**2 + 0.9 * u**3) * np.diff(edges)
    counts = np.round(1e6 * smooth / smooth.sum())
    found = spurious_signal(edges, counts, 2500.0, 135.0, background="dijet")
    assert found.nominal.z_local > 5.0 and found.nominal.allowing_for(found.signal).z_local < 1.5


def test_a_likelihood_ratio_of_poor_descriptions_counts_no_more_than_the_yield() -> None:
    """Counts of a campaign without a resonance, of which an exponential makes a peak of 24 sigma."""
    counts = """5086 5531 5743 4976 4302 3392 2641 2074 1590 1194 957 714 514 430 329 239 234 189 133 90 59 66
        42 48 38 28 23 19 13 10 12 8 13 7 5 2 3 2 0 0 0 0""".split()
    edges = np.geomspace(70.1391, 584.923, 43)
    found = spurious_signal(edges, [*map(float, counts)], 365.21, 42.858, background="exponential")
    assert not found.fits and found.nominal.z_local > 20.0
    assert found.nominal.allowing_for(found.signal).z_local < 3.0
