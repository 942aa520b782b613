"""Admission: each address at its rate, one request after the other while something is played."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from server.security import middleware
from server.security.budget import REFUSED_MESSAGE, Budget, ClientAccount
from server.security.permissions import Guard
from server.security.rate_limits import RequestScheduler
from server.settings import Settings
from spectator.policies.spending import Caps, SpendLedger
from tests.fakes import ManualClock, until
from tests.openenv.conftest import open_client
from tests.serving import serve, test_settings

TOKEN = "a-token-of-the-operator"


async def test_of_a_crowd_one_begins_at_a_time_and_addresses_take_turns() -> None:
    turns, begun, passes = RequestScheduler(lambda: True), list[tuple[str, int]](), 0

    async def count_passes() -> None:
        nonlocal passes
        while True:
            passes += 1
            await asyncio.sleep(0)

    async def ask(address: str) -> None:
        await turns.take(address)
        begun.append((address, passes))

    counting = asyncio.create_task(count_passes())
    await asyncio.gather(*(ask(address) for address in ["a"] * 20 + ["b"] * 2 + ["c"]))
    counting.cancel()
    assert [address for address, _ in begun[:6]] == ["a", "a", "b", "c", "a", "b"]
    assert len({during for _, during in begun}) == 23, "the loop did all else between two of them"
    assert turns.waiting == 0


async def test_nobody_waits_where_nothing_is_played() -> None:
    turns = RequestScheduler(lambda: False)
    async with asyncio.timeout(60):
        for _ in range(3):
            await turns.take("a")
    assert not turns.waiting


async def test_who_leaves_before_its_turn_keeps_nobody_waiting() -> None:
    turns = RequestScheduler(lambda: True)
    await turns.take("a")
    waiting = [asyncio.create_task(turns.take("a")) for _ in range(5)]
    await asyncio.sleep(0)
    for one in waiting[:4]:
        one.cancel()
    async with asyncio.timeout(60):
        await waiting[4]
        await turns.take("b")


async def test_messages_wait_for_their_turn_and_refused_ones_make_it_longer() -> None:
    clock = ManualClock()
    settings = Settings(requests_per_minute=60)
    ledger = SpendLedger(Caps(), Caps(), clock)
    budget = Budget(settings, clock, Guard(settings, clock), ledger)
    for _ in range(60):
        await ClientAccount(budget, "a").admit_message()
    budget.requests.spend(REFUSED_MESSAGE, "a")
    late = asyncio.create_task(ClientAccount(budget, "a").admit_message())
    await until(lambda: clock.sleepers == 1)
    await ClientAccount(budget, "b").admit_message()
    clock.advance(REFUSED_MESSAGE - 1)
    await asyncio.sleep(0)
    assert not late.done()
    clock.advance(2.0)
    await late
    assert budget.requests.wait_s("a") == 0.0


def test_an_address_that_asks_too_often_is_refused_before_anything_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(middleware, "HOLD_S", 0.0)
    settings = test_settings(tmp_path, requests_per_minute=5, operator_token=TOKEN, trusted_hops=1)
    with serve(settings) as serving:
        told = [{"X-Forwarded-For": f"203.0.113.{one}"} for one in (7, 8)]
        assert serving.client.get("/nowhere", headers=told[0]).status_code == 404
        budget = serving.server.config.app.state.services.budget  # type: ignore[union-attr]
        assert budget.requests.spend(4.0, "203.0.113.7"), "5 a minute, one was sent"
        budget.requests.spend(1000.0, "203.0.113.7")
        refused = serving.client.post("/custom/start_episode", content=b"{", headers=told[0])
        assert refused.status_code == 429 and int(refused.headers["retry-after"]) >= 1
        assert "SPECTATOR_REQUESTS_PER_MINUTE" in refused.json()["detail"]
        assert refused.headers["x-content-type-options"] == "nosniff"
        with pytest.raises(InvalidStatus) as closed:
            connect(f"{serving.ws_url}/live", additional_headers=told[0], proxy=None)
        assert closed.value.response.status_code == 429
        assert serving.client.get("/health", headers=told[0]).status_code == 200
        assert serving.client.get("/nowhere", headers=told[1]).status_code == 404
        operator = {**told[0], "Authorization": f"Bearer {TOKEN}"}
        status = serving.client.get("/operator/status", headers=operator).json()
        (row,) = [one for one in status["budgets"] if one["name"] == "requests_per_minute"]
        assert row["used"] == 1 and list(row["addresses"]) == ["203.0.113.x"]


def test_an_environment_is_answered_through_admission(tmp_path: Path) -> None:
    with serve(test_settings(tmp_path, requests_per_minute=6000, resets_per_minute=1)) as serving:
        serving.start(pace="broadcast", options={"turns": 100})
        client = open_client(serving)
        budget = serving.server.config.app.state.services.budget  # type: ignore[union-attr]
        with client.socket:
            client.ask("reset", {})
            assert client.fail({"type": "reset", "data": {}})["code"] == "CAPACITY_REACHED"
            (address,) = budget.requests._left
            used = 6000 - budget.requests.left(address)
            assert used > REFUSED_MESSAGE / 2, "a refused message counts as many"
            client.ask("state")
