"""Signs of life of processes that write one journal: counted by looks, never by a clock."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

INTERVAL_S: Final = 2.0
"""Seconds between two signs of life, and between two looks at those of others."""

SILENT_LOOKS: Final = 5
"""Looks in a row at the same sign of life after which a process counts as gone. They are counted and no clock
is read: time in which this process stood still, or the database could not be reached, does not count.
"""


class Signs:
    """The signs of life of others, as they were at the last looks."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, int]] = {}  # the last sign, and how often it was the same

    def missing(self, signs: Mapping[str, int], looks: int) -> list[str]:
        """Look once more; those whose sign was the same ``looks`` times in a row.

        Args:
            signs: Of each of the others, the number that it counts up.
            looks: After how many a process counts as gone.

        >>> signs = Signs()
        >>> [signs.missing({"a": 1, "b": beat}, 2) for beat in (1, 2, 3)]
        [[], [], ['a']]
        """
        before = self._seen
        self._seen = {
            name: (sign, before[name][1] + 1 if name in before and before[name][0] == sign else 0)
            for name, sign in signs.items()
        }
        return [name for name, (_, same) in self._seen.items() if same >= looks]
