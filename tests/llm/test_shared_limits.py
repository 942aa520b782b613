"""Limits of an endpoint are kept by all processes of a machine, and one that dies keeps nobody waiting."""

from __future__ import annotations

import asyncio
import logging
import signal
import subprocess
import sys
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest

from spectator.cast import Cast
from spectator.clock import SystemClock
from spectator.errors import EndpointBusy
from spectator.llm.rate_limits import SPAN_S, RateLimiter, SharedLimits
from spectator.policies.model_presets import ModelBuild
from tests.fakes import ManualClock
from tests.llm.endpoints import write_captains
from tests.llm.test_client import ASK, FakeReply, FakeTransport, client
from tests.llm.test_pacing import FAR, played

ROOT = Path(__file__).resolve().parent.parent.parent

OTHER_PROCESS = """
import sys
from pathlib import Path
from spectator.clock import SystemClock
from spectator.errors import EndpointBusy
from spectator.llm.rate_limits import SharedLimits

limits = SharedLimits(Path(sys.argv[1]), "somewhere", SystemClock())
until, wanted, most = SystemClock.monotonic() + 30.0, int(sys.argv[2]), int(sys.argv[3])
got = 0
for _ in range(wanted):
    try:
        limits.reserve(0.0, until, 1, requests=most, tokens_limit=None)
        got += 1
    except EndpointBusy:
        break
place = limits.take_slot(1)
print(got, place is not None, flush=True)
sys.stdin.read()
"""


def paced(folder: Path, clock: ManualClock, endpoint: str = "here", **limits: int) -> RateLimiter:
    """What one process keeps the limits with."""
    return RateLimiter(clock, shared=SharedLimits(folder, endpoint, clock), **limits)


def test_two_processes_share_the_requests_of_a_minute(tmp_path: Path) -> None:
    clock = ManualClock()
    first, second, other = (
        paced(tmp_path, clock, name, requests_per_minute=2) for name in ("here", "here", "elsewhere")
    )
    assert [one.reserve(1, FAR).at for one in (first, second, first, second, first)] == pytest.approx(
        [0, 0, SPAN_S, SPAN_S, 2 * SPAN_S]
    )
    assert other.reserve(1, FAR).at == 0.0
    with pytest.raises(EndpointBusy, match="no further request in time"):
        second.reserve(1, 2 * SPAN_S - 1)
    clock.advance(3 * SPAN_S)
    assert second.reserve(1, FAR).at == pytest.approx(3 * SPAN_S)


def test_two_processes_share_the_tokens_of_a_minute(tmp_path: Path) -> None:
    clock = ManualClock()
    first, second = (paced(tmp_path, clock, tokens_per_minute=100) for _ in range(2))
    slot = first.reserve(90, FAR)
    first.settle(slot, 40)
    assert second.reserve(60, FAR).at == 0.0
    unsent = second.reserve(1, FAR)
    assert unsent.at == pytest.approx(SPAN_S)
    second.settle(unsent, 0)
    clock.advance(SPAN_S)
    assert first.reserve(100, FAR).at == pytest.approx(SPAN_S)
    assert second.reserve(500, FAR).at == pytest.approx(2 * SPAN_S), "an empty minute, however much it is"


def test_an_endpoint_that_asks_one_process_to_wait_is_asked_by_none(tmp_path: Path) -> None:
    clock = ManualClock()
    first, second = (paced(tmp_path, clock, requests_per_minute=100) for _ in range(2))
    first.rest(20)
    second.rest(5)
    assert [second.reserve(1, FAR).at, first.reserve(1, FAR).at] == pytest.approx([20, 20])


async def test_places_are_shared_and_waited_for(tmp_path: Path) -> None:
    clock, transport = ManualClock(), FakeTransport(FakeReply())
    pacings = [paced(tmp_path, clock, concurrency=1) for _ in range(2)]
    under_way: list[int] = [0, 0]

    async def noted() -> FakeReply:
        under_way[0] += 1
        under_way[1] = max(under_way)
        await clock.sleep(1.0)
        under_way[0] -= 1
        return FakeReply()

    transport.script = (noted,)

    asking: list[Awaitable[Any]] = [
        client(transport, clock, pacing=one).complete(ASK, deadline=600) for one in pacings * 3
    ]
    assert [answer.text for answer in (await played(clock, *asking))] == ["hello"] * 6
    assert under_way == [0, 1]


