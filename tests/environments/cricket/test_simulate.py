"""The simulation is the same game as the episode, only without its observations and events."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from spectator.environments.cricket.simulation import match_rows, open_match, simulate
from spectator.environments.world import derive_seed
from spectator.errors import InvalidRequest
from tests.environments.cricket.playing import options, play

FIELDS = [
    "match_id", "innings", "over", "ball", "runs_off_bat", "extras", "extra_kind", "wicket", "dismissal_kind",
    "target", "batter", "non_striker", "bowler", "free_hit",
]  # fmt: skip


@pytest.mark.parametrize(("seed", "overs"), [(1, 5), (2, 5), (3, 20), (4, 2), (5, 50)])
def test_an_episode_of_the_same_seed_has_the_same_deliveries(seed: int, overs: int) -> None:
    balls = play(seed, max_overs=overs).of("ball_bowled")
    told = [
        {
            "match_id": 7, "innings": ball["innings"], "over": ball["over"], "ball": ball["delivery"],
            "runs_off_bat": ball["bat"], "extras": ball["extras"], "extra_kind": ball["extra_kind"],
            "wicket": ball["dismissal"] is not None, "dismissal_kind": ball["dismissal"],
            "target": ball["target"],
            "batter": ball["striker"], "non_striker": ball["non_striker"], "bowler": ball["bowler"],
            "free_hit": ball["free_hit"],
        }
        for ball in balls
    ]  # fmt: skip
    assert list(match_rows(7, open_match(overs, seed))) == told


@pytest.mark.parametrize(
    "given",
    [
        {"toss_caller": "away"},
        {"profile": "women"},
        {"level": 200.0},
        {"super_over": False},
        {"max_overs": 3},
    ],
)
def test_with_options_it_is_the_episode_of_these_options(given: dict[str, Any]) -> None:
    rows = list(simulate(2, 9, options(**given)))
    for number in range(2):
        balls = play(derive_seed(9, "match", number), **given).of("ball_bowled")
        mine = [row for row in rows if row["match_id"] == number + 1]
        assert [row["batter"] for row in mine] == [ball["striker"] for ball in balls]
        assert [row["runs_off_bat"] for row in mine] == [ball["bat"] for ball in balls]


def test_another_start_is_refused_by_name() -> None:
    with pytest.raises(InvalidRequest, match=r"options\.start"):
        list(simulate(1, 1, options(start="chase")))


def test_one_object_a_delivery_with_exactly_these_fields_in_order() -> None:
    rows = list(simulate(6, 1, options(max_overs=20)))
    assert all(list(row) == FIELDS for row in rows)
    assert sorted({row["match_id"] for row in rows}) == [1, 2, 3, 4, 5, 6]
    assert {row["extra_kind"] for row in rows} <= {None, "wide", "noball", "bye", "legbye", "penalty"}
    assert all(row["wicket"] == (row["dismissal_kind"] is not None) for row in rows)
    assert all((row["target"] is None) == (row["innings"] % 2 == 1) for row in rows)
    for before, after in pairwise(rows):
        same = [before[key] for key in ("match_id", "innings", "over")] == [
            after[key] for key in ("match_id", "innings", "over")
        ]
        assert after["ball"] == (before["ball"] + 1 if same else 1)
        if same:
            assert after["bowler"] == before["bowler"]
            assert after["free_hit"] == (
                before["extra_kind"] == "noball" or (before["free_hit"] and before["extra_kind"] == "wide")
            )


def test_the_seed_decides_and_each_match_has_its_own() -> None:
    given = options(max_overs=2)
    rows = list(simulate(2, 5, given))
    assert rows == list(simulate(2, 5, given))
    assert rows != list(simulate(2, 6, given))
    second = [row for row in rows if row["match_id"] == 2]
    assert second == list(match_rows(2, open_match(2, derive_seed(5, "match", 1))))
