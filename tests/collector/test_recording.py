"""Collected episodes in a journal: verified, replayed and exported as if they had been played there."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from spectator.collector.collector import CollectedEpisode, CollectTask, collect_episodes, record_episode
from spectator.collector.generation import Generated
from spectator.errors import SequenceConflict
from spectator.journal.sql_journal import SqlJournal
from tests.commands import spectator
from tests.llm.brains import counter, read_situation


def prompt_fn(messages: Sequence[Mapping[str, Any]]) -> str:
    return json.dumps(list(messages))


def alternating() -> Any:
    """Counts; every second time that it is asked for 2 it says 7."""
    asked = 0

    def generate(prompts: Sequence[str], config: Any) -> list[Generated]:
        nonlocal asked
        texts = []
        for prompt in prompts:
            body = {"messages": json.loads(prompt)}
            text = counter(body).text
            if read_situation(body)["next"] == 2:
                asked += 1
                text = text.replace("ACTION: 2", "ACTION: 7") if asked % 2 else text
            texts.append(Generated(text, [1, 2, 3], [4, 5], [-0.5, -0.25], "v1"))
        return texts

    return generate


def command(folder: Path, *arguments: str) -> Result:
    return spectator(*arguments, "--data-dir", folder)


def test_what_was_collected_is_a_record_like_any_other(tmp_path: Path) -> None:
    async def scenario() -> list[CollectedEpisode]:
        tasks = [CollectTask(seed, group=f"g-{seed}") for seed in (1, 1, 1, 2, 2, 2)]
        found = await collect_episodes(
            "counting", tasks, prompt_fn, alternating(), options={"turns": 3}, concurrency=3
        )
        journal = await SqlJournal.open(f"sqlite:///{tmp_path / 'journal.db'}")
        for one in found:
            await record_episode(one, journal)
        with pytest.raises(SequenceConflict):
            await record_episode(found[0], journal)
        await journal.aclose()
        return found

    found = asyncio.run(scenario())
    verified = command(tmp_path, "verify", found[0].record.episode_id)
    assert verified.exit_code == 0, verified.output
    groups = command(tmp_path, "export", "--all", "--format", "groups")
    rows = [json.loads(line) for line in groups.stdout.splitlines()]
    assert [(row["group_id"], row["state"], row["usable"]) for row in rows] == [
        ("g-1", "complete", 3),
        ("g-2", "complete", 3),
    ]
    rewards = {one.record.episode_id: one.record.total_reward for one in found}
    for row in rows:
        assert row["rewards"] == [rewards[name] for name in row["episode_ids"]]
        assert set(row["rewards"]) == {0.0, 1.0}
    tokens = command(tmp_path, "export", "--all", "--format", "tokens")
    trained = [json.loads(line) for line in tokens.stdout.splitlines()]
    assert sum(sum(row["loss_mask"]) for row in trained) == 6 * 3 * 2
    pairs = command(tmp_path, "export", "--all", "--format", "preferences")
    assert [json.loads(line)["margin"] for line in pairs.stdout.splitlines()] == [1.0, 1.0]


def test_the_sealed_truth_goes_with_it(tmp_path: Path) -> None:
    async def scenario() -> CollectedEpisode:
        def declines(prompts: Sequence[str], config: Any) -> list[str]:
            return ['{"tool": "conclude_null", "arguments": {}, "reason": "nothing"}'] * len(prompts)

        (one,) = await collect_episodes("collider", [CollectTask(3, "mixed", "easy")], prompt_fn, declines)
        journal = await SqlJournal.open(f"sqlite:///{tmp_path / 'journal.db'}")
        await record_episode(one, journal)
        await journal.aclose()
        return one

    one = asyncio.run(scenario())
    told = command(tmp_path, "export", "--all", "--format", "truth")
    assert json.loads(told.stdout)["truth"] == dict(one.truth)
    assert command(tmp_path, "verify", one.record.episode_id).exit_code == 0
