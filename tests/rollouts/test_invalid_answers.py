"""A failed answer is a failed answer: the same rule, reward and own share wherever a model is asked."""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from spectator.errors import InvalidRequest
from spectator.policies.invalid_answers import InvalidAnswers
from spectator.rollouts.sessions import DataManager, SessionStep
from spectator.rollouts.status import read_status
from spectator.runs.run_folder import read_run
from spectator.runs.run_records import RunTail
from spectator.runs.run_summary import summarize_run
from spectator.training.recorded_run import RecordedRun
from spectator.training.text_episode import TextEpisode
from spectator.training.trl import part_reward, value_reward, world_environment
from spectator.training.trl_rollouts import Sampled, WorldRollouts
from tests.commands import spectator
from tests.llm.brains import Said, counter, read_situation
from tests.llm.endpoints import endpoint
from tests.rollouts.doors import (
    IN_PROCESS,
    LOREM,
    TURNS,
    Door,
    Episode,
    Verdict,
    counts_to,
    evaluated,
    of_record,
    outlines,
    recorded_run,
    said,
    text_episode,
    trl_environment,
)
from tests.rollouts.test_fleet import recorded, request, run
from tests.training.stand_ins import harness_sessions
from tests.training.test_trl_rollouts import Letters, prompts, trainer


def lorem(body: Mapping[str, Any]) -> Said:
    return Said(text=LOREM)


def gives_up(body: Mapping[str, Any]) -> Said:
    """Counts to 2, then never acts again."""
    return counter(body) if read_situation(body)["next"] < 3 else lorem(body)


def steps_of(folder: Path) -> list[list[SessionStep]]:
    async def read() -> list[list[SessionStep]]:
        async with DataManager.open(folder) as data:
            return [[step async for step in data.steps(one)] async for one in data.sessions()]

    return asyncio.run(read())


def fleet(asked: Episode) -> Verdict:
    with endpoint(counts_to(asked.good)) as fake:
        options = {"environment": asked.world, "options": dict(asked.options)}
        report = run(
            request(fake, episodes=1, group_size=1, **options, **asked.invalid.model_dump()), asked.folder
        )
    (one,) = report.report.results
    return Verdict(one.total_reward, one.own_share, one.refusals, one.penalised)


@pytest.mark.parametrize("door", [fleet, *IN_PROCESS])
@pytest.mark.parametrize("good", [0, 2, TURNS])
@pytest.mark.parametrize(
    "given",
    [
        {},
        {"invalid_reward": -1.0},
        {"invalid_retries": 0},
        {"invalid_retries": 3},
        {"on_invalid": "mask"},
        {"on_invalid": "end"},
    ],
)
def test_every_door_refuses_and_rewards_alike(
    tmp_path: Path, door: Door, given: dict[str, Any], good: int
) -> None:
    invalid = InvalidAnswers.model_validate(given)
    found = door(Episode(tmp_path / "run", good, invalid))
    if good == TURNS:
        assert found == Verdict(1.0, 1.0, 0, False)
        return
    penalised = invalid.on_invalid == "penalize"
    reward = invalid.invalid_reward if penalised else None  # counting rewards its end alone
    assert found == Verdict(reward, good / (good + 1), invalid.invalid_retries + 1, penalised)


@pytest.mark.parametrize("good", [0, 2, TURNS])
@pytest.mark.parametrize("rule", ["forfeit", "random", "fallback"])
def test_an_evaluation_refuses_alike_and_credits_only_own_decisions(
    tmp_path: Path, rule: str, good: int
) -> None:
    """Its rule for the match is its own: lost where it forfeits, else played on by another."""
    options = ("--matches", "2", "--option", f"turns={TURNS}", "--failed-decisions", rule)
    (one,) = evaluated(tmp_path, counts_to(good), *options)
    assert one.ended is not None
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    (captain,) = [row for row in results["captains"] if row["name"] == "llm:fake"]
    failed = 0 if good == TURNS else 1 if rule == "forfeit" else TURNS - good
    assert (one.own.asked, one.own.own, one.own.refused) == (good + failed, good, 2 * failed)
    if good == TURNS:
        assert (one.reward, captain["own_share"], captain["measures"]["score"]["value"]) == (1.0, 1.0, 1.0)
    elif rule == "forfeit":  # as `end`, and the match is lost
        assert (one.ended["reason"], one.ended["forfeited"], one.reward) == ("policy_error", "counter", None)
        assert captain["measures"]["score"]["value"] == 0.0
    else:
        assert (captain["own_share"], captain["rank"]) == (good / TURNS, 2 if rule == "random" else None)
        assert (one.reward is None) == (good == 0), "nothing of it was the model's own"
        assert ("score" in captain["measures"]) == (good > 0)


