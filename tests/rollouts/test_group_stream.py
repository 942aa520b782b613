"""The groups of a run as they complete: back-pressure, resuming, leaving, versions of the weights."""

from __future__ import annotations

import asyncio
import os
import random
import sys
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from functools import wraps
from pathlib import Path
from typing import Any

import pytest

from spectator import rollout_groups
from spectator.catalog import load_world
from spectator.clock import SystemClock
from spectator.errors import ConfigurationError, InvalidRequest, JournalError, RunHalted
from spectator.rollouts.fleet_plan import Deadlines
from spectator.rollouts.group_stream import RolloutGroup, RolloutGroups
from spectator.rollouts.request import RolloutRequest
from spectator.runs.run_folder import read_run
from spectator.runs.run_records import RunTail
from spectator.runs.run_summary import group_in_journal, summarize_run
from tests.llm.brains import Said, counter, read_situation
from tests.llm.fake_server import Mode, serving
from tests.rollouts.test_fleet import failing_world, garbler, recorded, request, run

ROOT = Path(__file__).resolve().parents[2]
TURNS = 4
GROUPS = [f"g-{number:06d}" for number in range(4)]


def in_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test in an event loop of its own."""

    @wraps(test)
    def run_it(**fixtures: Any) -> None:
        asyncio.run(test(**fixtures))

    return run_it


def loop_over(asked: RolloutRequest, folder: Path, **changes: Any) -> RolloutGroups:
    settings: dict[str, Any] = {
        "concurrency": 4, "clock": SystemClock(), "load": load_world, "rng": random.Random(1),
        "deadlines": Deadlines(startup_jitter_s=0.0), **changes,
    }  # fmt: skip
    return rollout_groups(asked, folder, **settings)


async def shares_shown(folder: Path, name: str) -> list[tuple[float, float, float]]:
    """The shares of a group on the page of its run, and on its own page from the journal alone."""
    tail = await RunTail.open(read_run(folder.parent, folder.name))
    try:
        await tail.look()
        alone = await group_in_journal(tail.journal, name, None)
        assert alone is not None
        groups = [
            summarize_run(tail.folder, list(tail.episodes.values()))["groups"][name],
            await alone.state_json(tail.journal),
        ]
    finally:
        await tail.aclose()
    return [(one["own_share"], one["refused_share"], one["cut_share"]) for one in groups]


def begun(folder: Path) -> set[str | None]:
    return {one.group_id for one in recorded(folder)}


@in_a_loop
async def test_every_group_is_yielded_once_and_whole(tmp_path: Path) -> None:
    async with serving(counter) as fake:
        groups = [group async for group in loop_over(request(fake), tmp_path)]
    assert sorted(one.group_id for one in groups) == GROUPS
    for group in groups:
        assert (len(group.episodes), group.state, group.seat) == (3, "complete", "counter")
        assert group.rewards == [1.0] * 3 and group.advantages == [0.0] * 3
        assert (
            len({one.summary.seed for one in group.episodes}) == 1
            and group.seed == group.episodes[0].summary.seed
        )
        assert (group.own_share, group.refused_share, group.cut_share) == (1.0, 0.0, 0.0)
    assert len(fake.received) == 12 * TURNS


@in_a_loop
async def test_a_slow_consumer_bounds_what_is_in_flight(tmp_path: Path) -> None:
    """While the body of the loop holds one of two groups, only one more is begun, however long it takes."""
    async with serving(counter) as fake:
        asked = request(fake, episodes=24)
        async with loop_over(asked, tmp_path, groups_in_hand=2, concurrency=12) as groups:
            taken = 0
            async for _ in groups:
                taken += 1
                for _ in range(50):
                    await asyncio.sleep(0)
                held = {one.group_id for one in await asyncio.to_thread(recorded, tmp_path)}
                assert len(held) <= taken + 1
        assert taken == 8


@in_a_loop
async def test_with_one_group_in_hand_nothing_is_sampled_while_the_body_runs(tmp_path: Path) -> None:
    async with serving(counter) as fake:
        async with loop_over(request(fake), tmp_path, groups_in_hand=1) as groups:
            taken = 0
            async for _ in groups:
                taken += 1
                await asyncio.sleep(0.05)
                assert len(fake.received) == taken * 3 * TURNS
        assert taken == 4


@in_a_loop
async def test_leaving_the_loop_stops_and_loses_nothing(tmp_path: Path) -> None:
    async with serving(counter, [Mode.SLOW], pause_s=0.005) as fake:
        asked = request(fake, episodes=12)
        async with loop_over(asked, tmp_path, groups_in_hand=3) as groups:
            async for group in groups:
                first = group.group_id
                break
            second = (await anext(groups)).group_id
        sent = len(fake.received)
        await asyncio.sleep(0.05)
        assert len(fake.received) == sent, "nothing is sampled once the block is left"
        rest = [one.group_id async for one in loop_over(asked, tmp_path, delivered=[first, second])]
        assert sorted([first, second, *rest]) == GROUPS
        again = [one.group_id async for one in loop_over(asked, tmp_path)]
        assert sorted(again) == GROUPS, "without its checkpoint, a trainer gets every group again"
    found = await asyncio.to_thread(recorded, tmp_path)
    assert Counter(one.reason for one in found) == {"finished": 12}, "no episode was begun twice"


@in_a_loop
async def test_a_plain_loop_stops_when_it_is_left(tmp_path: Path) -> None:
    async with serving(counter, [Mode.SLOW], pause_s=0.005) as fake:
        groups = loop_over(request(fake), tmp_path)
        async for _ in groups:
            break
        async with asyncio.timeout(20):
            while not groups._closed or not groups._playing or not groups._playing.done():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert sorted([one.group_id async for one in loop_over(request(fake), tmp_path)]) == GROUPS


@in_a_loop
async def test_a_consumer_that_raises_gets_its_own_error_and_the_run_resumes(tmp_path: Path) -> None:
    async with serving(counter) as fake:
        with pytest.raises(ZeroDivisionError):
            async with loop_over(request(fake), tmp_path) as groups:
                async for _ in groups:
                    1 / 0  # noqa: B018
        assert sorted([one.group_id async for one in loop_over(request(fake), tmp_path)]) == GROUPS


@in_a_loop
async def test_a_consumer_that_is_cancelled_leaves_the_rest_to_be_resumed(tmp_path: Path) -> None:
    async with serving(counter, [Mode.SLOW], pause_s=0.02) as fake:

        async def train() -> None:
            async with loop_over(request(fake), tmp_path) as groups:
                async for _ in groups:
                    pass

        training = asyncio.create_task(train())
        async with asyncio.timeout(20):
            while len(fake.received) < 6:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        training.cancel()
        with pytest.raises(asyncio.CancelledError):
            await training
        assert sorted([one.group_id async for one in loop_over(request(fake), tmp_path)]) == GROUPS
        assert {one.reason for one in await asyncio.to_thread(recorded, tmp_path)} == {"finished"}


KILLED = """
import asyncio, sys
from pathlib import Path
from spectator.rollouts.request import RolloutRequest
from tests.rollouts.test_group_stream import loop_over

