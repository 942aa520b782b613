"""What was weak in earlier systems, where no other test shows it gone; and the table of all of them."""

from __future__ import annotations

import ast
import asyncio
import json
import random
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from spectator.cli import main
from spectator.clock import SystemClock
from spectator.collector.collector import collect_episode
from spectator.episodes.replayer import verify
from spectator.errors import RETRIED_FAILURES, ConfigurationError
from spectator.events import RecordedEvent, record
from spectator.exports.groups import GroupRule, row_of_group
from spectator.journal.contract import EpisodeFilter
from spectator.journal.sql_journal import SqlJournal
from spectator.rollouts.fleet import run_rollouts
from spectator.rollouts.request import RolloutRequest
from spectator.runs.interactor import Interactor
from tests.journal.records import said
from tests.journal.test_conformance import end_with, started_for
from tests.llm.brains import Said, say
from tests.llm.endpoints import endpoint
from tests.profiled_worlds import TRADING
from tests.rollouts.exported_run import SIZE, crashing_world, play_run

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "rollouts-weaknesses.md"
LISTED = {
    *(f"B{number}" for number in range(1, 19)),
    *(f"C{number}" for number in range(1, 11)),
    *(f"H{number}" for number in range(1, 8)),
}


def functions_of(path: Path) -> set[str]:
    return {node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)}


def test_every_weakness_is_in_the_table_with_tests_that_exist() -> None:
    rows = re.findall(r"^\| ([BCH]\d+)\. (.+?) \| (.+?) \| (.+?) \|$", PAGE.read_text(), re.MULTILINE)
    assert sorted(name for name, *_ in rows) == sorted(LISTED)
    known: dict[str, set[str]] = {}
    for name, _, _, tests in rows:
        named = re.findall(r"`([^`:]+)::(\w+)`", tests)
        assert named, f"{name} names no test"
        for file, function in named:
            known.setdefault(file, functions_of(ROOT / file))
            assert function in known[file], f"{name}: there is no {function} in {file}"


async def read_all(folder: Path) -> list[tuple[Any, list[RecordedEvent]]]:
    journal = await SqlJournal.open(f"sqlite:///{folder / 'journal.db'}", writable=False)
    try:
        found = await journal.episodes(EpisodeFilter(limit=1000))
        return [(one, await journal.read(one.episode_id)) for one in found]
    finally:
        await journal.aclose()


def test_every_episode_of_a_run_replays_from_its_record(tmp_path: Path) -> None:
    """Right, wrong, helped out and crashed: each event comes out again from the seed and the decisions."""
    play_run(tmp_path, episodes=3 * SIZE)

    async def check() -> int:
        async def stream(events: list[RecordedEvent]) -> AsyncIterator[RecordedEvent]:
            for one in events:
                yield one

        episodes = await read_all(tmp_path)
        for summary, events in episodes:
            assert await verify(stream(events), load=crashing_world) == [], summary
        return len(episodes)

    assert asyncio.run(check()) >= 3 * SIZE


def trader(body: Any) -> Said:
    return say(body, "buy", {}, "cheap")


def test_a_capped_episode_ends_truncated_with_what_it_earned_and_can_be_trained_on(tmp_path: Path) -> None:
    with endpoint(trader) as fake:
        model = {"label": "m", "model": "m", "base_url": fake.base_url, "stream": False, "tokens": True}
        fields = {"environment": "trading", "options": {"rounds": 50}, "episodes": 1, "max_turns": 6}
        request = RolloutRequest.model_validate({**fields, "model": model})
        run = run_rollouts(
            request,
            tmp_path,
            concurrency=1,
            clock=SystemClock(),
            load=lambda name: TRADING,
            rng=random.Random(1),
        )
        asyncio.run(run)
    ((summary, events),) = asyncio.run(read_all(tmp_path))
    end = events[-1].event.data
    assert (end["reason"], end["terminated"], end["truncated"]) == ("step_cap", False, True)
    assert end["total_reward"] == pytest.approx(3 * 0.1 - 3 * 0.05)
    result = CliRunner().invoke(main, ["rollouts", "export", str(tmp_path), "--format", "messages"])
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert len(rows) == 3 and summary.score is None
    for row in rows:
        assert row["trainable"] and row["truncated"] and not row["terminated"] and any(row["mask"])
        assert row["reward"] == pytest.approx(0.1 - 0.05), "its own reward and what the market took after it"
        assert row["episode_reward"] == end["total_reward"]


def test_a_run_in_which_every_episode_fails_says_so(tmp_path: Path) -> None:
    with endpoint(lambda body: Said(text="I would rather not say.")) as fake:
        command = ["--env", "counting", "--base-url", fake.base_url, "--model", "m", "--episodes", "4"]
        command += ["--group-size", "2", "--on-failure", "end", "--option", "turns=2", "--out", str(tmp_path)]
        result = CliRunner().invoke(main, ["rollouts", "run", *command])
    assert result.exit_code == 1, result.output
    assert "unparsable" in result.output
    failures = CliRunner().invoke(main, ["rollouts", "failures", str(tmp_path)])
    assert failures.output.count("unparsable") >= 4
    status = CliRunner().invoke(main, ["rollouts", "status", str(tmp_path)])
    assert status.exit_code == 1 and "unparsable" in status.output
    groups = CliRunner().invoke(main, ["rollouts", "export", str(tmp_path), "--format", "groups"])
    rows = [json.loads(line) for line in groups.stdout.splitlines()]
    assert [(row["usable"], row["state"]) for row in rows] == [(0, "void")] * 2
    assert [row["failures"] for row in rows] == [{"unparsable": 2}] * 2


