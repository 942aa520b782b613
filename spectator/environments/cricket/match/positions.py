"""Where fielders stand: the positions by name, and the presets, in metres.

Coordinates are seen from above with (0, 0) at the striker's middle stump: ``x`` metres to the off side, ``y``
metres towards the bowler. For a left-hander the field is mirrored, so a preset means the same positions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

POSITIONS: Final[Mapping[str, tuple[float, float]]] = {
    "slip": (3.0, -14.0),
    "second slip": (5.0, -14.0),
    "gully": (11.0, -9.0),
    "short third": (14.0, -20.0),
    "third": (33.0, -46.0),
    "backward point": (24.0, -6.0),
    "point": (26.0, 1.5),
    "deep backward point": (60.0, -8.0),
    "deep point": (63.0, 2.0),
    "cover point": (25.0, 7.0),
    "cover": (22.0, 16.0),
    "extra cover": (16.0, 24.0),
    "sweeper cover": (57.0, 32.0),
    "deep extra cover": (48.0, 48.0),
    "mid-off": (9.0, 34.0),
    "long-off": (22.0, 70.0),
    "straight hit": (0.0, 75.0),
    "mid-on": (-9.0, 34.0),
    "long-on": (-22.0, 70.0),
    "midwicket": (-23.0, 13.0),
    "short midwicket": (-12.0, 10.0),
    "deep midwicket": (-55.0, 36.0),
    "cow corner": (-42.0, 58.0),
    "square leg": (-24.0, 2.5),
    "deep square leg": (-63.0, 4.0),
    "backward square leg": (-24.0, -6.0),
    "deep backward square leg": (-60.0, -12.0),
    "short fine leg": (-14.0, -20.0),
    "fine leg": (-30.0, -48.0),
    "leg slip": (-4.0, -12.0),
    "short leg": (-3.0, 3.0),
    "silly point": (3.0, 3.0),
}
"""Standard positions for a right-hander, metres."""

STANDARD: Final = "standard"
"""What real sides set in the situation; it opens up by itself when the powerplay ends."""

PRESETS: Final[Mapping[str, tuple[str, ...]]] = {
    "attacking": (
        "slip",
        "gully",
        "point",
        "cover",
        "mid-off",
        "mid-on",
        "midwicket",
        "square leg",
        "fine leg",
    ),
    "ring": (
        "short third",
        "backward point",
        "cover point",
        "extra cover",
        "mid-off",
        "mid-on",
        "midwicket",
        "square leg",
        "short fine leg",
    ),
    "balanced": (
        "short third",
        "backward point",
        "cover",
        "mid-off",
        "midwicket",
        "deep square leg",
        "long-on",
        "sweeper cover",
        "long-off",
    ),
    "defensive": (
        "short third",
        "cover",
        "midwicket",
        "deep point",
        "short fine leg",
        "long-off",
        "long-on",
        "deep midwicket",
        "sweeper cover",
    ),
    "death": (
        "third",
        "point",
        "extra cover",
        "mid-off",
        "short fine leg",
        "long-on",
        "deep midwicket",
        "deep square leg",
        "sweeper cover",
    ),
    "spin": (
        "slip",
        "short third",
        "cover",
        "short midwicket",
        "deep square leg",
        "long-on",
        "long-off",
        "deep midwicket",
        "sweeper cover",
    ),
    "leg_side": (
        "short third",
        "point",
        "cover",
        "mid-off",
        "midwicket",
        "long-on",
        "deep midwicket",
        "deep square leg",
        "long-off",
    ),
    "off_side": (
        "slip",
        "short third",
        "backward point",
        "cover",
        "mid-off",
        "midwicket",
        "deep point",
        "sweeper cover",
        "deep square leg",
    ),
}
"""Nine positions each, beside bowler and keeper; for ``standard`` see :data:`STANDARD_FIELDS`."""

PRESET_NAMES: Final = (STANDARD, *PRESETS)

STANDARD_FIELDS: Final[Mapping[int, tuple[str, ...]]] = {
    2: ("slip", "backward point", "cover", "mid-off", "mid-on",
        "midwicket", "square leg", "third", "deep square leg"),
    4: ("short third", "backward point", "cover", "mid-off", "midwicket",
        "deep square leg", "long-on", "sweeper cover", "long-off"),
    5: ("short third", "backward point", "cover", "midwicket",
        "deep square leg", "deep midwicket", "long-on", "long-off", "sweeper cover"),
}  # fmt: skip
"""Those of ``standard``, by how many may stand outside the ring."""