def test_who_gets_no_place_in_time_is_limited_and_no_fault_of_the_endpoint(tmp_path: Path) -> None:
    clock = ManualClock()
    holder = SharedLimits(tmp_path, "here", clock)
    place = holder.take_slot(1)
    assert place is not None

    async def run() -> list[Any]:
        chat = client(FakeTransport(FakeReply()), clock, pacing=paced(tmp_path, clock, concurrency=1))
        return await played(clock, chat.complete(ASK, deadline=30))

    (refused,) = asyncio.run(run())
    assert isinstance(refused, EndpointBusy) and refused.failure_class == "rate_limited"
    place.release()
    assert asyncio.run(run())[0].text == "hello"


def other_process(folder: Path, wanted: int, most: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", OTHER_PROCESS, str(folder), str(wanted), str(most)],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_real_processes_together_send_no_more_than_one_may(tmp_path: Path) -> None:
    """One is killed with what it holds: its place is free at once, its requests count for their minute."""
    processes = [other_process(tmp_path, 5, 8) for _ in range(2)]
    try:
        told = []
        for process in processes:
            assert process.stdout is not None
            told.append(process.stdout.readline().split())
        assert sum(int(got) for got, _ in told) == 8
        assert sorted(placed for _, placed in told) == ["False", "True"]
        clock = SystemClock()
        here = SharedLimits(tmp_path, "somewhere", clock)
        assert here.take_slot(1) is None
        for process in processes:
            process.send_signal(signal.SIGKILL)
            process.wait()
        assert here.take_slot(1) is not None
        with pytest.raises(EndpointBusy):
            here.reserve(0.0, clock.monotonic() + 1.0, 1, requests=8, tokens_limit=None)
        assert here.reserve(0.0, clock.monotonic() + 1.0, 1, requests=9, tokens_limit=None)
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def test_a_clock_that_was_put_back_keeps_nobody_waiting(tmp_path: Path) -> None:
    later, now = ManualClock(), ManualClock()
    later.advance(86_400)
    paced(tmp_path, later, requests_per_minute=1).reserve(1, FAR)
    assert paced(tmp_path, now, requests_per_minute=1).reserve(1, FAR).at == 0.0


def test_where_files_cannot_be_written_a_process_keeps_its_own_limits_and_says_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "taken").write_text("no folder", encoding="utf-8")
    clock = ManualClock()
    pacing = paced(tmp_path / "taken", clock, requests_per_minute=2, concurrency=1)
    with caplog.at_level(logging.WARNING):
        assert [pacing.reserve(1, FAR).at for _ in range(3)] == [0.0, 0.0, SPAN_S]
        pacing.rest(90)
        assert asyncio.run(pacing.shared_slot(FAR)) is None
        assert pacing.reserve(1, FAR).at == 90.0
    assert len(caplog.records) == 1 and "not shared with other processes" in caplog.text


def test_captains_with_limits_share_them_beside_their_file_and_others_leave_nothing(tmp_path: Path) -> None:
    clock = ManualClock()
    table = {"base_url": "http://127.0.0.1:9/v1"}
    file = write_captains(tmp_path / "captains.toml", limited={**table, "requests_per_minute": 1}, free=table)

    def pacing(captain: str) -> RateLimiter:
        cast = Cast.from_file(file, live="llm:hf", variables={}, clock=clock)
        build = cast.load("counting").captains[captain].build
        assert isinstance(build, ModelBuild)
        return build.endpoints.pacing(build.name, build.captain)

    assert [pacing("llm:free").reserve(1, FAR).at for _ in range(2)] == [0.0, 0.0]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["captains.toml"]
    assert [pacing("llm:limited").reserve(1, FAR).at for _ in range(2)] == pytest.approx([0.0, SPAN_S])
    assert (tmp_path / "captains.toml.limits" / "minutes.db").exists()
