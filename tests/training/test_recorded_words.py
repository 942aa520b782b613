"""Recorded episodes of a trainer keep every word: prompt, answer, tokens, whatever adapter played them."""

from __future__ import annotations

import asyncio
import json
from array import array
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium
import pytest

from spectator.episodes.replayer import verify, verify_attachments
from spectator.events import Event
from spectator.journal.contract import EpisodeFilter, RecordedCall
from spectator.journal.sql_journal import SqlJournal
from spectator.llm.chat import ChatAnswer
from spectator.policies.invalid_answers import InvalidAnswers
from spectator.training.recorded_run import RecordedRun
from spectator.training.text_episode import TextEpisode
from spectator.training.trl import world_environment
from spectator.training.trl_rollouts import WorldRollouts
from tests.commands import spectator
from tests.training.stand_ins import harness_sessions
from tests.training.test_trl_rollouts import Letters, counted, engine, lost, prompts, trainer

SAID = "{} because it is due. " + '{{"tool": "say", "arguments": {{"text": "ACTION: {}"}}}}'


def saying(number: int, word: str = "Go,") -> str:
    return SAID.format(word, number)


class Kept:
    """The decisions and calls of the one episode of a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.events, self.calls = asyncio.run(self._read())

    async def _read(self) -> tuple[list[Event], list[RecordedCall]]:
        journal = await SqlJournal.open(f"sqlite:///{self.folder / 'journal.db'}", writable=False)
        try:
            (one,) = await journal.episodes(EpisodeFilter(limit=10))
            assert await verify(journal.stream(one.episode_id)) == []
            assert [one async for one in verify_attachments(journal, one.episode_id)] == []
            events = [recorded.event for recorded in await journal.read(one.episode_id)]
            return events, [call async for call in journal.calls(one.episode_id)]
        finally:
            await journal.aclose()

    @property
    def decisions(self) -> list[Mapping[str, Any]]:
        return [event.data for event in self.events if event.type == "decision.made"]

    @property
    def refused(self) -> list[str]:
        return [event.data["rule"] for event in self.events if event.type == "action.refused"]

    def replies(self) -> list[Any]:
        return [one.call.reply for one in self.calls]

    def messages(self, place: int) -> list[tuple[str, str]]:
        return [(one["role"], str(one["content"])) for one in self.calls[place].call.messages]

    def exported(self, form: str) -> list[dict[str, Any]]:
        done = spectator("export", "--all", "--data-dir", self.folder, "--format", form, "--out", "-")
        assert done.exit_code == 0, done.output
        return [json.loads(line) for line in done.stdout.splitlines()]


def test_an_answer_in_text_is_kept_with_its_prompt_and_its_refusal(tmp_path: Path) -> None:
    with RecordedRun(tmp_path, model="Tiny") as run:
        episode = TextEpisode("counting", {"turns": 2}, run=run)
        prompt = episode.reset(seed=1)
        refusal = episode.answer("Surely it is one.")
        episode.answer(saying(1))
        after = episode.answer("<think>One more.</think>" + saying(2))
        assert episode.done and episode.value == 1.0
    kept = Kept(tmp_path)
    first, second = kept.decisions
    assert {one["source"] for one in kept.decisions} == {"model"}
    assert {one["model"] for one in kept.decisions} == {"Tiny"}
    assert [len(one["exchanges"]) for one in kept.decisions] == [2, 1], "asked again once"
    assert kept.events[-1].data["own_decisions"] == {"asked": 2, "own": 2, "refused": 1}
    assert (first["raw_text"], first["parse"]) == (saying(1), "ok")
    assert first["reasoning"] == "Go, because it is due."
    assert second["reasoning"] == "Go, because it is due.\n\nOne more."
    assert kept.replies()[2]["thought"] == "One more."
    assert kept.messages(0) == [("user", prompt)]
    assert kept.messages(1) == [("user", prompt), ("assistant", "Surely it is one."), ("user", refusal)]
    assert kept.messages(2)[-2] == ("assistant", saying(1))
    assert after not in {text for _, text in kept.messages(2)}
    rows = kept.exported("messages")
    assert [one["reply"]["content"] for one in rows] == ["Surely it is one.", saying(1), saying(2)]
    assert [one["reward"] for one in rows] == [None, 0.0, 1.0]
    (group,) = kept.exported("episode-record")
    assert [one["role"] for one in group["messages"]] == ["user", "assistant"] * 2, (
        "the transcript omits answers that were sent back"
    )


def test_a_tool_call_is_kept_as_the_answer_of_the_model(tmp_path: Path) -> None:
    with RecordedRun(tmp_path) as run:
        kind: Any = world_environment("counting", {"turns": 2}, run=run)
        one = kind()
        asked = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Play.\n"}]
        text = one.reset(seed=1, prompt=asked)
        told = one.say(text="ACTION: 1")
        one.say(text="ACTION: 2")
    kept = Kept(tmp_path)
    assert [one["source"] for one in kept.decisions] == ["model", "model"]
    (call,) = kept.replies()[0]["tool_calls"]
    assert (call["name"], json.loads(call["arguments"])) == ("say", {"text": "ACTION: 1"})
    assert kept.messages(0) == [("system", "Be brief."), ("user", f"Play.\n{text}")]
    question = kept.calls[1].call.messages
    assert question[2]["tool_calls"][0]["function"]["name"] == "say"
    assert question[3] == {"role": "tool", "tool_call_id": call["id"], "content": told}
    assert kept.calls[0].call.tools[0]["function"]["name"] == "say"


def test_tokens_of_a_rollout_function_are_kept_as_they_were_sampled(tmp_path: Path) -> None:
    with RecordedRun(tmp_path, group_size=1) as run:
        rollouts = WorldRollouts("counting", {"turns": 2}, sample=engine(lost, counted, counted), run=run)
        state = type("State", (), {"global_step": 7})
        made = rollouts(prompts(rollouts, 1), trainer(state=state))
    kept = Kept(tmp_path)
    calls = [one.call for one in kept.calls]
    assert [one["raw_text"] for one in kept.decisions] == [counted(1)[:-1], counted(2)[:-1]]
    assert kept.messages(0)[0][1] in Letters().decode(made["prompt_ids"][0])
    assert kept.messages(1)[1] == ("assistant", "Well.")
    assert calls[0].prompt_token_ids == array("q", made["prompt_ids"][0])
    assert [Letters().decode(one.token_ids or ()) for one in calls] == [lost(0), counted(1), counted(2)]
    assert all(set(one.logprobs or ()) == {-0.5} for one in calls)
    assert {tuple(map(tuple, one.weight_versions)) for one in calls} == {
        (("7", len(lost(0))),),
        (("7", len(counted(1))),),
    }
    (row,) = kept.exported("tokens")
    assert row["token_ids"] == made["prompt_ids"][0] + made["completion_ids"][0]
    rejected = len(made["prompt_ids"][0]) + len(lost(0))  # an answer that was sent back earns nothing
    assert row["loss_mask"] == [0] * rejected + made["env_mask"][0][len(lost(0)) :]
    assert set(row["weight_versions"]) == {None, "7"}
    assert row["calls_without_tokens"] == 0 and row["reward"] == 1.0


def test_groups_of_a_recorded_run_hold_every_conversation(tmp_path: Path) -> None:
    with RecordedRun(tmp_path, group_size=2) as run:
        for wrong in (False, True):
            episode = TextEpisode("counting", {"turns": 1}, run=run)
            episode.reset(seed=3)
            episode.answer(saying(9 if wrong else 1, "Well,"))
            episode.close()
    done = spectator("export", "--all", "--data-dir", tmp_path, "--format", "groups")
    (group,) = map(json.loads, done.stdout.splitlines())
    assert (group["state"], group["same_prompt"]) == ("complete", True)
    said = {
        one[0]["content"]: reward for one, reward in zip(group["completions"], group["rewards"], strict=True)
    }
    assert said == {saying(1, "Well,"): 1.0, saying(9, "Well,"): 0.0}


def test_gymnasium_keeps_words_and_takes_answers_with_tokens(tmp_path: Path) -> None:
    with RecordedRun(tmp_path) as run:
        env: Any = gymnasium.make("spectator.training.gymnasium_env:spectator/counting-v1", run=run, turns=2)
        env.reset(seed=1)
        env.step(saying(1))
        tokens = ChatAnswer(
            text=saying(2), token_ids=array("q", [5, 6]), logprobs=array("d", [-0.5, -1.0]),
            prompt_token_ids=array("q", [1, 2, 3]), weight_versions=[("12", 2)], finish_reason="stop",
        )  # fmt: skip
        assert env.unwrapped.step(tokens)[2]
        env.close()
    kept = Kept(tmp_path)
    assert [one["raw_text"] for one in kept.decisions] == [saying(1), saying(2)]
    call = kept.calls[1].call
    assert (call.token_ids, call.logprobs) == (array("q", [5, 6]), array("d", [-0.5, -1.0]))
    assert [tuple(one) for one in call.weight_versions] == [("12", 2)]
    assert (kept.decisions[1]["tokens_in"], kept.decisions[1]["tokens_out"]) == (3, 2)
    assert kept.replies()[1]["finish_reason"] == "stop"


def test_the_weight_version_of_a_run_marks_what_follows(tmp_path: Path) -> None:
    with RecordedRun(tmp_path) as run:
        episode = TextEpisode("counting", {"turns": 2}, run=run)
        episode.reset(seed=1)
        episode.answer(saying(1))
        run.weight_version = "step-2"
        episode.answer(saying(2))
    versions = [[tuple(run) for run in one.call.weight_versions] for one in Kept(tmp_path).calls]
    assert versions == [[], [("step-2", 0)]]


def test_an_action_without_words_is_still_that_of_somebody_elsewhere(tmp_path: Path) -> None:
    with RecordedRun(tmp_path) as run:
        episode = TextEpisode("counting", {"turns": 1}, run=run)
        episode.reset(seed=1)
        episode.act({"text": "ACTION: 1"})
    kept = Kept(tmp_path)
    assert [one["source"] for one in kept.decisions] == ["remote"]
    assert kept.calls == []


@pytest.mark.parametrize("said", ["", "\ud800 half a pair", "x" * 300_000])
def test_words_that_are_hard_to_write_are_kept_or_cut_in_the_event_alone(tmp_path: Path, said: str) -> None:
    with RecordedRun(tmp_path) as run:
        episode = TextEpisode("counting", {"turns": 1}, run=run)
        episode.reset(seed=1)
        episode.answer(said)
        episode.answer(saying(1))
        assert episode.value == 1.0
    kept = Kept(tmp_path)
    assert len(kept.calls) == 2
    assert kept.replies()[0]["content"] == said.replace("\ud800", "?").strip() or "half a pair" in said


@pytest.fixture
def sessions() -> Any:
    return harness_sessions()


def harnessed(session: Any, *answers: tuple[str, Sequence[int]]) -> None:
    """Drive a session as OpenEnv's harness does: each answer has some words and says some numbers."""
    messages, due = list(session.initial_messages()), list(answers)

    def model_step(asked: list[Any], tools: list[Any], sampling: Mapping[str, Any]) -> Any:
        words, numbers = due.pop(0)
        calls = [
            SimpleNamespace(id=f"c{one}", name="say", args={"text": f"ACTION: {one}"}) for one in numbers
        ]
        return SimpleNamespace(
            response=SimpleNamespace(content=words, tool_calls=calls),
            prompt_ids=[1, 2, len(asked)], completion_ids=[7, 8], logprobs=[-0.5, -0.25],
        )  # fmt: skip

    step = session.recorded(model_step)
    while due:
        said = step(messages, session.list_tools(), {}).response
        messages.append({"role": "assistant", "content": said.content})
        for call in said.tool_calls:
            told = session.call_tool(call.name, call.args)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": told.data})
    session.verify(messages)
    session.close()


