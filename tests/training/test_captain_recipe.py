"""The recipe of the trained captain without torch: its command, its teacher, its examples."""

from __future__ import annotations

import itertools
import json
import random
from importlib.util import find_spec
from pathlib import Path

import pytest

from spectator.environments.cricket.recipe.examples import Example, examples_of, load, plain_options, save
from spectator.environments.cricket.recipe.fleet import FleetMatch, MatchJob
from spectator.environments.cricket.trained.captain import FOLDER
from spectator.environments.cricket.trained.policy import network
from spectator.training.played_episode import SelfPlayedEpisode
from spectator.training.recorded_run import RecordedRun
from tests.commands import spectator


@pytest.mark.skipif(find_spec("torch") is not None, reason="torch is installed here")
def test_without_torch_the_command_says_what_to_install(tmp_path: Path) -> None:
    done = spectator("train", "cricket-captain", "--folder", tmp_path / "run")
    assert done.exit_code == 1
    assert "pip install 'openenv-spectator[train]'" in done.output
    assert not (tmp_path / "run").exists()


def examples() -> list[Example]:
    return examples_of(9, network(FOLDER).tokenizer)


def test_examples_are_the_same_each_time_and_survive_a_file(tmp_path: Path) -> None:
    made = examples()
    assert [one.ids for one in made] == [one.ids for one in examples()]
    save(made, tmp_path / "examples.npz")
    kept = list(load(tmp_path / "examples.npz"))
    assert [list(one.ids) for one in kept] == [one.ids for one in made]
    assert [[list(place) for place in one.allowed] for one in kept] == [one.allowed for one in made]
    assert [[bool(act) for act in one.acts] for one in kept] == [one.acts for one in made]


def test_every_choice_has_shares_that_add_up_and_the_best_is_taken() -> None:
    made = examples()
    assert len(made) > 10
    for one in made:
        for at, allowed, shares, acts in zip(one.at, one.allowed, one.shares, one.acts, strict=True):
            assert len(allowed) == len(shares) > 1
            assert sum(shares) == pytest.approx(1.0)
            assert one.ids[at] in allowed
            if acts:
                assert shares[allowed.index(one.ids[at])] == max(shares)


def match_of_self_play(seed: int, version: str, rng: random.Random) -> SelfPlayedEpisode:
    """Play a match of two overs with drawn tokens."""
    options = plain_options({"max_overs": 1, "decisions": "over", "reward": "decision_value"})
    match = FleetMatch(MatchJob(0, seed, options, {"home": 0, "away": 0}, recorded=True), itertools.count())
    while match.next_ask(network(FOLDER).tokenizer, []) is not None:
        while match.speech is not None and match.speech.allowed:
            match.take(rng.choice(match.speech.allowed), -0.5, version)
        match.finish()
    played = match.played()
    assert played is not None
    return played


def test_matches_of_self_play_are_a_run_with_tokens_of_both_seats(tmp_path: Path) -> None:
    rng, folder = random.Random(3), tmp_path / "run"
    matches = [match_of_self_play(7, f"step-{step}", rng) for step in range(2)]
    for match in matches:  # the second is recorded after the training was interrupted
        with RecordedRun(folder, group_size=2) as run:
            run.record(match)
    ends = [match.turns.ended for match in matches]
    scores = [end.score for end in ends if end is not None]

    shown = spectator("rollouts", "status", folder)
    assert shown.exit_code == 0, shown.output
    assert "2 finished" in shown.output
    assert "own share 100 %" in shown.output
    assert [line.split()[0] for line in shown.output.splitlines() if line.startswith("step-")] == [
        "step-0",
        "step-1",
    ]

    out = tmp_path / "tokens.jsonl"
    command = ["export", "--all", "--data-dir", str(folder), "--format", "tokens", "--out", str(out)]
    assert spectator(*command).exit_code == 0
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert {row["seat"] for row in rows} == {"home", "away"}
    assert {row["own_share"] for row in rows} == {1.0}
    assert {version for row in rows for version in row["weight_versions"]} == {None, "step-0", "step-1"}
    drawn = [
        chance for row in rows for chance, mask in zip(row["logprobs"], row["loss_mask"], strict=True) if mask
    ]
    assert set(drawn) == {-0.5, 0.0}, "forced tokens are certain"
    assert scores == [
        pytest.approx(row["reward"])
        for row in {r["episode_id"]: r for r in rows if r["seat"] == "home"}.values()
    ]
