"""The account of looks, and the command that calibrates it."""

from __future__ import annotations

from pathlib import Path

import pytest

from spectator.environments.collider.looks import Look, budget, charge
from tools import collider_looks


def test_all_looks_together_spend_no_more_than_the_error() -> None:
    looks: list[Look] = []
    for number in range(1, 30):
        look = charge(looks, f"sel-1 run-{number}", 3)
        assert charge(looks, f"sel-1 run-{number}", 3) is look and len(looks) == number
    assert sum(look.channels / look.trials for look in looks) < 1.0
    assert budget(looks[:3])["error_left"] == 0.125
    assert budget(looks[:3])["next_look_trials_per_channel"] == charge(looks[:3], "another", 1).trials == 16


def test_the_calibration_resumes_and_reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collider_looks, "TIERS", ("easy",))
    monkeypatch.setattr(collider_looks, "POLICIES", {"best of runs": collider_looks.BestOfRuns})
    kept, page = tmp_path / "kept.jsonl", tmp_path / "page.md"
    for nulls, share, known in ((1, "0 1", 1), (2, "0 2", 1), (2, "1 2", 2), (2, "0 1", 2)):
        given = ["--nulls", f"{nulls}", "--share", *share.split(), "--kept", f"{kept}", "--page", f"{page}"]
        collider_looks.main(given)
        assert len(collider_looks.read(kept)) == len(kept.read_text().splitlines()) == known
    assert "| easy | best of runs | 2 | " in page.read_text()
    assert all(0.0 < p <= 1.0 and looks >= 4 for p, looks in collider_looks.read(kept).values())
