"""Every finding of the review of model captains, with the tests that hold it; and those that had none."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from spectator.errors import EndpointBusy
from spectator.llm.chat import ChatAnswer, ToolCall
from spectator.llm.tool_calls import CallRejected
from spectator.policies.turns import read_calls
from tests.fakes import ManualClock
from tests.llm.test_client import FakeReply, FakeTransport, ask, client
from tests.policies.test_model import LEGAL

TESTS = Path(__file__).resolve().parent.parent

FINDINGS: dict[str, tuple[str, ...]] = {
    "a model that never answers ranks first": (
        "evaluation/test_standings.py::test_a_model_that_never_decided_wins_nothing_and_nobody_beats_it",
        "evaluation/test_standings.py::test_who_decides_less_than_98_percent_itself_stands_last_and_unranked",
    ),
    "unknown fields of a message are dropped": (
        "llm/test_verbatim.py::test_thoughts_go_back_under_the_name_that_they_came_by",
        "llm/test_verbatim.py::test_a_models_own_message_goes_back_with_what_came_beside_it",
        "llm/test_native_forms.py::test_a_match_by_geminis_own_form",
    ),
    "a quota of a minute is taken for bankruptcy": (
        "llm/test_native_forms.py::test_a_quota_of_a_minute_that_speaks_of_billing_is_waited_out",
        "llm/test_refusals.py::test_quotas_of_a_minute_are_waited_out_and_empty_purses_are_not",
    ),
    "a 429 without Retry-After gets two tries": (
        "llm/test_pacing.py::test_a_rate_limit_is_waited_out_until_the_deadline",
    ),
    "an evaluation with eight jobs dies of a rate limit": (
        "evaluation/test_rate_limited.py"
        "::test_limited_and_killed_twice_an_evaluation_of_every_provider_is_the_undisturbed_one",
    ),
    "no fields for requests, tokens and places": (
        "llm/test_pacing.py::test_no_minute_has_more_than_it_may",
        "llm/test_shared_limits.py::test_real_processes_together_send_no_more_than_one_may",
    ),
    "the model's own reasons vanish, past calls become {}": (
        "policies/test_dialogue.py::test_the_models_own_reasons_stay_in_its_calls",
    ),
    "the prompt has no legend": (
        "environments/collider/test_playable.py::test_every_field_of_the_observation_has_a_legend",
    ),
    "weights, presets, wickets and figures are missing": (
        "environments/cricket/test_prompt.py"
        "::test_the_guide_has_the_weights_of_the_score_every_preset_tool_and_part_of_a_card",
        "environments/cricket/test_prompt.py::test_a_captain_reads_who_is_out_and_every_bowlers_figures",
    ),
    "what never changes is told again, and cannot be cached": (
        "policies/test_dialogue.py::test_every_prompt_begins_with_the_one_before",
        "policies/test_dialogue.py::test_what_never_changes_is_told_once_and_what_changes_when_it_does",
    ),
    "a cap of money without a price caps nothing": (
        "test_cli_play.py::test_a_cap_of_money_that_could_limit_nothing_is_refused",
        "server/test_models.py::test_a_cap_of_money_that_limits_nothing_is_refused_at_the_start",
        "test_cli_doctor.py::test_a_cap_of_money_without_a_price_is_told",
    ),
    "a usage of zero counts as zero": (
        "policies/test_spending.py::test_a_count_of_nothing_for_a_long_answer_is_estimated_and_marked",
    ),
    "both seats share a purse": ("policies/test_spending.py::test_each_seat_has_a_purse_of_its_own",),
    "cached tokens are charged in full": (
        "policies/test_spending.py::test_cached_tokens_cost_their_own_price",
        "llm/test_presets.py::test_every_token_is_charged_once_at_its_own_price",
    ),
    "money that is short spreads over unfinished matches": (
        "evaluation/test_match_budget.py::test_no_more_episodes_begin_than_the_money_finishes",
    ),
    "a seed played ten times leads": (
        "evaluation/test_standings.py::test_a_seed_counts_once_however_often_it_is_played",
    ),
    "a preset that is pointed elsewhere keeps its record": (
        "evaluation/test_standings.py"
        "::test_a_preset_that_asks_another_model_is_another_captain_and_other_options_another_place",
    ),
    "people, single matches and lengths are pooled": (
        "evaluation/test_standings.py::test_only_evaluations_rank_and_what_was_played_otherwise_stands_apart",
    ),
    "a rival reads plans before the ball": (
        "server/test_fair_play.py::test_a_rival_that_polls_every_route_learns_nothing_of_the_coming_ball",
        "server/http/test_seat_keys.py::test_a_seat_is_read_and_answered_by_its_own_key_alone",
    ),
    "the verdict uses the win share alone": (
        "evaluation/test_standings.py"
        "::test_decision_value_stands_beside_the_share_as_a_difference_to_the_opponents",
    ),
    "intervals of means are too narrow at ten seeds": (
        "evaluation/test_statistics.py::test_intervals_of_means_cover_at_ten_seeds_too",
    ),
    "an endpoint that cuts prompts makes them grow": (
        "policies/test_captain_check.py::test_a_prompt_that_is_cut_in_silence_is_told",
        "policies/test_line_prompts.py::test_an_endpoint_that_counts_what_it_keeps_does_not_make_prompts_grow",
    ),
    "a call that was cut is told as no JSON": (
        "policies/test_review_findings.py::test_a_call_of_a_tool_that_was_cut_is_truncated",
        "llm/test_native_forms.py::test_an_answer_that_was_cut_and_one_that_was_declined_say_so",
    ),
    "valid JSON beyond 16 KiB is told as none": (
        "policies/test_review_findings.py::test_long_arguments_are_told_as_long_and_not_as_no_json",
    ),
    "no answer within 0 s, after a 429": (
        "policies/test_review_findings.py::test_a_rate_limit_to_the_deadline_is_told_as_one",
    ),
    "a key in pieces reaches viewers": (
        "llm/test_key_in_pieces.py::test_however_the_key_is_cut_nobody_hears_it",
    ),
    "a server that was not started for tools": (
        "policies/test_captain_check.py::test_a_server_that_was_not_started_for_tools_is_told_with_its_flag",
    ),
    "streams that an organisation may not have": (
        "policies/test_captain_check.py::test_streaming_that_is_refused_is_told_and_the_rest_is_checked",
    ),
    "providers without a preset, or without a form of their own": (
        "llm/test_provider_rules.py::test_a_preset_keeps_to_its_providers_rules",
        "llm/test_native_forms.py::test_a_match_by_anthropics_own_form",
        "llm/test_presets.py::test_a_provider_fills_in_what_a_captain_does_not_say",
    ),
    "the 91 behaviours: faults of an endpoint": (
        "policies/test_fault_table.py::test_every_mode_is_in_the_table",
        "policies/test_fault_table.py::test_the_match_goes_on",
    ),
    "results that nobody else can check": (
        "evaluation/test_bundles.py::test_a_moved_or_zipped_bundle_is_verified",
    ),
}
"""What the review found, in a few words, and the tests that would fail if it came back."""


@cache
def source(path: str) -> str:
    return (TESTS / path).read_text(encoding="utf-8")


@pytest.mark.parametrize("finding", FINDINGS)
def test_a_finding_has_tests_that_exist(finding: str) -> None:
    for named in FINDINGS[finding]:
        path, _, test = named.partition("::")
        assert f"def {test}(" in source(path), named


def called(arguments: str, finish: str = "tool_calls") -> CallRejected:
    """Why an answer that calls the tool with these arguments is refused."""
    answer = ChatAnswer(
        text="", thought="", tool_calls=[ToolCall("c1", "plan", arguments)], finish_reason=finish
    )
    with pytest.raises(CallRejected) as refused:
        read_calls(answer, LEGAL, None, 1)
    return refused.value


def test_a_call_of_a_tool_that_was_cut_is_truncated() -> None:
    assert called('{"reason": "behind the ra', "length").failure_class == "truncated"
    assert called('{"level": 0.', "length").failure_class == "truncated", "half a number is another number"
    assert called('{"level": 0.').failure_class == "unparsable"


@pytest.mark.parametrize("more", [1, 20_000, 40_000])
def test_long_arguments_are_told_as_long_and_not_as_no_json(more: int) -> None:
    wrong: dict[str, Any] = {"level": 0.5, "notes": "x" * more}
    refused = called(json.dumps(wrong))
    assert refused.failure_class == "illegal_action" and "not a JSON object" not in str(refused)


@pytest.mark.parametrize("deadline", [10.0, 10.2, 10.5])
def test_a_rate_limit_to_the_deadline_is_told_as_one(deadline: float) -> None:
    """Whoever waited to the end is told what they waited for, not that nobody answered within no time."""
    clock = ManualClock()
    transport = FakeTransport(
        FakeReply(429, b"", {"Retry-After": "10"}), FakeReply(429, b"", {"Retry-After": "9"})
    )
    with pytest.raises(EndpointBusy) as told:
        ask(client(transport, clock), clock, deadline=deadline)
    assert told.value.failure_class == "rate_limited" and "within" not in str(told.value)
