"""A long record is recovered from its checkpoint, and without one, by a real server that was killed."""

from __future__ import annotations

import sys

import pytest

from benchmarks.recovery import measure

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="what a process takes is told by Linux's /proc"
)


def test_a_server_that_was_killed_plays_a_long_record_on() -> None:
    told = {figure.name.partition(": until `/readyz`")[0]: figure.value for figure in measure(20)}
    played_on = [name for name, value in told.items() if "played on from turn" in value]
    assert len(played_on) == 2, told
    assert any(name.endswith("no checkpoints") for name in played_on)
