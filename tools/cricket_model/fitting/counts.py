"""Read the count tables."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

SHIPPED = Path(__file__).resolve().parents[3] / "spectator" / "environments" / "cricket" / "data"
"""Tables that the running world reads too."""
DATA = Path(__file__).parent.parent / "data"
"""Tables that only the fit and the report of realism read."""
CATEGORIES = ("0", "1", "2", "3", "4", "6", "wicket", "runout", "wide", "noball", "bye")
PHASES = ("pp", "mid", "death")
RATE_BANDS = ("<6", "6-8", "8-10", "10-13", "13+")
WICKET_BANDS = ("0-1", "2-3", "4-5", "6+")
ORDER_GROUPS = ("1-2", "3-4", "5-6", "7-8", "9-11")
SET_BINS = ("0", "1-2", "3-5", "6-10", "11-15", "16-20", "21-30", "31-45", "46+")
STYLES = ("right_pace", "left_pace", "off", "leg", "left_orth", "left_wrist")
HANDS = ("R", "L")


def table(name: str) -> Path:
    """Return the path of a table, in the tools' or in the shipped data."""
    return DATA / name if (DATA / name).exists() else SHIPPED / name


def read_rows(name: str) -> list[dict[str, str]]:
    """Read one CSV table as dictionaries of text."""
    with table(name).open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def read_json(name: str) -> Any:
    """Read one JSON table."""
    return json.loads(table(name).read_text(encoding="utf-8"))


def counts_of(row: dict[str, str]) -> Floats:
    """Return counts of the eleven categories; the rare fives (overthrows) join the threes."""
    counts = np.array([float(row[f"n_{category}"]) for category in CATEGORIES])
    counts[3] += float(row["n_5"])
    return counts


def phase_of(over: int) -> int:
    """Return the index in `PHASES` of a 0-based over of a 20-over innings."""
    return 0 if over < 6 else 1 if over < 15 else 2
