"""Histograms of what decisions, steps, commits and publications take, and of the loop's lag, in seconds."""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Histogram

from spectator.events import RecordedEvent

THINKING_S: Final = (0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
"""Upper ends of the buckets for decisions: scripted captains take under a millisecond, models seconds."""

WORKING_S: Final = (
    0.0001,
    0.00025,
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.5,
    1.0,
    5.0,
    30.0,
)
"""Upper ends of the buckets for everything else."""


class Timings:
    """How long things take, for one server.

    >>> timings = Timings()
    >>> timings.commit.observe(0.002)
    >>> timings.registry.get_sample_value("spectator_commit_seconds_count")
    1.0
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.decision = self._histogram("decision", "Time that a policy took for a decision", THINKING_S)
        self.step = self._histogram("step", "Time that a world took for a step", WORKING_S)
        self.commit = self._histogram("commit", "Time until events were in the journal", WORKING_S)
        self.loop_lag = self._histogram("loop_lag", "How late the event loop was", WORKING_S)
        self.publish = self._histogram(
            "publish", "Time from the publication of events until every viewer was written to", WORKING_S
        )

    def note(self, recorded: RecordedEvent) -> None:
        """Take in what a recorded event says of times."""
        event = recorded.event
        if event.type == "decision.made":
            self.decision.observe(event.data["latency_s"])
        elif event.type == "step.taken":
            self.step.observe(event.data["duration_s"])

    def _histogram(self, name: str, summary: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(f"spectator_{name}_seconds", summary, registry=self.registry, buckets=buckets)
