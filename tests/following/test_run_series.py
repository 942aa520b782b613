"""The series of a run: what each version of the weights earned, wrote and cost, by its record and exports."""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from spectator.exports.tokens import rows_of_tokens
from spectator.journal.call_totals import CallTotals
from spectator.journal.outline import EpisodeOutline, OwnCount, outline_of
from spectator.llm.chat import ChatAnswer
from spectator.runs.run_folder import MANIFEST, configuration_of, read_run
from spectator.runs.run_plan import standard_error
from spectator.runs.run_records import FollowedEpisode, RunTail
from spectator.runs.run_series import MAX_POINTS, series_of
from spectator.runs.run_summary import summarize_run
from spectator.training.recorded_run import RecordedRun
from spectator.training.text_episode import TextEpisode
from tests.following.trained_run import play_training
from tests.rollouts.exported_run import play_run


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("runs")
    play_training(root / "trained")
    play_run(root / "fleet", model={"price_in": 0.5, "price_out": 1.5, "temperature": 0.7})
    return root


async def shown(root: Path, name: str) -> tuple[RunTail, dict[str, Any]]:
    """A run with its model calls; the caller closes it."""
    tail = await RunTail.open(read_run(root, name))
    await tail.look()
    while await tail.count():
        pass
    return tail, summarize_run(tail.folder, list(tail.episodes.values()), tail.played_with)


async def test_a_version_has_the_figures_of_its_exported_episodes(root: Path) -> None:
    tail, page = await shown(root, "trained")
    points = page["series"]["weight_version"]["points"]
    by_version: dict[str, list[EpisodeOutline]] = defaultdict(list)
    for episode_id in tail.episodes:
        summary = await tail.journal.episode(episode_id)
        assert summary is not None
        outline = await outline_of(tail.journal, summary)
        rows = [row async for row in rows_of_tokens(tail.journal, outline)]
        versions = [one for row in rows for one in row["weight_versions"] if one is not None]
        if versions:
            by_version[versions[-1]].append(outline)
    assert [point["last"] for point in points.values()] == sorted(by_version, key=lambda one: int(one[5:]))
    assert [point["at"] for point in points.values()] == [10, 20, 30, 40, 50, 60]
    for point in points.values():
        outlines = by_version[point["last"]]
        rewards = [one.reward for one in outlines if one.reward is not None]
        own = [one.own for one in outlines]
        error = standard_error(rewards)
        assert error is not None
        assert (point["over"], point["verdicts"]) == (len(outlines), len(rewards))
        assert (point["mean"], point["error"]) == pytest.approx((fmean(rewards), error), abs=1e-6)
        share = sum(one.own for one in own) / sum(one.asked for one in own)
        assert point["own_share"] == pytest.approx(share, abs=1e-6)
        assert point["refusals"] == sum(one.refused for one in own)
        assert point["penalised"] == sum(one.penalised for one in outlines)
    assert page["series"]["weight_version"]["unversioned"] == len(tail.episodes) - sum(
        map(len, by_version.values())
    )
    await tail.aclose()


async def test_tokens_entropy_and_cut_replies_are_those_of_the_recorded_calls(root: Path) -> None:
    tail, page = await shown(root, "trained")
    logprobs: list[float] = []
    written = cut = 0
    for episode_id in tail.episodes:
        async for one in tail.journal.calls(episode_id):
            assert one.call.logprobs is not None and one.call.reply is not None
            logprobs += one.call.logprobs
            written += one.call.reply["usage"]["tokens_out"]
            cut += one.call.reply["finish_reason"] == "length"
    assert page["entropy"] == pytest.approx(-fmean(logprobs), abs=1e-6)
    assert page["tokens_out"] == written and cut > 0
    points = page["series"]["episodes"]["points"].values()
    assert sum(point["cut_replies"] for point in points) == cut
    assert sum(point["logprob_tokens"] for point in points) == len(logprobs)
    assert sum(page["tokens"]["counts"]) == sum(point["tokens_of"] for point in points)
    assert page["configuration"]["sampling"]["model"] == page["model"] == "Qwen3-0.6B"
    assert page["configuration"]["options"]["turns"] == 3
    await tail.aclose()


async def test_a_fleets_run_has_its_cost_and_its_configuration_without_its_endpoint(root: Path) -> None:
    tail, page = await shown(root, "fleet")
    cost = 0.0
    for episode_id in tail.episodes:
        for one in await tail.journal.read(episode_id):
            cost += (one.event.data.get("undecided") or one.event.data).get("cost") or 0.0
    assert page["cost"] == pytest.approx(cost, abs=1e-6) and cost > 0
    assert page["configuration"]["sampling"]["temperature"] == 0.7
    assert page["configuration"]["on_invalid"] == "fallback"
    assert "http" not in json.dumps(page["configuration"])
    await tail.aclose()


