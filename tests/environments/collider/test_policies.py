"""Skill pays: policies rank by the abilities they use, and those that ignore the data score badly."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from spectator.environments.collider.actions import TOOLS
from spectator.environments.collider.environment import ColliderEnvironment
from spectator.environments.collider.physicists import (
    HeuristicPhysicist,
    OraclePhysicist,
    Plan,
    PlannedPhysicist,
    RandomPhysicist,
)
from spectator.environments.collider.reference_physicist import ReferencePhysicist
from spectator.observations import Observation
from spectator.policies.policy import Decision, ScriptedPolicy
from tests.environments.collider.campaigns import play
from tools.collider_bound import KnownMassPhysicist
from tools.collider_physicists import BlindPhysicist, BlindScript, drawn

SEEDS = range(1000, 1024)


def scores(make: Callable[[int], ScriptedPolicy], seeds: Sequence[int], **options: Any) -> list[float]:
    """Score of each seed."""
    return [play(make(seed), seed, **options)[1].reward for seed in seeds]


def blind_scores(script: BlindScript, seeds: Sequence[int]) -> list[float]:
    """Scores of a script."""
    return scores(lambda seed: BlindPhysicist(script), seeds)


def oracle_scores(
    seeds: Sequence[int], *, make: type[OraclePhysicist] = OraclePhysicist, difficulty: str = "medium"
) -> list[float]:
    """The same for the oracle, which is shown the world."""
    found = []
    for seed in seeds:
        environment, policy = ColliderEnvironment(), make()
        options = {"scenario": "mixed", "difficulty": difficulty}
        observation = environment.reset(seed=seed, episode_id="e", options=options)
        policy.see(environment.snapshot())
        while not observation.done:
            observation = environment.step(policy.choose(observation).action)
        found.append(observation.reward)
    return found


def above(better: list[float], worse: list[float]) -> float:
    """By how many standard errors of the paired differences ``better`` is above ``worse``."""
    gap = np.array(better) - np.array(worse)
    return float(gap.mean() / (gap.std(ddof=1) / math.sqrt(len(gap))))


@pytest.fixture(scope="module")
def reference() -> list[float]:
    return scores(lambda seed: ReferencePhysicist(), SEEDS)


@pytest.fixture(scope="module")
def hard() -> list[tuple[ColliderEnvironment, Observation]]:
    """Campaigns of the reference, with their ends."""
    return [play(ReferencePhysicist(), seed, difficulty="hard") for seed in SEEDS]


@pytest.fixture(scope="module")
def heuristic() -> list[float]:
    return scores(lambda seed: HeuristicPhysicist(), SEEDS)


def test_random_heuristic_reference_and_oracle_stand_in_this_order(
    hard: list[tuple[ColliderEnvironment, Observation]],
) -> None:
    heuristic = scores(lambda seed: HeuristicPhysicist(), SEEDS, difficulty="hard")
    reference = [end.reward for _, end in hard]
    assert above(heuristic, scores(RandomPhysicist, SEEDS, difficulty="hard")) > 2.0
    assert above(reference, heuristic) > 2.0
    assert above(oracle_scores(SEEDS, difficulty="hard"), reference) > 2.0


class ClaimAtOnce(PlannedPhysicist):
    """A small run, and a discovery claimed at the highest bump."""

    quote = 6.0
    error = 0.005

    def plan(self) -> Plan:
        """Claim."""
        from spectator.environments.collider import physicists

        beam = min(self.task["beams"], key=lambda beam: beam["cost_musd_per_fb"])
        channel = self.task["channels"][0]["name"]
        yield "configure_beam", {"sqrt_s_tev": beam["sqrt_s_tev"]}, ""
        yield "set_trigger", {"thresholds_gev": physicists.suitable_thresholds(self.task["channels"][:1])}, ""
        yield "allocate_luminosity", {"luminosity_fb": 10.0}, ""
        yield "collect_collisions", {}, ""
        yield "select_channel", {"channel": channel}, ""
        yield "freeze_selection", {}, ""
        yield "unblind", {"channel": channel}, ""
        yield "scan_bump", {"channel": channel}, ""
        at = {
            "channel": channel,
            "mass_gev": self.mass(self.finding(channel, "scan").get("best_mass_gev", 1.0)),
        }
        yield "estimate_significance", at, ""
        yield "fit_resonance", at, ""
        yield "submit_discovery_claim", {
            **at, "kind": "discovery", "mass_error_gev": self.error * at["mass_gev"],
            "z_local": self.quote, "z_global": self.quote, "probability": 1.0,
        }, ""  # fmt: skip

    def mass(self, best: float) -> float:
        """Where to claim."""
        return best


class Textbook(ClaimAtOnce):
    """Claims a well-known mass, if it is in the window."""

    def mass(self, best: float) -> float:
        """The Higgs boson's, the Z's, a famous fluctuation's, or the middle of the window."""
        low, high = self.task["search_window_gev"]
        known = [mass for mass in (125.1, 91.19, 173.0, 750.0, 28.0) if low < mass < high]
        return known[0] if known else float(f"{math.sqrt(low * high):.6g}")


