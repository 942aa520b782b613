"""The budget: refusals name their limit and use nothing up, places are held in turn, rooms are kept."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.requests import HTTPConnection

from server.http import responses
from server.security.budget import Budget, Costly, Held
from server.security.faults import Refused
from server.security.permissions import Guard
from server.security.rate_limits import MAX_WAITING, ConcurrencyLimit, NoFreePlace, TokenBucket
from server.settings import Settings
from spectator.policies.spending import Caps, SpendLedger, Spent
from tests.fakes import ManualClock
from tests.openenv.conftest import open_client
from tests.serving import Serving, serve, test_settings, until, without_errors

TOKEN = "a-token-of-the-operator"


def connection(address: str, token: str = "") -> HTTPConnection:
    headers = [(b"authorization", f"Bearer {token}".encode())] if token else []
    return HTTPConnection({"type": "http", "client": (address, 1), "headers": headers})


def budget_of(clock: ManualClock, caps: Caps | None = None, **changes: Any) -> Budget:
    settings = Settings(operator_token=TOKEN, **changes)
    ledger = SpendLedger(caps or Caps(), Caps(), clock)
    return Budget(settings, clock, Guard(settings, clock), ledger)


@pytest.mark.parametrize("what", list(Costly))
def test_every_rate_is_of_an_address_and_of_all_and_a_failure_uses_nothing_up(what: Costly) -> None:
    clock = ManualClock()
    limits: dict[str, Any] = {f"{what}_per_minute": 2, f"{what}_per_hour": 3}
    budget = budget_of(clock, **limits)

    def spend(address: str) -> None:
        with budget.spend(what, connection(address)):
            pass

    for _ in range(5):
        with pytest.raises(ZeroDivisionError), budget.spend(what, connection("a")):
            raise ZeroDivisionError
    spend("a")
    spend("a")
    with pytest.raises(
        Refused, match=rf"SPECTATOR_{what.upper()}_PER_MINUTE\); try again in 60 s"
    ) as refused:
        spend("a")
    assert refused.value.headers["Retry-After"] == "60" and refused.value.kind.status == 429
    spend("b")
    with pytest.raises(Refused, match=rf"SPECTATOR_{what.upper()}_PER_HOUR\); try again in 3600 s"):
        spend("c")
    with budget.spend(what, connection("a", TOKEN)):
        assert budget.rates[what].by_all.used() == {"": 3}, "the operator is not counted"
    assert budget.refused == {f"{what}_per_minute": 1, f"{what}_per_hour": 1}
    clock.advance(61.0)
    assert budget.rates[what].by_address.used() == {}


def test_money_is_refused_until_tomorrow_and_counted() -> None:
    clock = ManualClock()
    budget = budget_of(clock, Caps(tokens=10))
    asyncio.run(budget.require_model_budget())
    budget.ledger.add(Spent(tokens=10))
    with pytest.raises(Refused, match="10 tokens") as refused:
        asyncio.run(budget.require_model_budget())
    assert 0 < int(refused.value.headers["Retry-After"]) <= 86_401
    assert budget.refused == {"model_day": 1}


def test_computing_is_paid_for_afterwards() -> None:
    clock = ManualClock()
    time = TokenBucket(0.5, 30.0, clock)
    time.spend(45.0, "a")
    assert time.wait_s("a") == pytest.approx(30.0) and time.wait_s("b") == 0.0
    assert time.waits() == {"a": pytest.approx(30.0)}
    clock.advance(30.5)
    assert time.wait_s("a") == 0.0
    free = TokenBucket(0.0, 0.0, clock)
    free.spend(1e9, "a")
    assert free.wait_s("a") == 0.0


@pytest.mark.parametrize("what", list(Costly))
def test_whoever_has_recorded_too_much_is_refused_until_it_is_an_hour_old(what: Costly) -> None:
    clock = ManualClock()
    budget = budget_of(clock, recorded_mb_per_hour=0.002)
    budget.note_start("ep-1", "a")
    for _ in range(2):
        budget.note_recorded("ep-1", 900, False)
        clock.advance(600.0)
    with budget.spend(what, connection("a")):
        pass
    budget.note_recorded("ep-1", 300, True)
    with pytest.raises(Refused, match=r"SPECTATOR_RECORDED_MB_PER_HOUR\); try again in 2460 s") as refused:
        budget.spend(what, connection("a")).__enter__()
    assert (refused.value.kind.status, refused.value.headers["Retry-After"]) == (429, "2460")
    for free in (connection("b"), connection("a", TOKEN)):
        with budget.spend(what, free):
            pass
    assert budget.refused == {"recorded_mb_per_hour": 1} and budget.recorded.used() == {"a": 2100}
    clock.advance(2460.0)
    with budget.spend(what, connection("a")):
        assert budget.recorded.used() == {"a": 1200}
    clock.advance(3600.0)
    assert budget.recorded.used() == {}


def test_what_is_recorded_before_its_starter_is_known_is_counted_too() -> None:
    """The past of a fork is recorded before its start is answered; what a restart played on is nobody's."""
    budget = budget_of(ManualClock(), recorded_mb_per_hour=0.001)
    budget.note_recorded("fork", 800, False)
    budget.note_recorded("recovered", 800, False)
    budget.starters.update({"fork": "a", "own": "operator"})
    budget.note_recorded("fork", 300, True)
    budget.note_recorded("recovered", 800, True)
    budget.note_recorded("own", 5000, True)
    assert budget.recorded.used() == {"a": 1100} and budget.recorded.wait_s("a") > 0
    assert budget._unclaimed == {}


