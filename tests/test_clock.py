"""Timestamps are those of each moment, however they are made."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

from spectator.clock import SystemClock, Timestamps, timestamp

NOON = datetime(2026, 11, 21, 12, 0, 59, 998_900, tzinfo=UTC)


class ListedClock(SystemClock):
    """Tells the times that it was given, one after the other."""

    def __init__(self, moments: list[datetime]) -> None:
        self._moments = iter(moments)

    def now(self) -> datetime:
        """The next of them."""
        return next(self._moments)


def test_one_after_another_they_are_those_of_each_moment() -> None:
    steps_ms = [0, 0.2, 1, 0.9, 998, 1, 1, 3_600_000, -1, -1_000, -86_400_000, 0]
    moments = [NOON]
    for step_ms in steps_ms:
        moments.append(moments[-1] + timedelta(milliseconds=step_ms))
    moments.append(moments[-1].astimezone(timezone(timedelta(hours=5, minutes=30))))
    stamp = Timestamps(ListedClock(moments))
    assert [stamp() for _ in moments] == [timestamp(moment) for moment in moments]
