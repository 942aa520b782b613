"""The table "What happens when something fails" in docs/rollouts.md, for each rule for invalid answers."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import pytest

from spectator.catalog import load_world
from spectator.environments.world import World
from spectator.policies.invalid_answers import InvalidAnswers
from tests.llm.brains import Brain, Said, counter, read_situation, say
from tests.llm.endpoints import endpoint
from tests.llm.fake_server import Mode
from tests.rollouts.doors import LOREM
from tests.rollouts.test_bad_inputs import QUICK, AnswersText, Broken, Exits, NotANumber, Odd, only
from tests.rollouts.test_fleet import TURNS, recorded, request, run
from tests.rollouts.test_invalid_answers import exported

RULES = [
    InvalidAnswers(on_invalid=rule, invalid_retries=retries, invalid_reward=-0.25)
    for rule in get_args(InvalidAnswers.model_fields["on_invalid"].annotation)
    for retries in (0, 1)
]
each_rule = pytest.mark.parametrize("rule", RULES, ids=lambda one: f"{one.on_invalid}-{one.invalid_retries}")
OWN = 2
"""Decisions that the model makes before it fails."""

FAILED_ANSWERS: Mapping[str, tuple[Brain, str]] = {
    "not an action": (lambda body: Said(text=LOREM), "unparsable"),
    "not legal": (lambda body: say(body, "lorem", {}, ""), "illegal_action"),
    "cut off": (lambda body: Said(text="I think that", finish="length"), "truncated"),
    "declined": (lambda body: Said(refusal="I cannot help with that."), "declined"),
}


@each_rule
@pytest.mark.parametrize("answer", FAILED_ANSWERS)
def test_a_failed_answer_follows_the_rule(tmp_path: Path, answer: str, rule: InvalidAnswers) -> None:
    failing, failure = FAILED_ANSWERS[answer]

    def brain(body: Mapping[str, Any]) -> Said:
        return counter(body) if read_situation(body)["next"] <= OWN else failing(body)

    with endpoint(brain) as fake:
        report = run(request(fake, episodes=1, group_size=1, **rule.model_dump()), tmp_path, deadlines=QUICK)
    result, fallback = only(report), rule.on_invalid == "fallback"
    failed = TURNS - OWN if fallback else 1
    assert (result.attempt, report.halted, len(recorded(tmp_path))) == (1, None, 1), "it is not retried"
    assert result.end_reason == ("finished" if fallback else "policy_error")
    assert result.failure_class == (None if fallback else failure)
    assert result.total_reward == {"penalize": -0.25, "fallback": 1.0}.get(rule.on_invalid)
    assert result.penalised == (rule.on_invalid == "penalize")
    assert (result.decisions, result.own) == (OWN + failed, OWN)
    assert result.refusals == failed * (rule.invalid_retries + 1)
    calls = exported(tmp_path, "messages")
    assert len(calls) == OWN + failed * (rule.invalid_retries + 1)
    trained = [one for one in calls if one["trainable"] and not one["decided"]]
    assert len(trained) == (rule.on_invalid == "penalize"), "the last failed answer, and no other"


class Raises(Odd):
    """Raises at its first step."""

    def step(self, action: Mapping[str, Any]) -> Any:
        raise RuntimeError("the simulator crashed")


@each_rule
@pytest.mark.parametrize("environment", [Raises, NotANumber, Exits, AnswersText])
def test_a_failed_environment_is_never_the_models_failure(
    tmp_path: Path, environment: type[Odd], rule: InvalidAnswers
) -> None:
    def odd_world(name: str) -> World:
        return dataclasses.replace(load_world(name), environment=environment)

    with endpoint(counter) as fake:
        asked = request(fake, episodes=1, group_size=1, attempts=1, **rule.model_dump())
        report = run(asked, tmp_path, load=odd_world, deadlines=QUICK)
    result = only(report)
    assert (result.end_reason, result.failure_class, result.total_reward) == (
        "environment_error", "env_infra", None,
    )  # fmt: skip
    assert (result.attempt, result.penalised, result.refusals, result.own_share) == (1, False, 0, 1.0)


@each_rule
def test_an_endpoint_that_fails_now_and_then_costs_nothing(tmp_path: Path, rule: InvalidAnswers) -> None:
    with endpoint(counter, [Mode.OK, Mode.GARBAGE, *[Mode.OK] * 100]) as fake:
        asked = request(fake, episodes=1, group_size=1, **rule.model_dump())
        report = run(asked, tmp_path, deadlines=QUICK)
    result = only(report)
    assert (result.total_reward, result.own_share, result.refusals, result.attempt) == (1.0, 1.0, 0, 1)


@each_rule
@pytest.mark.parametrize("mode", [Mode.UNAUTHORIZED, Mode.UNPAID, Mode.UNKNOWN])
def test_an_endpoint_that_rejects_the_client_halts_the_run(
    tmp_path: Path, mode: Mode, rule: InvalidAnswers
) -> None:
    with endpoint(counter, [Mode.OK, *[mode] * 100]) as fake:
        asked = request(fake, episodes=1, group_size=1, **rule.model_dump())
        report = run(asked, tmp_path, deadlines=QUICK)
    assert report.halted is not None
    assert (report.over, [one.reason for one in recorded(tmp_path)]) == (0, [None])
    with endpoint(counter) as fake:
        report = run(asked.model_copy(update={"model": request(fake).model}), tmp_path, deadlines=QUICK)
    result = only(report)
    assert (report.over, result.total_reward, result.own_share, result.refusals) == (1, 1.0, 1.0, 0)


@pytest.mark.parametrize("rule", RULES[1::2], ids=lambda one: one.on_invalid)
def test_an_answer_that_never_comes_is_an_attempt_without_a_verdict(
    tmp_path: Path, rule: InvalidAnswers
) -> None:
    with endpoint(counter, [Mode.OK, Mode.SILENT, *[Mode.OK] * 100]) as fake:
        asked = request(fake, episodes=1, group_size=1, model={"timeout_s": 1.0}, **rule.model_dump())
        report = run(asked, tmp_path, concurrency=1, deadlines=QUICK)
    first, last = report.report.results
    assert (first.end_reason, first.failure_class, first.total_reward) == ("policy_error", "timeout", None)
    assert (first.penalised, first.refusals) == (False, 0)
    assert (last.total_reward, last.attempt, last.own_share) == (1.0, 2, 1.0)


@each_rule
def test_a_handler_that_fails_is_not_the_models_failure(tmp_path: Path, rule: InvalidAnswers) -> None:
    with endpoint(counter) as fake:
        asked = request(fake, episodes=1, group_size=1, **rule.model_dump())
        report = run(asked, tmp_path, handler=Broken(), deadlines=QUICK)
    result = only(report)
    assert (result.end_reason, result.failure_class, result.total_reward) == (
        "policy_error", "policy_fault", None,
    )  # fmt: skip
    assert (result.penalised, result.refusals) == (False, 0)


@each_rule
def test_the_step_cap_truncates_and_penalizes_nothing(tmp_path: Path, rule: InvalidAnswers) -> None:
    with endpoint(counter) as fake:
        asked = request(fake, episodes=1, group_size=1, max_turns=2, **rule.model_dump())
        result = only(run(asked, tmp_path, deadlines=QUICK))
    assert (result.end_reason, result.truncated, result.penalised) == ("step_cap", True, False)
    assert (result.own_share, result.refusals, result.turns) == (1.0, 0, 2)
