"""Random damage to a journal: no start fails, and no episode is served short without a word."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from benchmarks.corruption import ENDED, outcomes

TIMES = 40


def test_damage_never_stops_a_start_and_is_never_passed_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    found = list(outcomes(tmp_path, TIMES, seed=3))
    assert len(found) == TIMES * (ENDED + 1)
    assert [one for one in found if one.startswith(("crash", "lost"))] == []
    assert {one.partition(" (")[0] for one in found} >= {
        "whole",
        "refused in words",
        "set aside with its journal",
    }
