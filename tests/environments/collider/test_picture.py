"""The tile shows the remaining resources, the spectrum, and results once they are public."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from spectator.environments.collider.projection import MOST, picture
from spectator.environments.collider.world import WORLD
from spectator.environments.conformance import play
from spectator.environments.world import MAX_PICTURE_BYTES
from spectator.events import Event, encode_json
from spectator.json_values import apply_patch

Shown = list[tuple[str, dict[str, Any], dict[str, Any]]]


@pytest.fixture(scope="module")
def shown() -> Shown:
    """Every event of a campaign that finds something: its name, the state after it, and what is drawn."""
    options = WORLD.options_type().model_dump(mode="json")
    state: dict[str, Any] = {"world": {}}
    found: Shown = []
    for seq, fact in enumerate(play(WORLD, options, 3, "heuristic").facts, 1):
        event = Event("test", "e", seq, "2026-01-01T00:00:00.000Z", 0, fact.type, fact.data)
        state = apply_patch(state, {"world": WORLD.projection(state, event)})
        found.append((fact.type.partition(".")[2], state["world"], picture(state["world"])))
    return found


def test_it_begins_with_all_that_may_be_spent(shown: Shown) -> None:
    assert picture({}) == {}
    left = [drawn["left"] for _, _, drawn in shown]
    assert left[0] == [100, 100, 100]
    assert all(late <= early for first, last in pairwise(left)
               for early, late in zip(first, last, strict=True))  # fmt: skip
    assert "bins" not in shown[0][2]


def test_what_is_blinded_stays_hidden_and_nothing_is_drawn_before_it_is_told(shown: Shown) -> None:
    needed = {"bins": "spectrum_built", "scan": "mass_scanned", "peak": "significance_estimated"}
    seen: set[str] = set()
    for name, world, drawn in shown:
        seen.add(name)
        assert all(needed[part] in seen for part in needed if part in drawn)
        if "bins" in drawn:
            assert ("hidden" in drawn) is not world["channels"][world["focus"]]["open"]
            assert 0 < len(drawn["bins"]) <= MOST and max(drawn["bins"]) == 100
        assert len(encode_json(drawn)) < MAX_PICTURE_BYTES / 2
    assert set(needed) <= shown[-1][2].keys()


def test_the_peak_stands_where_the_scan_is_highest(shown: Shown) -> None:
    _, world, drawn = shown[-1]
    low, high = drawn["scan"]["span"]
    z = drawn["scan"]["z"]
    highest = low + (high - low) * z.index(max(z)) / (len(z) - 1)
    assert drawn["peak"]["at"] == pytest.approx(highest, abs=2.5)
    channel = world["channels"][world["focus"]]
    assert drawn["peak"]["sigma"] == round(channel["significance"]["z_global"], 1) > 5
    assert max(z) == round(10 * channel["scan"]["best_z"])
