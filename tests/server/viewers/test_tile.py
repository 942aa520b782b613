"""What a tile tells of the chances: the whole line, in parts that a further chance leaves alone."""

from __future__ import annotations

import pytest

from server.viewers.wall import MOST_CHANCES, reported_chances
from spectator.events import encode_json
from spectator.json_values import make_patch


@pytest.mark.parametrize("count", [1, 2, 10, 11, MOST_CHANCES, MOST_CHANCES + 1, 5 * MOST_CHANCES])
def test_the_line_is_told_from_its_first_point_on(count: int) -> None:
    line = [place / count for place in range(count)]
    told = reported_chances(line)
    percent = [one for part in told["percent"].values() for one in part]
    assert told["count"] == count
    assert percent == [round(100 * chance) for chance in line[:: told["every"]]]
    assert len(percent) <= MOST_CHANCES
    assert list(told["percent"]) == [str(part) for part in range(len(told["percent"]))]


def test_a_further_chance_changes_the_last_part_alone() -> None:
    line = [0.5] * 57
    patch = make_patch(reported_chances(line), reported_chances([*line, 0.31]))
    assert patch == {"count": 58, "percent": {"5": [50] * 7 + [31]}}
    assert len(encode_json(reported_chances([0.25] * 600))) < 600
