"""Invalid actions are rejected with the rule's code, change nothing, and are counted."""

from __future__ import annotations

import math

import pytest

from spectator.events import encode_json
from tests.environments.collider.campaigns import Call, carry_out, one_run, opened, opened_box

CHANNEL = "diphoton"


def in_window(mass: float) -> dict[str, object]:
    return {"channel": CHANNEL, "mass_gev": mass}


FRESH: list[tuple[Call, str]] = [
    (("configure_beam", {"sqrt_s_tev": 100.0}), "invalid_parameters"),
    (("configure_beam", {"sqrt_s_tev": 13000.0}), "invalid_parameters"),
    (("set_trigger", {"thresholds_gev": {CHANNEL: 0.001}}), "invalid_parameters"),
    (("set_trigger", {"thresholds_gev": {CHANNEL: -20.0}}), "invalid_parameters"),
    (("set_trigger", {"thresholds_gev": {"neutrino": 20.0}}), "channel_mismatch"),
    (("set_trigger", {"thresholds_gev": {}}), "invalid_parameters"),
    (("allocate_luminosity", {"luminosity_fb": -5.0}), "invalid_parameters"),
    (("allocate_luminosity", {"luminosity_fb": 0.0}), "invalid_parameters"),
    (("allocate_luminosity", {"luminosity_fb": float("nan")}), "invalid_parameters"),
    (("allocate_luminosity", {"luminosity_fb": 5.0}), "missing_prerequisite"),
    (("collect_collisions", {}), "missing_prerequisite"),
    (("calibrate_detector", {"candle": "z_ee"}), "missing_prerequisite"),
    (("calibrate_detector", {"candle": "moon"}), "invalid_parameters"),
    (("select_channel", {"channel": "neutrino"}), "channel_mismatch"),
    (("unblind", {"channel": CHANNEL}), "channel_mismatch"),
    (("scan_bump", {"channel": CHANNEL}), "channel_mismatch"),
    (("fit_resonance", in_window(500.0)), "channel_mismatch"),
    (("freeze_selection", {}), "missing_prerequisite"),
    (("request_theory_review", {"mass_gev": 1.0}), "out_of_search_window"),
    (("no_such_action", {}), "action.shape"),
    (
        (
            "submit_discovery_claim",
            {"kind": "discovery", "channel": CHANNEL, "mass_gev": 500.0, "mass_error_gev": 1.0,
             "z_local": 6.0, "z_global": 5.5},
        ),
        "channel_mismatch",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("call", "code"), FRESH, ids=lambda value: str(value)[:60])
def test_a_fresh_campaign_rejects_invalid_actions(call: Call, code: str) -> None:
    environment, observation = opened(1)
    assert CHANNEL in [each["name"] for each in observation.content["task"]["channels"]]
    before = encode_json(environment.state)
    environment.facts()
    answer = environment.step({"tool": call[0], "arguments": call[1]})
    assert answer.refused is not None and answer.refused.rule == code, answer.refused
    assert answer.content["rule_violations"] == [code]
    assert encode_json(environment.state) == before and not environment.facts()
    assert answer.metadata["rubric"]["conduct"] < 1.0  # counted


def test_more_than_there_is_cannot_be_spent() -> None:
    environment, observation = opened(1)
    carry_out(environment, one_run(observation)[:2])
    most = observation.content["task"]["luminosity_fb"]
    late = environment.step({"tool": "allocate_luminosity", "arguments": {"luminosity_fb": most + 1}})
    assert late.refused is not None and late.refused.rule == "over_luminosity"
    carry_out(
        environment,
        [("configure_beam", {"sqrt_s_tev": 7.0}), ("allocate_luminosity", {"luminosity_fb": 60.0})],
    )
    dear = environment.step({"tool": "collect_collisions", "arguments": {}})
    assert dear.refused is not None and dear.refused.rule in ("over_budget", "over_time")
    assert dear.content["runs"] == []


OPENED: list[tuple[Call, str]] = [
    (("fit_resonance", in_window(0.55)), "out_of_search_window"),  # TeV
    (("fit_resonance", in_window(550_000.0)), "invalid_parameters"),  # MeV
    (("fit_resonance", in_window(2.0e4)), "out_of_search_window"),
    (("estimate_significance", in_window(-5.0)), "invalid_parameters"),
    (("build_invariant_mass", {"channel": CHANNEL}), "missing_prerequisite"),  # frozen
    (("optimise_selection", {"channel": CHANNEL, "cut": 0.5}), "missing_prerequisite"),
    (("unblind", {"channel": CHANNEL}), "redundant"),
    (("freeze_selection", {}), "redundant"),
    (("cross_check", in_window(550.0)), "missing_prerequisite"),
    (("set_limit", in_window(1.0)), "out_of_search_window"),
    (
        (
            "submit_discovery_claim",
            {"kind": "discovery", "channel": CHANNEL, "mass_gev": 550.0, "mass_error_gev": 1.0,
             "z_local": 6.0, "z_global": 5.5},
        ),
        "invalid_claim",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("call", "code"), OPENED, ids=lambda value: str(value)[:60])
def test_an_open_box_rejects_invalid_actions(call: Call, code: str) -> None:
    environment, observation = opened(1)
    carry_out(environment, opened_box(observation, CHANNEL))
    before = encode_json(environment.state)
    environment.facts()
    answer = environment.step({"tool": call[0], "arguments": call[1]})
    assert answer.refused is not None and answer.refused.rule == code, answer.refused
    assert encode_json(environment.state) == before and not environment.facts()


@pytest.mark.parametrize("window", [[0.4, 0.6], [600.0, 500.0], [100.0, 200.0], [550.0, 550.5]])
def test_a_window_lies_in_the_data_and_holds_some_bins(window: list[float]) -> None:
    environment, observation = opened(1)
    carry_out(environment, [*one_run(observation), ("select_channel", {"channel": CHANNEL})])
    answer = environment.step(
        {"tool": "build_invariant_mass", "arguments": {"channel": CHANNEL, "window_gev": window}}
    )
    assert answer.refused is not None and answer.refused.rule == "invalid_parameters"


def test_the_box_stays_closed_until_the_selection_is_frozen() -> None:
    environment, observation = opened(1)
    carry_out(environment, [*one_run(observation), ("select_channel", {"channel": CHANNEL})])
    answer = environment.step({"tool": "unblind", "arguments": {"channel": CHANNEL}})
    assert answer.refused is not None and answer.refused.rule == "unblind_before_freeze"


def test_an_empty_spectrum_is_not_fitted() -> None:
    environment, observation = opened(1)
    highest = {
        each["name"]: 0.99 * each["fit_window_gev"][1] for each in observation.content["task"]["channels"]
    }
    carry_out(
        environment,
        [
            ("configure_beam", {"sqrt_s_tev": 7.0}),
            ("set_trigger", {"thresholds_gev": highest}),
            ("allocate_luminosity", {"luminosity_fb": 0.01}),
            ("collect_collisions", {}),
            ("select_channel", {"channel": CHANNEL}),
            ("freeze_selection", {}),
            ("unblind", {"channel": CHANNEL}),
        ],
    )
    for tool, arguments in (("scan_bump", {"channel": CHANNEL}), ("fit_resonance", in_window(550.0))):
        answer = environment.step({"tool": tool, "arguments": arguments})
        assert answer.refused is not None and answer.refused.rule == "missing_prerequisite"


def test_asking_again_gains_nothing_and_costs_nothing() -> None:
    environment, observation = opened(1)
    first = carry_out(environment, [*opened_box(observation, CHANNEL), ("scan_bump", {"channel": CHANNEL})])
    again = environment.step({"tool": "scan_bump", "arguments": {"channel": CHANNEL}})
    assert again.refused is not None and again.refused.rule == "redundant"
    assert again.content["resource_usage"] == first.content["resource_usage"]
    assert again.content["findings"] == first.content["findings"]


def test_every_estimate_allows_for_other_backgrounds() -> None:
    environment, observation = opened(1, difficulty="easy", scenario="graviton")
    name = observation.content["task"]["channels"][0]["name"]
    carry_out(environment, [*opened_box(observation, name), ("scan_bump", {"channel": name})])
    mass = environment.laboratory.analysis(name).findings["scan"]["candidates"][0]["mass_gev"]
    here = {"channel": name, "mass_gev": mass}
    found = carry_out(environment, [("estimate_significance", here)]).content["last_result"]
    assert found["spurious"] == max(map(abs, found["by_background"].values())) > 0.0
    assert found["background_fits"] and found["z_local"] < found["signal"] / found["signal_error"]


@pytest.mark.parametrize(("shift", "broken"), [(0.0, True), (0.2, False)])
def test_a_failed_comparison_of_runs_counts_at_its_own_mass_only(shift: float, broken: bool) -> None:
    environment, observation = opened(1, difficulty="easy", scenario="graviton")
    name = observation.content["task"]["channels"][0]["name"]
    carry_out(environment, [*opened_box(observation, name), ("scan_bump", {"channel": name})])
    findings = environment.laboratory.analysis(name).findings
    mass = findings["scan"]["candidates"][0]["mass_gev"]
    here = {"channel": name, "mass_gev": mass}
    carry_out(environment, [("fit_resonance", here), ("estimate_significance", here)])
    findings["checks"] = [{"mass_gev": mass * (1.0 + shift), "p_value": 1e-6}]
    claim = {"kind": "evidence", **here, "mass_error_gev": 5.0, "z_local": 0.0, "z_global": 0.0}
    ended = carry_out(environment, [("submit_discovery_claim", claim)])
    assert ("claim_on_trigger_feature" in ended.content["rule_violations"]) is broken


def test_a_channel_that_was_seen_can_only_be_selected_for_fresh_runs() -> None:
    environment, observation = opened(1)
    carry_out(environment, opened_box(observation, CHANNEL))
    answer = carry_out(environment, [("select_channel", {"channel": CHANNEL}), ("freeze_selection", {})])
    assert environment.step({"tool": "unblind", "arguments": {"channel": CHANNEL}}).refused is not None
    carry_out(environment, [("allocate_luminosity", {"luminosity_fb": 5.0}), ("collect_collisions", {})])
    answer = carry_out(environment, [("unblind", {"channel": CHANNEL})])
    assert answer.content["selection"]["channels"][CHANNEL]["opened_runs"] == ["run-2"]


def test_after_the_end_every_action_is_rejected() -> None:
    environment, _ = opened(1)
    end = environment.step({"tool": "conclude_null", "arguments": {}})
    assert end.done and 0.0 <= end.reward <= 1.0
    state = encode_json(environment.state)
    late = environment.step({"tool": "configure_beam", "arguments": {"sqrt_s_tev": 13.0}})
    assert late.refused is not None and late.refused.rule == "episode.over"
    assert late.done and late.reward == 0.0 and encode_json(environment.state) == state


def test_a_trigger_turn_on_that_no_background_describes_is_no_evidence() -> None:
    """The turn-on reaches into the lower sideband: up to version 1.3 this null showed 17.9 sigma global."""
    environment, observation = opened(90132, scenario="null", difficulty="expert")
    offer = next(each for each in observation.content["task"]["channels"] if each["name"] == "bb")
    trigger = {"thresholds_gev": {"bb": 34.416}}
    run = [("allocate_luminosity", {"luminosity_fb": 35.0}), ("collect_collisions", {})]
    carry_out(environment, [("configure_beam", {"sqrt_s_tev": 13.0}), ("set_trigger", trigger), *run])
    for fitted, fits in ({}, False), ({"fit_window_gev": [103.0, offer["fit_window_gev"][1]]}, True):
        if fits:
            carry_out(environment, run)
        calls: list[Call] = [
            ("select_channel", {"channel": "bb"}),
            ("build_invariant_mass", {"channel": "bb", **fitted}),
            ("subtract_background", {"channel": "bb", "function": "dijet"}),
            ("freeze_selection", {}),
            ("unblind", {"channel": "bb"}),
            ("scan_bump", {"channel": "bb"}),
        ]
        scan = carry_out(environment, calls).content["last_result"]
        here = {"channel": "bb", "mass_gev": scan["best_mass_gev"]}
        found = carry_out(environment, [("estimate_significance", here)]).content["last_result"]
        assert scan["shape_ok"] is found["background_fits"] is fits
        assert (scan["best_z"] < 4.0) is fits and found["z_global"] < 1.0
        assert environment.laboratory.selection.channels["bb"].opened == ((2,) if fits else (1,))


def test_a_fit_window_holds_the_search_window_and_lies_in_the_data() -> None:
    environment, observation = opened(1)
    task = observation.content["task"]
    low, high = task["search_window_gev"]
    least, most = task["channels"][0]["fit_window_gev"]
    name = task["channels"][0]["name"]
    carry_out(environment, [*one_run(observation), ("select_channel", {"channel": name})])
    for wrong in ([low + 1.0, most], [least, high - 1.0], [least - 5.0, most], [least, most + 5.0]):
        arguments = {"channel": name, "fit_window_gev": wrong}
        answer = environment.step({"tool": "build_invariant_mass", "arguments": arguments})
        assert answer.refused is not None and "fit_window_gev" in answer.refused.message
    whole = carry_out(environment, [("build_invariant_mass", {"channel": name})])
    same = {"channel": name, "fit_window_gev": [least, most]}
    assert carry_out(environment, [("build_invariant_mass", same)]).content["last_result"] == {
        **whole.content["last_result"]
    }
    trimmed = {"channel": name, "fit_window_gev": [low, most]}
    found = carry_out(environment, [("build_invariant_mass", trimmed)]).content["last_result"]
    assert least < found["fit_window_gev"][0] <= low
    assert found["sideband_events"] < whole.content["last_result"]["sideband_events"]


def test_every_look_is_charged_in_one_account() -> None:
    environment, observation = opened(1, scenario="null", difficulty="easy")
    one, two = [each["name"] for each in observation.content["task"]["channels"]]
    assert observation.content["looks"] == {
        "taken": [], "error_left": 1.0, "next_look_trials_per_channel": 2,
    }  # fmt: skip
    run = [("allocate_luminosity", {"luminosity_fb": 5.0}), ("collect_collisions", {})]
    both = [("select_channel", {"channel": name}) for name in (one, two)]
    freeze: Call = ("freeze_selection", {})

    def trials_of(*calls: Call) -> list[int]:
        answer = carry_out(environment, [*calls])
        return [look["trials"] for look in answer.content["looks"]["taken"]]

    assert trials_of(*one_run(observation, 5.0), *both, freeze, ("unblind", {"channel": one})) == [4]
    assert trials_of(("unblind", {"channel": two})) == [4]  # the look at the same run
    middle = float(f"{sum(observation.content['task']['search_window_gev']) / 2:.6g}")
    assert trials_of(*run, ("unblind", {"channel": one})) == [4, 8]  # a run: two channels could be opened
    assert trials_of(*run, both[0], freeze, ("unblind", {"channel": one})) == [4, 8, 8]  # a selection
    middle = float(f"{sum(observation.content['task']['search_window_gev']) / 2:.6g}")
    mass = {"channel": one, "mass_gev": middle}
    found = carry_out(environment, [("estimate_significance", mass)]).content["last_result"]
    assert (found["look"], found["trials"]) == (3, 8)
    local = found["p_local"] + found["upcrossings"] * math.exp(-0.5 * found["z_local"] ** 2)
    assert found["p_global"] == pytest.approx(min(1.0, 8 * local), rel=1e-3)
