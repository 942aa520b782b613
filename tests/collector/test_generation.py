"""The model of a collector: batches, failures, calls that hang, tokens; and episodes side by side."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from spectator.collector.collector import CollectedEpisode, CollectTask, collect_episode, collect_episodes
from spectator.collector.generation import Generated
from spectator.errors import ConfigurationError, InvalidRequest, StepTimeout
from spectator.policies.invalid_answers import InvalidAnswers
from tests.llm.brains import counter, read_situation

TURNS = {"turns": 4}
FALLBACK = InvalidAnswers(on_invalid="fallback")


def prompt_fn(messages: Sequence[Mapping[str, Any]]) -> str:
    return json.dumps(list(messages))


def seen(prompt: str) -> dict[str, Any]:
    return read_situation({"messages": json.loads(prompt)})


def counts(prompt: str, config: Any) -> str:
    return counter({"messages": json.loads(prompt)}).text


def collect_one(generate: Any, **changes: Any) -> CollectedEpisode:
    return collect_episode(
        "counting", 7, None, None, prompt_fn, generate, **{"options": TURNS, "invalid": FALLBACK, **changes}
    )


def collect_several(generate: Any, tasks: Sequence[CollectTask], **changes: Any) -> list[CollectedEpisode]:
    collecting = collect_episodes(
        "counting", tasks, prompt_fn, generate, **{"options": TURNS, "concurrency": 8, **changes}
    )
    return asyncio.run(collecting)


def test_episodes_wait_for_their_answers_together_and_come_in_order() -> None:
    sizes: list[int] = []
    heard: list[int] = []

    def generate(prompts: Sequence[str], config: Any) -> list[str]:
        sizes.append(len(prompts))
        return [counts(prompt, config) for prompt in prompts]

    tasks = [CollectTask(seed) for seed in range(20)]
    found = collect_several(generate, tasks, on_collected=lambda one: heard.append(one.record.seed))
    assert [one.record.seed for one in found] == list(range(20)) == sorted(heard)
    assert len({one.record.episode_id for one in found}) == 20
    assert all(one.record.model_reward == 1.0 for one in found)
    assert max(sizes) == 8 and len(sizes) < 20 * 4 / 2, "many prompts to a call"
    alone = collect_one(counts)
    assert [step.action for step in found[7].record.steps] == [step.action for step in alone.record.steps]


def test_a_call_of_many_that_fails_is_made_again_one_by_one() -> None:
    failed = 0

    def generate(prompts: Sequence[str], config: Any) -> list[str]:
        nonlocal failed
        if len(prompts) > 1:
            failed += 1
            raise RuntimeError("out of memory")
        return [counts(prompt, config) for prompt in prompts]

    found = collect_several(generate, [CollectTask(seed) for seed in range(6)])
    assert failed and all(one.record.model_reward == 1.0 for one in found)


def test_a_failure_is_tried_once_more_and_steps_keep_their_own_words() -> None:
    calls = 0

    def fails_once(prompt: str, config: Any) -> str:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise RuntimeError("a hiccup")
        if seen(prompt)["next"] == 2:
            raise AttributeError("not this one")
        return counts(prompt, config)

    record = collect_one(fails_once).record
    assert [step.source for step in record.steps] == ["model", "fallback", "model", "model"]
    assert record.steps[1].completion == "" and record.steps[1].failure_class == "model_infra"
    assert ["ACTION: 1", "ACTION: 3", "ACTION: 4"] == [
        json.loads(step.completion)["arguments"]["text"] for step in record.steps if step.source == "model"
    ]
    assert [seen(step.prompt)["next"] for step in record.steps] == [1, 2, 3, 4]


@pytest.mark.parametrize("error", [SystemExit(3), StopIteration(), KeyError("x"), StepTimeout("its own")])
def test_whatever_the_function_raises_is_a_failure_of_the_model(error: BaseException) -> None:
    def fails_at_two(prompt: str, config: Any) -> str:
        if seen(prompt)["next"] == 2:
            raise error
        return counts(prompt, config)

    record = collect_one(fails_at_two).record
    assert [step.source for step in record.steps] == ["model", "fallback", "model", "model"]
    assert record.steps[1].failure_class == "model_infra"
    assert record.end_reason == "finished"


def test_a_call_that_hangs_costs_its_decision_and_nothing_waits_for_it() -> None:
    gate = threading.Event()

    def hangs_at_two(prompt: str, config: Any) -> str:
        if seen(prompt)["next"] == 2:
            gate.wait(60)
        return counts(prompt, config)

    try:
        record = collect_one(hangs_at_two, answer_s=0.2).record
    finally:
        gate.set()
    assert [(step.source, step.failure_class) for step in record.steps][1] == ("fallback", "timeout")
    assert [step.source for step in record.steps].count("model") == 3
    assert record.end_reason == "finished"


def test_a_prompt_that_cannot_be_rendered_is_a_labelled_failure() -> None:
    def breaks(messages: Sequence[Mapping[str, Any]]) -> str:
        raise KeyError("chat_template")

    record = collect_episode(
        "counting", 7, None, None, breaks, counts, options=TURNS, invalid=FALLBACK
    ).record
    assert {(step.source, step.failure_class) for step in record.steps} == {("fallback", "model_infra")}
    assert record.end_reason == "finished" and record.model_reward == 0.0


@dataclass
class Sampling:
    temperature: float = 0.7
    top_p: float = 0.95
    device: Any = object


def test_tokens_sampling_and_versions_are_in_the_record() -> None:
    def generate(prompt: str, config: Any) -> Generated:
        return Generated(counts(prompt, config), [1, 2, 3], [4, 5], [-0.5, -0.25], "v7")

    record = collect_one(generate, config=Sampling(), model="tiny").record
    assert {(step.token_ids, step.logprobs) for step in record.steps} == {((4, 5), (-0.5, -0.25))}
    assert {(step.tokens_in, step.tokens_out) for step in record.steps} == {(3, 2)}
    assert record.sampling == {"temperature": 0.7, "top_p": 0.95}
    assert (record.model, record.environment_version) == ("tiny", "1.0")
    assert record.spectator_version and record.started_at and record.episode_id
    assert all(step.latency_s is not None for step in record.steps)


@pytest.mark.parametrize(
    "wrong", [lambda *_: 7, lambda *_: None, lambda *_: Generated("x", logprobs=[0.1]), lambda *_: b"x"]
)
def test_what_is_no_answer_is_a_labelled_failure(wrong: Any) -> None:
    record = collect_one(wrong).record
    assert {step.failure_class for step in record.steps} == {"model_infra"}


def test_a_wrong_task_is_refused_before_anything_is_played() -> None:
    asked: list[Any] = []

    def generate(prompts: Sequence[str], config: Any) -> list[str]:
        asked.append(prompts)
        return ["x"] * len(prompts)

    with pytest.raises(InvalidRequest, match="seed"):
        collect_several(generate, [CollectTask(1), CollectTask(-1)])
    for wrong in (0, 1.5, "2"):
        with pytest.raises(ConfigurationError, match="concurrency"):
            collect_several(generate, [CollectTask(1)], concurrency=wrong)
    assert asked == []
