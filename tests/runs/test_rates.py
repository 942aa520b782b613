"""How fast a run goes, told from its record."""

from __future__ import annotations

import pytest

from spectator.runs.run_plan import ended_a_second


def span(began: int, ended: float) -> tuple[str, str]:
    return (
        f"2026-11-24T12:{began // 60:02}:{began % 60:02}Z",
        f"2026-11-24T12:{int(ended) // 60:02}:{ended % 60:06.3f}Z",
    )


def test_episodes_that_end_together_do_not_tell_of_thousands_a_second() -> None:
    """Four that took 200 s ended within 2 ms: that is 4 in 200 s, and no 1,500 a second."""
    spans = [span(0, 200 + number / 1000) for number in range(4)]
    assert ended_a_second(spans, under_way=4) == pytest.approx(0.02, rel=0.01)


@pytest.mark.parametrize(("spans", "under_way"), [([], 3), ([span(0, 10)], 0), ([span(5, 5)], 2)])
def test_what_nobody_can_know_is_not_told(spans: list[tuple[str, str]], under_way: int) -> None:
    assert ended_a_second(spans, under_way) is None