WORLDS = [
    ("counting", {"turns": TURNS}),
    ("cricket", {"max_overs": 1, "decisions": "over"}),
    ("cricket", {"max_overs": 1, "decisions": "ball"}),
    ("collider", {}),
]


@pytest.mark.parametrize("door", [fleet, *IN_PROCESS])
@pytest.mark.parametrize(("world", "options"), WORLDS)
def test_nonsense_earns_nothing(tmp_path: Path, door: Door, world: str, options: dict[str, Any]) -> None:
    found = door(Episode(tmp_path / "run", world=world, options=options))
    # TRL's own loop calls methods, and ends at an answer without a call
    refusals = 1 if door is trl_environment and world != "counting" else 2
    assert found == Verdict(0.0, 0.0, refusals, True)


@pytest.mark.parametrize(("world", "options"), WORLDS)
@pytest.mark.parametrize("rule", ["penalize", "mask", "end"])
def test_nonsense_earns_nothing_where_a_loop_cannot_ask_again(
    world: str, options: dict[str, Any], rule: Any
) -> None:
    """A harness that stops at a text, TRL's loop, and a rollout without room for a second answer."""
    invalid = InvalidAnswers(on_invalid=rule)
    reward = 0.0 if rule == "penalize" else None
    session = harness_sessions().WorldSessionFactory(world, options, invalid=invalid).create(None, seed=1)
    told = session.verify([*session.initial_messages(), {"role": "assistant", "content": LOREM}])
    assert (told.done, told.env_reward, told.metrics["own_share"]) == (True, reward, 0.0)
    session.close()
    environment = world_environment(world, options, invalid=invalid)()
    environment.reset(seed=1)
    parts = [part_reward(part)([environment]) for part in environment.rubric]
    assert [value_reward([environment]), [environment.get_reward()], *parts] == [[reward]] * (len(parts) + 2)
    for answers in (1, 2):  # room for one answer, or for a second that is cut

        def sample(trainer: Any, prompt_ids: Any, most: int) -> Sampled:
            return Sampled([Letters.ids(f"{LOREM}|")[:most]], [[-0.5] * min(most, len(LOREM) + 1)])

        rollouts = WorldRollouts(world, options, sample=sample, invalid=invalid)
        room = (len(LOREM) + 1) * answers + (0 if answers == 1 else 2000)
        cut = rollouts(prompts(rollouts, 1), trainer(room=room))["environments"]
        parts = [part_reward(part)(cut) for part in cut[0].rubric]
        assert [value_reward(cut), *parts] == [[reward]] * (len(parts) + 1)
        assert cut[0].own_share == 0.0


def test_a_refused_action_counts_alike_where_it_has_the_form(tmp_path: Path) -> None:
    """Legal by its schema and refused by the world, twice in a row."""
    wrong = json.dumps({"tool": "say", "arguments": {"text": "ACTION: 1234567890123456789"}})
    with endpoint(lambda body: Said(text=wrong)) as fake:
        report = run(request(fake, episodes=1, group_size=1), tmp_path)
    (one,) = report.report.results
    episode = TextEpisode("counting", {"turns": TURNS})
    episode.reset(seed=1)
    while not episode.done:
        episode.answer(wrong)
    fleet_verdict = (one.total_reward, one.own_share, one.refusals, one.penalised)
    assert fleet_verdict == (episode.value, episode.own.share, episode.own.refused, episode.penalised)
    assert fleet_verdict == (0.0, 1.0, 2, True)
    assert [step.step_reward for step in steps_of(tmp_path)[0]] == [0.0, 0.0]


def test_a_penalised_answer_is_trained_on_with_the_penalty_and_a_masked_one_is_not(tmp_path: Path) -> None:
    with endpoint(gives_up) as fake:
        for rule in ("penalize", "mask"):
            asked = request(
                fake, episodes=1, group_size=1, message_cut=2, on_invalid=rule, invalid_reward=-0.5
            )
            run(asked, tmp_path / rule)
    (steps,) = steps_of(tmp_path / "penalize")
    assert [(one.is_trainable, one.step_reward) for one in steps] == [(True, 0.0), (True, 0.0), (True, -0.5)]
    assert steps[-1].response is not None and steps[-1].response["content"] == LOREM
    (steps,) = steps_of(tmp_path / "mask")
    assert [(one.is_trainable, one.step_reward) for one in steps] == [(False, None)] * 2


