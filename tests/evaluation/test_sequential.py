"""Evaluations that stop by themselves: intervals that hold at every stop, and decisions that repeat."""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spectator.errors import InvalidRequest
from spectator.evaluation.cross_table import judged
from spectator.evaluation.figures import EpisodeFigures, SeatFigures
from spectator.evaluation.intervals import student_interval
from spectator.evaluation.results import results_of
from spectator.evaluation.schedule import EvaluationRequest, plan_evaluation
from spectator.evaluation.sequential import (
    BATCH,
    ConfidenceSequence,
    Look,
    Pair,
    SeedResult,
    StoppingRule,
    follow,
    half_width_of,
)
from tests.commands import run
from tests.evaluation.forging import manifest_of
from tests.evaluation.test_running import ROOT, WORKERS_AT_ONCE, kill_once_played
from tests.llm.brains import counter
from tests.llm.endpoints import endpoint, write_captains
from tools.intervals import ever_missed

pytestmark = pytest.mark.timeout(300)  # a whole evaluation is played for the tests of its bundle

ALPHA = 0.1
VALUES = np.array([0.0, 0.25, 0.5, 0.75, 1.0])


@pytest.mark.parametrize(
    "chances",
    [[0.3, 0.0, 0.4, 0.0, 0.3], [0.02, 0.0, 0.08, 0.0, 0.9], [0.1, 0.2, 0.4, 0.2, 0.1], [0, 0, 0, 0, 1]],
)
def test_the_mean_is_hardly_ever_outside_at_any_time(chances: list[float]) -> None:
    """150 pairs of 150 seeds each, looked at after every seed; `python -m tools.intervals` has more."""
    rng = np.random.default_rng(2026)
    missed = 0
    for _ in range(150):
        values = rng.choice(VALUES, size=150, p=chances)
        missed += ever_missed(
            ConfidenceSequence(ALPHA, 0.1), [float(one) for one in values], float(VALUES @ chances)
        )
    assert missed <= 15 + 3 * 3.7, "alpha, and three standard deviations of the count"


def test_an_interval_for_a_fixed_number_would_not_survive_so_many_looks() -> None:
    """The same simulation finds the fault in Student's interval, looked at after every seed."""
    rng = np.random.default_rng(2026)
    missed = 0
    for _ in range(60):
        values = [float(one) for one in rng.choice(VALUES, size=150, p=[0.3, 0.0, 0.4, 0.0, 0.3])]
        looks = (student_interval(values[:n]) for n in range(5, 150))
        missed += any(not look.low <= 0.5 <= look.high for look in looks)
    assert missed > 15


def test_intervals_only_narrow_and_reach_their_target() -> None:
    rng = random.Random(1)
    sequence = ConfidenceSequence(0.05, 0.05)
    assert sequence.interval().low == 0.0 and sequence.interval().high == 1.0
    before = sequence.interval()
    while before.high - before.low > 0.1:
        sequence.add(rng.choice([0.0, 0.5, 0.5, 1.0]))
        after = sequence.interval()
        assert after.low >= before.low or after.low == after.value
        assert after.high <= before.high or after.high == after.value
        before = after
    assert 192 < sequence.n < 500, "as many as a fixed number needs, and less than three times as many"
    with pytest.raises(ValueError, match="from 0 to 1"):
        sequence.add(1.01)


@pytest.mark.parametrize("text", ["+-5 points", "±5", "5 points", "+/- 5%", "5"])
def test_a_target_is_read_in_points(text: str) -> None:
    assert half_width_of(text) == 0.05


@pytest.mark.parametrize("text", ["", "tight", "+-0.5 points", "+-60 points", "-5", "nan", "5 points or so"])
def test_another_target_is_rejected_with_an_example(text: str) -> None:
    with pytest.raises(InvalidRequest, match=r'until: must be half the width .* "\+-5 points"'):
        half_width_of(text)


PAIRS: list[Pair] = [("a", "b"), ("a", "c"), ("b", "c")]


def results(*, costs: dict[Pair, float], mean: float = 0.5, known: int = 10**6) -> Look:
    """Results by pair and seed alone; ``known`` seeds of each pair are played."""

    def look(pair: Pair, seed: int) -> SeedResult | None:
        if seed >= known:
            return None
        drawn = random.Random(f"{pair} {seed}")
        share = None if drawn.random() < 0.02 else float(drawn.random() < mean)
        return SeedResult(share, costs[pair], 0.0)

    return look


def test_the_same_results_give_the_same_decisions_however_far_one_is() -> None:
    rule = StoppingRule(0.1, 3, 500)
    costs = dict.fromkeys(PAIRS, 0.1)
    whole = follow(rule, PAIRS, results(costs=costs))
    assert whole.finished
    assert all(one.half_width <= 0.1 or one.planned == 500 for one in whole.comparisons.values())
    for known in (0, 5, 10, 57, 120):
        part = follow(rule, PAIRS, results(costs=costs, known=known))
        assert not part.finished
        assert all(part.planned[pair] <= whole.planned[pair] for pair in PAIRS)
        assert all(one.judged == min(known, one.planned) for one in part.comparisons.values())


