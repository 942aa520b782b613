"""What was weak in earlier systems, where no other test shows it gone; the tests of all of them."""

from __future__ import annotations

import ast
import asyncio
import json
import random
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spectator.clock import SystemClock
from spectator.collector.collector import collect_episode
from spectator.episodes.replayer import verify
from spectator.errors import RETRIED_FAILURES, ConfigurationError
from spectator.events import RecordedEvent, record
from spectator.exports.groups import GroupRule, rows_of_group
from spectator.journal.contract import EpisodeFilter
from spectator.journal.sql_journal import SqlJournal
from spectator.policies.invalid_answers import InvalidAnswers
from spectator.rollouts.fleet import run_rollouts
from spectator.rollouts.request import RolloutRequest
from spectator.runs.interactor import Interactor
from tests.commands import spectator
from tests.journal.records import said
from tests.journal.test_conformance import end_with, started_for
from tests.llm.brains import Said, say
from tests.llm.endpoints import endpoint
from tests.profiled_worlds import TRADING
from tests.rollouts.exported_run import SIZE, crashing_world, play_run

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "rollouts.md"
TESTS = {
    "B1": (
        "tests/steppers/test_http.py::test_a_step_whose_connection_was_cut_is_not_sent_again",
        "tests/steppers/test_http.py::test_an_answer_that_was_lost_after_the_step_is_given_again_by_its_id",
        "tests/steppers/test_openenv.py::test_a_socket_that_dies_in_a_step_is_unavailable_and_the_step_is_not_sent_again",
    ),
    "B2": (
        "tests/steppers/test_own_thread.py::test_a_call_that_misses_its_deadline_gives_the_environment_up",
        "tests/steppers/test_own_thread.py::test_a_thousand_steppers_leave_no_thread",
        "tests/rollouts/test_bad_inputs.py::test_what_an_environment_of_ours_may_do",
    ),
    "B3": (
        "tests/steppers/test_own_thread.py::test_everything_happens_on_one_thread_that_is_not_the_loops",
    ),
    "B4": (
        "tests/rollouts/test_weaknesses.py::test_a_capped_episode_ends_truncated_with_what_it_earned_and_can_be_trained_on",
        "tests/rollouts/test_fleet.py::test_a_cap_on_turns_truncates",
        "tests/rollouts/test_bad_inputs.py::test_an_environment_that_stops_asking_has_ended",
    ),
    "B5": (
        "tests/rollouts/test_bad_inputs.py::test_an_answer_cut_at_its_length",
        "tests/test_events.py::test_an_end_is_terminated_or_truncated_and_never_both",
    ),
    "B6": (
        "tests/rollouts/test_trimming.py::test_what_is_no_conversation_is_an_environments_fault",
        "tests/rollouts/test_bad_inputs.py::test_what_a_pooled_server_may_answer",
    ),
    "B7": (
        "tests/rollouts/test_fleet.py::test_an_environment_that_raises_is_tried_again_and_ends_nothing_else",
        "tests/rollouts/test_weaknesses.py::test_a_run_in_which_every_episode_fails_says_so",
    ),
    "B8": (
        "tests/rollouts/test_exports.py::test_what_a_stand_in_or_a_failure_did_is_credited_to_no_answer",
        "tests/rollouts/test_handlers.py::test_an_episode_without_a_verdict_teaches_nothing",
    ),
    "B9": (
        "tests/rollouts/test_interactor.py::test_another_attempt_has_an_id_and_a_result_of_its_own",
        "tests/runs/test_runs.py::test_every_attempt_is_kept_as_an_episode_of_its_own",
    ),
    "B10": (
        "tests/llm/test_client.py::test_no_place_is_held_while_waiting_to_retry",
        "tests/llm/test_client.py::test_the_deadline_wins_over_endless_patience",
        "tests/llm/test_client.py::test_what_cannot_pass_is_raised_at_once",
        "tests/episodes/test_driver.py::test_an_episode_that_lasts_too_long",
    ),
    "B11": (
        "tests/steppers/test_http.py::test_a_server_that_is_busy_did_nothing_and_says_how_long",
        "tests/steppers/test_http.py::test_garbage_is_a_fault_of_its_own",
        "tests/llm/test_retry.py::test_waits_are_drawn_evenly_below_a_growing_bound",
    ),
    "B12": (
        "tests/llm/test_wire.py::test_a_whole_answer",
        "tests/llm/test_wire.py::test_everything_that_is_set_is_sent",
        "tests/policies/test_history.py::test_an_answer_without_text_still_has_content",
    ),
    "B13": (
        "tests/rollouts/test_trimming.py::test_trimming_any_conversation",
        "tests/rollouts/test_trimming.py::test_a_tools_answer_is_never_sent_without_its_call",
        "tests/rollouts/test_trimming.py::test_the_system_message_and_the_task_survive",
        "tests/rollouts/test_trimming.py::test_a_negative_or_zero_cut_keeps_everything_in_a_list_of_its_own",
        "tests/policies/test_history.py::test_dropping_makes_room_for_many_turns_at_once",
    ),
    "B14": (
        "tests/rollouts/test_weaknesses.py::test_every_episode_of_a_run_replays_from_its_record",
        "tests/episodes/test_driver.py::test_an_environment_that_breaks_its_contract",
        "tests/rollouts/test_bad_inputs.py::test_what_a_pooled_server_may_answer",
    ),
    "B15": (
        "tests/rollouts/test_bad_inputs.py::test_a_disk_that_is_full_halts_the_run_and_loses_nothing",
        "tests/rollouts/test_fleet.py::test_killed_at_any_moment_the_same_command_finishes_the_rest",
    ),
    "B16": (
        "tests/rollouts/test_actors.py::test_a_failing_start_is_tried_again_and_then_given_up",
        "tests/rollouts/test_actors.py::test_no_slot_leaks_whatever_fails",
        "tests/rollouts/test_weaknesses.py::test_a_pool_that_raises_is_closed_and_its_error_is_seen",
        "tests/rollouts/test_interactor.py::test_a_programmers_error_ends_its_own_episode_and_is_not_hidden",
    ),
    "B17": (
        "tests/rollouts/test_fleet.py::test_a_run_can_be_made_longer",
        "tests/rollouts/test_interactor.py::test_draining_finishes_what_is_played_and_takes_no_more",
        "tests/rollouts/test_weaknesses.py::test_a_run_in_which_every_episode_fails_says_so",
    ),
    "B18": (
        "tests/rollouts/test_exports.py::test_a_group_has_its_usable_members_and_counts_the_others",
        "tests/rollouts/test_weaknesses.py::test_the_state_of_a_group_is_told_from_the_journal_alone",
        "tests/rollouts/test_rollouts_view.py::test_a_run_with_failures_says_which_by_exit_code_and_list",
        "tests/server/http/test_health.py::test_the_process_is_healthy_and_ready",
        "tests/policies/test_captains.py::test_a_key_put_into_the_file_by_mistake_is_not_repeated",
    ),
    "H1": (
        "tests/rollouts/test_handlers.py::test_an_episode_keeps_the_experience_of_its_first_step",
        "tests/rollouts/test_handlers.py::test_an_episode_that_is_played_on_after_a_death_keeps_its_experience",
    ),
    "H2": (
        "tests/rollouts/test_handlers.py::test_an_episode_without_a_verdict_teaches_nothing",
    ),
    "H3": (
        "tests/rollouts/test_handlers.py::test_processes_that_learn_at_once_lose_nothing",
        "tests/rollouts/test_handlers.py::test_damaged_statistics_are_refused_and_left_alone",
    ),
    "H4": (
        "tests/rollouts/test_handlers.py::test_no_handler_changes_the_prompt_it_is_given",
    ),
    "H5": (
        "tests/rollouts/test_bad_inputs.py::test_a_handler_that_fails_costs_its_own_episode_and_no_run",
    ),
    "H6": (
        "tests/rollouts/test_fleet.py::test_what_a_handler_adds_is_sent_and_recorded",
    ),
    "H7": (
        "tests/rollouts/test_handlers.py::test_the_template_handler_takes_the_best_so_far",
        "tests/rollouts/test_handlers.py::test_ucb_tries_each_and_then_mostly_the_better",
        "tests/rollouts/test_handlers.py::test_the_contextual_handler_learns_what_fits_which_prompt",
    ),
    "C1": (
        "tests/collector/test_collecting.py::test_a_collider_campaign_is_collected_with_its_truth_apart",
        "tests/collector/test_jsonl.py::test_the_truth_goes_into_a_file_of_its_own",
        "tests/environments/collider/test_world.py::test_the_truth_is_sealed_until_the_end_and_the_state_tells_none_of_it",
        "tests/rollouts/test_exports.py::test_nothing_of_the_truth_is_in_any_other_form",
    ),
    "C2": (
        "tests/collector/test_collecting.py::test_what_a_fallback_earns_is_never_the_completions",
    ),
    "C3": (
        "tests/collector/test_collecting.py::test_a_cap_is_a_truncation_and_no_end_of_the_world",
        "tests/collector/test_collecting.py::test_a_collider_campaign_is_collected_with_its_truth_apart",
    ),
    "C4": (
        "tests/rollouts/test_weaknesses.py::test_a_collected_step_has_what_it_led_to_and_its_totals_agree",
    ),
    "C5": (
        "tests/collector/test_generation.py::test_a_failure_is_tried_once_more_and_steps_keep_their_own_words",
        "tests/collector/test_generation.py::test_a_call_that_hangs_costs_its_decision_and_nothing_waits_for_it",
        "tests/collector/test_collecting.py::test_an_environment_that_fails_keeps_the_steps_before",
    ),
    "C6": (
        "tests/collector/test_generation.py::test_episodes_wait_for_their_answers_together_and_come_in_order",
    ),
    "C7": (
        "tests/collector/test_collecting.py::test_config_and_prompt_reach_the_model",
        "tests/collector/test_collecting.py::test_a_cap_of_nothing_is_refused",
    ),
    "C8": (
        "tests/collector/test_jsonl.py::test_what_was_saved_is_loaded",
        "tests/collector/test_jsonl.py::test_a_kill_while_writing_leaves_the_file_as_it_was",
        "tests/collector/test_jsonl.py::test_bad_lines_are_reported_and_the_rest_is_loaded",
        "tests/collector/test_jsonl.py::test_appending_after_a_death_loses_only_the_torn_line",
        "tests/collector/test_jsonl.py::test_a_failure_while_writing_leaves_the_file_as_it_was",
    ),
    "C9": (
        "tests/collector/test_jsonl.py::test_size_is_linear_in_steps",
        "tests/collector/test_generation.py::test_tokens_sampling_and_versions_are_in_the_record",
    ),
    "C10": (
        "tests/rollouts/test_weaknesses.py::test_a_collected_step_has_what_it_led_to_and_its_totals_agree",
    ),
}  # fmt: skip
"""The tests of each row of the table in docs/rollouts.md."""


