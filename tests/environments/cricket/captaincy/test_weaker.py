"""The captains with one weakness each: they keep to it, lawfully, whatever the decisions are made by."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.environments.cricket.playing import play


@pytest.mark.parametrize("decisions", ["ball", "over", "session"])
def test_the_novice_lets_everybody_bowl_in_turn(decisions: str) -> None:
    told = play(4, "novice", "heuristic", max_overs=5, decisions=decisions)
    overs = Counter(data["bowler"]["name"] for data in told.of("bowler_selected") if data["side"] == "home")
    if decisions == "session":
        assert overs
    else:
        assert max(overs.values()) == 1, "five of six or seven bowlers have one over each"
    assert not any(observation.refused for observation in told.observations)


def test_the_blocker_does_not_hurry_however_steep_the_rate() -> None:
    told = play(4, "blocker", "heuristic", start="chase", max_overs=5)
    levels = {ball["intents"]["aggression"] for ball in told.of("ball_bowled") if ball["side"] == "home"}
    assert levels <= {0.3, 0.5}, "the usual half until the first plan is in force"
    assert 0.3 in levels