def test_the_cost_decides_the_order_and_not_where_it_ends() -> None:
    rule = StoppingRule(0.2, 3, 1000)
    costs = dict.fromkeys(PAIRS, 1.0)
    dear = {**costs, ("a", "b"): 5.0}
    ends = [follow(rule, PAIRS, results(costs=one)) for one in (costs, dear)]
    assert all(one.finished for one in ends) and ends[0].planned == ends[1].planned

    def next_of(costs: dict[Pair, float]) -> Pair:
        (pair,) = [
            one
            for one, planned in follow(rule, PAIRS, results(costs=costs, known=BATCH)).planned.items()
            if planned > BATCH
        ]
        return pair

    assert next_of({**costs, ("b", "c"): 0.01}) == ("b", "c")
    assert next_of({**costs, ("a", "c"): 0.01}) == ("a", "c")


def test_free_pairs_go_first_and_decisions_that_take_time_count() -> None:
    rule = StoppingRule(0.05, 2, 1000)

    def look(pair: Pair, seed: int) -> SeedResult | None:
        if (pair == ("a", "c") and seed >= BATCH) or seed >= 200:
            return None
        return SeedResult(float(seed % 2), 0.0, 0.01 if pair == ("a", "b") else 5.0)

    path = follow(rule, PAIRS[:2], look)
    assert path.planned == {("a", "b"): 200 + BATCH, ("a", "c"): BATCH}


