"""Handlers that wait: what they see, what they change, and what they cannot hold up."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from spectator.rollouts import fleet
from spectator.rollouts.fleet import FleetReport
from spectator.rollouts.handlers import EpisodeContext, EpisodeOutcome
from tests.llm.brains import counter
from tests.llm.endpoints import endpoint
from tests.rollouts.test_fleet import recorded, request, run
from tests.rollouts.test_prompt_environments import HERE
from tests.rollouts.test_remote_fleet import sayer


class Watcher:
    """Waits for its advice, and keeps what it saw."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, int, dict[str, Any]]] = []
        self.ends: list[tuple[EpisodeContext, EpisodeOutcome]] = []

    async def handle(self, messages: Sequence[Any], context: EpisodeContext) -> Sequence[Any]:
        await asyncio.sleep(0)
        self.seen.append((context.step, len(messages), dict(context.info)))
        return [{"role": "system", "content": f"ADVICE {context.step}"}, *messages]

    async def on_episode_end(self, context: EpisodeContext, outcome: EpisodeOutcome) -> None:
        await asyncio.sleep(0)
        self.ends.append((context, outcome))


def test_an_async_handler_sees_the_environments_info_and_the_outcome(tmp_path: Path) -> None:
    watcher = Watcher()
    with endpoint(sayer) as fake:
        asked = request(fake, environment=f"{HERE}:Sums", options={"turns": 3}, episodes=1, group_size=1)
        report = run(asked, tmp_path, handler=watcher)
        advised = [body["messages"][0]["content"] for body in fake.bodies]
    assert report.report.succeeded
    assert advised == ["ADVICE 1", "ADVICE 2", "ADVICE 3"]
    assert [(step, info) for step, _, info in watcher.seen] == [(1, {}), (2, {"turn": 1}), (3, {"turn": 2})]
    ((context, outcome),) = watcher.ends
    assert (context.step, context.info, outcome.total_reward) == (3, {"turn": 3}, 1.5)
    assert outcome.info["end_reason"] == "finished"


def test_a_handler_sees_the_prompt_before_it_is_trimmed(tmp_path: Path) -> None:
    watcher = Watcher()
    with endpoint(counter) as fake:
        asked = request(fake, episodes=1, group_size=1, options={"turns": 6}, message_cut=1)
        run(asked, tmp_path, handler=watcher)
        sent = [len(body["messages"]) for body in fake.bodies]
    assert watcher.seen[-1][1] > 6 and max(sent) <= 5
    assert watcher.ends[0][0].info["rubric"], "a world of the catalogue reports the metadata of its last step"


class Slow(Watcher):
    """Never answers, at the prompt or at the end."""

    def __init__(self, at: str) -> None:
        super().__init__()
        self.at = at

    async def handle(self, messages: Sequence[Any], context: EpisodeContext) -> Sequence[Any]:
        return await (asyncio.Event().wait() if self.at == "prompt" else super().handle(messages, context))  # type: ignore[return-value]

    async def on_episode_end(self, context: EpisodeContext, outcome: EpisodeOutcome) -> None:
        await (asyncio.Event().wait() if self.at == "end" else super().on_episode_end(context, outcome))


def played(folder: Path, handler: Any) -> FleetReport:
    with endpoint(counter) as fake:
        asked = request(fake, episodes=2, group_size=1, attempts=1, model={"timeout_s": 1.0})
        return run(asked, folder, handler=handler)


def test_a_handler_that_never_answers_costs_its_decision_alone(tmp_path: Path) -> None:
    report = played(tmp_path, Slow("prompt"))
    assert {one.failure_class for one in report.report.results} == {"policy_fault"}
    assert all("the handler did not answer within 1 s" in str(one.detail) for one in recorded(tmp_path))


def test_a_handler_that_never_learns_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(fleet, "END_S", 0.01)
    with caplog.at_level(logging.ERROR):
        assert played(tmp_path, Slow("end")).report.succeeded
    assert "the handler failed at the end of" in caplog.text


class Wrong(Watcher):
    """Returns something else."""

    async def handle(self, messages: Sequence[Any], context: EpisodeContext) -> Sequence[Any]:
        return None  # type: ignore[return-value]


def test_what_is_not_a_prompt_is_named(tmp_path: Path) -> None:
    report = played(tmp_path, Wrong())
    assert {one.failure_class for one in report.report.results} == {"policy_fault"}
    assert all("the handler returned NoneType" in str(one.detail) for one in recorded(tmp_path))