def exported(folder: Path, form: str, *more: str) -> list[dict[str, Any]]:
    out = folder / "out.jsonl"
    command = ["rollouts", "export", str(folder), "--format", form, "--out", str(out), *more]
    done = spectator(*command, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return [json.loads(line) for line in out.read_text().splitlines()]


def test_a_group_keeps_a_penalised_member_and_says_what_it_is(tmp_path: Path) -> None:
    def brain(body: Mapping[str, Any]) -> Said:
        unlucky = (body["seed"] - read_situation(body)["next"]) % 2  # by the seed of the sample
        return lorem(body) if unlucky else counter(body)

    with endpoint(brain) as fake:
        run(request(fake, episodes=6, group_size=6), tmp_path)
    (group,) = exported(tmp_path, "groups", "--advantages", "--min-own-share", "1")
    assert (group["state"], group["usable"]) == ("complete", 6)
    for reward, own, penalised, completion in zip(
        group["rewards"], group["own_share"], group["penalised"], group["completions"], strict=True
    ):
        assert penalised == (reward == 0.0) == (own < 1.0)
        if own == 0.0:
            assert [one["content"] for one in completion] == [LOREM]
    assert any(group["penalised"])
    rows = exported(tmp_path, "messages")
    assert {row["penalised"] for row in rows} == {True, False}
    failed = [row for row in rows if row["trainable"] and not row["decided"]]
    assert failed and {(row["reward"], row["episode_reward"]) for row in failed} == {(0.0, 0.0)}


def every_second(body: Mapping[str, Any]) -> Said:
    return counter(body) if read_situation(body)["next"] % 2 else lorem(body)


def test_what_a_fallback_decided_is_counted_and_can_be_left_out(tmp_path: Path) -> None:
    with endpoint(every_second) as fake:
        asked = request(fake, episodes=4, group_size=4, on_invalid="fallback")
        report = run(asked, tmp_path)
    assert {one.own_share for one in report.report.results} == {0.5}
    (group,) = exported(tmp_path, "groups")
    assert (group["own_share"], group["refusals"], group["usable"]) == ([0.5] * 4, [4] * 4, 4)
    (group,) = exported(tmp_path, "groups", "--min-own-share", "0.6")
    assert (group["usable"], group["state"]) == (0, "void")
    assert group["failures"] == {"too_few_own_decisions": 4}
    assert exported(tmp_path, "messages", "--min-own-share", "0.6") == []


def command(base_url: str, folder: Path, *more: str) -> Any:
    given = [
        "rollouts", "run", "--env", "cricket", "--option", "max_overs=1", "--option", "decisions=over",
        "--base-url", base_url, "--model", "m-1", "--episodes", "4", "--startup-jitter", "0",
        "--out", str(folder), *more,
    ]  # fmt: skip
    return spectator(*given, catch_exceptions=False)


@pytest.mark.parametrize("more", [(), ("--on-invalid", "fallback")])
def test_a_model_that_never_acts_earns_nothing_and_the_exit_code_says_so(
    tmp_path: Path, more: tuple[str, ...]
) -> None:
    with endpoint(lorem) as fake:
        done = command(fake.base_url, tmp_path, *more)
    assert done.exit_code == 1
    assert "own share 0 %" in done.output
    assert ("no reward" if more else "mean reward 0 ± 0 (standard error) of 4") in done.output
    found = spectator("rollouts", "status", tmp_path, catch_exceptions=False)
    assert (found.exit_code, "own share 0 %" in found.output) == (1, True)


@pytest.mark.parametrize(
    ("field", "value", "rule"),
    [
        ("on_invalid", "resign", "'penalize', 'mask', 'end' or 'fallback'"),
        ("invalid_retries", 11, "less than or equal to 10"),
        ("invalid_reward", float("nan"), "finite number"),
    ],
)
def test_a_wrong_rule_is_refused_by_the_name_of_its_field(field: str, value: Any, rule: str) -> None:
    with pytest.raises(InvalidRequest, match=f"{field}: .*{rule}"):
        InvalidAnswers.checked({field: value})
    with pytest.raises(ValidationError, match=field):
        request("http://127.0.0.1:9/v1", **{field: value})


def test_no_fallback_where_no_scripted_captain_is() -> None:
    with pytest.raises(ValidationError, match="use penalize, mask or end"):
        request("http://127.0.0.1:9/v1", environment="http://127.0.0.1:9/x", on_invalid="fallback")
    with pytest.raises(InvalidRequest, match="on_invalid: must be penalize, mask or end"):
        TextEpisode("counting", invalid=InvalidAnswers(on_invalid="fallback"))


def test_a_refusal_has_the_very_form_that_was_asked_for() -> None:
    episode = TextEpisode("counting")
    episode.reset(seed=1)
    refusal = episode.answer(LOREM)
    assert refusal == episode.text and refusal.endswith(episode.form)
    assert '{"reason": "...", "tool": "...", "arguments": {...}}' in refusal and "{'text'" not in refusal
    assert episode.answer(said(1)).startswith("Changed") and not episode.done


async def shown(root: Path) -> dict[str, Any]:
    """The run ``first`` as its page shows it."""
    tail = await RunTail.open(read_run(root, "first"))
    try:
        await tail.look()
        return summarize_run(tail.folder, list(tail.episodes.values()))
    finally:
        await tail.aclose()


def test_a_runs_page_and_its_groups_say_what_a_mean_is_worth(tmp_path: Path) -> None:
    with endpoint(every_second) as fake:
        run(request(fake, episodes=4, group_size=2), tmp_path / "first")
    page = asyncio.run(shown(tmp_path))
    worth = {"mean": 0.0, "error": 0.0, "own_share": 0.5, "refusals": 8, "penalised": 4}
    assert worth.items() <= page.items() and page["verdicts"] == 4
    points = page["series"]["episodes"]["points"]
    worth = {"mean": 0.0, "error": 0.0, "own_share": 0.5, "refusals": 8, "penalised": 4, "verdicts": 4}
    assert list(points) == ["0"] and worth.items() <= points["0"].items()
    for group in page["groups"].values():
        assert (group["mean"], group["error"], group["own_share"], group["penalised"]) == (0.0, 0.0, 0.5, 2)
        for member in group["members"].values():
            assert (member["own_share"], member["refusals"], member["penalised"]) == (0.5, 2, True)


@pytest.mark.parametrize(("rule", "reward"), [("penalize", 0.0), ("mask", None), ("end", None)])
def test_a_trainers_recorded_run_says_the_same(tmp_path: Path, rule: Any, reward: float | None) -> None:
    with RecordedRun(tmp_path / "first") as recording:
        episode = TextEpisode(
            "counting", {"turns": TURNS}, run=recording, invalid=InvalidAnswers(on_invalid=rule)
        )
        episode.reset(seed=1)
        for answer in (said(1), LOREM, LOREM):
            episode.answer(answer)
        assert episode.done
        episode.close()
    page = asyncio.run(shown(tmp_path))
    (member,) = page["groups"][""]["members"].values()
    assert (page["own_share"], page["refusals"], page["penalised"]) == (0.5, 2, int(rule == "penalize"))
    assert (page["mean"], member.get("reward"), member["own_share"]) == (reward, reward, 0.5)
    assert page["ends"] == {"policy_error": 1}


EPISODES = int(os.environ.get("OWN_SHARE_EPISODES", "40"))
"""For a thousand: OWN_SHARE_EPISODES=1000 pytest --timeout 900 -k exact tests/rollouts/..."""
GOOD = random.Random(5).choices([0, 1, 2, 2], k=EPISODES)
"""How many actions of two the model gives in each episode."""


def of_good(good: int) -> Verdict:
    """What an episode of two counts comes to then."""
    return Verdict(1.0, 1.0, 0, False) if good == 2 else Verdict(0.0, good / (good + 1), 2, True)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("door", [one for one in IN_PROCESS if one is not recorded_run])
def test_own_share_is_exact_in_many_episodes_of_each_door(tmp_path: Path, door: Door) -> None:
    found = [door(Episode(tmp_path, one, options={"turns": 2})) for one in GOOD]
    assert found == [of_good(one) for one in GOOD]


@pytest.mark.timeout(180)
def test_own_share_is_exact_in_many_recorded_episodes(tmp_path: Path) -> None:
    with RecordedRun(tmp_path / "first") as recording:
        for good in GOOD:
            text_episode(Episode(tmp_path, good, options={"turns": 2}, run=recording))
    found = sorted(map(of_record, outlines(tmp_path / "first")), key=str)
    assert found == sorted(map(of_good, GOOD), key=str)
    page = asyncio.run(shown(tmp_path))
    own, asked = sum(GOOD), sum(good if good == 2 else good + 1 for good in GOOD)
    assert (page["own_share"], page["verdicts"]) == (pytest.approx(own / asked, abs=1e-4), EPISODES)
    assert (page["penalised"], page["refusals"]) == (EPISODES - GOOD.count(2), 2 * (EPISODES - GOOD.count(2)))


@pytest.mark.timeout(180)
def test_own_share_is_exact_in_an_evaluation(tmp_path: Path) -> None:
    """Its matches are few, because the other captain plays each seed too."""
    given = dict[str, int]()

    def brain(body: Mapping[str, Any]) -> Said:
        episode = str((body["seed"] - read_situation(body)["next"]) % 2**31)
        if episode not in given:
            given[episode] = GOOD[len(given)]
        return counts_to(given[episode])(body)

    options = ("--option", "turns=2", "--failed-decisions", "forfeit")
    played = evaluated(tmp_path, brain, "--matches", str(EPISODES), *options)
    by = [list(given.values()).count(good) for good in (0, 1, 2)]
    assert len(played) == sum(by) == EPISODES // 2
    assert [sum(one.own.own == good for one in played) for good in (0, 1, 2)] == by
    assert all(one.own.asked == min(2, one.own.own + 1) for one in played)
    assert sum(one.own.refused for one in played) == 2 * (by[0] + by[1])


@pytest.mark.timeout(180)
def test_own_share_is_exact_in_many_episodes_of_a_fleet(tmp_path: Path) -> None:
    """Each episode's seed says at which count its model fails, if it does."""
    rng, fails = random.Random(5), dict[str, int]()

    def brain(body: Mapping[str, Any]) -> Said:
        task = json.dumps(body["messages"][0]) + str(body["seed"] - read_situation(body)["next"])
        at = fails.setdefault(task, rng.choice([1, 2, 99, 99]))
        return lorem(body) if read_situation(body)["next"] >= at else counter(body)

    with endpoint(brain) as fake:
        asked = request(fake, episodes=EPISODES, group_size=4, options={"turns": 2})
        report = run(asked, tmp_path, concurrency=32)
    results = report.report.results
    by = {at: sum(one == at for one in fails.values()) for at in (1, 2, 99)}
    assert len(results) == EPISODES == sum(by.values())
    assert sum(one.penalised for one in results) == by[1] + by[2] > 0
    assert sum(one.own for one in results) == by[2] + 2 * by[99]
    assert sum(one.decisions for one in results) == by[1] + 2 * by[2] + 2 * by[99]
    assert sum(one.refusals for one in results) == 2 * (by[1] + by[2])
    assert len(recorded(tmp_path)) == EPISODES
    status = asyncio.run(read_status(tmp_path, datetime.now().astimezone()))
    assert (status.own.own, status.own.asked) == (by[2] + 2 * by[99], by[1] + 2 * by[2] + 2 * by[99])
    assert status.verdicts == EPISODES


def test_the_least_own_share_is_a_share_and_episodes_without_a_decision_pass(tmp_path: Path) -> None:
    """An episode without a question has no fallback, no reward and no group."""
    with endpoint(lorem) as fake:
        run(request(fake, episodes=2, group_size=2, on_invalid="end", invalid_retries=0), tmp_path)
    for share in ("0", "1"):
        (group,) = exported(tmp_path, "groups", "--min-own-share", share)
        assert (group["state"], group["usable"], group["rewards"]) == ("void", 0, [])
        assert group["failures"] == {"unparsable": 2}
        rows = exported(tmp_path, "messages", "--min-own-share", share)
        assert [(row["trainable"], row["reward"]) for row in rows] == [(False, None)] * 2
        assert exported(tmp_path, "episode-record", "--min-own-share", share) == []
    for share in ("nan", "-0.1", "1.1", "inf"):
        out = tmp_path / "refused.jsonl"
        command = ["rollouts", "export", str(tmp_path), "--format", "groups", "--min-own-share", share]
        done = spectator(*command, "--out", out)
        assert done.exit_code == 2 and "--min-own-share" in done.output and not out.exists()
