"""People's matches on the seeds of an evaluation, beside its captains' on the same ones."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest

from spectator.catalog import load_world
from spectator.clock import SystemClock
from spectator.environments.world import World
from spectator.episodes.controls import Pace
from spectator.episodes.plan import EpisodeRequest, plan_episode
from spectator.evaluation.schedule import EvaluationRequest, plan_evaluation
from spectator.journal.sql_journal import SqlJournal
from spectator.policies.spending import Caps, SpendLedger
from spectator.runs.attempts import EpisodeSetup, play_episode
from tests.commands import spectator


def with_person() -> World:
    """Counting, with a "person" who counts as well as the heuristic captain."""
    world = load_world("counting")
    person = replace(world.captains["heuristic"], name="human", label="A person", source="human")
    return replace(world, captains={**world.captains, "human": person})


def play(folder: Path, *episodes: tuple[str, int, int]) -> None:
    """Record episodes of a captain on a seed with so many turns, as a server does."""
    world = with_person()
    folder.mkdir()

    async def record() -> None:
        clock = SystemClock()
        journal = await SqlJournal.open(f"sqlite:///{folder / 'journal.db'}")
        try:
            setup = EpisodeSetup(journal, clock, lambda name: world, SpendLedger(Caps(), Caps(), clock))
            for number, (captain, seed, turns) in enumerate(episodes):
                request = EpisodeRequest(
                    "counting",
                    captain,
                    None,
                    seed=seed,
                    pace=Pace.MAX,
                    view="derived",
                    options={"turns": turns},
                )
                plan = plan_episode(request, load=lambda name: world, draw_seed=lambda: 0)
                await play_episode(plan, f"ep-{number}", setup)
        finally:
            await journal.aclose()

    asyncio.run(record())


@pytest.fixture
def evaluation(tmp_path: Path) -> tuple[str, ...]:
    return (
        "evaluate", "counting", "--captains", "heuristic,random", "--matches", "6", "--option", "turns=5",
        "--jobs", "1", "--out", str(tmp_path / "out"), "--people", str(tmp_path / "served"),
    )  # fmt: skip


def test_people_are_compared_where_seed_options_and_seat_are_the_same(
    tmp_path: Path, evaluation: tuple[str, ...]
) -> None:
    request = EvaluationRequest("counting", ("heuristic", "random"), matches=6, options={"turns": 5})
    first, second, _ = sorted({match.seed for match in plan_evaluation(request).matches})
    play(
        tmp_path / "served",
        ("human", first, 5), ("human", second, 5),
        ("human", first, 6), ("human", 12345, 5), ("heuristic", first, 5),
    )  # fmt: skip
    done = spectator(*evaluation)
    assert done.exit_code == 0, done.output
    people = json.loads((tmp_path / "out" / "people.json").read_text())
    assert people["matches"] == 2 and people["result"]["value"] == 1.0
    beside = {one["captain"]: one for one in people["beside"]}
    assert beside.keys() == {"heuristic", "random"} and {one["matches"] for one in beside.values()} == {2}
    assert beside["heuristic"]["difference"]["value"] == 0.0
    assert beside["random"]["difference"]["value"] > 0.0 == beside["heuristic"]["difference"]["value"]
    assert "People played 2 of these matches: 1.00 of 1" in done.stdout
    assert "as random (2 matches): people 1.00" in (tmp_path / "out" / "report.html").read_text()


def test_without_people_or_a_journal_it_says_so(tmp_path: Path, evaluation: tuple[str, ...]) -> None:
    play(tmp_path / "served", ("human", 12345, 5))
    done = spectator(*evaluation)
    assert done.exit_code == 0 and "No person played these seeds in " in done.stdout
    assert not (tmp_path / "out" / "people.json").exists()
    (tmp_path / "served" / "journal.db").unlink()
    done = spectator(*evaluation)
    assert done.exit_code == 1 and "people: there is no journal at " in done.stderr
