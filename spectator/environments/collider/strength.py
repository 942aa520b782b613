"""Intervals for the strength of a signal with nuisance parameters: asymptotic, by toys, and Bayesian.

All experiments of one analysis are fitted at once, as arrays. Three methods answer the same question:

* ``asymptotic``: where twice the profile log-likelihood ratio is at most 1 (Wilks), cut at strength 0.
* ``toys``: the Neyman construction with the likelihood ratio as ordering (Feldman and Cousins,
  Phys. Rev. D 57 (1998) 3873). The nuisance parameters are profiled, and drawn from their priors in the toys
  (Cousins and Highland, Nucl. Instrum. Meth. A 320 (1992) 331).
* ``bayesian``: the shortest credible interval of a flat prior, with the nuisance parameters integrated out by
  importance sampling about each conditional fit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from spectator.environments.collider.analysis.checks import Floats

_STEPS: Final = 100
_ENOUGH: Final = 1e-11
"""Estimated distance to the minimum, in log-likelihood, at which a fit ends."""

_BATCH: Final = 4000
"""Fits at once, which bounds the memory."""

REACH: Final = 5.0
"""How far above the largest strength of the league an interval may reach."""

TOYS: Final = 4000
"""Toys for each strength; the coverage at one strength then has an error of 0.7 %."""

TOY_STRENGTHS: Final = (0.0, 0.15, 0.3, 0.5, 0.8, 1.3, 2.0, 3.0, 5.0)
"""Where toys are drawn; critical values in between are interpolated."""

SAMPLES: Final = 200
"""Pairs of samples of the nuisance parameters behind each value of a posterior."""


@dataclass(frozen=True, slots=True)
class StrengthFits:
    """Maximum-likelihood fits, one a row.

    Args:
        mu: The strengths; negative if there are fewer events than the background explains.
        theta: The nuisance parameters, in units of their errors.
        nll: Negative log-likelihood less that of a perfect description, with the constraints.
        information: Expected second derivatives by the nuisance parameters.
    """

    mu: Floats
    theta: Floats
    nll: Floats
    information: Floats


@dataclass(frozen=True, slots=True)
class StrengthModel:
    """Expected counts by strength and nuisance parameters; each parameter is standard normal.

    Args:
        signal: Events of each bin at strength 1.
        background: Background events of each bin.
        signal_rate: Logarithm of the signal's factor for one unit of each parameter.
        background_rate: The same of the background.
        signal_shape: Logarithm of the weight of each bin for one unit of each parameter; (parameters, bins).
        background_shape: The same of the background.
    """

    signal: Floats
    background: Floats
    signal_rate: Floats
    background_rate: Floats
    signal_shape: Floats
    background_shape: Floats

    def samples(self, theta: Floats) -> tuple[Floats, Floats]:
        """Return the signal at strength 1 and the background, each (..., bins), at ``theta``."""
        signal = _scaled(self.signal, self.signal_rate, self.signal_shape, theta)
        return signal, _scaled(self.background, self.background_rate, self.background_shape, theta)

    def expected(self, mu: Floats, theta: Floats) -> Floats:
        """Return the expected counts, one row for each strength and row of ``theta``."""
        signal, background = self.samples(theta)
        return mu[..., None] * signal + background

    def nll(self, counts: Floats, mu: Floats, theta: Floats) -> Floats:
        """Return the negative log-likelihood of each row; infinite if a bin expects no events."""
        expected = self.expected(mu, theta)
        valid = (expected > 0).all(axis=-1)
        safe = np.where(expected > 0, expected, 1.0)
        ratio = np.where(counts > 0, counts, safe) / safe
        gap = (safe - counts + counts * np.log(ratio)).sum(axis=-1)
        return np.where(valid, gap + 0.5 * (theta**2).sum(axis=-1), np.inf)

    def fit(self, counts: Floats, mu: Floats | None = None) -> StrengthFits:
        """Fit each row of ``counts``; ``mu`` fixes the strength of each.

        Fisher scoring; a step that does not improve is halved.
        """
        batches = [slice(start, start + _BATCH) for start in range(0, len(counts), _BATCH)]
        parts = [self._fit(counts[at], None if mu is None else mu[at]) for at in batches]
        columns = ([getattr(one, name) for one in parts] for name in StrengthFits.__slots__)
        return StrengthFits(*(np.concatenate(column) for column in columns))

    def _fit(self, counts: Floats, mu: Floats | None) -> StrengthFits:
        first = 0 if mu is None else 1
        point = np.zeros((len(counts), 1 + len(self.signal_rate)))
        point[:, 0] = 1.0 if mu is None else mu
        value = self.nll(counts, point[:, 0], point[:, 1:])
        moving = np.arange(len(counts))
        for _ in range(_STEPS):
            gradient, information = self._slope(counts[moving], point[moving])
            gradient, information = gradient[:, first:], information[:, first:, first:]
            step = np.linalg.solve(information, gradient[:, :, None])[:, :, 0]
            far = (gradient * step).sum(axis=1) > _ENOUGH
            moving, step = moving[far], step[far]
            if not len(moving):
                break
            self._descend(counts, point, value, moving, step, first)
        information = self._slope(counts, point)[1][:, 1:, 1:]
        return StrengthFits(point[:, 0], point[:, 1:], value, information)

    def _descend(
        self, counts: Floats, point: Floats, value: Floats, rows: Floats, step: Floats, first: int
    ) -> None:
        """Take the steps of some rows; halve each until it improves."""
        for _ in range(40):
            tried = point[rows].copy()
            tried[:, first:] -= step
            found = self.nll(counts[rows], tried[:, 0], tried[:, 1:])
            better = found <= value[rows]
            point[rows[better]], value[rows[better]] = tried[better], found[better]
            rows, step = rows[~better], step[~better] / 2.0
            if not len(rows):
                break

    def _slope(self, counts: Floats, point: Floats) -> tuple[Floats, Floats]:
        """Return the first derivatives and the expected second ones, strength first."""
        mu, theta = point[:, 0], point[:, 1:]
        signal, background = self.samples(theta)
        expected = mu[:, None] * signal + background
        rows = np.concatenate(
            [
                signal[:, None, :],
                _change(signal, self.signal_rate, self.signal_shape) * mu[:, None, None]
                + _change(background, self.background_rate, self.background_shape),
            ],
            axis=1,
        )
        gradient = (rows @ (1.0 - counts / expected)[:, :, None])[:, :, 0]
        gradient[:, 1:] += theta
        information = (rows / expected[:, None, :]) @ rows.swapaxes(1, 2)
        parameters = np.arange(1, rows.shape[1])
        information[:, parameters, parameters] += 1.0
        return gradient, information


def _scaled(nominal: Floats, rate: Floats, shape: Floats, theta: Floats) -> Floats:
    weight = nominal * np.exp(theta @ shape)
    total = nominal.sum() * np.exp(theta @ rate)
    return np.asarray(weight * (total / weight.sum(axis=-1))[..., None])


def _change(sample: Floats, rate: Floats, shape: Floats) -> Floats:
    """Return the derivatives of a sample by the parameters: (rows, parameters, bins)."""
    mean = (sample @ shape.T) / sample.sum(axis=1, keepdims=True)
    return np.asarray(sample[:, None, :] * (shape[None] + (rate - mean)[:, :, None]))


def _conditional(model: StrengthModel, counts: Floats, grid: Floats) -> StrengthFits:
    """Fit every experiment at every strength of the grid; experiments vary slowest."""
    return model.fit(np.repeat(counts, len(grid), axis=0), np.tile(grid, len(counts)))


def _signed_roots(model: StrengthModel, counts: Floats, grid: Floats, *, bounded: bool) -> Floats:
    """Return the signed root of the likelihood ratio: (experiments, grid), ascending along the grid.

    Args:
        bounded: Whether the best strength may not be negative.
    """
    best = model.fit(counts)
    at = _conditional(model, counts, grid).nll.reshape(len(counts), len(grid))
    least = np.where(best.mu < 0, at[:, 0], best.nll) if bounded else best.nll
    top = np.maximum(best.mu, 0.0) if bounded else best.mu
    ratio = np.maximum(2.0 * (at - least[:, None]), 0.0)
    return np.asarray(np.sign(grid - top[:, None]) * np.sqrt(ratio))


def _crossings(roots: Floats, grid: Floats) -> Floats:
    """Return where each row is within 1 of zero: (rows, 2)."""
    ascending = np.maximum.accumulate(roots, axis=1)
    return np.array([np.interp((-1.0, 1.0), row, grid) for row in ascending])


def _grid(largest: float) -> Floats:
    return np.linspace(0.0, largest + REACH, 41)


def asymptotic(model: StrengthModel, counts: Floats, largest: float) -> Floats:
    """Return the asymptotic intervals: (experiments, 2).

    An interval that is below 0 as a whole becomes the point 0.

    Args:
        largest: The largest true strength that is possible.
    """
    grid = _grid(largest)
    return _crossings(_signed_roots(model, counts, grid, bounded=False), grid)


def by_toys(
    model: StrengthModel, counts: Floats, largest: float, level: float, rng: np.random.Generator
) -> Floats:
    """Return the intervals of the Neyman construction: (experiments, 2)."""
    grid = _grid(largest)
    critical = [_critical(model, mu, level, rng) for mu in TOY_STRENGTHS]
    bound = np.maximum(np.interp(grid, TOY_STRENGTHS, critical), 1e-9)
    return _crossings(_signed_roots(model, counts, grid, bounded=True) / bound, grid)


def _critical(model: StrengthModel, mu: float, level: float, rng: np.random.Generator) -> float:
    """Return the root of the likelihood ratio that toys of a strength exceed with probability 1 - level."""
    theta = rng.standard_normal((TOYS, len(model.signal_rate)))
    toys = rng.poisson(model.expected(np.full(TOYS, mu), theta)).astype(np.float64)
    roots = _signed_roots(model, toys, np.array([0.0, mu]), bounded=True)[:, 1]
    return float(np.quantile(np.abs(roots), level))


def bayesian(
    model: StrengthModel, counts: Floats, largest: float, level: float, rng: np.random.Generator
) -> Floats:
    """Return the shortest credible intervals of a flat prior from 0 to ``largest``: (experiments, 2)."""
    grid, fine = np.linspace(0.0, largest, 41), np.linspace(0.0, largest, 3001)
    half = rng.standard_normal((SAMPLES, len(model.signal_rate)))
    normal = np.concatenate([half, -half])
    intervals = np.empty((len(counts), 2))
    for number, seen in enumerate(counts):
        density = np.interp(fine, grid, _log_marginal(model, seen, grid, normal))
        weights = np.exp(density - density.max())
        order = np.argsort(-weights, kind="stable")
        enough = int(np.searchsorted(np.cumsum(weights[order]), level * weights.sum())) + 1
        chosen = fine[order[:enough]]
        intervals[number] = chosen.min(), chosen.max()
    return intervals


def _log_marginal(model: StrengthModel, seen: Floats, grid: Floats, normal: Floats) -> Floats:
    """Return the log-likelihood of each strength with the nuisance parameters integrated out."""
    fits = _conditional(model, seen[None], grid)
    root = np.linalg.cholesky(fits.information)
    moved = np.linalg.solve(root.swapaxes(1, 2), np.broadcast_to(normal.T, (len(grid), *normal.T.shape)))
    theta = fits.theta[:, None, :] + moved.swapaxes(1, 2)
    mu = np.broadcast_to(grid[:, None], theta.shape[:2])
    weights = 0.5 * (normal**2).sum(axis=1) + fits.nll[:, None] - model.nll(seen, mu, theta)
    volume = np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1)
    return np.asarray(np.log(np.exp(weights).mean(axis=1)) - volume - fits.nll)
