"""Nothing that can be seen before unblinding depends on the events in the box."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spectator.environments import collider
from spectator.environments.collider.environment import ColliderEnvironment
from spectator.environments.collider.experiment import ChannelAnalysis, Dataset, Laboratory
from spectator.environments.collider.scenarios import candle_spectrum, draw_open_data
from tests.environments.collider.campaigns import carry_out, one_run, opened
from tools.collider_blind import ATTACKS, SCENARIOS, main, paired, random_pair, work

RANDOM_PAIRS = 60


def test_random_sequences_see_nothing_of_the_box() -> None:
    pairs = [random_pair(seed) for seed in range(RANDOM_PAIRS)]
    assert [(pair.seed, pair.difference) for pair in pairs if pair.difference is not None] == []
    assert sum(pair.accepted for pair in pairs) > 7 * RANDOM_PAIRS


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_sees_nothing_of_the_box(name: str) -> None:
    at = [*ATTACKS].index(name)
    for all_sealed in (False, True):
        scenario, difficulty = SCENARIOS[(at + all_sealed) % len(SCENARIOS)]
        options = {"scenario": scenario, "difficulty": difficulty}
        pair = paired(at, options, ATTACKS[name], all_sealed=all_sealed)
        assert pair.difference is None, pair.actions[pair.difference - 1]
        assert pair.accepted > 4


@pytest.mark.parametrize("name", ["p-values beside moving windows", "every cut", "totals of many runs"])
def test_an_action_takes_as_much_work_whatever_the_box_holds(name: str) -> None:
    options = {"scenario": "mixed", "difficulty": "medium"}
    pair = paired(2, options, ATTACKS[name], all_sealed=True)
    first, second = work(pair, options)
    assert first == second and min(first) > 50


def _total(dataset: Dataset) -> int:
    return int((dataset.tuning + dataset.sidebands + dataset.box).sum())


def _outside_the_chosen_window(lab: Laboratory, analysis: ChannelAnalysis) -> Any:
    edges = lab.task.channels[analysis.channel].edges_gev
    low, high = analysis.window_gev
    data = [lab.runs[number - 1].data[analysis.channel] for number in lab.usable(analysis)]
    counts = sum((each.sidebands + each.box)[:, analysis.cut :].sum(axis=1) for each in data)
    return np.where((edges[1:] > low) & (edges[:-1] < high), 0, counts)


@pytest.mark.parametrize(
    ("owner", "name", "leak", "attack"),
    [
        (Dataset, "visible", property(_total), "totals of many runs"),
        (Laboratory, "sidebands", _outside_the_chosen_window, "neighbouring windows"),
        (Laboratory, "sidebands", _outside_the_chosen_window, "p-values beside moving windows"),
    ],
    ids=["totals of runs", "differences of windows", "p-values"],
)
def test_a_leak_is_found(
    monkeypatch: pytest.MonkeyPatch, owner: type, name: str, leak: Callable[..., Any], attack: str
) -> None:
    """What could be read before: all events of a run, and events outside a window of one's own."""
    monkeypatch.setattr(owner, name, leak)
    pair = paired(3, {"scenario": "mixed", "difficulty": "medium"}, ATTACKS[attack], all_sealed=True)
    assert pair.difference is not None


def test_only_one_function_reads_the_box_and_only_of_open_runs() -> None:
    readers = []
    for path in Path(str(collider.__file__)).parent.rglob("*.py"):
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(function, ast.FunctionDef):
                reads = (each for each in ast.walk(function) if isinstance(each, ast.Attribute))
                readers += [f"{path.name} {function.name}" for each in reads if each.attr == "box"]
    assert readers == ["experiment.py search"]
    environment, observation = opened(1)
    name = observation.content["task"]["channels"][0]["name"]
    carry_out(environment, [*one_run(observation), ("select_channel", {"channel": name})])
    lab = environment.laboratory
    with pytest.raises(RuntimeError, match="run-1 is not open"):
        lab.search(lab.analysis(name), 1)


def test_known_resonances_of_real_data_lie_outside_the_searched_window() -> None:
    for seed in range(60):
        task, nature = draw_open_data("open_data_dimuon", "easy", seed)
        assert nature.recorded is not None
        edges, _ = candle_spectrum(nature.recorded.candle)
        first, last = map(nature.recorded.axis, edges[[0, -1]])
        assert last < task.window_gev[0] or first > task.window_gev[1]


def test_what_a_real_run_shows_does_not_depend_on_the_boxes_before() -> None:
    def second_run(change: Callable[[Laboratory], None]) -> Dataset:
        environment = ColliderEnvironment()
        options = {"scenario": "open_data_dimuon", "difficulty": "easy"}
        observation = environment.reset(seed=3, episode_id="e", options=options)
        share = observation.content["task"]["luminosity_fb"] / 3
        threshold = observation.content["task"]["channels"][0]["trigger_threshold_gev"]
        run = [("allocate_luminosity", {"luminosity_fb": share}), ("collect_collisions", {})]
        trigger = ("set_trigger", {"thresholds_gev": {"dilepton_mumu": threshold}})
        carry_out(environment, [("configure_beam", {"sqrt_s_tev": 8.0}), trigger, *run])
        change(environment.laboratory)
        carry_out(environment, run)
        return environment.laboratory.runs[1].data["dilepton_mumu"]

    def emptied(lab: Laboratory) -> None:
        box = lab.runs[0].data["dilepton_mumu"].box
        box.setflags(write=True)
        box[:] = 0

    one, two = second_run(lambda lab: None), second_run(emptied)
    assert (one.tuning == two.tuning).all() and (one.sidebands == two.sidebands).all()


def test_the_command_reports_its_pairs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "tools.collider_blind.ATTACKS", {"claims without data": ATTACKS["claims without data"]}
    )
    assert main(["--sequences", "4", "--workers", "1"]) == 0
    assert '"different": 0' in capsys.readouterr().out
