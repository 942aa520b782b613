"""Cross-validate the situation surface on held-out deliveries."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tools.cricket_model.fitting import situations
from tools.cricket_model.fitting.counts import Floats, counts_of, phase_of, read_rows

FOLDS = 5


@dataclass(frozen=True, slots=True)
class HeldOutLoss:
    """Mean log loss on held-out deliveries, in nats per delivery.

    Args:
        innings: 1 or 2.
        surface: Loss of the smooth surface.
        table: Loss of the table itself, with one count of the phase's shares added to every cell.
        phase: Loss of the shares by phase alone.
        deliveries: Deliveries held out over all folds.
    """

    innings: int
    surface: float
    table: float
    phase: float
    deliveries: int


def cross_validate(seed: int = 1) -> tuple[HeldOutLoss, HeldOutLoss]:
    """Cross-validate the surface in five folds of each cell's deliveries.

    The tables have no matches, so deliveries are split, not matches: this separates smoothing from over-
    fitting, but does not measure how well the model fits another season.
    """
    return _innings(1, np.random.default_rng(seed)), _innings(2, np.random.default_rng(seed))


def _innings(innings: int, rng: np.random.Generator) -> HeldOutLoss:
    rows = [row for row in read_rows("ball_outcomes_by_state.csv") if row["innings"] == str(innings)]
    counts = np.stack([counts_of(row) for row in rows])
    parts = np.stack([_split(rng, cell) for cell in counts], axis=1)
    losses, kept = np.zeros(3), 0.0
    for fold in range(FOLDS):
        held = parts[fold]
        known = counts - held
        surface = situations.fit_surface(innings == 2, known)
        shares = [
            np.stack([np.exp(surface(*situations.cell_of(row))) for row in rows]),
            _table_shares(rows, known, 1.0),
            _table_shares(rows, known, 1e12),
        ]
        losses += [-(held * np.log(share)).sum() for share in shares]
        kept += held.sum()
    surface_loss, table_loss, phase_loss = (float(loss / kept) for loss in losses)
    return HeldOutLoss(innings, surface_loss, table_loss, phase_loss, int(kept))


def _split(rng: np.random.Generator, cell: Floats) -> Floats:
    """Deal the deliveries of one cell into the folds, shape ``(folds, categories)``."""
    return np.stack([rng.multinomial(int(n), np.full(FOLDS, 1.0 / FOLDS)) for n in cell], axis=1).astype(
        np.float64
    )


def _table_shares(rows: list[dict[str, str]], counts: Floats, prior: float) -> Floats:
    of_phase = np.array([phase_of(int(row["over"])) for row in rows])
    shares = np.empty_like(counts)
    for phase in range(3):
        mean = counts[of_phase == phase].sum(axis=0) + 0.5
        mean /= mean.sum()
        cells = counts[of_phase == phase]
        shares[of_phase == phase] = (cells + prior * mean) / (cells.sum(axis=1, keepdims=True) + prior)
    return shares
