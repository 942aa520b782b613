"""The names that users of pooled rollout systems know: each works as docs/rollouts.md shows it."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from spectator import rollout_groups
from spectator.catalog import load_world
from spectator.clock import SystemClock
from spectator.errors import ConfigurationError
from spectator.rollouts.fleet import run_rollouts
from spectator.rollouts.request import RolloutRequest
from spectator.rollouts.sessions import DataManager, SessionStep
from spectator.runs.actors import ActorHandle, RecyclingPool
from spectator.runs.interactor import EpisodeResult, InFlight, Interactor, Play, RunReport
from spectator.steppers.local import ThreadStepper
from tests.llm.brains import Said, counter, read_situation
from tests.llm.endpoints import endpoint
from tests.rollouts.test_fleet import request, run

PAGE = Path(__file__).resolve().parents[2] / "docs" / "rollouts.md"
LONGEST = 12
"""Lines that one of the examples may have."""


def example(name: str, **changes: str) -> Any:
    """The function of this name in the page's examples, with some of its texts replaced."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    (block,) = [block for block in blocks if f"def {name}" in block]
    assert len(block.strip().splitlines()) <= LONGEST
    for old, new in changes.items():
        assert old in block
        block = block.replace(old, new)
    known: dict[str, Any] = {
        "Path": Path, "SessionStep": SessionStep, "RolloutRequest": RolloutRequest, "random": random,
        "run_rollouts": run_rollouts, "SystemClock": SystemClock, "load_world": load_world,
        "DataManager": DataManager, "Play": Play, "RunReport": RunReport, "ActorHandle": ActorHandle,
        "rollout_groups": rollout_groups, "ThreadStepper": ThreadStepper, "RecyclingPool": RecyclingPool,
        "Interactor": Interactor,
    }  # fmt: skip
    exec(block, known)
    return known[name]


def test_a_run_from_python_and_its_steps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with endpoint(counter) as fake:
        play_and_read = example("play_and_read", **{"http://localhost:8001/v1": fake.base_url})
        steps = asyncio.run(play_and_read(tmp_path))
    assert capsys.readouterr().out.startswith("4 None [('g-00000")
    assert {step.source for step in steps} == {"model"}
    assert len({step.session_id for step in steps}) == 4
    last = [step for step in steps if step.is_terminal]
    assert len(last) == 4 and all(step.cumulative_reward == step.step_reward == 1.0 for step in last)
    assert all(step.response and step.messages[0]["role"] == "system" for step in steps)
    assert max(len(step.messages) for step in steps) == 2 + 6 < 2 * len(steps) / 4, "message_cut"


def test_groups_as_they_complete(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = ["g-000001"]
    with endpoint(counter) as fake:
        asked = request(fake, model={"tokens": True})
        asyncio.run(example("trained_groups")(asked, tmp_path, done))
    assert sorted(done) == [f"g-{number:06d}" for number in range(4)]
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3 and all(line.endswith("complete [1.0, 1.0, 1.0] 1.0 0.0") for line in lines)


def test_a_loop_of_ones_own() -> None:
    async def play(handle: ActorHandle[int], flight: InFlight) -> EpisodeResult[int]:
        options = {"turns": 1, "payload_bytes": 0}
        await handle.stepper.reset(seed=1, episode_id=handle.env_id, options=options, limit_s=5)
        shown = await handle.stepper.step({"text": "ACTION: 1"}, limit_s=5)
        return EpisodeResult(
            handle.job, handle.env_id, handle.group_id, "finished", shown.observation.reward, turns=1
        )

    report = asyncio.run(example("own_loop")(play))
    assert report.succeeded and sorted(one.job for one in report.results) == list(range(8))
    assert {one.group_id for one in report.results} == {"g-0", "g-1", "g-2", "g-3"}


def test_the_address_of_an_operation() -> None:
    stepper: Any = None
    handle = ActorHandle("qa", "7", None, "http", "http://host:36663/", stepper, 1)
    assert handle.url("step") == "http://host:36663/qa/7/step"
    inside = ActorHandle("qa", "7", None, "inproc", None, stepper, 1)
    with pytest.raises(ConfigurationError):
        inside.url("step")


def steps_of(folder: Path) -> list[list[SessionStep]]:
    async def read() -> list[list[SessionStep]]:
        async with DataManager.open(folder) as data:
            return [[step async for step in data.steps(one)] async for one in data.sessions()]

    return asyncio.run(read())


@pytest.mark.parametrize(("cut", "samples"), [(0, [False, False, True]), (2, [True, True, True])])
def test_what_is_a_sample_depends_on_the_trimming(tmp_path: Path, cut: int, samples: list[bool]) -> None:
    """Without a cut the last conversation holds all the others."""
    with endpoint(counter) as fake:
        asked = request(fake, episodes=1, group_size=1, options={"turns": 3}, message_cut=cut)
        run(asked, tmp_path)
    (steps,) = steps_of(tmp_path)
    assert [step.is_trainable for step in steps] == samples
    assert [step.is_terminal for step in steps] == [False, False, True]


def test_every_answer_is_in_a_sample_where_conversations_begin_anew(tmp_path: Path) -> None:
    """The last of 60 turns held ten of them; the answers before were in no sample."""
    with endpoint(counter) as fake:
        model = {"history_tokens": 256}
        run(request(fake, episodes=1, group_size=1, options={"turns": 60}, model=model), tmp_path)
    (steps,) = steps_of(tmp_path)
    samples = [step for step in steps if step.is_trainable]
    assert 2 < len(samples) < 30 and samples[-1] is steps[-1]
    said = [message for one in samples for message in one.messages if message["role"] == "assistant"]
    assert len(said) + len(samples) == len(steps)


def test_a_capped_session_has_a_last_sample_where_its_rewards_count(tmp_path: Path) -> None:
    with endpoint(counter) as fake:
        run(request(fake, episodes=1, group_size=1, max_turns=2), tmp_path)
    (steps,) = steps_of(tmp_path)
    assert [step.is_truncated for step in steps] == [False, True]
    assert not any(step.is_trainable for step in steps), (
        "rewarded at its end alone, so that there is no verdict"
    )


def now_and_then(body: Mapping[str, Any]) -> Said:
    """Answers every second question only."""
    return counter(body) if read_situation(body)["next"] % 2 else Said(text="I would rather not say.")


def test_what_a_fallback_earns_is_credited_to_no_text(tmp_path: Path) -> None:
    with endpoint(now_and_then) as fake:
        asked = request(fake, episodes=1, group_size=1, message_cut=2, on_invalid="fallback")
        report = run(asked, tmp_path)
    (result,) = report.report.results
    assert result.own_share is not None and 0 < result.own_share < 1
    (steps,) = steps_of(tmp_path)
    by_fallback = [step for step in steps if step.source == "fallback"]
    assert by_fallback and all(step.response is not None for step in by_fallback), (
        "the text that failed is kept"
    )
    assert {(step.step_reward, step.is_trainable) for step in by_fallback} == {(None, False)}
    assert result.own_share == 1 - len(by_fallback) / len(steps)
