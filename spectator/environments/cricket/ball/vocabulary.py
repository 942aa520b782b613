"""The words of a plan: lengths, lines, paces, shots, sectors and the shape of a field."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

LENGTHS: Final = ("full toss", "yorker", "full", "good", "back of a length", "short")
"""Where the ball pitches, fullest first; a full toss is never planned, it is a yorker that missed."""

PLANNED_LENGTHS: Final = LENGTHS[1:]

LINES: Final = ("wide outside off", "outside off", "stumps", "leg")
"""Sideways place at the batter, from the off side to the leg side."""

PACES: Final = ("quick", "stock", "slower")

SECTORS: Final = (
    "fine leg", "square leg", "midwicket", "long-on", "long-off", "cover", "point", "third",
)  # fmt: skip
"""The eight sectors of 45 degrees, numbered 1 to 8 from fine leg round to third, as the striker stands
(mirrored for a left-hander, so that fine leg is always behind him on the leg side)."""

SHOTS: Final[dict[str, tuple[int, ...]]] = {
    "defend": (4, 5),
    "push": (5, 6),
    "drive": (5, 6),
    "straight drive": (4, 5),
    "cut": (7,),
    "late cut": (8,),
    "guide": (8,),
    "flick": (2, 3),
    "glance": (1,),
    "pull": (2, 3),
    "hook": (1, 2),
    "sweep": (2,),
    "reverse sweep": (7, 8),
    "loft straight": (4, 5),
    "loft cover": (6,),
    "slog": (3, 4),
    "scoop": (1,),
    "upper cut": (8,),
}
"""Named strokes with the sectors (1 to 8) they send the ball to."""


@dataclass(frozen=True, slots=True)
class DeliveryPlan:
    """What the bowler means to bowl; ``None`` leaves that part to the bowler's habit.

    Args:
        length: One of `PLANNED_LENGTHS`.
        line: One of `LINES`.
        pace: One of `PACES`.

    Raises:
        ValueError: A word is not in its list.
    """

    length: str | None = None
    line: str | None = None
    pace: str | None = None

    def __post_init__(self) -> None:
        for part, word, words in (
            ("length", self.length, PLANNED_LENGTHS),
            ("line", self.line, LINES),
            ("pace", self.pace, PACES),
        ):
            if word is not None and word not in words:
                raise ValueError(f"{part} must be one of {', '.join(words)}; not {word!r}")


@dataclass(frozen=True, slots=True)
class FieldShape:
    """Where the nine fielders besides bowler and keeper stand, by sector 1 to 8 as the striker stands.

    Args:
        ring: Fielders inside the ring saving the single, one count per sector.
        deep: Fielders near the boundary.
        catching: Close catchers: slips and gully count in the sector they face.

    Attributes:
        fielders: How many are placed: 9, or 0 for the neutral shape.

    Raises:
        ValueError: A part does not have eight counts, or there are not nine fielders (none at all is the
            neutral shape).
    """

    ring: tuple[int, ...] = (0,) * 8
    deep: tuple[int, ...] = (0,) * 8
    catching: tuple[int, ...] = (0,) * 8
    fielders: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "fielders", sum(self.ring) + sum(self.deep) + sum(self.catching))
        for name, counts in (("ring", self.ring), ("deep", self.deep), ("catching", self.catching)):
            if len(counts) != len(SECTORS) or min(counts) < 0:
                raise ValueError(f"{name} must hold eight counts, none negative")
        if self.fielders not in (0, 9):
            raise ValueError(f"a field has 9 fielders besides bowler and keeper, not {self.fielders}")

    @classmethod
    def neutral(cls) -> FieldShape:
        """The field that the data's captains would set in the very situation: it changes nothing."""
        return _NEUTRAL


_NEUTRAL: Final = FieldShape()