def test_the_harness_keeps_words_and_tokens_of_each_answer(sessions: Any, tmp_path: Path) -> None:
    with RecordedRun(tmp_path, model="Tiny") as run:
        session = sessions.WorldSessionFactory("counting", {"turns": 3}, run=run).create(None, seed=1)
        harnessed(session, ("I count.", [1, 2]), ("On.", [3]))
    kept = Kept(tmp_path)
    assert [one["source"] for one in kept.decisions] == ["model"] * 3
    assert [len(one["exchanges"] or ()) for one in kept.decisions] == [1, 0, 1]
    assert kept.decisions[0]["reasoning"] == "I count."
    first, second = [one.call for one in kept.calls]
    assert [one["role"] for one in second.messages] == ["user", "assistant", "tool", "tool"]
    assert (first.prompt_token_ids, first.token_ids) == (array("q", [1, 2, 1]), array("q", [7, 8]))
    assert second.logprobs == array("d", [-0.5, -0.25])
    assert first.tools[0]["function"]["name"] == "say"


def test_the_harness_without_the_models_step_keeps_its_tool_calls(sessions: Any, tmp_path: Path) -> None:
    with RecordedRun(tmp_path) as run:
        session = sessions.WorldSessionFactory("counting", {"turns": 1}, run=run).create(None, seed=1)
        session.call_tool("say", {"text": "ACTION: 1"})
        session.close()
    (reply,) = Kept(tmp_path).replies()
    assert json.loads(reply["tool_calls"][0]["arguments"]) == {"text": "ACTION: 1"}


