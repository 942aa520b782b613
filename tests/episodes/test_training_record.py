"""An episode's record is a training record: what models were shown and answered, and the sealed truth."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from spectator.clock import SystemClock
from spectator.environments.counting.world import CountingEnvironment
from spectator.episodes.recorded_calls import calls_of, spent_on
from spectator.episodes.replayer import verify_attachments
from spectator.episodes.restore import UnfinishedRecord, rebuild
from spectator.episodes.single_agent import SingleAgent
from spectator.episodes.steps import finished
from spectator.errors import EpisodeUnfinished, TruthSealed
from spectator.events import Fact, encode_json
from spectator.exports.tables import row_of_call
from spectator.journal.contract import Attachments, truth_digest
from spectator.journal.outline import outline_of
from spectator.journal.sql_journal import SqlJournal
from spectator.llm.exchanges import MAX_REPLY, fingerprint
from spectator.observations import Observation
from spectator.policies.policy import Decision
from spectator.policies.spending import Spent
from tests.episodes.harness import end_of, plan_of, recover, supervising
from tests.episodes.test_driver import play
from tests.fakes import FakePolicy, counted, world_with
from tests.journal.calls import call_of, decided, user
from tests.journal.records import url_of


class HidingEnvironment(CountingEnvironment):
    """A count that hides a number until it is over."""

    hidden: ClassVar[Any] = {"unseen": 90117}

    def truth(self) -> Mapping[str, Any]:
        return self.hidden if self._over else {}

    @property
    def _over(self) -> bool:
        return bool(self.state["turns"] <= self.state["turn"])


def thinker(answer: str) -> Any:
    """A captain behind whom a model is asked, with tokens."""

    def decide(observation: Observation) -> Decision:
        call = call_of(
            [user(encode_json(dict(observation.content)))], answer, tokens=[1, 2], logprobs=[-0.1, -2]
        )
        asked = fingerprint(call.messages, call.tools)
        held = None if len(answer) > MAX_REPLY else call.reply
        exchange = {"request": asked, "reply": held, "digest": call.digest(asked)}
        return replace(counted(observation), exchanges=[exchange], calls=[call])

    return lambda seed: FakePolicy(decide)


@pytest.mark.parametrize("answer", ["short", "long " * MAX_REPLY])
async def test_calls_are_recorded_in_the_commit_of_their_decision(tmp_path: Path, answer: str) -> None:
    journal = await SqlJournal.open(url_of(tmp_path))
    async with supervising(world_with(policy=thinker(answer)), journal=journal) as stage:
        live = await stage.start(options={"turns": 3})
        await live.wait()
    calls = [one async for one in journal.calls("ep-0001")]
    events = [one.event for one in await journal.read("ep-0001")]
    decisions = [event for event in events if event.type == "decision.made"]
    assert [one.decided for one in calls] == decisions and len(calls) == 3
    for one in calls:
        assert one.call.reply is not None and one.call.reply["content"] == answer
        assert (one.call.token_ids, one.call.logprobs) == (array("q", [1, 2]), array("d", [-0.1, -2]))
        assert one.exchange["request"] == fingerprint(one.call.messages, one.call.tools)
        assert one.exchange["digest"] == one.call.digest(one.exchange["request"])
    await journal.aclose()


def unanswered(answers: list[bool]) -> Any:
    """A captain whose model is asked and paid for, and answers nothing usable while ``answers`` says so."""

    def decide(observation: Observation) -> Decision:
        call = call_of([user(encode_json(dict(observation.content)))], "well")
        asked = fingerprint(call.messages, call.tools)
        exchange = {"request": asked, "reply": call.reply, "digest": call.digest(asked)}
        usable = answers.pop(0)
        return replace(
            counted(observation), source="model" if usable else "fallback", model="m", exchanges=[exchange],
            calls=[call], latency_s=0.5, tokens_in=10, tokens_out=2, cost=0.25,
            failure_class=None if usable else "unparsable", fallback_reason=None if usable else "no action",
        )  # fmt: skip

    return lambda seed: FakePolicy(decide)


@pytest.mark.parametrize("view", ["live", "derived"])
@pytest.mark.parametrize("on_failure", ["end", "suspend"])
async def test_what_was_asked_for_a_decision_that_failed_is_recorded_with_the_failure(
    tmp_path: Path, view: Any, on_failure: Any
) -> None:
    journal = await SqlJournal.open(url_of(tmp_path))
    answers = [True, False, True, True]
    world = world_with(policy=unanswered(answers))
    captain = replace(world.captains["heuristic"], source="model")
    world = replace(world, captains={"heuristic": captain})
    plan = replace(plan_of(world, turns=3), view=view, on_failure=on_failure)
    async with supervising(world, journal=journal) as stage:
        live = await stage.supervisor.start(plan)
        with suppress(EpisodeUnfinished):
            await live.wait()
        assert live.usage["counter"]["tokens_in"] == 20, "what failed was paid for too"
        assert live.usage["counter"]["decisions"] == 1
    last = (await journal.read("ep-0001"))[-1].event
    assert last.type == ("episode.ended" if on_failure == "end" else "episode.suspended")
    calls = [one async for one in journal.calls("ep-0001")]
    assert [one.decided.type for one in calls] == ["decision.made", last.type]
    assert calls[1].exchange["digest"] == calls[1].call.digest(calls[1].exchange["request"])
    assert [one async for one in verify_attachments(journal, "ep-0001")] == []
    assert await spent_on(journal, None) == Spent(24, 0.5, 1.0)
    summary = await journal.episode("ep-0001")
    assert summary is not None
    outline = await outline_of(journal, summary)
    rows = [row_of_call(outline, one) for one in calls]
    assert [(row["turn"], row["decided"], row["failure_class"]) for row in rows] == [
        (1, True, None),
        (2, False, "unparsable"),
    ]
    assert rows[1]["source"] is None and not rows[1]["trainable"]
    assert outline.fallbacks == 0 and len(outline.of_agent) == 1
    if on_failure == "suspend":
        await played_on(journal, world, answers)
    await journal.aclose()


async def played_on(journal: SqlJournal, world: Any, answers: list[bool]) -> None:
    recorded = await journal.read("ep-0001")
    rebuilt = await rebuild(UnfinishedRecord.of(recorded, journal), limit_s=20, load=lambda name: world)
    async with supervising(world, journal=journal) as stage:
        episode = await stage.supervisor.play_on(rebuilt)
        assert (await episode.wait()).reason == "finished"
        used = episode.usage["counter"]
    assert not answers, "the two turns that were left were asked for, and nothing else"
    assert (used["decisions"], used["tokens_in"], used["cost"]) == (3, 40, 1.0)
    calls = [one async for one in journal.calls("ep-0001")]
    assert [one.decided.type == "decision.made" for one in calls] == [True, False, True, True]
    assert [one async for one in verify_attachments(journal, "ep-0001")] == []
    first, second, third = (await calls_of(journal, "ep-0001")).values()
    assert (len(first), len(second), len(third)) == (1, 1, 1), "no decision gets the calls of a failed one"


def test_a_decision_with_calls_but_without_their_exchanges_is_the_policys_error() -> None:
    policy = FakePolicy(lambda observation: replace(counted(observation), calls=[call_of([])]))
    end = end_of(play(world_with(policy=lambda seed: policy)).events)
    assert end["reason"] == "policy_error" and "1 calls for 0 exchanges" in end["detail"]


async def test_the_truth_is_sealed_while_played_and_recorded_with_the_end(tmp_path: Path) -> None:
    truth = encode_json(HidingEnvironment.hidden)

    journal = await SqlJournal.open(url_of(tmp_path))
    asked = asyncio.Event()

    async def decide(observation: Observation) -> Decision:
        await asked.wait()
        return counted(observation)

    world = world_with(environment=HidingEnvironment, policy=lambda seed: FakePolicy(decide))
    async with supervising(world, journal=journal) as stage:
        live = await stage.start(options={"turns": 3})
        with pytest.raises(TruthSealed):
            await journal.truth("ep-0001")
        asked.set()
        await live.wait()
    events = await journal.read("ep-0001")
    assert end_of(events)["truth"] == truth_digest(truth)
    assert await journal.truth("ep-0001") == truth
    public = await journal.episode("ep-0001"), stage.supervisor.showing()
    assert "90117" not in repr(public)
    assert not [one.text for one in events if "90117" in one.text or "unseen" in one.text]
    await journal.aclose()


def test_an_episode_that_is_cut_short_or_suspended_keeps_its_truth_sealed() -> None:
    world = world_with(environment=HidingEnvironment, step_cap=lambda options: 2)
    cut = play(world, turns=4)
    assert end_of(cut.events)["reason"] == "step_cap"
    assert "truth" not in end_of(cut.events) and not cut.journal.attached


@pytest.mark.parametrize("hidden", [{"x": float("inf")}, {"x": object()}, 7])
def test_a_truth_that_is_no_json_is_the_worlds_error(hidden: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HidingEnvironment, "hidden", hidden)
    end = end_of(play(world_with(environment=HidingEnvironment)).events)
    assert end["reason"] == "environment_error" and "truth" not in end


def test_what_an_episode_is_played_for_is_told_at_its_beginning() -> None:
    plan = replace(plan_of(world_with()), run_id="run-1", group_id="task-3", attempt=2)
    started = plan.started()
    assert (started.run_id, started.group_id, started.attempt) == ("run-1", "task-3", 2)


def test_a_single_agents_record_has_the_truth_once_its_world_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    world = world_with(environment=HidingEnvironment)
    monkeypatch.setattr("spectator.episodes.single_agent.load_world", lambda name: world)
    monkeypatch.setattr("spectator.episodes.plan.load_world", lambda name: world)
    agent = SingleAgent("counting")
    agent.reset(seed=1, options={"turns": 2}, tell=True)
    agent.step({"text": "ACTION: 1"})
    before = agent.take_recorded()
    assert (before.ended, before.truth) == (None, None)
    assert [list(calls) for calls in before.calls] == [[], []] and len(before.steps) == 2
    agent.step({"text": "ACTION: 2"})
    told = agent.take_recorded()
    assert told.truth == encode_json(HidingEnvironment.hidden)
    assert told.ended is not None and told.ended.truth == truth_digest(told.truth)


async def test_what_belongs_to_an_episode_that_is_played_elsewhere_is_recorded_here(tmp_path: Path) -> None:
    truth = encode_json({"unseen": 1})
    call = call_of([user("?")])

    journal = await SqlJournal.open(url_of(tmp_path))
    async with supervising(world_with(), journal=journal) as stage:
        plan = plan_of(world_with())
        driver = await stage.supervisor.show(plan, "ep-shown")
        event = decided("ep-shown", 2, [call]).event
        facts = [Fact(event.type, event.data)]
        await driver.record(1, facts, Attachments(calls=[[call]]))
        driver.finish(finished(1.0, {}, 1, world_with().profile, truth), truth)
        live = stage.supervisor.live("ep-shown")
        assert live is not None
        await live.wait()
    assert await journal.truth("ep-shown") == truth
    assert [one.call.messages async for one in journal.calls("ep-shown")] == [call.messages]
    await journal.aclose()


async def test_a_truth_that_a_death_left_unrecorded_is_recorded_when_the_end_is(tmp_path: Path) -> None:
    """The process dies between the world's last step and the end; until then nothing of it is there."""
    world = world_with(environment=HidingEnvironment)
    truth = encode_json(HidingEnvironment.hidden)
    (tmp_path / "left").mkdir()

    first = await SqlJournal.open(url_of(tmp_path))
    async with supervising(world, journal=first) as stage:
        await (await stage.start(options={"turns": 2})).wait()
    events = await first.read("ep-0001")
    await first.aclose()
    journal = await SqlJournal.open(url_of(tmp_path / "left"))
    await journal.append(events[:-1])
    with pytest.raises(TruthSealed):
        await journal.truth("ep-0001")
    async with supervising(world, journal=journal) as stage:
        stage.supervisor.load = lambda name: world
        await recover(journal, SystemClock(), stage.supervisor)
        for live in stage.supervisor.running():
            await live.wait()
    assert end_of(await journal.read("ep-0001"))["truth"] == truth_digest(truth)
    assert await journal.truth("ep-0001") == truth
    await journal.aclose()
