"""Helpers of the collider's tests: play a policy, or a list of actions, without a driver."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from spectator.environments.collider.environment import ColliderEnvironment
from spectator.observations import Observation
from spectator.policies.policy import ScriptedPolicy

Call = tuple[str, dict[str, Any]]


def opened(seed: int = 1, **options: Any) -> tuple[ColliderEnvironment, Observation]:
    """A fresh campaign."""
    environment = ColliderEnvironment()
    complete = {"scenario": "mixed", "difficulty": "medium", **options}
    return environment, environment.reset(seed=seed, episode_id="test", options=complete)


def carry_out(environment: ColliderEnvironment, calls: Sequence[Call]) -> Observation:
    """Send calls that must all be accepted; the last observation."""
    observation = None
    for tool, arguments in calls:
        observation = environment.step({"tool": tool, "arguments": arguments})
        assert observation.refused is None, (tool, observation.refused)
    assert observation is not None
    return observation


def play(policy: ScriptedPolicy, seed: int, **options: Any) -> tuple[ColliderEnvironment, Observation]:
    """Play a campaign to its end."""
    environment, observation = opened(seed, **options)
    for _ in range(300):
        if observation.done:
            return environment, observation
        observation = environment.step(policy.choose(observation).action)
    raise AssertionError("the policy does not end")


def one_run(observation: Observation, luminosity: float = 20.0) -> list[Call]:
    """Beam, a suitable trigger and one run in every channel."""
    task: Mapping[str, Any] = observation.content["task"]
    thresholds = {each["name"]: each["fit_window_gev"][0] / 2.8 for each in task["channels"]}
    return [
        ("configure_beam", {"sqrt_s_tev": 13.0}),
        ("set_trigger", {"thresholds_gev": thresholds}),
        ("allocate_luminosity", {"luminosity_fb": luminosity}),
        ("collect_collisions", {}),
    ]


def opened_box(observation: Observation, channel: str, luminosity: float = 20.0) -> list[Call]:
    """One run and one channel, up to the unblinding."""
    return [
        *one_run(observation, luminosity),
        ("select_channel", {"channel": channel}),
        ("build_invariant_mass", {"channel": channel}),
        ("freeze_selection", {}),
        ("unblind", {"channel": channel}),
    ]
