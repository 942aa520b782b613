"""A loop of somebody else's is recorded while it runs, and nothing of that reaches the loop."""

from __future__ import annotations

import logging
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest

from spectator.errors import ConfigurationError
from spectator.runs.run_folder import read_run
from spectator.watchable import WatchedLoop, watch
from tests.watchable.recorded import calls_of, episodes_in, events_of, warnings_in


@pytest.fixture(autouse=True)
def _logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger="spectator.watchable")


@pytest.fixture
def run(tmp_path: Path) -> Iterator[WatchedLoop]:
    with watch(tmp_path / "mine", name="ppo on my env", episodes=4) as opened:
        yield opened


async def test_three_lines_show_a_loop(tmp_path: Path) -> None:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Where is the exit?"}]
    with watch(tmp_path / "mine", name="ppo on my env", episodes=1) as run:
        with run.episode(group="prompt-17", seed=3, environment="maze", agent="walker") as episode:
            episode.step(
                observation={"at": [0, 1]}, action="east", reward=0.25, reply="East.", messages=messages,
                tokens=[7, 8], logprobs=[-0.5, -1.5], model="tiny",
            )  # fmt: skip
            messages += [{"role": "assistant", "content": "East."}, {"role": "user", "content": "And now?"}]
            episode.step(observation="a wall", action=2, reward=0.5, reply="North.", messages=messages)
    (one,) = await episodes_in(tmp_path / "mine")
    assert (one.run_id, one.group_id, one.seed, one.environment) == ("mine", "prompt-17", 3, "maze")
    assert (one.reason, one.score, one.turns, one.result) == ("finished", 0.75, 2, "0.75 reward in 2 steps")
    folder = read_run(tmp_path, "mine")
    assert (folder.title, folder.episodes) == ("ppo on my env", 1)
    events = await events_of(tmp_path / "mine", one.episode_id)
    decided = [event.data for event in events if event.type == "decision.made"]
    assert [one["action"] for one in decided] == [{"action": "east"}, {"action": 2}]
    assert [one["raw_text"] for one in decided] == ["East.", "North."]
    said = [event for event in events if event.type == "imported.said"]
    assert [(one.turn, one.data.get("messages") or one.data["text"]) for one in said] == [
        (0, [{"role": "user", "content": "Where is the exit?"}]), (1, '{"at":[0,1]}'),
        (1, [{"role": "user", "content": "And now?"}]), (2, "a wall"),
    ]  # fmt: skip
    assert [one.data.get("private", 0) for one in said] == [1, 0, 0, 0], "the system prompt is the operator's"
    assert [one.data["total"] for one in said] == [None, 0.25, 0.25, 0.75]
    first, second = await calls_of(tmp_path / "mine", one.episode_id)
    assert first.call.token_ids is not None and first.call.token_ids.tolist() == [7, 8]
    assert first.call.logprobs is not None and first.call.logprobs.tolist() == [-0.5, -1.5]
    assert len(second.call.messages) == 4 and second.call.token_ids is None


