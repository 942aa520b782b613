"""The world keeps its contract: conformance, determinism across processes, sealed truth."""

from __future__ import annotations

import hashlib
import json
from itertools import cycle
from typing import Any, get_args

import pytest

from spectator.environments.collider.environment import ColliderEnvironment
from spectator.environments.collider.scenarios import Scenario
from spectator.environments.collider.world import WORLD
from spectator.environments.conformance import check_world, play
from tests.hash_seeds import printed

TIERS = ("easy", "medium", "hard", "expert")

PRINT_TRACE = """
import hashlib, sys
from spectator.environments.conformance import play
from spectator.environments.collider.world import WORLD
played = play(WORLD, {"scenario": "mixed", "difficulty": "medium"}, 11, "heuristic")
print(hashlib.sha256("".join(played.trace).encode()).hexdigest())
"""


@pytest.mark.parametrize(
    ("scenario", "difficulty"), list(zip(get_args(Scenario), cycle(TIERS), strict=False))
)
def test_it_conforms_in_every_scenario_and_tier(scenario: str, difficulty: str) -> None:
    check_world(WORLD, options={"scenario": scenario, "difficulty": difficulty}, seed=8)


def test_the_same_seed_and_actions_give_the_same_bytes_in_every_process() -> None:
    played = play(WORLD, {"scenario": "mixed", "difficulty": "medium"}, 11, "heuristic")
    here = hashlib.sha256("".join(played.trace).encode()).hexdigest()
    assert printed(PRINT_TRACE, 77).strip() == here


def test_the_truth_is_sealed_until_the_end_and_the_state_tells_none_of_it() -> None:
    environment = ColliderEnvironment()
    environment.reset(seed=3, episode_id="e", options={"scenario": "zprime", "difficulty": "easy"})
    assert environment.truth() == {}
    assert "zprime" not in json.dumps(environment.state)
    environment.step({"tool": "conclude_null", "arguments": {}})
    truth = environment.truth()
    assert truth["scenario"] == "zprime" and truth["particles"][0]["mass_gev"] > 0
    assert environment.state["scenario_name"] == "zprime"


def test_every_action_is_offered_with_a_schema_that_describes_it() -> None:
    environment = ColliderEnvironment()
    observation = environment.reset(
        seed=3, episode_id="e", options={"scenario": "mixed", "difficulty": "easy"}
    )
    assert len(environment._schemas) == 20
    for offered in observation.legal_actions:
        schema: Any = offered["arguments"]
        assert schema["type"] == "object" and "MUSD" in schema["description"]