def test_a_server_counts_what_it_records(tmp_path: Path) -> None:
    with without_errors(), serve(test_settings(tmp_path, recorded_mb_per_hour=0.02)) as serving:
        parent = serving.start(options={"turns": 10, "payload_bytes": 500})
        serving.finish(parent)
        at = next(one["seq"] for one in serving.events(parent) if one["turn"] == 9)
        fork = {"episode_id": parent, "seq": at - 1, "pace": "max"}
        answer = serving.client.post("/custom/fork", json=fork)
        assert answer.status_code == 202, answer.text
        serving.finish(answer.json()["episode_id"])
        for path, body in (("/custom/start_episode", {}), ("/custom/fork", fork), ("/reset", {})):
            refused = serving.client.post(path, json=body)
            assert refused.status_code == 429, f"{path}: {refused.text}"
            assert "SPECTATOR_RECORDED_MB_PER_HOUR" in refused.json()["detail"]
            assert 3000 < int(refused.headers["Retry-After"]) <= 3661
        (taken,) = [
            one
            for one in serving.client.get("/operator/status").json()["budgets"]
            if one["name"] == "recorded_mb_per_hour"
        ]
        assert taken["limit"] == 0.02 and list(taken["addresses"]) == ["127.0.0.x"]


async def test_whoever_waits_gets_the_next_place_and_one_address_keeps_nobody_waiting() -> None:
    places, order = ConcurrencyLimit(3, 2), list[str]()
    leave = asyncio.Event()

    async def read(name: str, address: str) -> None:
        async with places.hold(address):
            order.append(name)
            await leave.wait()

    readers = [asyncio.create_task(read(f"a{number}", "a")) for number in range(4)]
    await asyncio.sleep(0)
    readers.append(asyncio.create_task(read("b0", "b")))
    readers.append(asyncio.create_task(read("c0", "c")))
    await asyncio.sleep(0)
    assert order == ["a0", "a1", "b0"] and places.waiting == 3
    assert places.held == {"a": 2, "b": 1}
    readers[2].cancel()
    leave.set()
    await asyncio.gather(*readers, return_exceptions=True)
    assert order == ["a0", "a1", "b0", "a3", "c0"]
    assert places.held == {} and places.waiting == 0


def test_nobody_waits_for_ever_and_not_everybody_may_wait() -> None:
    async def scenario() -> None:
        places = ConcurrencyLimit(1, 1, patience_s=0.01)
        async with places.hold("a"):
            with pytest.raises(NoFreePlace) as own:
                async with places.hold("a"):
                    raise AssertionError("it is taken")
            with pytest.raises(NoFreePlace) as others:
                async with places.hold("b"):
                    raise AssertionError("it is taken")
            assert (own.value.scope, others.value.scope) == ("address", "all")
        patient = ConcurrencyLimit(1, 2, patience_s=30.0)
        async with patient.hold("a"):
            waiting = [asyncio.create_task(_enter(patient, f"w{number}")) for number in range(MAX_WAITING)]
            await asyncio.sleep(0)
            with pytest.raises(NoFreePlace):
                await _enter(patient, "one too many")
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
        assert patient.waiting == 0 and patient.held == {}

    async def _enter(places: ConcurrencyLimit, address: str) -> None:
        async with places.hold(address):
            pass

    asyncio.run(scenario())