async def test_a_reward_that_is_no_number_is_absent_and_said(
    run: WatchedLoop, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with run.episode() as episode:
        for reward in (math.nan, "much", math.inf, numpy.float32(0.5), 1, None, [1, 2]):
            episode.step(reward=reward)
    run.close()
    (one,) = await episodes_in(tmp_path / "mine")
    assert (one.score, one.turns) == (1.5, 7)
    events = await events_of(tmp_path / "mine", one.episode_id)
    assert [event.data["reward"] for event in events if event.type == "step.taken"] == [0.5, 1.0]
    assert warnings_in(events) == [
        f"the reward of step {step} is {what}, not a finite number: it is ignored"
        for step, what in ((1, "nan"), (2, "much"), (3, "inf"), (7, "[1, 2]"))
    ]
    assert [record.message for record in caplog.records] == [warnings_in(events)[0]]  # once


async def test_an_episode_without_rewards_has_none_not_zero(run: WatchedLoop, tmp_path: Path) -> None:
    with run.episode() as episode:
        episode.step(action="wait")
    run.close()
    (one,) = await episodes_in(tmp_path / "mine")
    assert (one.reason, one.score, one.result) == ("finished", None, "no reward in 1 step")


class Unspeakable:
    def __repr__(self) -> str:
        raise RuntimeError("no words")


async def test_values_that_are_not_json_are_shown_as_what_they_are(run: WatchedLoop, tmp_path: Path) -> None:
    circle: list[Any] = []
    circle.append(circle)
    values = [
        (numpy.arange(4), "[0,1,2,3]"),
        (numpy.zeros((84, 84)), "float64 array of shape 84 x 84"),
        ({"at": math.inf, (1, 2): b"abc"}, '{"at":"inf","(1, 2)":"3 bytes"}'),
        (int, "<class 'int'>"),
        ("half \ud83d a pair", "half ? a pair"),
    ]
    with run.episode() as episode:
        for value, _ in values:
            episode.step(observation=value)
        episode.step(observation=circle, reward=1.0)
        episode.step(observation=Unspeakable(), action=Unspeakable(), reward=Unspeakable())
        episode.step(observation=10**400, reward=10**400)
    run.close()
    (one,) = await episodes_in(tmp_path / "mine")
    events = await events_of(tmp_path / "mine", one.episode_id)
    shown = [event.data["text"] for event in events if event.type == "imported.said"]
    assert shown[: len(values)] == [words for _, words in values]
    assert "nested too deeply" in shown[len(values)]
    assert (one.score, one.turns) == (1.0, 8)
    assert any("cannot be shown completely: no words" in words for words in warnings_in(events))


async def test_huge_texts_are_cut_and_html_stays_text(run: WatchedLoop, tmp_path: Path) -> None:
    html = "<script>alert(1)</script>"
    with run.episode() as episode:
        episode.step(observation=html, reply=html, messages=html)
        episode.step(
            observation="x" * 30_000_000, reply="y" * 30_000_000, messages="z" * 30_000_000, reward=1
        )
    run.close()
    (one,) = await episodes_in(tmp_path / "mine")
    events = await events_of(tmp_path / "mine", one.episode_id)
    assert max(len(event.data.get("text", "")) for event in events) <= 8_192
    assert next(event.data["raw_text"] for event in events if event.type == "decision.made") == html
    assert (one.score, one.turns) == (1.0, 2)


async def test_a_failing_loop_is_recorded_and_its_error_passes(run: WatchedLoop, tmp_path: Path) -> None:
    error = KeyError("weights")
    with pytest.raises(KeyError) as caught, run.episode() as episode:
        episode.step(reward=1.0)
        raise error
    assert caught.value is error
    with pytest.raises(KeyboardInterrupt), run.episode():
        raise KeyboardInterrupt
    run.close()
    failed, stopped = await episodes_in(tmp_path / "mine")
    assert (failed.reason, failed.score, failed.detail) == ("environment_error", None, "KeyError: 'weights'")
    assert (stopped.reason, stopped.detail) == ("environment_error", "KeyboardInterrupt: ")


async def test_what_comes_after_the_end_is_not_recorded(
    run: WatchedLoop, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    episode = run.episode()
    episode.step(reward=1.0)
    episode.end(truncated="the time was up")
    episode.step(reward=5.0)
    episode.end()
    episode.fail("late")
    left = run.episode()
    left.step(reward=2.0)
    run.close()
    left.step(reward=2.0)
    run.episode().step()
    cut, closed = await episodes_in(tmp_path / "mine")
    assert (cut.reason, cut.turns, cut.detail) == ("step_cap", 1, "the time was up")
    assert (await events_of(tmp_path / "mine", cut.episode_id))[-1].data["total_reward"] == 1.0
    assert (closed.reason, closed.detail) == ("interrupted", "the run was closed before its end")
    assert [record.message for record in caplog.records] == [
        "a step of an episode is not recorded: the episode is over",
        "an episode is not recorded: its run was closed",
    ]


async def test_tokens_that_do_not_fit_are_said(run: WatchedLoop, tmp_path: Path) -> None:
    with run.episode() as episode:
        episode.step(reply="a", messages="b", tokens=["x"])
        episode.step(reply="a", messages="b", tokens=[1, 2], logprobs=[-0.5])
        episode.step(reply="a", messages=[{"content": "b"}])
        episode.step(reply="a", messages="b", tokens=numpy.array([1]), logprobs=[math.nan], reward=1)
    run.close()
    (one,) = await episodes_in(tmp_path / "mine")
    assert one.score == 1.0
    assert [
        words.split("; ")[0] for words in warnings_in(await events_of(tmp_path / "mine", one.episode_id))
    ] == [
        "Step 1: tokens: must be token ids, integers of at least 0",
        "Step 2: logprobs: 1 values for 2 tokens",
        "Step 3: messages[0] has no role",
    ]
    (call,) = await calls_of(tmp_path / "mine", one.episode_id)
    assert call.call.logprobs is not None and math.isnan(call.call.logprobs[0])


def test_two_processes_cannot_record_in_one_folder(run: WatchedLoop, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"cannot record in .*mine: .*another process"):
        watch(tmp_path / "mine")
    with run.episode() as episode:
        episode.step(reward=1.0)


def test_what_cannot_be_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="use letters, digits"):
        watch(tmp_path / "my run!")
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ConfigurationError, match=r"cannot record in .*file: "):
        watch(tmp_path / "file")
    (tmp_path / "fleet").mkdir()
    (tmp_path / "fleet" / "rollouts.json").write_text("{}")
    with pytest.raises(ConfigurationError, match="holds a run of rollouts"):
        watch(tmp_path / "fleet")
    assert (tmp_path / "file").read_text() == "mine"


