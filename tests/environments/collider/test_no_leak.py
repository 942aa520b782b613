"""Nothing tells a null from a signal before data do, and only data do afterwards."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spectator.environments.collider.environment import ColliderEnvironment
from spectator.environments.collider.world import WORLD
from spectator.observations import Observation
from spectator.policies.prompts import as_json, instructions, question, situation
from tests.environments.collider.campaigns import Call, carry_out, one_run, opened

Array = NDArray[np.float64]

WORDS = 160
RESETS = 400


def prompt_of(observation: Observation) -> str:
    """What a language model is sent first."""
    asked = question(as_json(situation(observation)), observation.legal_actions, "json", "")
    return instructions("physicist", WORLD.briefing.task, "json", 1) + "\n" + asked


def features(prompts: list[str]) -> Array:
    """Length of each prompt, the words in which prompts differ most, and its first numbers."""
    counted = [Counter(re.findall(r"[a-z_]{3,}", prompt)) for prompt in prompts]
    words = sorted({word for counts in counted for word in counts})
    spread = {word: float(np.var([counts[word] for counts in counted])) for word in words}
    common = sorted(words, key=lambda word: -spread[word])[:WORDS]
    rows = []
    for prompt, counts in zip(prompts, counted, strict=True):
        numbers = [float(number) for number in re.findall(r"\d+\.?\d*", prompt.split("Situation now:")[1])][
            :60
        ]
        figures = [math.log1p(number) for number in numbers] + [0.0] * (60 - len(numbers))
        rows.append([len(prompt), *(counts[word] for word in common), *figures])
    table = np.array(rows)
    table -= table.mean(axis=0)
    table /= np.maximum(table.std(axis=0), 1e-9)
    return table


def fitted(table: Array, labels: Array) -> Array:
    """Logistic regression with a penalty, by Newton's method."""
    columns = np.hstack([np.ones((len(table), 1)), table])
    weights = np.zeros(columns.shape[1])
    for _ in range(12):
        chance = 1.0 / (1.0 + np.exp(-np.clip(columns @ weights, -30, 30)))
        gradient = columns.T @ (labels - chance) - 5.0 * weights
        curvature = (columns * (chance * (1 - chance))[:, None]).T @ columns + 5.0 * np.eye(columns.shape[1])
        weights += np.linalg.solve(curvature, gradient)
    return weights


def area(scores: Array, labels: Array) -> float:
    """Chance that a signal scores above a null."""
    signal, null = scores[labels == 1], scores[labels == 0]
    return float((signal[:, None] > null[None, :]).mean() + 0.5 * (signal[:, None] == null[None, :]).mean())


def auc_of(prompts: list[str], labels: Array) -> tuple[float, float]:
    """Area under the curve on the half that the classifier has not seen, and its standard error."""
    table, half = features(prompts), len(prompts) // 2
    weights = fitted(table[:half], labels[:half])
    scores = table[half:] @ weights[1:]
    held = labels[half:]
    signals, nulls = int(held.sum()), int((1 - held).sum())
    return area(scores, held), math.sqrt((signals + nulls + 1) / (12.0 * signals * nulls))


def test_a_classifier_cannot_tell_null_from_signal_by_reset_and_prompt() -> None:
    prompts, labels = [], []
    environment = ColliderEnvironment()
    for seed in range(RESETS):
        options = {"scenario": "mixed", "difficulty": "expert"}
        prompts.append(prompt_of(environment.reset(seed=seed, episode_id="e", options=options)))
        labels.append(1.0 if environment.laboratory.nature.particles else 0.0)
    area_, error = auc_of(prompts, np.array(labels))
    assert abs(area_ - 0.5) < 3.0 * error, (area_, error)
    leaking = [f"{prompt} {'there ' * int(label)}" for prompt, label in zip(prompts, labels, strict=True)]
    assert auc_of(leaking, np.array(labels))[0] > 0.9  # the classifier sees what there is to see


def test_named_scenarios_show_the_same_task_as_each_other() -> None:
    """The name of a scenario is not in the observation, and a null shows what a signal would have shown."""
    for seed in range(20):
        shown = {
            scenario: json.dumps(opened(seed, scenario=scenario)[1].to_json())
            for scenario in ("null", "null_with_fluctuation", "trigger_bump", "two_peaks", "mixed")
        }
        assert len(set(shown.values())) == 1
        assert "null" not in shown["null"].replace("null,", "").replace("null}", "").replace(
            "conclude_null", ""
        )


ANALYSES: list[Call] = [
    ("calibrate_detector", {"candle": "z_ee"}),
    ("select_channel", {"channel": "diphoton"}),
    ("optimise_selection", {"channel": "diphoton", "cut": 0.25}),
    ("build_invariant_mass", {"channel": "diphoton"}),
    ("subtract_background", {"channel": "diphoton", "function": "dijet"}),
    ("freeze_selection", {}),
    ("unblind", {"channel": "diphoton"}),
    ("scan_bump", {"channel": "diphoton"}),
    ("estimate_significance", {"channel": "diphoton", "mass_gev": 560.0}),
    ("fit_resonance", {"channel": "diphoton", "mass_gev": 560.0}),
    ("measure_angular", {"channel": "diphoton", "mass_gev": 560.0}),
    ("set_limit", {"channel": "diphoton", "mass_gev": 560.0}),
    ("request_theory_review", {"mass_gev": 560.0}),
]


def test_two_truths_with_the_same_data_show_the_same() -> None:
    one, observation = opened(1, scenario="graviton", difficulty="easy")
    other, _ = opened(1, scenario="graviton", difficulty="easy")
    calls = one_run(observation)
    carry_out(one, calls)
    carry_out(other, calls)
    lab = other.laboratory
    lab.runs[0] = one.laboratory.runs[0]
    lab.nature = replace(
        lab.nature, particles=(), primary="", scale={"egamma": 1.02, "muon": 0.98, "jet": 1.0},
        resolution={"egamma": 1.3, "muon": 0.7, "jet": 1.0}, efficiency={}, backgrounds={},
    )  # fmt: skip
    name = observation.content["task"]["channels"][0]["name"]
    low, high = observation.content["task"]["search_window_gev"]
    candle = observation.content["task"]["candles"][0]["name"]
    for tool, given in ANALYSES:
        arguments: dict[str, Any] = dict(given)
        if "channel" in arguments:
            arguments["channel"] = name
        if "mass_gev" in arguments:
            arguments["mass_gev"] = round(math.sqrt(low * high), 2)
        if "candle" in arguments:
            arguments["candle"] = candle
        first = one.step({"tool": tool, "arguments": arguments})
        second = other.step({"tool": tool, "arguments": arguments})
        assert first.refused is None
        assert json.dumps(first.to_json()) == json.dumps(second.to_json()), tool
        assert [fact.data for fact in one.facts()] == [fact.data for fact in other.facts()]
