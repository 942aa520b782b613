"""Runs in which the model plays every seat: each seat has its own calls, reward and group."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spectator.catalog import load_world
from spectator.environments.world import World
from spectator.errors import InvalidRequest
from spectator.rollouts.group_stream import RolloutGroup
from tests.commands import spectator
from tests.llm.brains import Said, obedient, read_legal, read_lines, say
from tests.llm.endpoints import endpoint
from tests.llm.fake_server import Mode, serving
from tests.rollouts.test_fleet import request, run
from tests.rollouts.test_group_stream import in_a_loop, loop_over

ONE_OVER = {"max_overs": 1, "decisions": "over"}


def rash(body: Mapping[str, Any]) -> Said:
    """Hits and bowls as boldly as the seed of the request says."""
    boldness = body["seed"] % 11 / 10
    for order, field in (("play_over", "aggression"), ("bowl_over", "attack")):
        if order in read_legal(body):
            return say(body, order, {field: boldness}, "so be it")
    return obedient(body)


def match(fake: Any, **changes: Any) -> Any:
    fields = {
        "environment": "cricket",
        "options": ONE_OVER,
        "opponent": "self",
        "episodes": 4,
        "group_size": 2,
    }
    return request(fake, **{**fields, "model": {"tokens": True}, **changes})


@in_a_loop
async def test_each_seat_has_a_group_of_its_own(tmp_path: Path) -> None:
    async with serving(obedient) as fake:
        async with loop_over(match(fake, options={**ONE_OVER, "reward": "result"}), tmp_path) as loop:
            groups = [group async for group in loop]
            rows = [await group.row() for group in groups]
            tokens = [[row async for row in group.tokens()] for group in groups]
    assert [(one.group_id, one.seat) for one in sorted(groups, key=lambda one: one.group_id)] == [
        ("g-000000", "home"), ("g-000000:away", "away"), ("g-000001", "home"), ("g-000001:away", "away"),
    ]  # fmt: skip
    for home, away in zip(groups[::2], groups[1::2], strict=True):
        for won, other in zip(home.rewards, away.rewards, strict=True):
            assert won is not None and other == 1.0 - won
        assert (home.own_share, away.own_share) == (1.0, 1.0)
        assert [one.summary for one in home.episodes] == [one.summary for one in away.episodes]
    for group, row, of_group in zip(groups, rows, tokens, strict=True):
        assert (row["group_id"], row["seat"], row["rewards"]) == (group.group_id, group.seat, group.rewards)
        assert {one["group_id"] for one in of_group} == {group.group_id}
        assert sum(sum(one["loss_mask"]) for one in of_group) > 0
    seqs = [{(one["episode_id"], seq) for one in of_group for seq in one["seqs"]} for of_group in tokens]
    assert not seqs[0] & seqs[1] and not seqs[2] & seqs[3], "no answer is in the groups of both seats"


def exported(folder: Path, kind: str) -> list[dict[str, Any]]:
    out = folder / f"{kind}.jsonl"
    result = spectator("rollouts", "export", folder, "--format", kind, "--out", out)
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in out.read_text().splitlines()]


@pytest.mark.parametrize("reward", ["score", "decision_value"])
def test_the_command_trains_both_seats(tmp_path: Path, reward: str) -> None:
    with endpoint(rash) as fake:
        options = [f"--option={name}={value}" for name, value in {**ONE_OVER, "reward": reward}.items()]
        command = [
            "rollouts", "run", "--env", "cricket", "--base-url", fake.base_url, "--model", "m", *options,
            "--opponent", "self", "--episodes", "2", "--group-size", "2", "--tokens", "--startup-jitter", "0",
            "--out", str(tmp_path / "run"),
        ]  # fmt: skip
        result = spectator(*command)
    assert result.exit_code == 0, result.output
    home, away = exported(tmp_path / "run", "groups")
    assert (home["group_id"], away["group_id"]) == ("g-000000", "g-000000:away")
    assert (home["seat"], away["seat"]) == ("home", "away")
    assert home["usable"] == away["usable"] == 2 and home["rewards"] != away["rewards"]
    assert home["completions"] != away["completions"]
    calls = exported(tmp_path / "run", "messages")
    assert {(one["actor"], one["seat"], one["group_id"]) for one in calls} == {
        ("home", "home", "g-000000"), ("away", "away", "g-000000:away"),
    }  # fmt: skip
    assert all(one["trainable"] for one in calls)
    for row in (home, away):
        for episode_id, earned in zip(row["episode_ids"], row["rewards"], strict=True):
            mine = [one for one in calls if (one["episode_id"], one["seat"]) == (episode_id, row["seat"])]
            assert {one["episode_reward"] for one in mine} == {earned}
            assert sum(one["reward"] for one in mine) == pytest.approx(earned), "credited once"
    assert {one["seat"] for one in exported(tmp_path / "run", "tokens")} == {"home", "away"}


def bowler_mumbles(body: Mapping[str, Any]) -> Said:
    """Answers only while it bats."""
    return Said(text="hm") if read_lines(body)["decide"].startswith("bowl") else obedient(body)


@in_a_loop
async def test_what_a_fallback_decides_for_the_other_seat_is_not_credited_to_it(tmp_path: Path) -> None:
    async with serving(bowler_mumbles) as fake:
        asked = match(fake, episodes=1, group_size=1, on_invalid="fallback")
        groups = [group async for group in loop_over(asked, tmp_path)]
    shares = {group.seat: group.own_share for group in groups}
    assert all(share is not None and 0 < share < 1 for share in shares.values()), shares
    for group in groups:
        (outline,) = group.episodes
        credited = [one for one in outline.of_agent if outline.trainable(one)]
        assert credited and {one.actor for one in credited} == {group.seat}
        assert all(one.source == "model" for one in credited)


@in_a_loop
async def test_an_endpoint_that_fails_for_the_other_seat_gives_another_attempt(tmp_path: Path) -> None:
    """A fallback would have decided, and the reward of the agent would have been that of another match."""
    async with serving(obedient, [Mode.OK] * 3 + [Mode.GARBAGE] * 6 + [Mode.OK]) as fake:
        asked = match(fake, episodes=1, group_size=1, model={"retries": 0, "tokens": True})
        groups = [group async for group in loop_over(asked, tmp_path)]
    assert [group.own_share for group in groups] == [1.0, 1.0]


def untrainable(name: str) -> World:
    """A world that does not say what the other seat earns."""
    return replace(load_world(name), rival_reward=None)


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"environment": "counting", "options": {}}, "opponent: counting is played without an opponent"),
        ({"load": untrainable}, "opponent: cricket does not say what the other seat earns; choose another"),
    ],
)  # fmt: skip
def test_worlds_without_another_seat_to_train_are_refused(
    tmp_path: Path, changes: dict[str, Any], rule: str
) -> None:
    wanted = {name: one for name, one in changes.items() if name != "load"}
    with pytest.raises(InvalidRequest, match=rule):
        run(match("http://127.0.0.1:9/v1", **wanted), tmp_path / "new", load=changes.get("load", load_world))
    assert not (tmp_path / "new").exists()


def custom(name: str) -> World:
    """A world with opponents that does not name the model itself among them."""
    world = load_world(name)
    return replace(world, opponents={key: one for key, one in world.opponents.items() if not one.mirrors})


@in_a_loop
async def test_any_world_with_opponents_can_be_played_by_the_model_alone(tmp_path: Path) -> None:
    async with serving(obedient) as fake:
        asked = match(fake, episodes=1, group_size=1)
        groups = [group async for group in loop_over(asked, tmp_path, load=custom)]
    assert [group.seat for group in groups] == ["home", "away"]


@in_a_loop
async def test_a_session_is_of_one_seat(tmp_path: Path) -> None:
    async with serving(obedient) as fake:
        asked = match(fake, episodes=1, group_size=1, model={"by_session": True})
        groups: list[RolloutGroup] = [group async for group in loop_over(asked, tmp_path)]
    episode_id = groups[0].episodes[0].summary.episode_id
    paths = {one.path.removesuffix("/chat/completions").rpartition("/")[2] for one in fake.received}
    assert paths == {episode_id, f"{episode_id}-rival"}
