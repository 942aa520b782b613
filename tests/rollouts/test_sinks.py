"""Sinks: every step reaches them, and nothing that they do reaches the run."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spectator.errors import ConfigurationError
from spectator.rollouts import sinks
from spectator.rollouts.fleet import FleetReport
from spectator.rollouts.sessions import DataManager, SessionContext, SessionStep
from spectator.rollouts.sinks import AnySink, StepSink, send_sessions
from tests.llm.brains import counter
from tests.llm.endpoints import endpoint
from tests.rollouts.test_fleet import TURNS, request, run

Fails = Callable[[str, SessionContext | None], None]


class Kept:
    """Stores what it gets, and fails on request."""

    def __init__(
        self, fails: Callable[[str, SessionContext | None], None] = lambda name, session: None
    ) -> None:
        self.fails = fails
        self.sessions: dict[str, SessionContext] = {}
        self.steps: dict[str, list[SessionStep]] = {}
        self.closed = 0

    def create_session(self, session: SessionContext) -> Any:
        self.fails("create_session", session)
        self.sessions[session.session_id] = session
        self.steps[session.session_id] = []

    def record_step(self, session: SessionContext, step: SessionStep) -> Any:
        self.fails("record_step", session)
        self.steps[session.session_id].append(step)

    def close(self) -> Any:
        self.fails("close", None)
        self.closed += 1


def played(folder: Path, make: AnySink, **changes: Any) -> FleetReport:
    with endpoint(counter) as fake:
        report = run(request(fake, episodes=6, group_size=3, message_cut=2, **changes), folder, sink=make)
    assert (report.over, report.report.succeeded) == (6, True), "whatever the sink does"
    return report


def steps_on_record(folder: Path) -> dict[str, list[SessionStep]]:
    async def read() -> dict[str, list[SessionStep]]:
        async with DataManager.open(folder) as data:
            return {one.session_id: [step async for step in data.steps(one)] async for one in data.sessions()}

    return asyncio.run(read())


def test_every_step_of_every_session_reaches_the_sink(tmp_path: Path) -> None:
    sink = Kept()
    report = played(tmp_path, sink)
    assert sink.steps == steps_on_record(tmp_path) and sum(map(len, sink.steps.values())) == 6 * TURNS
    assert {one.total_reward for one in sink.sessions.values()} == {1.0}
    assert (sink.closed, report.sink_missed) == (1, None)


class AsyncSink(Kept):
    """Waits in each method."""

    async def create_session(self, session: SessionContext) -> None:
        await asyncio.sleep(0)
        super().create_session(session)

    async def record_step(self, session: SessionContext, step: SessionStep) -> None:
        await asyncio.sleep(0)
        super().record_step(session, step)

    async def close(self) -> None:
        await asyncio.sleep(0)
        super().close()


def test_an_async_sink_gets_the_same(tmp_path: Path) -> None:
    sink = AsyncSink()
    played(tmp_path, lambda: sink)
    assert sink.steps == steps_on_record(tmp_path) and sink.closed == 1


class Table:
    """A store whose connection may be used by one thread only."""

    path: Path

    def __init__(self) -> None:
        self.rows = sqlite3.connect(self.path)
        self.rows.execute("CREATE TABLE session_steps (session_id, step_id, response, step_reward)")

    def create_session(self, session: SessionContext) -> None:
        assert threading.current_thread().name == "sink"

    def record_step(self, session: SessionContext, step: SessionStep) -> None:
        row = (session.session_id, step.step_id, json.dumps(step.response), step.step_reward)
        self.rows.execute("INSERT INTO session_steps VALUES (?, ?, ?, ?)", row)

    def close(self) -> None:
        self.rows.commit()


def test_a_sink_is_made_and_called_on_one_thread(tmp_path: Path) -> None:
    Table.path = tmp_path / "own.db"
    assert played(tmp_path / "run", Table).sink_missed is None
    rewards = sqlite3.connect(Table.path).execute("SELECT sum(step_reward), count(*) FROM session_steps")
    assert rewards.fetchone() == (6.0, 6 * TURNS)


@pytest.mark.parametrize("method", ["create_session", "record_step"])
def test_a_sink_that_raises_misses_that_session_and_gets_it_later(tmp_path: Path, method: str) -> None:
    failed: list[str] = []

    def once(name: str, session: SessionContext | None) -> None:
        if name == method and session is not None and not failed:
            failed.append(session.session_id)
            raise RuntimeError("the store is full")

    sink = Kept(once)
    report = played(tmp_path, lambda: sink)
    said = f"1 of 6 sessions did not reach the sink: {method}: RuntimeError: the store is full"
    assert report.sink_missed == said and sink.closed == 1
    recorded = steps_on_record(tmp_path)
    assert sum(steps == sink.steps.get(key) for key, steps in recorded.items()) == 5

    async def send() -> str | None:
        async with DataManager.open(tmp_path) as data:
            return await send_sessions(data, lambda: sink, failed)

    assert asyncio.run(send()) is None
    assert sink.steps == recorded


@pytest.mark.parametrize("sink_type", [Kept, AsyncSink])
def test_a_sink_that_hangs_is_given_up_and_holds_up_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sink_type: type[Kept]
) -> None:
    monkeypatch.setattr(sinks.SinkDelivery.__init__, "__kwdefaults__", {"limit_s": 0.05})
    released = threading.Event()
    sink = Hanging(released) if sink_type is Kept else HangingAsync()
    report = played(tmp_path, lambda: sink)
    released.set()
    assert report.sink_missed is not None and report.sink_missed.startswith(
        "6 of 6 sessions did not reach the sink: record_step did not return within 0.05 s"
    )
    assert len(sink.sessions) == 1 and sink.closed == 0


class Hanging(Kept):
    """Its first step never returns."""

    def __init__(self, released: threading.Event) -> None:
        super().__init__()
        self.released = released

    def record_step(self, session: SessionContext, step: SessionStep) -> None:
        self.released.wait(30)


class HangingAsync(Kept):
    """The same, on the event loop."""

    async def record_step(self, session: SessionContext, step: SessionStep) -> None:
        await asyncio.Event().wait()


def test_a_close_that_fails_is_reported(tmp_path: Path) -> None:
    def at_close(name: str, session: SessionContext | None) -> None:
        if name == "close":
            raise OSError(28, "No space left on device")

    report = played(tmp_path, lambda: Kept(at_close))
    assert report.sink_missed == "the sink failed: close: OSError: [Errno 28] No space left on device"


class Half:
    """Has no record_step."""

    def create_session(self, session: SessionContext) -> None: ...

    def close(self) -> None: ...


def broken() -> StepSink:
    raise RuntimeError("no such store")


@pytest.mark.parametrize(
    ("make", "said"),
    [(Half, "Half is not a sink: it has no record_step"), (broken, "RuntimeError: no such store")],
)
def test_a_sink_that_cannot_be_made_stops_the_run_at_once(tmp_path: Path, make: Any, said: str) -> None:
    with endpoint(counter) as fake, pytest.raises(ConfigurationError, match=said):
        run(request(fake), tmp_path, sink=make)
    assert not fake.received
