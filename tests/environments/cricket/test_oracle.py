"""The oracle sees the truth, says so, and nobody gets it who did not ask for it."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from spectator.cli import main
from spectator.environments.cricket import WORLD

SAYS = "The next ball is: "


def test_it_is_marked_and_never_a_default() -> None:
    oracle = WORLD.captains["oracle"]
    assert oracle.source == "oracle"
    assert "sees the truth" in oracle.label
    assert WORLD.default_captain != "oracle"
    assert "oracle" not in WORLD.opponents


def test_what_it_foresees_as_batting_captain_is_what_happens_and_its_record_is_the_truth(
    tmp_path: Path,
) -> None:
    play = ["play", "cricket", "--captain", "oracle", "--seed", "4", "--option", "max_overs=2"]
    played = CliRunner().invoke(main, [*play, "--data-dir", str(tmp_path)])
    assert played.exit_code == 0, played.output
    events = [json.loads(line) for line in played.stdout.splitlines()]
    foreseen: str | None = None
    kept = 0
    for event in events:
        data = event["data"]
        if event["type"] == "decision.made" and data["actor"] == "home":
            assert data["source"] == "oracle"
            playing = data["action"]["tool"] == "play_delivery"
            foreseen = data["reasoning"].removeprefix(SAYS).removesuffix(".") if playing else None
        elif event["type"] == "cricket.ball_bowled" and foreseen is not None:
            assert data["words"] == foreseen
            kept += 1
    assert kept >= 6
    verified = CliRunner().invoke(main, ["verify", events[0]["episode_id"], "--data-dir", str(tmp_path)])
    assert verified.exit_code == 0, verified.output