def test_a_configuration_shows_no_address_and_no_key() -> None:
    model = {
        "model": "m", "base_url": "http://10.0.0.1/v1", "api_key_env": "KEY", "label": "M",
        "extra": {"top_p": 0.9, "user": "someone", "stop": ["x"]},
    }  # fmt: skip
    asked = {"environment": "counting", "episodes": 8, "options": {"turns": 3}, "model": model}
    assert configuration_of(asked) == {
        "environment": "counting", "options": {"turns": 3}, "sampling": {"model": "m", "top_p": 0.9},
    }  # fmt: skip


async def test_calls_of_many_episodes_are_read_in_pieces(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole_tail, whole = await shown(root, "trained")
    monkeypatch.setattr("spectator.runs.run_records.MAX_COUNTED", 7)
    monkeypatch.setattr("spectator.runs.run_records.COUNTED_AT_ONCE", 3)
    tail = await RunTail.open(read_run(root, "trained"))
    await tail.look()
    left = [len(tail.uncounted)]
    while await tail.count():
        left.append(len(tail.uncounted))
        assert left[-1] == max(0, left[-2] - 7)
    assert summarize_run(tail.folder, list(tail.episodes.values()), tail.played_with) == whole
    assert await tail.look() == [] and not await tail.count(), "nothing is read again"
    await tail.aclose()
    await whole_tail.aclose()


async def test_a_damaged_call_costs_its_figures_but_not_the_page(root: Path, tmp_path: Path) -> None:
    play_training(tmp_path / "odd", versions=1, groups=1)
    with sqlite3.connect(tmp_path / "odd" / "journal.db") as database:
        database.execute("UPDATE calls SET beside = '{'")
    tail, page = await shown(tmp_path, "odd")
    assert page["tokens_out"] is None and page["verdicts"] > 0
    assert "weight_version" not in page["series"]
    await tail.aclose()


async def test_a_reply_too_long_for_its_event_counts_as_cut(tmp_path: Path) -> None:
    with RecordedRun(tmp_path / "long") as run:
        episode = TextEpisode("counting", {"turns": 1}, run=run)
        episode.reset(seed=1)
        for _ in range(2):
            episode.answer(ChatAnswer(text="word " * 8_000, finish_reason="length"))
    tail, page = await shown(tmp_path, "long")
    (point,) = page["series"]["episodes"]["points"].values()
    assert (point["replies"], point["cut_replies"]) == (2, 2)
    await tail.aclose()


def ended(number: int, version: str | None) -> FollowedEpisode:
    calls = None if version is None else CallTotals(versions=["old", version], tokens_out=number)
    return FollowedEpisode(
        f"ep-{number}", "counting", number, None, 1, None, "", reason="finished", reward=float(number % 2),
        own=OwnCount(2, 1, 1), calls=calls,
    )  # fmt: skip


def test_a_series_is_bounded_and_its_old_points_stay_as_they_are() -> None:
    episodes = [ended(number, f"step-{number // 4}") for number in range(4_000)]
    before, after = (series_of(episodes[:count], 4) for count in (3_900, 4_000))
    for axis in ("episodes", "weight_version"):
        old, new = (one[axis]["points"] for one in (before, after))
        assert before[axis]["step"] == after[axis]["step"] and len(new) <= MAX_POINTS
        same = [place for place in old if old[place] == new[place]]
        assert len(same) >= len(old) - 1, "what has changed is only the last point"
        assert sum(point["over"] for point in new.values()) == 4_000
        assert "null" not in json.dumps(new), "changes are sent as merge patches"
    assert len(json.dumps(after)) < 60_000


@pytest.mark.parametrize(
    ("versions", "names", "places"),
    [
        (["step-9", "step-10"], ["step-9", "step-10"], [9, 10]),
        (["10", "9"], ["9", "10"], [9, 10]),
        (["main", "step-1"], ["main", "step-1"], [1, 2]),
        (["a-1", "b-2"], ["a-1", "b-2"], [1, 2]),
        (["v01", "v1"], ["v01", "v1"], [1, 2]),
        ([None, "w7"], ["w7"], [7]),
    ],
)
def test_versions_are_in_the_order_of_their_numbers_or_else_of_their_first_end(
    versions: list[str | None], names: list[str], places: list[int]
) -> None:
    found = series_of([ended(number, version) for number, version in enumerate(versions)])
    points: list[Mapping[str, Any]] = list(found["weight_version"]["points"].values())
    assert [point["last"] for point in points] == names
    assert [point["at"] for point in points] == places
    assert all(point["mixed"] == 1 for point in points)
    assert found["weight_version"]["unversioned"] == versions.count(None)


def test_without_versions_there_is_only_the_axis_of_episodes() -> None:
    assert list(series_of([ended(1, None)])) == ["episodes"]
    assert series_of([]) == {"episodes": {"step": 4, "points": {}}}


def test_every_manifest_has_a_configuration(root: Path) -> None:
    asked = json.loads((root / "fleet" / MANIFEST).read_text())["request"]
    assert set(configuration_of(asked)) >= {"environment", "options", "on_invalid", "sampling"}
