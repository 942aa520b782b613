"""The evaluation that comes with the package is still true: its matches, played again, end as it says."""

from __future__ import annotations

import json

import pytest

from spectator.catalog import load_world
from spectator.evaluation.bundles.board import SHIPPED, shipped_results
from spectator.evaluation.bundles.bundle import BundleManifest
from spectator.evaluation.results import PlayedMatch
from tests.commands import spectator

AGAIN = "the shipped evaluation is out of date: run `make board` and commit what it writes"

(PATH,) = SHIPPED.glob("*.json")
MANIFEST = BundleManifest.model_validate_json(PATH.read_bytes())
WORLD = load_world(MANIFEST.environment)
FIRST = {(one.home, one.away): one for one in reversed(MANIFEST.results.matches)}
"""The first match of each pair, from either seat."""
NETWORKS = {one.name for one in MANIFEST.captains if one.source == "model"}
"""Not played again: another processor may round otherwise where two options are almost equal."""


def test_it_is_of_the_world_and_the_captains_of_today() -> None:
    assert WORLD.version == MANIFEST.environment_version, AGAIN
    assert WORLD.options_type().model_dump(mode="json") == MANIFEST.options, AGAIN
    labels = {one.name: one.label for one in MANIFEST.captains}
    assert labels == {name: WORLD.captains[name].label for name in labels}, AGAIN


def test_it_is_small_and_shows_who_is_better() -> None:
    assert PATH.stat().st_size < 1_000_000
    (result,) = shipped_results()
    assert result.shipped and result.matches >= 200
    best, *_, worst = [one for one in result.captains if one.rank is not None]
    assert best.share is not None and worst.share is not None
    assert best.share.low > worst.share.high
    assert {"heuristic", "planner", "random", "trained"} < {one.name for one in result.captains}


@pytest.mark.parametrize(
    "match",
    [one for pair, one in FIRST.items() if pair[0] < (pair[1] or "") and NETWORKS.isdisjoint(pair)],
    ids=lambda one: one.home + "-" + one.away,
)
def test_a_match_of_each_pair_ends_as_it_says(match: PlayedMatch) -> None:
    options = [
        f"--option={name}={json.dumps(value).strip(chr(34))}" for name, value in MANIFEST.options.items()
    ]
    seats = [f"--captain={match.home}", f"--opponent={match.away}", f"--seed={match.seed}"]
    ran = spectator("play", MANIFEST.environment, *seats, *options)
    ended = json.loads(ran.stdout.splitlines()[-1])
    assert ended["type"] == "episode.ended"
    assert ended["data"]["result"] == match.result, AGAIN
