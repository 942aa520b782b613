"""`spectator cricket`: import, list, play on and report, from the user's own files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import Result

from spectator.environments.cricket.real_match_record import ATTRIBUTION
from tests.commands import spectator
from tests.environments.cricket.real.cricsheet_files import cricsheet_of, simulated, written


@pytest.fixture
def files(tmp_path: Path) -> Path:
    match = cricsheet_of(simulated(4, 2))
    written(tmp_path / "files", "good", match)
    match["info"]["balls_per_over"] = 5
    written(tmp_path / "files", "hundred", match)
    return tmp_path / "files"


def run(data: Path, *arguments: str) -> Result:
    return spectator("cricket", *arguments, "--data-dir", data)


def test_a_folder_is_imported_listed_and_summarized(files: Path, tmp_path: Path) -> None:
    done = run(tmp_path / "data", "import", str(files))
    assert done.exit_code == 0
    assert "hundred.json: info.balls_per_over is 5; the world plays overs of six balls" in done.stderr
    assert (
        done.stdout.splitlines()[-1] == "1 matches to play on, 1 of 2 files counted for ratings, 1 not used"
    )
    listed = run(tmp_path / "data", "matches").stdout.splitlines()
    assert listed[0].startswith("real-good  ") and listed[1] == ATTRIBUTION
    assert run(tmp_path / "none", "matches").stdout.startswith("no match is imported")


def test_an_import_of_nothing_that_can_be_played_fails(files: Path, tmp_path: Path) -> None:
    assert run(tmp_path, "import", str(files / "hundred.json")).exit_code == 1
    (tmp_path / "empty").mkdir()
    assert "extract the archive" in run(tmp_path, "import", str(tmp_path / "empty")).stderr


def test_a_file_is_played_on_with_the_captain_in_either_seat(files: Path, tmp_path: Path) -> None:
    good, data = str(files / "good.json"), tmp_path / "data"
    teams = json.loads((files / "good.json").read_text())["info"]["teams"]
    started = []
    for team in teams:
        done = run(data, "play", good, "--from", "1:1.2", "--team", team, "--seed", "3")
        assert done.exit_code == 0, done.stderr
        events = [json.loads(line) for line in done.stdout.splitlines()]
        arranged = next(one for one in events if one["type"] == "cricket.match_arranged")
        assert arranged["data"]["home"]["name"] == team
        started.append(events)
    assert (data / "journal.db").exists()
    assert "does not play" in run(data, "play", good, "--team", "Nobody").stderr
    assert "innings 1 has only" in run(data, "play", "real-good", "--from", "9.0").stderr
    assert "is not an imported match" in run(data, "play", "real-other").stderr


def test_the_report_names_every_over_and_is_kept_for_the_page(files: Path, tmp_path: Path) -> None:
    good, data = str(files / "good.json"), tmp_path / "data"
    done = run(data, "report", good)
    assert done.exit_code == 0, done.stderr
    assert done.stdout.count("all overs: bowlers chosen") == 2 and ATTRIBUTION in done.stdout
    played = run(data, "play", "real-good", "--seed", "3").stdout.splitlines()
    arranged = next(data for data in map(json.loads, played) if data["type"] == "cricket.match_arranged")
    assert {one["over"] for one in arranged["data"]["real"]["prices"]} <= {1, 2}
    assert len(arranged["data"]["real"]["prices"]) >= 3
