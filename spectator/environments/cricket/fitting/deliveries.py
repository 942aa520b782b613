"""Owns where balls pitch and fly: lengths, lines and shot directions with their effects on the outcome."""

from __future__ import annotations

import numpy as np

from spectator.environments.cricket.fitting.counts import PHASES, Floats, read_rows

KINDS = ("pace", "spin")
LEVERS = ("dot", "single", "two", "four", "six", "wicket", "wide")
"""The groups of categories that plans, fields and intent act on; run-outs, no-balls and byes are left
alone."""

_LENGTHS = {
    "pace": {
        "full toss": 0, "0-2 m": 1, "2-4 m": 2, "4-6 m": 2, "6-8 m": 3, "8-10 m": 4, "10+ m": 5,
    },
    "spin": {
        "full toss": 0, "0-2 m": 1, "2-4 m": 2, "4-6 m": 3, "6-8 m": 4, "8-10 m": 5, "10+ m": 5,
    },
}  # fmt: skip
_LINES = {
    "off >0.60": 0, "off 0.30-0.60": 1, "off 0.11-0.30": 1, "in line with stumps": 2,
    "leg 0.11-0.30": 3, "leg >0.30": 3,
}  # fmt: skip
_WIDE_BY_LINE = (2.6, 0.9, 0.35, 1.9)
"""How likely a ball of each line is called wide, before normalising; the tables hold no line for wides
(assumption)."""
_PRIOR_BALLS = 400.0
"""Each length's or line's rates are shrunk towards the phase mean by as many balls of it."""
_ZONE_PRIOR = 60.0


def _effects(
    rows: list[dict[str, str]], classes: dict[str, int], column: str, size: int
) -> tuple[Floats, Floats]:
    """Shares of the classes and their multipliers of the levers, each averaging to one over the shares."""
    n = np.zeros(size)
    rates = np.zeros((size, 4))
    for row in rows:
        weight = float(row["n"])
        n[classes[row[column]]] += weight
        rates[classes[row[column]]] += weight * np.array(
            [float(row[f"{name}_share"]) for name in ("dot", "four", "six", "wicket")]
        )
    mean = rates.sum(axis=0) / n.sum()
    shrunk = (rates + _PRIOR_BALLS * mean) / (n[:, None] + _PRIOR_BALLS)
    # Spatial tables count a wicket ball among the dots, so what is left after dots and boundaries ran.
    ran = 1.0 - shrunk[:, :3].sum(axis=1)
    share = (n + 1.0) / (n + 1.0).sum()
    levers = np.ones((size, len(LEVERS)))
    levers[:, [0, 3, 4, 5]] = shrunk
    levers[:, 1] = levers[:, 2] = ran
    return share, levers / (share[:, None] * levers).sum(axis=0)


def length_effects() -> tuple[Floats, Floats]:
    """Shares, shape ``(3 phases, 2 kinds, 6)``, and multipliers, shape ``(3, 2, 6, 7)``, of the lengths."""
    rows = read_rows("spatial_length.csv")
    pairs = [
        [
            _effects(
                [r for r in rows if r["phase"] == phase and r["bowler_kind"] == kind],
                _LENGTHS[kind],
                "length_from_stumps",
                6,
            )
            for kind in KINDS
        ]
        for phase in PHASES
    ]
    return np.array([[p[0] for p in row] for row in pairs]), np.array([[p[1] for p in row] for row in pairs])


def line_effects() -> tuple[Floats, Floats]:
    """Shares, shape ``(2 kinds, 4)``, and multipliers, shape ``(2, 4, 7)``, of the lines."""
    rows = read_rows("spatial_line.csv")
    shares, levers = [], []
    for kind in KINDS:
        share, lever = _effects(
            [row for row in rows if row["bowler_kind"] == kind], _LINES, "line_at_pitching", 4
        )
        wide = np.array(_WIDE_BY_LINE)
        lever[:, 6] = wide / (share * wide).sum()
        shares.append(share)
        levers.append(lever)
    return np.array(shares), np.array(levers)


def zone_shares() -> Floats:
    """Direction of each kind of hit, shape ``(3 phases, 2 kinds, 6 hits, 8 sectors)``: dot, 1, 2, 3, 4, 6."""
    rows = read_rows("spatial_zones.csv")
    shares = np.zeros((3, 2, 6, 8))
    for row in rows:
        at = (PHASES.index(row["phase"]), KINDS.index(row["bowler_kind"]))
        for hit, column in enumerate(("dots", "1s", "2s", "3s", "4s", "6s")):
            shares[at][hit, int(row["zone"]) - 1] = float(row[f"share_of_{column}"])
    pooled = shares.mean(axis=(0, 1))
    size = np.array([900.0, 900.0, 120.0, 15.0, 200.0, 90.0])[:, None]
    blended = (shares * size + pooled * _ZONE_PRIOR) / (size + _ZONE_PRIOR)
    return np.asarray(blended / blended.sum(axis=-1, keepdims=True), dtype=np.float64)