async def train():
    async for group in loop_over(RolloutRequest.model_validate_json(sys.argv[1]), Path(sys.argv[2])):
        print(group.group_id, flush=True)

asyncio.run(train())
"""


@in_a_loop
async def test_killed_in_the_loop_the_same_call_yields_the_rest(tmp_path: Path) -> None:
    async with serving(counter, [Mode.SLOW], pause_s=0.01) as fake:
        asked = request(fake, episodes=24)
        command = [sys.executable, "-c", KILLED, asked.model_dump_json(), str(tmp_path)]
        training = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.PIPE, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}
        )
        assert training.stdout is not None
        done = [(await training.stdout.readline()).decode().strip() for _ in range(2)]
        training.kill()
        await training.wait()
        rest = [one.group_id async for one in loop_over(asked, tmp_path, delivered=done)]
    assert sorted([*done, *rest]) == [f"g-{number:06d}" for number in range(8)]
    found = await asyncio.to_thread(recorded, tmp_path)
    assert Counter(one.reason for one in found) == {"finished": 24}, "no episode was begun twice"


@in_a_loop
async def test_the_loop_and_the_command_play_the_same_run(tmp_path: Path) -> None:
    async with serving(counter) as fake:
        async with loop_over(request(fake), tmp_path, groups_in_hand=1) as groups:
            await anext(groups)
        report = await asyncio.to_thread(run, request(fake), tmp_path)
        assert (report.over, report.total) == (12, 12) and len(report.report.results) < 12
        assert sorted([one.group_id async for one in loop_over(request(fake), tmp_path)]) == GROUPS
        assert len(fake.received) == 12 * TURNS


@in_a_loop
async def test_groups_that_another_process_completes_are_yielded(tmp_path: Path) -> None:
    async with serving(counter, [Mode.SLOW], pause_s=0.02) as fake:
        asked = request(fake)
        async with loop_over(asked, tmp_path, groups_in_hand=1, concurrency=1) as groups:
            other = asyncio.create_task(asyncio.to_thread(run, asked, tmp_path))
            names = [one.group_id async for one in groups]
            await other
        assert sorted(names) == GROUPS and len(fake.received) == 12 * TURNS


@in_a_loop
async def test_a_group_whose_siblings_all_failed_is_yielded_as_void(tmp_path: Path) -> None:
    async with serving(garbler) as fake:
        asked = request(fake, episodes=2, group_size=2, on_invalid="end")
        (group,) = [one async for one in loop_over(asked, tmp_path)]
    assert (group.state, group.rewards, group.mean_reward) == ("void", [None, None], None)
    assert group.failures == ["unparsable"] * 2 and group.advantages == [None, None]
    shares = (group.own_share, group.refused_share, group.cut_share)
    assert shares == (0.0, 1.0, 0.0) and await shares_shown(tmp_path, group.group_id) == [shares] * 2


@in_a_loop
async def test_environments_that_fail_leave_partial_groups(tmp_path: Path) -> None:
    async with serving(counter) as fake:
        asked = request(fake, attempts=1)
        groups = [one async for one in loop_over(asked, tmp_path, load=failing_world)]
    assert sorted(one.group_id for one in groups) == GROUPS
    assert {"complete", "void"} >= {one.state for one in groups} >= {"complete"}


@in_a_loop
async def test_shares_say_what_was_refused_and_cut(tmp_path: Path) -> None:
    def wavering(body: Mapping[str, Any]) -> Said:
        """Refused once at every second number; the repair is right."""
        repair = body["messages"][-1]["role"] == "user" and len(body["messages"]) > 2
        asked_again = "could not" in str(body["messages"][-1]["content"]) or (repair and _repairs(body))
        return counter(body) if read_situation(body)["next"] % 2 or asked_again else Said(text="hm")

    async with serving(wavering) as fake:
        asked = request(fake, episodes=2, group_size=2, max_turns=3)
        (group,) = [one async for one in loop_over(asked, tmp_path)]
    own = [one.own for one in group.episodes]
    assert group.cut_share == 1.0
    shares = pytest.approx((group.own_share, group.refused_share, 1.0), abs=1e-6)
    assert await shares_shown(tmp_path, group.group_id) == [shares] * 2
    assert (
        group.refused_share == sum(one.refused for one in own) / sum(one.refused + one.own for one in own) > 0
    )


def _repairs(body: Mapping[str, Any]) -> bool:
    return any(one["role"] == "assistant" and one["content"] == "hm" for one in body["messages"][-2:])


@in_a_loop
async def test_an_endpoint_that_is_down_ends_the_loop_with_a_sentence(tmp_path: Path) -> None:
    asked = request("http://127.0.0.1:9/v1", model={"timeout_s": 2.0, "retries": 0})
    with pytest.raises(
        RunHalted,
        match=r"4 groups unfinished \(g-000000, g-000001, g-000002, \.\.\.\): .*cannot be asked.*resume",
    ):
        async for _ in loop_over(asked, tmp_path):
            raise AssertionError("nothing can be complete")
    async with serving(counter) as fake:
        again = request(fake, model={"timeout_s": 30.0})
        assert sorted([one.group_id async for one in loop_over(again, tmp_path)]) == GROUPS


@in_a_loop
async def test_what_is_wrong_is_said_before_anything_is_written(tmp_path: Path) -> None:
    asked = request("http://127.0.0.1:9/v1")
    for changes, rule in (
        ({"groups_in_hand": 0}, "groups_in_hand: is 0; it must be at least 1"),
        ({"concurrency": 0}, "concurrency: is 0; it must be at least 1"),
        ({"version": -1}, "version: -1 is not a whole number of at least 0; use the training step"),
        ({"version": "v2"}, "version: 'v2' is not a whole number"),
        ({"version": True}, "version: True is not a whole number"),
    ):
        with pytest.raises(InvalidRequest, match=rule):
            loop_over(asked, tmp_path / "new", **changes)
    with pytest.raises(ValueError, match="group_size"):
        request("http://127.0.0.1:9/v1", group_size=0)
    assert not (tmp_path / "new").exists()
    with pytest.raises(InvalidRequest, match="delivered: the run has no group 'g-9'"):
        async for _ in loop_over(asked, tmp_path / "run", delivered=["g-9"]):
            pass


@in_a_loop
async def test_a_loop_that_was_left_is_not_continued(tmp_path: Path) -> None:
    async with serving(counter) as fake:
        async with loop_over(request(fake), tmp_path) as groups:
            group = await anext(groups)
        with pytest.raises(InvalidRequest, match="the loop was left; call it again to resume"):
            await anext(groups)
        with pytest.raises(InvalidRequest, match="it was used before; call it again"):
            await groups.__aenter__()
        with pytest.raises(JournalError):
            await group.row()


async def token_versions(group: RolloutGroup) -> list[list[Any]]:
    rows = [row async for row in group.tokens()]
    return [[v for v, m in zip(row["weight_versions"], row["loss_mask"], strict=True) if m] for row in rows]


async def versions_of(group: RolloutGroup) -> Counter[str]:
    calls = [call for one in group.episodes async for call in group.journal.calls(one.summary.episode_id)]
    return Counter(version for call in calls for version, _ in call.call.weight_versions)


@in_a_loop
async def test_update_policy_marks_what_follows(tmp_path: Path) -> None:
    async with serving(counter, reports_version=False) as fake:
        asked = request(fake, model={"tokens": True})
        async with loop_over(asked, tmp_path, groups_in_hand=1, version=0) as groups:
            step, seen = 0, []
            async for group in groups:
                seen.append(dict(await versions_of(group)))
                trained = [one for row in await token_versions(group) for one in row]
                assert trained and set(trained) == {str(step)}
                step += 1
                groups.update_policy(step, model=f"lora-{step}")
        assert seen == [{str(step): 3 * TURNS} for step in range(4)]
        models = [body["model"] for body in fake.bodies]
        assert models == ["m-1"] * 12 + ["lora-1"] * 12 + ["lora-2"] * 12 + ["lora-3"] * 12


@in_a_loop
async def test_what_the_engine_reports_is_recorded_instead(tmp_path: Path) -> None:
    async with serving(counter) as fake:
        asked = request(fake, episodes=1, group_size=1)
        async with loop_over(asked, tmp_path, version=3) as groups:
            assert set(await versions_of(await anext(groups))) == {"w7"}


@in_a_loop
async def test_later_requests_go_to_the_new_address(tmp_path: Path) -> None:
    async with serving(counter) as old, serving(counter) as new:
        async with loop_over(request(old), tmp_path, groups_in_hand=1) as groups:
            await anext(groups)
            groups.update_policy(1, base_url=new.base_url)
            assert len([one async for one in groups]) == 3
        assert (len(old.received), len(new.received)) == (3 * TURNS, 9 * TURNS)
        with pytest.raises(ConfigurationError, match="base_url must look like"):
            loop_over(request(old), tmp_path).update_policy(2, base_url="nowhere")


@in_a_loop
async def test_an_episode_across_an_update_has_a_version_per_token(tmp_path: Path) -> None:
    """The update comes within the second answer of an episode, which is streamed."""
    loop: list[RolloutGroups] = []

    def updating(number: int) -> None:
        if number == 1:
            loop[0].update_policy(1)

    async with serving(counter, reports_version=False, at_half=updating) as fake:
        asked = request(
            fake, episodes=1, group_size=1, model={"tokens": True, "stream": True, "style": "json"}
        )
        async with loop_over(asked, tmp_path, version=0) as groups:
            loop.append(groups)
            group = await anext(groups)
            rows = await token_versions(group)
            calls = [one async for one in group.journal.calls(group.episodes[0].summary.episode_id)]
    runs = [list(one.call.weight_versions) for one in calls]
    assert [version for version, _ in runs[0]] == ["0"]
    assert [version for version, _ in runs[1]] == ["0", "1"], "the answer across the update has both"
    assert [version for version, _ in runs[2]] == [version for version, _ in runs[3]] == ["1"]
    for one, of_call in zip(calls, runs, strict=True):
        assert sum(tokens for _, tokens in of_call) == len(one.call.token_ids or ())
    expected = [version for of_call in runs for version, tokens in of_call for _ in range(tokens)]
    assert [one for row in rows for one in row] == expected


@in_a_loop
async def test_an_answer_that_is_not_streamed_has_the_version_of_its_request(tmp_path: Path) -> None:
    loop: list[RolloutGroups] = []

    def updating(body: Mapping[str, Any]) -> Said:
        loop[0].update_policy(1)
        return counter(body)

    async with serving(updating, reports_version=False) as fake:
        asked = request(fake, episodes=1, group_size=1, options={"turns": 2}, model={"tokens": True})
        async with loop_over(asked, tmp_path, version=0) as groups:
            loop.append(groups)
            assert set(await versions_of(await anext(groups))) == {"0", "1"}


@in_a_loop
async def test_an_older_version_and_one_after_the_end_are_refused(tmp_path: Path) -> None:
    async with serving(counter) as fake:
        async with loop_over(request(fake, episodes=3), tmp_path, version=4) as groups:
            await anext(groups)
            with pytest.raises(
                InvalidRequest, match="version: 3 is older than 4, which is in use; use 4 or more"
            ):
                groups.update_policy(3)
            with pytest.raises(InvalidRequest, match="model: the name is empty"):
                groups.update_policy(5, model="")
            with pytest.raises(StopAsyncIteration):
                await anext(groups)
            assert groups.report is not None and groups.report.over == 3
            with pytest.raises(
                InvalidRequest, match="version: the loop is over, so nothing is sampled any more"
            ):
                groups.update_policy(5)
