"""Par: the table as published, and where a score stands in it."""

from __future__ import annotations

import pytest

from spectator.environments.cricket.show.summary import par, percentile


def test_par_is_the_tables_line() -> None:
    assert par(1, 6) == (32.0, 47.5, 63.0)
    assert par(1, 20) is not None
    assert par(2, 20) is not None


@pytest.mark.parametrize(("innings", "over"), [(1, 0), (1, 21), (3, 1), (0, 5)])
def test_beyond_the_table_there_is_no_par(innings: int, over: int) -> None:
    assert par(innings, over) is None
    assert percentile(innings, over, 40) is None


@pytest.mark.parametrize(
    ("runs", "share"),
    [(0, 5), (28, 5), (32, 10), (36, 18), (40, 25), (58, 81), (63, 90), (70, 95), (120, 95)],
)
def test_a_score_after_the_powerplay_stands_where_the_table_has_it(runs: int, share: int) -> None:
    """Between two percentiles of the table linearly; the table knows nothing beyond its ends."""
    assert percentile(1, 6, runs) == share


def test_more_runs_never_stand_lower() -> None:
    for innings in (1, 2):
        for over in range(1, 21):
            shares = [percentile(innings, over, runs) for runs in range(0, 300)]
            known = [share for share in shares if share is not None]
            assert known == sorted(known)
            assert len(known) == 300