def test_a_pair_without_a_usable_result_stops_at_the_most() -> None:
    rule = StoppingRule(0.05, 1, 25)
    path = follow(rule, PAIRS[:1], lambda pair, seed: SeedResult(None, 0.0, 0.0))
    assert path.finished and path.planned == {("a", "b"): 25}
    assert path.comparisons["a", "b"].half_width == 0.5


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with an evaluation whose pairs played different numbers of seeds, and its bundle."""
    folder = tmp_path_factory.mktemp("stopped")
    code, output, errors = run(
        "evaluate", "cricket", "--captains", "heuristic,random,planner", "--overs", "1", "--seed", "4",
        "--option", "decisions=over", "--until", "+-35 points", "--jobs", "1",
        "--out", folder / "played", "--publish", folder / "bundle",
    )  # fmt: skip
    assert code == 0, errors
    assert "It stopped when the interval of every pair was within ±35 points" in output
    yield folder


def test_pairs_play_different_numbers_and_the_report_says_so(home: Path) -> None:
    found = json.loads((home / "played" / "results.json").read_text())
    seeds = found["until"]["seeds"]
    assert found["until"]["reached"] and len(set(seeds.values())) > 1
    for pair in found["pairs"]:
        one = seeds.get(f"{pair['first']}|{pair['second']}") or seeds[f"{pair['second']}|{pair['first']}"]
        assert pair["share"]["n"] == one and pair["tally"]["matches"] == 2 * one
        assert pair["share"]["high"] - pair["share"]["low"] <= 0.7
    assert len(found["matches"]) == 2 * sum(seeds.values()) == found["planned"]
    report = (home / "played" / "report.html").read_text()
    assert "hedged betting confidence sequences" in report and "None" not in report


def test_its_bundle_is_verified_and_the_rule_with_it(home: Path, tmp_path: Path) -> None:
    code, _, errors = run("verify-bundle", home / "bundle", "--sample", "2")
    assert code == 0, errors
    again = ("evaluate", "cricket", "--seed", "4", "--out", home / "played", "--publish", tmp_path / "again")
    code, _, errors = run(*again)
    assert code == 0, errors
    one, other = (
        json.loads((at / "manifest.json").read_text()) for at in (home / "bundle", tmp_path / "again")
    )
    assert one["results"] == other["results"] and one["matches"] == other["matches"] == 2000


def more_seeds(manifest: dict[str, Any]) -> None:
    manifest["results"]["until"]["seeds"]["heuristic|random"] += 10


def narrower(manifest: dict[str, Any]) -> None:
    manifest["results"]["until"]["half_width"] = 0.2


def fewer_compared(manifest: dict[str, Any]) -> None:
    manifest["results"]["until"]["alpha"] = 0.05


def as_planned(manifest: dict[str, Any]) -> None:
    manifest["results"]["until"] = None


def no_rule_met(manifest: dict[str, Any]) -> None:
    manifest["results"]["until"]["reached"] = False


def narrow_interval(manifest: dict[str, Any]) -> None:
    manifest["results"]["pairs"][0]["share"]["low"] += 0.01


def errors_of(home: Path, tmp_path: Path, *changes: Callable[[dict[str, Any]], None]) -> str:
    """The errors for the bundle with a changed manifest."""
    shutil.copytree(home / "bundle", tmp_path / "b")
    with manifest_of(tmp_path / "b") as manifest:
        for change in changes:
            change(manifest)
    code, _, errors = run("verify-bundle", tmp_path / "b", "--sample", "1")
    assert code == 1, errors
    return errors


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (more_seeds, "is missing, or has no end"),
        (narrower, "results.until.reached: is claimed to be True, but is False"),
        (as_planned, "matches: the schedule has"),
    ],
)
def test_a_changed_rule_is_named(
    home: Path, tmp_path: Path, change: Callable[[dict[str, Any]], None], says: str
) -> None:
    assert says in errors_of(home, tmp_path, change)


def test_every_changed_result_is_named(home: Path, tmp_path: Path) -> None:
    errors = errors_of(home, tmp_path, fewer_compared, no_rule_met, narrow_interval)
    assert "results.until.alpha: is claimed to be 0.05" in errors
    assert "results.until.reached: is claimed to be False, but is True" in errors
    assert "share.low: is claimed to be" in errors


def test_killed_and_run_again_it_takes_the_same_decisions(tmp_path: Path) -> None:
    """kill -9, then to the end: every match in the journal is one that the rule chose."""
    folder = tmp_path / "killed"
    command = [
        sys.executable, "-c", WORKERS_AT_ONCE, "evaluate", "cricket",
        "--captains", "heuristic,random,blocker", "--overs", "1",
        "--until", "40", "--out", str(folder), "--jobs", "2",
    ]  # fmt: skip
    kill_once_played(command, folder, 5)
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads((folder / "results.json").read_text())
    with sqlite3.connect(folder / "journal.db") as database:
        played = {one for (one,) in database.execute("SELECT episode_id FROM episodes")}
    assert found["until"]["reached"] and played == {one["episode_id"] for one in found["matches"]}
    again = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert again.returncode == 0 and json.loads((folder / "results.json").read_text()) == found


def test_a_captain_that_played_further_than_its_pair_is_judged_as_far_as_the_pair() -> None:
    """A fast captain is ahead when another one reaches its cap; a verifier expects what was judged."""
    request = EvaluationRequest("counting", ("heuristic", "random"), matches=20, until=0.15)
    planned = plan_evaluation(request)
    found = {}
    for match in planned.matches:
        if match.home == "random" or match.pair < 7:
            score = 1.0 if match.home == "heuristic" else 0.0
            seat = SeatFigures("agent", match.home, match.home, "heuristic", {"score": score})
            found[match] = EpisodeFigures(
                f"ep-{match.home}-{match.pair}", "counting", "1.0", "default", match.seed, {}, "",
                "finished", "", False, (seat,),
            )  # fmt: skip
    part = judged(planned, found)
    assert sorted((match.pair, match.home) for match in part.matches) == [
        (pair, name) for pair in range(7) for name in ("heuristic", "random")
    ]
    shown = results_of(planned, found, "cut short")
    assert shown.until is not None and shown.until.seeds == {"heuristic|random": 7}
    assert len(shown.matches) == 14 and shown.seeds == 7


def test_a_cap_ends_it_early_and_what_was_played_is_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = tmp_path / "bundle"
    with endpoint(counter) as fake:
        captains = write_captains(tmp_path / "captains.toml", fake={"base_url": fake.base_url})
        monkeypatch.setenv("SPECTATOR_CAPTAINS_FILE", str(captains))
        command = (
            "evaluate", "counting", "--captains", "llm:fake,heuristic", "--option", "turns=2", "--jobs", "1",
            "--until", "15", "--out", tmp_path / "played", "--publish", bundle,
        )  # fmt: skip
        code, output, errors = run(*command, "--max-tokens", "12000")
        assert code == 1 and "run the same command again" in errors, errors
        assert "It stopped before every interval was within ±15 points; they still hold" in output
        results = json.loads((tmp_path / "played" / "results.json").read_text())
        assert not results["until"]["reached"] and results["cut_short"]
        asked = len(fake.received)
        code, output, errors = run("verify-bundle", bundle)
        assert code == 0 and "verified" in output and len(fake.received) == asked, errors
        manifest = json.loads((bundle / "manifest.json").read_text())
        assert manifest["results"]["until"] == results["until"]
        code, output, errors = run(*command, "--max-tokens", "10000000")
        assert code == 0 and "It stopped when the interval" in output, errors
        whole = json.loads((tmp_path / "played" / "results.json").read_text())
        needed = sum(one["asked"]["replies"]["requests"] for one in whole["captains"])
        assert len(fake.received) - needed <= 1, "nothing was asked for again but what the cap cut off"


def test_wrong_combinations_are_rejected(tmp_path: Path) -> None:
    base = ("evaluate", "counting", "--captains", "heuristic,random", "--out", tmp_path)
    code, _, errors = run(*base, "--until", "soon")
    assert code == 1 and "until: must be half the width" in errors
    code, _, errors = run(*base, "--until", "5", "--journal", "postgresql://x/y", "--run", "r")
    assert code == 2 and "--until decides in one process" in errors
