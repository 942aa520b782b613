"""Invalid actions are rejected with the rule's code, change nothing, and are counted."""

from __future__ import annotations

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
    (("combine_channels", {"mass_gev": 500.0}), "missing_prerequisite"),
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


def test_systematics_count_at_their_own_mass_and_replace_the_estimates_before() -> None:
    environment, observation = opened(1, difficulty="easy", scenario="graviton")
    name = observation.content["task"]["channels"][0]["name"]
    carry_out(environment, [*opened_box(observation, name), ("scan_bump", {"channel": name})])
    lab = environment.laboratory
    low, high = lab.task.window_gev
    mass = lab.analysis(name).findings["scan"]["candidates"][0]["mass_gev"]
    here = {"channel": name, "mass_gev": mass}
    far = {"channel": name, "mass_gev": round(low + 2 if mass > (low * high) ** 0.5 else high - 2, 3)}
    carry_out(environment, [("fit_resonance", here), ("request_systematics", far)])
    elsewhere = carry_out(environment, [("estimate_significance", here)])
    assert elsewhere.content["last_result"]["spurious"] is None
    asked = carry_out(environment, [("request_systematics", here)])
    assert asked.content["cumulative_significance"] == 0.0
    claim = {"kind": "evidence", **here, "mass_error_gev": 5.0, "z_local": 4.0, "z_global": 3.0}
    early = environment.step({"tool": "submit_discovery_claim", "arguments": claim})
    assert early.refused is not None and early.refused.rule == "invalid_claim"
    again = carry_out(environment, [("estimate_significance", here)])
    assert again.content["last_result"]["spurious"] == asked.content["last_result"]["spurious"]


@pytest.mark.parametrize(("shift", "broken"), [(0.0, True), (0.2, False)])
def test_a_failed_comparison_of_runs_counts_at_its_own_mass_only(shift: float, broken: bool) -> None:
    environment, observation = opened(1, difficulty="easy", scenario="graviton")
    name = observation.content["task"]["channels"][0]["name"]
    carry_out(environment, [*opened_box(observation, name), ("scan_bump", {"channel": name})])
    findings = environment.laboratory.analysis(name).findings
    mass = findings["scan"]["candidates"][0]["mass_gev"]
    here = {"channel": name, "mass_gev": mass}
    carry_out(environment, [("fit_resonance", here), ("estimate_significance", here)])
    findings["checks"] = [{"kind": "runs", "mass_gev": mass * (1.0 + shift), "p_value": 1e-6}]
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
