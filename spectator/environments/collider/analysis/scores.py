"""The score test: the significance of a small signal at many masses at once, from one background fit.

For a signal of unit yield with share T_i in bin i on a fitted background b = exp(X beta), the score is
``sum T_i (n_i / b_i - 1)``; its variance is the information on the yield that the background's own
coefficients leave: ``T'(1/b)T - (T'X) (X'bX)^-1 (X'T)``. See Cowan, Cranmer, Gross and Vitells, EPJC 71
(2011) 1554, arXiv:1007.1727, for the likelihood ratio that it approximates.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spectator.environments.collider.analysis import normal
from spectator.environments.collider.analysis.checks import Floats


@dataclass(frozen=True, slots=True)
class ScoreTest:
    """What of a score test does not depend on the counts.

    Args:
        filters: One row a mass: the weight of each bin's excess over the background in z.
        errors: Standard deviation of the fitted yield at each mass.
    """

    filters: Floats
    errors: Floats


def gauss_templates(edges: Floats, masses: Floats, sigmas: Floats) -> Floats:
    """Share of a Gauss curve in each bin: one row a mass."""
    return np.diff(normal.cumulative((edges - masses[:, None]) / sigmas[:, None]), axis=1)


def score_test(templates: Floats, background: Floats, columns: Floats) -> ScoreTest:
    """Prepare the test for signals of the shapes ``templates`` (rows) on a fitted ``background``.

    Args:
        templates: Share of each bin, one row a mass.
        background: Expected events.
        columns: Design matrix of the background.
    """
    inverse = 1.0 / np.maximum(background, 1e-12)
    information = columns.T @ (background[:, None] * columns)
    information[np.diag_indices_from(information)] += 1e-9 * np.trace(information) + 1e-12
    crossed = templates @ columns
    solved = np.linalg.solve(information, crossed.T)
    own = (templates * templates) @ inverse
    left = np.maximum(own - np.einsum("ij,ji->i", crossed, solved), 1e-9 * own + 1e-300)
    projected = templates * inverse - (columns @ solved).T
    return ScoreTest(projected / np.sqrt(left)[:, None], 1.0 / np.sqrt(left))


def score_z(test: ScoreTest, counts: Floats, background: Floats) -> Floats:
    """Signed significance at each mass; ``counts`` may be a matrix with one column a spectrum."""
    excess = counts - (background[:, None] if counts.ndim == 2 else background)
    return np.asarray(test.filters @ excess)