def functions_of(path: Path) -> set[str]:
    nodes = ast.walk(ast.parse(path.read_text()))
    return {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_every_weakness_is_in_the_table_with_tests_that_exist() -> None:
    rows = re.findall(r"^\| ([BCH]\d+)\. .+? \| .+? \|$", PAGE.read_text(), re.MULTILINE)
    assert sorted(rows) == sorted(TESTS)
    known: dict[str, set[str]] = {}
    for name, tests in TESTS.items():
        assert tests, f"{name} names no test"
        for test in tests:
            file, _, function = test.partition("::")
            known.setdefault(file, functions_of(ROOT / file))
            assert function in known[file], f"{name}: there is no {function} in {file}"


async def read_all(folder: Path) -> list[tuple[Any, list[RecordedEvent]]]:
    journal = await SqlJournal.open(f"sqlite:///{folder / 'journal.db'}", writable=False)
    try:
        found = await journal.episodes(EpisodeFilter(limit=1000))
        return [(one, await journal.read(one.episode_id)) for one in found]
    finally:
        await journal.aclose()


def test_every_episode_of_a_run_replays_from_its_record(tmp_path: Path) -> None:
    """Right, wrong, helped out and crashed: each event comes out again from the seed and the decisions."""
    play_run(tmp_path, episodes=3 * SIZE)

    async def check() -> int:
        async def stream(events: list[RecordedEvent]) -> AsyncIterator[RecordedEvent]:
            for one in events:
                yield one

        episodes = await read_all(tmp_path)
        for summary, events in episodes:
            assert await verify(stream(events), load=crashing_world) == [], summary
        return len(episodes)

    assert asyncio.run(check()) >= 3 * SIZE


def trader(body: Any) -> Said:
    return say(body, "buy", {}, "cheap")


def test_a_capped_episode_ends_truncated_with_what_it_earned_and_can_be_trained_on(tmp_path: Path) -> None:
    with endpoint(trader) as fake:
        model = {"label": "m", "model": "m", "base_url": fake.base_url, "stream": False, "tokens": True}
        fields = {"environment": "trading", "options": {"rounds": 50}, "episodes": 1, "max_turns": 6}
        request = RolloutRequest.model_validate({**fields, "model": model})
        run = run_rollouts(
            request,
            tmp_path,
            concurrency=1,
            clock=SystemClock(),
            load=lambda name: TRADING,
            rng=random.Random(1),
        )
        asyncio.run(run)
    ((summary, events),) = asyncio.run(read_all(tmp_path))
    end = events[-1].event.data
    assert (end["reason"], end["terminated"], end["truncated"]) == ("step_cap", False, True)
    assert end["total_reward"] == pytest.approx(3 * 0.1 - 3 * 0.05)
    result = spectator("rollouts", "export", tmp_path, "--format", "messages")
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert len(rows) == 3 and summary.score is None
    for row in rows:
        assert row["trainable"] and row["truncated"] and not row["terminated"] and any(row["mask"])
        assert row["reward"] == pytest.approx(0.1 - 0.05), "its own reward and what the market took after it"
        assert row["episode_reward"] == end["total_reward"]


def test_a_run_in_which_every_episode_fails_says_so(tmp_path: Path) -> None:
    with endpoint(lambda body: Said(text="I would rather not say.")) as fake:
        command = ["--env", "counting", "--base-url", fake.base_url, "--model", "m", "--episodes", "4"]
        command += ["--group-size", "2", "--on-invalid", "end", "--option", "turns=2", "--out", str(tmp_path)]
        result = spectator("rollouts", "run", *command)
    assert result.exit_code == 1, result.output
    assert "unparsable" in result.output
    failures = spectator("rollouts", "failures", tmp_path)
    assert failures.output.count("unparsable") >= 4
    status = spectator("rollouts", "status", tmp_path)
    assert status.exit_code == 1 and "unparsable" in status.output
    groups = spectator("rollouts", "export", tmp_path, "--format", "groups")
    rows = [json.loads(line) for line in groups.stdout.splitlines()]
    assert [(row["usable"], row["state"]) for row in rows] == [(0, "void")] * 2
    assert [row["failures"] for row in rows] == [{"unparsable": 2}] * 2


class BrokenPool:
    """A pool that raises where it is told to."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.closed = 0

    @property
    def pool_size(self) -> int:
        return 3

    async def start(self) -> None:
        self._break("start")

    async def acquire(self) -> None:
        self._break("acquire")

    async def done(self, handle: Any, *, again: Any = None) -> None:
        raise AssertionError("nothing was leased")

    def drain(self) -> None:
        """Nothing is handed out anyway."""

    async def aclose(self) -> None:
        self.closed += 1

    def _break(self, where: str) -> None:
        if where == self.where:
            raise ConfigurationError(f"the pool broke in {where}")


async def never_played(handle: Any, flight: Any) -> Any:
    raise AssertionError("nothing was leased")


@pytest.mark.parametrize("where", ["start", "acquire"])
async def test_a_pool_that_raises_is_closed_and_its_error_is_seen(where: str) -> None:
    pool = BrokenPool(where)
    clock = SystemClock()
    interactor: Interactor[int] = Interactor(
        pool, never_played, clock=clock, rng=random.Random(1), startup_jitter_s=0.0
    )
    with pytest.raises((ConfigurationError, ExceptionGroup)) as raised:
        await asyncio.wait_for(interactor.run(), 20)
    seen = [raised.value, *getattr(raised.value, "exceptions", ())]
    assert f"the pool broke in {where}" in " ".join(map(str, seen))
    assert pool.closed == 1


def ended_with(episode_id: str, failure: str | None) -> RecordedEvent:
    end = end_with(None, episode_id, 3)
    if failure is None:
        return end
    changed = {"reason": "environment_error", "score": None, "result": None, "failure_class": failure}
    data = {**end.event.data, **changed, "terminated": False, "truncated": True}
    return record(replace(end.event, data=data))


@pytest.mark.parametrize(
    ("attempts", "size", "state"),
    [
        ({"a1": "env_infra", "b1": "env_infra"}, 2, "open"),
        ({"a1": "env_infra", "a2": "env_infra", "b1": "env_infra", "b2": "env_infra"}, 2, "void"),
        ({"a1": "policy_fault", "b1": "policy_fault"}, 2, "void"),
        ({"a1": "policy_fault"}, 2, "open"),
        ({"a1": "policy_fault", "b1": "unended"}, None, "open"),
        ({"a1": "policy_fault", "b1": "policy_fault"}, None, "void"),
        ({"a1": None}, 1, "void"),
    ],
)
async def test_the_state_of_a_group_is_told_from_the_journal_alone(
    tmp_path: Path, attempts: dict[str, str | None], size: int | None, state: str
) -> None:
    """Whether members are still to come follows from what is recorded, whoever asks and whenever."""

    journal = await SqlJournal.open(f"sqlite:///{tmp_path / 'journal.db'}")
    for name, failure in attempts.items():
        begun = started_for(name, run_id="r", group_id="g", attempt=int(name[-1]))
        await journal.append([begun])
        await journal.append([said(name, 2)])
        if failure != "unended":
            await journal.append([ended_with(name, failure)])
    found = await journal.episodes(EpisodeFilter(group_id="g"))
    rule = GroupRule(size, attempts=2, retried=RETRIED_FAILURES)
    [row] = await rows_of_group(journal, found[::-1], rule)
    assert (row["state"], row["usable"], row["rewards"]) == (state, 0, [])
    assert row["size"] == (size or len({name[0] for name in attempts}))
    assert sum(row["failures"].values()) == len(attempts)
    await journal.aclose()


def test_a_collected_step_has_what_it_led_to_and_its_totals_agree() -> None:
    told = iter(["configure_beam", "allocate_luminosity"])

    def plays(prompt: str, config: Any) -> str:
        tool = next(told, "conclude_null")
        arguments = {"configure_beam": {"energy_tev": 13}, "allocate_luminosity": {"luminosity_fb": 5}}
        return json.dumps({"tool": tool, "arguments": arguments.get(tool, {}), "reason": "so"})

    fallback = InvalidAnswers(on_invalid="fallback")
    episode = collect_episode(
        "collider", 3, "mixed", "easy", lambda messages: "x", plays, invalid=fallback
    ).record
    assert episode.end_reason == "finished" and len(episode.steps) >= 2
    for step, following in zip(episode.steps, episode.steps[1:], strict=False):
        assert step.outcome_summary == following.observation_summary
    assert episode.steps[-1].outcome_summary and episode.steps[-1].terminated
    assert episode.total_reward == pytest.approx(sum(step.reward or 0.0 for step in episode.steps))
    assert episode.model_reward is not None and episode.fallback_reward is not None
    assert episode.total_reward == pytest.approx(episode.model_reward + episode.fallback_reward)
    assert episode.cumulative_reward == pytest.approx(episode.total_reward)
