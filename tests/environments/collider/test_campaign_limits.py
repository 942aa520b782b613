"""Limits set inside campaigns, and the command that measures how often they cover."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from spectator.environments.collider.operations.comparison import Limits
from spectator.environments.collider.operations.preparation import yield_error
from spectator.environments.collider.reference_physicist import ReferencePhysicist
from tests.environments.collider.campaigns import play
from tools import collider_limits
from tools.collider_validation.__main__ import IN_CAMPAIGNS


def test_few_events_beside_a_region_do_not_make_its_background_anything() -> None:
    """The power law of a few events beside a region extrapolated to 10,000 events in it."""
    for seed in (900_159, 900_244, 900_249):
        _, found = collider_limits.campaign("easy", seed, {}, {}, 0)
        assert len(found) >= 2 and all(one.band[2] < 3.0 * one.limit for one in found)
        assert all(list(one.band) == sorted(one.band) for one in found)


def test_a_limit_on_a_rate_allows_for_the_error_of_the_efficiency() -> None:
    limits = Limits(best=60.0, observed=100.0, expected=(10.0, 20.0, 30.0, 40.0, 50.0))
    exact, expected = limits.rates(10.0, 0.0)
    assert exact == pytest.approx(10.0) and expected == pytest.approx([1.0, 2.0, 3.0, 4.0, 5.0])
    wider, bands = limits.rates(10.0, 0.1)
    assert (10.0 * wider - 60.0) ** 2 == pytest.approx(40.0**2 + (1.645 * 0.1 * 10.0 * wider) ** 2, rel=1e-3)
    assert wider > 10.3 and bands[2] == pytest.approx(3.0, rel=0.02)
    assert limits.rates(0.0, 2.0)[0] > 1e12  # nothing passes: no rate is excluded


def test_a_limit_allows_for_false_peaks_where_no_background_fits() -> None:
    """On the shoulder of the real dimuons a limit of 160 events was set beside deviations of eight sigma."""
    limits = Limits(best=-5.0, observed=30.0, expected=(10.0, 20.0, 30.0, 40.0, 50.0))
    assert limits.allowing_for(0.0) == limits
    wider = limits.allowing_for(100.0)
    assert 165.0 < wider.observed < 170.0 and wider.expected[0] > 164.0
    environment, _ = play(ReferencePhysicist(), 30, scenario="open_data_dimuon", difficulty="hard")
    (limit,) = environment.laboratory.selection.channels["dilepton_mumu"].findings["limits"]
    assert limit["signal_limit"] > 1000.0 and limit["expected_limit"] > 1000.0


def test_the_error_of_the_yield_holds_what_is_not_known() -> None:
    lab, _ = collider_limits.campaign("easy", 900_001, {}, {}, 0)
    analysis, low = next(iter(lab.selection.channels.values())), lab.task.beam(7.0)
    assert low is not None
    at_13 = yield_error(lab, analysis, lab.task.window_gev[0])
    lab.runs[0] = replace(lab.runs[0], beam=low)
    assert 0.05 < at_13 < yield_error(lab, analysis, lab.task.window_gev[0]) < 1.0


def test_the_coverage_resumes_and_is_written_into_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collider_limits, "TIERS", ("medium",))
    kept, page = tmp_path / "kept.jsonl", tmp_path / "page.md"
    page.write_text(f"# A report\n\n## {IN_CAMPAIGNS}\nOld.\n\n## Counting\nKept.\n")
    for least in ("1", "1", "2"):
        before = collider_limits.read(kept)
        collider_limits.main(["--limits", least, "--kept", f"{kept}", "--page", f"{page}"])
        found = collider_limits.read(kept)
        assert found[: len(before)] == before and (len(found) > len(before)) == (least == "2" or not before)
    assert len({(one.seed, one.channel, one.strength) for one in found}) == len(found)
    words = page.read_text()
    assert "Old." not in words and words.endswith("## Counting\nKept.\n")
    assert "| medium | rate | 100.0 ± 0.0 % |" in words and "A cell holds 2 limits or more" in words
    for one in found:
        assert (one.strength == 0.0) == (one.signal == 0.0) == (one.rate_fb == 0.0)
        assert one.strength == 0.0 or one.signal == pytest.approx(one.strength * one.band[2], rel=0.6)