@contextmanager
def slow_reader(serving: Serving, episode_id: str) -> Iterator[None]:
    """Somebody who reads the beginning of a record and no more."""
    with socket.socket() as reader:
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        reader.connect(("127.0.0.1", int(serving.base_url.rpartition(":")[2])))
        reader.sendall(f"GET /api/episodes/{episode_id}/export HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        assert reader.recv(15) == b"HTTP/1.1 200 OK"
        yield


def test_so_many_read_at_once_and_the_next_comes_when_one_has_left(tmp_path: Path) -> None:
    settings = test_settings(tmp_path, max_reads=1, operator_token=TOKEN)
    with serve(settings) as serving:
        episode_id = serving.start(options={"turns": 300, "payload_bytes": 60_000})
        serving.finish(episode_id)
        answers: list[httpx.Response] = []

        def ask() -> None:
            answers.append(httpx.get(f"{serving.base_url}/api/leaderboard", timeout=30))

        with slow_reader(serving, episode_id):
            right = {"Authorization": f"Bearer {TOKEN}"}
            url = f"/api/episodes/{episode_id}/events?after_seq=900"
            assert serving.client.get(url, headers=right).status_code == 200, "the operator waits for nobody"
            waiting = threading.Thread(target=ask)
            waiting.start()
            services = serving.server.config.app.state.services  # type: ignore[union-attr]
            deadline = time.monotonic() + 10
            while not services.budget.places[Held.READS].waiting:
                assert time.monotonic() < deadline, "it does not wait"
        waiting.join(30)
        assert [answer.status_code for answer in answers] == [200]
        services.budget.places[Held.READS]._patience_s = 0.01
        with slow_reader(serving, episode_id):
            for again, path in enumerate(
                (f"/api/episodes/{episode_id}/events", "/api/leaderboard", "/leaderboard")
            ):
                refused = serving.client.get(path)
                assert refused.status_code == 503 and refused.headers["retry-after"] == str(5 + again)
                assert "SPECTATOR_MAX_READS" in refused.json()["detail"]
        assert services.budget.refused == {"max_reads": 3}


def test_resets_are_limited_by_whatever_way_they_come(tmp_path: Path) -> None:
    with serve(test_settings(tmp_path, resets_per_minute=4)) as serving:
        client = open_client(serving)
        with client.socket:
            assert client.fail({"type": "reset", "data": {"turns": -1}})["code"] == "VALIDATION_ERROR"
            client.ask("reset", {})
            assert serving.client.post("/reset", json={}).status_code == 200
            assert serving.client.post("/pooled/counting/x/reset", json={}).status_code == 200
            call = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
            assert "result" in serving.client.post("/mcp", json=call).json()
            assert client.fail({"type": "reset", "data": {}})["code"] == "CAPACITY_REACHED"
            client.ask("state")
        refused = serving.client.post("/reset", json={})
        assert refused.status_code == 429 and "SPECTATOR_RESETS_PER_MINUTE" in refused.json()["detail"]
        assert "SPECTATOR_RESETS" in serving.client.post("/mcp", json=call).json()["error"]["message"]
        assert serving.client.post("/pooled/counting/x/reset", json={}).status_code == 429
        assert serving.client.get("/state").status_code == 429


def test_environments_that_computed_for_too_long_wait(tmp_path: Path) -> None:
    with serve(test_settings(tmp_path, openenv_compute_s_per_minute=0.000001)) as serving:
        bodies: dict[str, Any] = {"/reset": {}, "/step": {"action": {}}}
        for path, body in bodies.items():  # the first is refused too, for its construction was charged
            refused = serving.client.post(path, json=body)
            assert refused.status_code == 429 and int(refused.headers["retry-after"]) > 1
            assert "SPECTATOR_OPENENV_COMPUTE_S_PER_MINUTE" in refused.json()["detail"]


def test_what_has_not_ended_stays_within_half_of_the_journals_room(tmp_path: Path) -> None:
    with serve(test_settings(tmp_path, keep_mb=4, max_episodes=2)) as serving:
        small = serving.start(pace="broadcast", options={"turns": 1000})
        large = serving.start(options={"turns": 1_000_000, "payload_bytes": 65_536})
        entry = serving.finish(large)
        assert entry["reason"] == "step_cap" and "half of SPECTATOR_KEEP_MB" in entry["detail"]

        def alone() -> bool:
            running = serving.client.get("/custom/status").json()["running"]
            return [one["episode_id"] for one in running] == [small]

        until("the largest goes, and it alone", alone)


def test_a_client_that_takes_nothing_loses_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(responses, "PIECE_S", 0.3)
    with without_errors(), serve(test_settings(tmp_path)) as serving:
        episode_id = serving.start(options={"turns": 300, "payload_bytes": 60_000})
        serving.finish(episode_id)
        places = serving.server.config.app.state.services.budget.places[Held.READS]  # type: ignore[union-attr]
        with slow_reader(serving, episode_id):
            assert places.held == {"127.0.0.1": 1}
            deadline = time.monotonic() + 10
            while places.held:
                assert time.monotonic() < deadline, "it keeps its place"
                time.sleep(0.01)