def test_last_words_that_no_action_carries_out_are_kept_with_the_end(sessions: Any, tmp_path: Path) -> None:
    with RecordedRun(tmp_path) as run:
        session = sessions.WorldSessionFactory("counting", {"turns": 3}, run=run).create(None, seed=1)
        harnessed(session, ("I count.", [1]), ("I give up.", []))
    kept = Kept(tmp_path)
    assert [one["content"] for one in kept.replies()] == ["I count.", "I give up."]
    end = kept.events[-1].data
    assert (end["reason"], end["penalty"]) == ("policy_error", 0.0)
    assert end["own_decisions"] == {"asked": 2, "own": 1, "refused": 1}
    assert [row["reply"]["content"] for row in kept.exported("messages")] == ["I count.", "I give up."]


def test_the_words_that_a_world_failed_at_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with RecordedRun(tmp_path) as run:
        episode = TextEpisode("counting", {"turns": 3}, run=run)
        episode.reset(seed=1)
        episode.answer(saying(1))
        monkeypatch.setattr(type(episode.world.environment()), "step", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            episode.answer(saying(2))
        monkeypatch.undo()
    kept = Kept(tmp_path)
    assert [one["content"] for one in kept.replies()] == [saying(1), saying(2)]
    assert kept.events[-1].data["reason"] == "environment_error"


def test_what_is_not_recorded_costs_no_call() -> None:
    episode = TextEpisode("counting", {"turns": 1})
    episode.reset(seed=1)
    assert episode.call([], ChatAnswer(text="")) is None
    episode.open_with([{"role": "user", "content": "Play."}])
    episode.answer(saying(1))
    assert episode.value == 1.0


@pytest.mark.parametrize("rule", ["penalize", "mask", "end"])
def test_a_rollouts_mask_is_that_of_the_export_of_its_record(tmp_path: Path, rule: Any) -> None:
    invalid = InvalidAnswers(on_invalid=rule, invalid_reward=-1.0)
    for name, answers in (("whole", (lost, counted, lost, counted)), ("failed", (counted, lost, lost))):
        with RecordedRun(tmp_path / name) as run:
            rollouts = WorldRollouts(
                "counting", {"turns": 2}, sample=engine(*answers), run=run, invalid=invalid
            )
            made = rollouts(prompts(rollouts, 1), trainer(room=5000))
        (row,) = Kept(tmp_path / name).exported("tokens")
        prompt, completion = made["prompt_ids"][0], made["completion_ids"][0]
        assert row["reward"] == made["environments"][0].value
        if row["reward"] is None:  # TRL leaves such a rollout out
            assert not any(row["loss_mask"])
            continue
        assert row["token_ids"] == prompt + completion
        assert row["loss_mask"] == [0] * len(prompt) + made["env_mask"][0]
        trained = "".join(
            chr(one or 124) for one, of in zip(completion, made["env_mask"][0], strict=True) if of
        )
        assert trained == (counted(1) + counted(2) if name == "whole" else counted(1) + lost(0))