async def test_a_folder_is_gone_on_with(tmp_path: Path) -> None:
    for _ in range(2):
        with watch(tmp_path / "mine") as run, run.episode() as episode:
            episode.step(reward=1.0)
    assert [one.score for one in await episodes_in(tmp_path / "mine")] == [1.0, 1.0]


LOOP = """
import os, sys, signal
from spectator import watch
run = watch(sys.argv[1])
with run.episode() as whole:
    whole.step(reward=1.0)
half = run.episode()
half.step(reward=0.5)
{end}
"""


async def _after(end: str, folder: Path, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", LOOP.format(end=end), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)  # noqa: ASYNC221
    return done


async def test_what_a_killed_loop_told_stays_and_ends_without_a_verdict(tmp_path: Path) -> None:
    wait = "run._line.read()\nwhile run._line._bytes: pass\nos.kill(os.getpid(), signal.SIGKILL)"
    done = await _after(wait, tmp_path / "mine")  # its recorder keeps the output open until it is through
    assert done.returncode == -9
    whole, half = await episodes_in(tmp_path / "mine")
    assert (whole.reason, whole.score) == ("finished", 1.0)
    assert (half.reason, half.score, half.turns) == ("interrupted", None, 1)
    assert half.detail == "the process that played it went away"


async def test_a_loop_that_exits_without_closing_is_recorded(tmp_path: Path) -> None:
    done = await _after("", tmp_path / "mine")
    assert (done.returncode, done.stderr) == (0, "")
    assert [one.reason for one in await episodes_in(tmp_path / "mine")] == ["finished", "interrupted"]


async def test_a_full_disk_warns_once_and_the_loop_goes_on(tmp_path: Path) -> None:
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, 600_000))\n"
    more = (
        "for _ in range(150):\n  with run.episode() as one:\n    one.step(observation='x' * 4000, reward=1)\n"
    )
    program = limit + LOOP.format(end=more + "run.close()\nprint('done')")
    done = subprocess.run(  # noqa: ASYNC221
        [sys.executable, "-c", program, str(tmp_path / "mine")], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert done.stderr.count("the rest of an episode is not recorded; the loop continues") == 1
    assert len(done.stderr.splitlines()) == 1
    assert 1 < len(await episodes_in(tmp_path / "mine")) < 152


async def test_forks_record_their_own_episodes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    script = """
import multiprocessing, os, sys, threading
from spectator import watch
from spectator.watchable.recorder_client import RecorderLine

def play(run, number, inherited=None):
    if inherited is not None:
        inherited.step(reward=99.0)
    with run.episode(group=f"worker-{number}") as episode:
        episode.step(reward=number)

if __name__ == "__main__":
    parent, joined, send_all = os.getpid(), threading.Event(), RecorderLine._send_all
    RecorderLine._send_all = lambda self: (os.getpid() == parent and joined.wait(), send_all(self))
    run = watch(sys.argv[1])
    begun = run.episode(group="parent")
    for method in ("fork", "spawn"):
        context = multiprocessing.get_context(method)
        given = begun if method == "fork" else None
        workers = [context.Process(target=play, args=(run, number, given)) for number in (1, 2)]
        [worker.start() for worker in workers]
        [worker.join() for worker in workers]
        assert [worker.exitcode for worker in workers] == [0, 0]
    joined.set()  # the parent's first message comes after its workers' last
    begun.step(reward=3)
    begun.end()
    run.close()
"""
    path = tmp_path / "script.py"
    path.write_text(script)
    done = subprocess.run(  # noqa: ASYNC221
        [sys.executable, str(path), str(tmp_path / "mine")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("another process began the episode") == 2
    found = await episodes_in(tmp_path / "mine")
    assert sorted((one.group_id, one.score) for one in found) == [
        ("parent", 3.0), ("worker-1", 1.0), ("worker-1", 1.0), ("worker-2", 2.0), ("worker-2", 2.0),
    ]  # fmt: skip


async def test_a_recorder_that_dies_costs_the_loop_nothing(
    run: WatchedLoop, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with run.episode() as episode:
        episode.step(reward=1.0)
    assert run._recorder is not None
    run._recorder.kill()
    run._recorder.wait()
    for _ in range(3):
        with run.episode() as episode:
            episode.step(reward=1.0)
    run.close()
    assert len([one for one in caplog.records if "the recorder stopped" in one.message]) == 1


async def test_a_loop_faster_than_its_recorder_keeps_every_reward(
    run: WatchedLoop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("spectator.watchable.recorder_client.MAX_WAITING", 2_000)
    monkeypatch.setattr("spectator.watchable.recorder_client.EXTRA_FOR_ENDS", 100)
    for _ in range(5):
        with run.episode() as episode:
            for _ in range(50):
                episode.step(observation="x" * 1000, reward=1.0)
    run.close()
    found = await episodes_in(tmp_path / "mine")
    assert [(one.score, one.turns) for one in found] == [(50.0, 50)] * 5
    said = [warnings_in(await events_of(tmp_path / "mine", one.episode_id)) for one in found]
    assert any(
        "of its 50 steps are not recorded: the loop was faster" in words for one in said for words in one
    )
    assert [one.message for one in caplog.records] == [
        "the loop is faster than its recorder: some steps are not recorded"
    ]


@pytest.mark.usefixtures("real_starts")
def test_importing_it_loads_nothing_heavy() -> None:
    program = "import sys, spectator.watchable\nprint(*sorted(sys.modules))"
    loaded = set(
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout.split()
    )
    assert "spectator.watchable" in loaded
    heavy = {"fastapi", "starlette", "pydantic", "sqlalchemy", "numpy", "asyncio", "gymnasium", "websockets"}
    assert not loaded & heavy


def test_threads_share_a_run(run: WatchedLoop, tmp_path: Path) -> None:
    import asyncio
    from concurrent.futures import ThreadPoolExecutor

    def play(number: int) -> None:
        for _ in range(20):
            with run.episode(group=number) as episode:
                episode.step(reward=number)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(play, range(4)))
    run.close()
    found = asyncio.run(episodes_in(tmp_path / "mine"))
    assert sorted(one.score or 0.0 for one in found) == [
        float(number) for number in range(4) for _ in range(20)
    ]
    assert os.path.isdir(tmp_path / "mine")