class Vague(ReferencePhysicist):
    """The reference, but with errors that nothing can miss."""

    def choose(self, observation: Observation) -> Decision:
        """Quote twenty times the error."""
        decision = super().choose(observation)
        if decision.action["tool"] != "submit_discovery_claim":
            return decision
        arguments = dict(decision.action["arguments"])
        arguments["mass_error_gev"] *= 20.0
        return Decision({"tool": "submit_discovery_claim", "arguments": arguments}, "heuristic")


class Farmer(PlannedPhysicist):
    """Does everything that is cheap, over and over, and concludes."""

    def plan(self) -> Plan:
        """Farm."""
        for number in range(60):
            energy = (7.0, 13.0)[number % 2]
            yield "configure_beam", {"sqrt_s_tev": energy}, ""
            yield "request_theory_review", {"mass_gev": self.task["search_window_gev"][0]}, ""


@pytest.mark.parametrize(
    "make",
    [
        lambda seed: ClaimAtOnce(),
        lambda seed: Textbook(),
        lambda seed: Farmer(),
        lambda seed: BlindPhysicist(BlindScript(ending="null", share=0.05)),
        lambda seed: BlindPhysicist(BlindScript(ending="limits")),
    ],
    ids=["claim at once", "textbook mass", "farm", "conclude at once", "never claim"],
)
def test_probes_lose_to_the_heuristic(make: Callable[[int], ScriptedPolicy], heuristic: list[float]) -> None:
    assert above(heuristic, scores(make, SEEDS)) > 1.5


def test_errors_that_nothing_can_miss_cost(reference: list[float]) -> None:
    assert above(reference, scores(lambda seed: Vague(), SEEDS)) > 3.0


def test_no_policy_that_ignores_the_data_comes_near_the_reference(reference: list[float]) -> None:
    """A bounded search; tools/collider_search.py looks for longer."""
    source = random.Random(5)
    scripts = [BlindScript(), *(drawn(source) for _ in range(16))]
    tried = {script: blind_scores(script, range(2000, 2004)) for script in scripts}
    best = max(tried, key=lambda script: sum(tried[script]))
    found = blind_scores(best, SEEDS)
    assert above(reference, found) > 4.0 and np.mean(found) < 0.6 * np.mean(reference)


@pytest.mark.parametrize("scenario", ["null", "null_with_fluctuation", "trigger_bump"])
def test_the_reference_does_not_discover_what_is_not_there(scenario: str) -> None:
    """Bounded; tools/collider_campaigns.py counts several thousand."""
    for seed in range(3000, 3020):
        environment, end = play(ReferencePhysicist(), seed, scenario=scenario, difficulty="hard")
        assert environment.truth()["particles"] == []
        claim = environment.laboratory.claim
        assert claim is not None and not (claim["kind"] == "discovery"), (seed, end.content["verdict"])


def test_the_reference_breaks_no_rule_that_costs(
    hard: list[tuple[ColliderEnvironment, Observation]],
) -> None:
    for environment, _ in hard:
        lab = environment.laboratory
        assert lab.hard == 0 and set(lab.soft) <= {"prescaled_trigger"}


def test_no_action_is_dead() -> None:
    """The physicists that come with the world carry out every action, and each shows something."""
    shown: dict[str, int] = dict.fromkeys(TOOLS, 0)
    policies = [*(ReferencePhysicist() for _ in range(3)), *(RandomPhysicist(seed) for seed in range(8))]
    for seed, policy in enumerate(policies):
        environment = ColliderEnvironment()
        options = {"scenario": "any", "difficulty": "easy"}
        observation = environment.reset(seed=seed, episode_id="e", options=options)
        while not observation.done:
            action = policy.choose(observation).action
            observation = environment.step(action)
            if observation.refused is None:
                shown[action["tool"]] += len(observation.content["last_result"]) > 1
    assert all(shown.values()), shown


def test_who_is_told_where_to_look_still_has_to_measure() -> None:
    seeds = SEEDS[:6]
    known = oracle_scores(seeds, make=KnownMassPhysicist)
    assert 0.6 < np.mean(known) < np.mean(oracle_scores(seeds)) - 0.01
