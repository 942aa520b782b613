"""The league: what is sealed, which entries are rejected, and what a bundle proves."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spectator.environments.collider import strength
from spectator.environments.collider.league import (
    DEVELOPMENT,
    LeagueTruth,
    built_in_entry,
    bundle_of,
    check_truth,
    enter,
    make_league,
    read_document,
    score_entries,
    strength_model,
)
from spectator.errors import InvalidRequest
from tests.commands import spectator
from tools import collider_league

PAGE = Path(__file__).resolve().parents[3] / "docs" / "evaluation.md"


@pytest.fixture(autouse=True)
def _fewer_toys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strength, "TOYS", 60)
    monkeypatch.setattr(strength, "TOY_STRENGTHS", (0.0, 0.3, 1.0, 3.0))
    monkeypatch.setattr(strength, "SAMPLES", 20)


def run(command: str) -> tuple[int, str]:
    done = spectator(*shlex.split(command))
    return done.exit_code, done.output


def commands() -> list[str]:
    """The commands of the section in docs/evaluation.md."""
    section = PAGE.read_text(encoding="utf-8").split("## The collider league")[1].split("\n## ")[0]
    return [
        line.removeprefix("    spectator ")
        for line in section.splitlines()
        if line.startswith("    spectator ")
    ]


def test_the_documented_commands_make_score_and_verify_a_league(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = {}
    for command in commands():
        code, said[command] = run(command.replace("make", "make --experiments 3"))
        assert code == 0, said[command]
    assert len(said) == 6
    seen = (tmp_path / "season" / "league.json").read_text(encoding="utf-8")
    truth = json.loads((tmp_path / "season-truth.json").read_text(encoding="utf-8"))
    assert truth["phrase"] not in seen and '"mu"' not in seen and json.loads(seen)["made"] == "sealed"
    board = said[commands()[4]]
    assert all(f" {name} " in board for name in ("asymptotic", "toys", "bayesian"))
    assert "verified: every count" in said[commands()[5]]
    code, output = run("verify-bundle result --commitment " + "0" * 64)
    assert code == 1 and "league.commitment: is not the stated one" in output
    code, output = run("collider league make --seed 3 --out season")
    assert code == 1 and "already exists; choose another folder" in output
    code, output = run("collider league make --out open --truth open/truth.json")
    assert code == 1 and "must be outside open" in output and not (tmp_path / "open").exists()


Forgery = Callable[[dict[str, Any]], object]


def _at(value: Any, *path: Any) -> Any:
    for name in path:
        value = value[name]
    return value


def _set(value: Any, *path: Any) -> Forgery:
    return lambda document: _at(document, *path[:-1]).__setitem__(path[-1], value)


FORGERIES: dict[str, tuple[Forgery, str]] = {
    "a count": (_set(99, "league", "experiments", 1, "counts", 0), "league.experiments.exp-0002.counts.0:"),
    "a template": (_set(9.0, "league", "signal", 3), "league.signal.3:"),
    "a truth": (_set(0.123, "truth", "experiments", 2, "mu"), "truth.experiments.exp-0003.mu:"),
    "a nuisance": (
        _set(0.5, "truth", "experiments", 0, "nuisances", "resolution"),
        "truth.experiments.exp-0001.nuisances.resolution:",
    ),
    "the commitment": (_set("ab" * 32, "league", "commitment"), "league.commitment:"),
    "the phrase": (_set("development seed 8", "truth", "phrase"), "league.commitment:"),
    "a built-in interval": (
        _set(0.0, "entries", 0, "intervals", 1, "low"),
        "entries.asymptotic.intervals.exp-0002.low:",
    ),
    "another's interval": (_set(2.9, "entries", 1, "intervals", 1, "high"), "board.mine.digest:"),
    "a score": (_set(5.0, "board", 0, "score", "value"), "score.value:"),
    "a coverage": (_set(0.7, "board", 1, "coverage", "value"), "coverage.value:"),
    "a rank": (_set(3, "board", 0, "rank"), "rank:"),
}


def test_a_forgery_is_named(tmp_path: Path) -> None:
    league, truth = make_league(f"{DEVELOPMENT}7", 4)
    entries = [built_in_entry(league, "asymptotic"), enter(league, "mine", lambda *_: (0.5, 1.5))]
    genuine = bundle_of(league, truth, entries).model_dump_json()
    for name, (forge, expected) in FORGERIES.items():
        forged = json.loads(genuine)
        forge(forged)
        (tmp_path / "manifest.json").write_text(json.dumps(forged), encoding="utf-8")
        code, output = run(f"verify-bundle {tmp_path}")
        assert code == 1 and expected in output, (name, output)
    (tmp_path / "manifest.json").write_text(genuine, encoding="utf-8")
    assert run(f"verify-bundle {tmp_path}")[0] == 0
    (tmp_path / "manifest.json").write_text(genuine.replace('"truth"', '"trust"', 1), encoding="utf-8")
    assert run(f"verify-bundle {tmp_path}")[0] == 2


BAD_ENTRIES: dict[str, tuple[Forgery, str]] = {
    "missing": (
        lambda one: one["intervals"].pop(),
        "mine: intervals: must have one for each experiment; 1 mi",
    ),
    "reversed": (
        _set(2.5, "intervals", 1, "low"),
        "mine: intervals.1.low: must be at most high, 1.5, not 2.5",
    ),
    "not a number": (_set(float("nan"), "intervals", 0, "low"), "intervals.0.low: Input should be"),
    "infinite": (_set(float("inf"), "intervals", 2, "high"), "intervals.2.high: Input should be"),
    "enormous": (_set(1e9, "intervals", 2, "high"), "intervals.2.high: Input should be less than"),
    "a text": (_set("1.5", "intervals", 0, "high"), "intervals.0.high: Input should be a valid number"),
    "unknown id": (_set("exp-9", "intervals", 0, "id"), "mine: intervals.0.id: 'exp-9' is not an experiment"),
    "twice": (_set("exp-0001", "intervals", 1, "id"), "mine: intervals.1.id: 'exp-0001' occurs twice"),
    "too many": (
        lambda one: one["intervals"].append(dict(one["intervals"][0])),
        "mine: intervals.3.id: 'exp-0001' occurs twice",
    ),
    "another league": (_set("cd" * 32, "league"), "mine: league: must be "),
    "no league": (lambda one: one.pop("league"), "mine.json: league: Field required"),
    "a field more": (_set(0.1, "width"), "mine.json: width: Extra inputs are not permitted"),
    "another format": (_set("x/1", "format"), "mine.json: format: Input should be"),
    "no name": (_set("", "name"), "mine.json: name: String should have at least 1 character"),
}


def test_a_bad_entry_is_rejected_by_name_and_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("collider league make --seed 7 --experiments 3 --out season")[0] == 0
    league, truth = make_league(f"{DEVELOPMENT}7", 3)
    good = enter(league, "mine", lambda *_: (0.5, 1.5))
    file = tmp_path / "mine.json"
    for name, (spoil, expected) in BAD_ENTRIES.items():
        bad = good.model_dump()
        spoil(bad)
        file.write_text(json.dumps(bad), encoding="utf-8")
        code, output = run("collider league score season mine.json --publish result")
        assert code == 1 and expected in output, (name, output)
        assert not (tmp_path / "result").exists()
    file.write_text(good.model_dump_json(), encoding="utf-8")
    code, output = run("collider league score season mine.json mine.json --publish result")
    assert code == 1 and "name: two entries are called 'mine'" in output
    file.write_text(good.model_copy(update={"name": "toys"}).model_dump_json(), encoding="utf-8")
    code, output = run("collider league score season mine.json --publish result")
    assert code == 1 and "entries.toys.intervals.exp-0001.low: is claimed to be 0.5" in output
    assert not (tmp_path / "result").exists()
    other = make_league(f"{DEVELOPMENT}8", 3)[1]
    with pytest.raises(InvalidRequest, match=r"truth: its SHA-256 is .* use the truth file of this league"):
        score_entries(league, other, [good])
    easier = league.model_copy(update={"signal": [2 * one for one in league.signal]})
    with pytest.raises(InvalidRequest, match=r"^league\.signal: is not what the phrase"):
        check_truth(easier, truth)
    with pytest.raises(InvalidRequest, match="season: body: Invalid JSON"):
        read_document(LeagueTruth, "{", "season")
    for ends in ((2.0, 1.0), (float("nan"), 1.0)):
        with pytest.raises(InvalidRequest, match=r"^backwards: intervals\.0\.low: "):
            enter(league, "backwards", lambda *_, ends=ends: ends)
    for phrase, number in (("short", 3), ("long enough", 0), ("long enough", 5001)):
        with pytest.raises(InvalidRequest, match="must "):
            make_league(phrase, number)


def test_the_built_in_entries_cover(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The report has 2,000 experiments; with 80, an error of a third of the width would show."""
    monkeypatch.setattr(collider_league, "BUILT_IN", ("asymptotic", "toys"))
    league, truth = make_league(f"{DEVELOPMENT}11", 80)
    entries = [built_in_entry(league, name) for name in ("asymptotic", "toys", "bayesian")]
    for row in score_entries(league, truth, entries):
        assert row.coverage.low < 0.6827 < row.coverage.high, row
        assert 0.5 < row.width.low < row.width.value < row.width.high < 1.0, row
    page = tmp_path / "page.md"
    collider_league.main(["--number", "20", "--experiments", "60", "--page", str(page)])
    written = page.read_text(encoding="utf-8")
    assert "| all | 20 |" in written and "| 1 | asymptotic |" in written
    assert (
        "| anything goes | 100.0 (94.0 to 100.0) | 3.000 (3.000 to 3.000) | -4.69 (-4.69 to -4.69) |"
        in written
    )


def test_fits_agree_with_scipy() -> None:
    from scipy.optimize import minimize

    league, _ = make_league(f"{DEVELOPMENT}5", 2)
    model = strength_model(league.signal, league.background, league.nuisances)
    counts = np.array([one.counts for one in league.experiments], dtype=np.float64)
    fits = model.fit(counts)
    for row, seen in enumerate(counts):
        found = minimize(
            lambda point, seen=seen: float(model.nll(seen, np.array(point[0]), point[1:])),
            np.array([1.0, *np.zeros(6)]),
            method="Nelder-Mead",
            options={"maxiter": 20_000, "maxfev": 20_000, "xatol": 1e-7, "fatol": 1e-10, "adaptive": True},
        )
        assert fits.nll[row] <= found.fun + 1e-8 and abs(fits.mu[row] - found.x[0]) < 2e-3
