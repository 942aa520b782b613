"""The exhibition match: it plays while nobody else does, and gives way, and leaves little behind."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from server.background.exhibition import AGAIN_S, KEPT, REST_S, VISITED_S, Exhibition
from spectator.catalog import load_world
from spectator.episodes.plan import plan_episode
from spectator.errors import EpisodeBusy
from spectator.evaluation.figures import EXHIBITION
from tests.fakes import ManualClock
from tests.serving import PATIENCE_S, Serving, serve, test_settings

USUAL = SimpleNamespace(costs_money=False, source="heuristic", missing=None)


class House:
    """What an exhibition needs of a server, with nothing behind it."""

    def __init__(self, environment: str = "counting") -> None:
        self.clock = ManualClock()
        self.playing: list[Any] = []
        self.removed: list[str] = []
        self.ended: list[str] = []
        self.slots = 2
        self.waiting = 0
        self.paused: str | None = None
        self.is_ready = True
        self.captain: Any = USUAL
        self.planned: list[tuple[str, str | None]] = []
        self.exhibition = Exhibition(
            environment,
            None,
            cast(Any, self),
            cast(Any, self),
            cast(Any, self),
            cast(Any, SimpleNamespace(kept=self)),
            lambda: self.is_ready,
            self.clock,
        )

    @property
    def paused_since(self) -> str | None:
        return self.paused

    @property
    def free_slots(self) -> int:
        return self.slots - len(self.playing)

    def running(self) -> list[Any]:
        return list(self.playing)

    showing = running

    def plan(self, request: Any) -> Any:
        plan = plan_episode(request, draw_seed=lambda: 7)
        self.planned.append((plan.captain.label, None if plan.opponent is None else plan.opponent.label))
        if self.captain is not USUAL:
            object.__setattr__(plan, "captain", self.captain)
        return plan

    async def start(self, plan: Any) -> None:
        self.play(plan.run_id)

    def play(self, run_id: str | None) -> None:
        name = f"ep-{len(self.playing) + len(self.ended)}"
        self.playing.append(SimpleNamespace(episode_id=name, plan=SimpleNamespace(run_id=run_id)))

    async def stop(self, episode_id: str, *, by: str) -> None:
        self.playing = [one for one in self.playing if one.episode_id != episode_id]
        self.ended.insert(0, episode_id)

    async def episodes(self, wanted: Any) -> list[Any]:
        assert (wanted.run_id, wanted.ended) == (EXHIBITION, True)
        return [SimpleNamespace(episode_id=name) for name in self.ended]

    async def remove(self, episode_id: str) -> None:
        self.ended.remove(episode_id)
        self.removed.append(episode_id)

    @property
    def is_on(self) -> bool:
        return [one.plan.run_id for one in self.playing] == [EXHIBITION]


@pytest.fixture
def house() -> House:
    house = House()
    house.exhibition.note_visit()
    return house


def test_it_begins_when_somebody_looks_and_nobody_plays(house: House) -> None:
    asyncio.run(house.exhibition.look())
    assert house.is_on
    asyncio.run(house.exhibition.look())
    assert house.is_on


HINDRANCES: dict[str, Callable[[House], object]] = {
    "somebody plays": lambda house: house.play(None),
    "starts are paused": lambda house: setattr(house, "paused", "2026-01-01T00:00:00Z"),
    "what ran is not recovered": lambda house: setattr(house, "is_ready", False),
    "somebody waits": lambda house: setattr(house, "waiting", 1),
    "no slot is free": lambda house: setattr(house, "slots", 0),
    "nobody has looked lately": lambda house: house.clock.advance(VISITED_S + 1),
}


@pytest.mark.parametrize("why", HINDRANCES)
def test_it_does_not_begin_while(house: House, why: str) -> None:
    HINDRANCES[why](house)
    before = len(house.playing)
    asyncio.run(house.exhibition.look())
    assert len(house.playing) == before


def test_nothing_is_played_for_nobody() -> None:
    house = House()
    asyncio.run(house.exhibition.look())
    assert not house.playing


def test_it_gives_its_slot_to_whoever_wants_one_and_only_where_it_must(house: House) -> None:
    asyncio.run(house.exhibition.look())
    asyncio.run(house.exhibition.make_way())
    assert house.is_on, "another slot is free"
    house.play(None)
    asyncio.run(house.exhibition.make_way())
    assert [one.plan.run_id for one in house.playing] == [None]
    asyncio.run(house.exhibition.make_way())
    assert len(house.playing) == 1, "nobody else is ended"


def test_of_those_that_ended_a_few_are_kept_and_the_next_waits_a_little(house: House) -> None:
    for _ in range(KEPT + 3):
        asyncio.run(house.exhibition.look())
        assert house.is_on
        asyncio.run(house.stop(house.playing[0].episode_id, by="test"))
        asyncio.run(house.exhibition.look())
        assert not house.is_on
        house.clock.advance(REST_S)
        house.exhibition.note_visit()
    assert len(house.ended) == KEPT
    assert len(house.removed) == 3


def test_who_plays_rotates_through_pairs_of_different_captains() -> None:
    house = House("cricket")
    pairings = load_world("cricket").pairings()
    for _ in range(len(pairings) + 1):
        house.exhibition.note_visit()
        asyncio.run(house.exhibition.look())
        asyncio.run(house.stop(house.playing[0].episode_id, by="test"))
        asyncio.run(house.exhibition.look())
        house.clock.advance(REST_S)
    assert all(captain != opponent for captain, opponent in house.planned)
    assert len(set(house.planned)) == len(pairings) > 2
    assert house.planned[0] == house.planned[-1]


@pytest.mark.parametrize("change", [{"costs_money": True}, {"source": "human"}, {"missing": "a key"}])
def test_captains_who_cost_money_or_time_of_people_play_no_exhibition(
    house: House, change: dict[str, Any]
) -> None:
    house.captain = SimpleNamespace(**{**vars(USUAL), **change})
    with pytest.raises(Exception, match="free of charge"):
        asyncio.run(house.exhibition.look())
    assert not house.playing


def test_what_cannot_be_started_is_tried_again_later(house: House) -> None:
    async def busy(plan: Any) -> None:
        raise EpisodeBusy([], 1)

    house.start = busy  # type: ignore[method-assign]
    with pytest.raises(EpisodeBusy):
        asyncio.run(house.exhibition.look())
    assert AGAIN_S > REST_S


def wait_for(serving: Serving, is_so: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    deadline = time.monotonic() + PATIENCE_S
    while not is_so(status := serving.client.get("/custom/status").json()):
        assert time.monotonic() < deadline, status
        time.sleep(0.05)
    return cast(dict[str, Any], status)


def test_on_a_server_it_plays_until_a_real_start_needs_the_slot(tmp_path: Path) -> None:
    """It is no obstacle to a start, and stands in no standings."""
    with serve(test_settings(tmp_path, exhibition=True, max_episodes=1)) as serving:
        (shown,) = wait_for(serving, lambda status: bool(status["running"]))["running"]
        answer = serving.client.post("/custom/start_episode", json={"pace": "max"})
        assert answer.status_code == 202, answer.text
        serving.finish(answer.json()["episode_id"])
        entry = serving.client.get(f"/api/episodes/{shown['episode_id']}").json()
        assert (entry["reason"], entry["run_id"]) == ("stopped", EXHIBITION)
        deadline = time.monotonic() + PATIENCE_S
        while serving.client.get("/api/leaderboard").json()["pending"]:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        board = serving.client.get("/api/leaderboard").json()
        assert board["episodes"] == 1, board