class BrokenPool:
    """A pool that raises where it is told to."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.closed = 0

    @property
    def pool_size(self) -> int:
        return 3

    async def start(self) -> None:
        self._break("start")

    async def acquire(self) -> None:
        self._break("acquire")

    async def done(self, handle: Any, *, again: Any = None) -> None:
        raise AssertionError("nothing was leased")

    def drain(self) -> None:
        """Nothing is handed out anyway."""

    async def aclose(self) -> None:
        self.closed += 1

    def _break(self, where: str) -> None:
        if where == self.where:
            raise ConfigurationError(f"the pool broke in {where}")


async def never_played(handle: Any, flight: Any) -> Any:
    raise AssertionError("nothing was leased")


@pytest.mark.parametrize("where", ["start", "acquire"])
def test_a_pool_that_raises_is_closed_and_its_error_is_seen(where: str) -> None:
    async def scenario() -> None:
        pool = BrokenPool(where)
        clock = SystemClock()
        interactor: Interactor[int] = Interactor(
            pool, never_played, clock=clock, rng=random.Random(1), startup_jitter_s=0.0
        )
        with pytest.raises((ConfigurationError, ExceptionGroup)) as raised:
            await asyncio.wait_for(interactor.run(), 20)
        seen = [raised.value, *getattr(raised.value, "exceptions", ())]
        assert f"the pool broke in {where}" in " ".join(map(str, seen))
        assert pool.closed == 1

    asyncio.run(scenario())


def ended_with(episode_id: str, failure: str | None) -> RecordedEvent:
    end = end_with(None, episode_id, 3)
    if failure is None:
        return end
    changed = {"reason": "environment_error", "score": None, "result": None, "failure_class": failure}
    data = {**end.event.data, **changed, "terminated": False, "truncated": True}
    return record(replace(end.event, data=data))


@pytest.mark.parametrize(
    ("attempts", "size", "state"),
    [
        ({"a1": "env_infra", "b1": "env_infra"}, 2, "open"),
        ({"a1": "env_infra", "a2": "env_infra", "b1": "env_infra", "b2": "env_infra"}, 2, "void"),
        ({"a1": "policy_fault", "b1": "policy_fault"}, 2, "void"),
        ({"a1": "policy_fault"}, 2, "open"),
        ({"a1": "policy_fault", "b1": "unended"}, None, "open"),
        ({"a1": "policy_fault", "b1": "policy_fault"}, None, "void"),
        ({"a1": None}, 1, "void"),
    ],
)
def test_the_state_of_a_group_is_told_from_the_journal_alone(
    tmp_path: Path, attempts: dict[str, str | None], size: int | None, state: str
) -> None:
    """Whether members are still to come follows from what is recorded, whoever asks and whenever."""

    async def scenario() -> None:
        journal = await SqlJournal.open(f"sqlite:///{tmp_path / 'journal.db'}")
        for name, failure in attempts.items():
            begun = started_for(name, run_id="r", group_id="g", attempt=int(name[-1]))
            await journal.append([begun])
            await journal.append([said(name, 2)])
            if failure != "unended":
                await journal.append([ended_with(name, failure)])
        found = await journal.episodes(EpisodeFilter(group_id="g"))
        rule = GroupRule(size, attempts=2, retried=RETRIED_FAILURES)
        row = await row_of_group(journal, found[::-1], rule)
        assert (row["state"], row["usable"], row["rewards"]) == (state, 0, [])
        assert row["size"] == (size or len({name[0] for name in attempts}))
        assert sum(row["failures"].values()) == len(attempts)
        await journal.aclose()

    asyncio.run(scenario())


def test_a_collected_step_has_what_it_led_to_and_its_totals_agree() -> None:
    told = iter(["configure_beam", "allocate_luminosity"])

    def plays(prompt: str, config: Any) -> str:
        tool = next(told, "conclude_null")
        arguments = {"configure_beam": {"energy_tev": 13}, "allocate_luminosity": {"luminosity_fb": 5}}
        return json.dumps({"tool": tool, "arguments": arguments.get(tool, {}), "reason": "so"})

    episode = collect_episode("collider", 3, "mixed", "easy", lambda messages: "x", plays).record
    assert episode.end_reason == "finished" and len(episode.steps) >= 2
    for step, following in zip(episode.steps, episode.steps[1:], strict=False):
        assert step.outcome_summary == following.observation_summary
    assert episode.steps[-1].outcome_summary and episode.steps[-1].terminated
    assert episode.total_reward == pytest.approx(sum(step.reward or 0.0 for step in episode.steps))
    assert episode.model_reward is not None and episode.fallback_reward is not None
    assert episode.total_reward == pytest.approx(episode.model_reward + episode.fallback_reward)
    assert episode.cumulative_reward == pytest.approx(episode.total_reward)
