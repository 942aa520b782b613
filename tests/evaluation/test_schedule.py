"""Who meets whom: paired seeds, both seats, ids that a resumed run knows, errors that name the nearest."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from spectator.environments.cricket.world import PACKS
from spectator.environments.world import SEALED_BIT
from spectator.errors import InvalidRequest
from spectator.evaluation.schedule import EvaluationRequest, Schedule, plan_evaluation

THREE = EvaluationRequest("cricket", ("heuristic", "anchor", "tactician"), matches=10)


def refused(request: EvaluationRequest) -> dict[str, str]:
    with pytest.raises(InvalidRequest) as refusal:
        plan_evaluation(request)
    return {wrong.field: wrong.rule for wrong in refusal.value.fields}


def test_every_pair_plays_every_seed_from_both_seats() -> None:
    schedule = plan_evaluation(THREE)
    met = Counter((match.home, match.away) for match in schedule.matches)
    assert len(met) == 6 and set(met.values()) == {5}
    by_pair: dict[tuple[str | None, ...], list[int]] = {}
    for match in schedule.matches:
        by_pair.setdefault((match.home, match.away), []).append(match.seed)
    assert len({tuple(seeds) for seeds in by_pair.values()}) == 1
    assert [match.pair for match in schedule.matches] == sorted(match.pair for match in schedule.matches)


def test_in_a_world_without_opponents_each_captain_plays_each_seed_once() -> None:
    schedule = plan_evaluation(EvaluationRequest("counting", ("heuristic", "random"), matches=6))
    assert Counter(match.home for match in schedule.matches) == {"heuristic": 3, "random": 3}
    assert all(match.away is None for match in schedule.matches)


def ids_of(schedule: Schedule, began_ms: int = 1_700_000_000_000, attempt: int = 1) -> list[str]:
    run = schedule.run(began_ms)
    return [run.episode_id(job, attempt) for job in run.jobs]


def test_the_id_of_a_match_says_all_that_it_is() -> None:
    schedule = plan_evaluation(THREE)
    ids = ids_of(schedule)
    assert len(set(ids)) == len(ids) == len(schedule.matches)
    assert all(len(one) == 29 and one.startswith("ep-01HF7YAT00") for one in ids)
    assert ids == ids_of(plan_evaluation(THREE))
    assert not {*ids} & {*ids_of(schedule, attempt=2)}
    assert not {*ids} & {*ids_of(plan_evaluation(replace(THREE, options={"max_overs": 6})))}


def test_ids_are_those_of_earlier_versions_so_that_their_evaluations_go_on() -> None:
    counting = plan_evaluation(EvaluationRequest("counting", ("heuristic", "random"), matches=4))
    assert ids_of(counting, attempt=2)[:2] == [
        "ep-01HF7YAT00FQ3F3DNPPAS5KC99",
        "ep-01HF7YAT00XDTMZ24525DDHKDA",
    ]


def test_more_matches_and_more_captains_keep_what_was_there() -> None:
    few = plan_evaluation(THREE)
    more = plan_evaluation(
        replace(THREE, captains=("anchor", "heuristic", "tactician", "defensive"), matches=20)
    )
    assert {*ids_of(few)} < {*ids_of(more)}


def test_a_pack_brings_its_development_seeds_and_no_more() -> None:
    chase = EvaluationRequest("cricket", ("heuristic", "anchor"), pack="chase", matches=80)
    assert {match.seed for match in plan_evaluation(chase).matches} == set(PACKS["chase"].seeds)
    assert "at most 80" in refused(replace(chase, matches=82))["matches"]


def test_sealed_seeds_are_none_of_development_and_need_a_real_phrase() -> None:
    sealed = EvaluationRequest(
        "cricket", ("heuristic", "anchor"), pack="chase", matches=200, phrase="told to nobody"
    )
    seeds = {match.seed for match in plan_evaluation(sealed).matches}
    assert len(seeds) == 100 and min(seeds) >= SEALED_BIT
    other = plan_evaluation(replace(sealed, phrase="another phrase"))
    assert seeds.isdisjoint(match.seed for match in other.matches)
    assert all(match.seed < SEALED_BIT for match in plan_evaluation(THREE).matches)
    assert "8 characters" in refused(replace(sealed, phrase="short"))["sealed"]


def test_every_wrong_field_is_named_with_the_nearest_name() -> None:
    wrong = refused(EvaluationRequest("cricket", ("herustic", "anchor"), pack="chace", matches=7, options={}))
    assert "did you mean 'heuristic'" in wrong["captains"]
    assert "did you mean 'chase'" in wrong["pack"]
    assert "even" in wrong["matches"]
    assert "did you mean 'cricket'" in refused(replace(THREE, environment="criket"))["environment"]
    assert "options.max_overs" in refused(replace(THREE, options={"max_overs": 0}))
    fixed = refused(replace(THREE, pack="powerplay", matches=2, options={"max_overs": 5}))
    assert "fixed to 10" in fixed["options.max_overs"]


def test_captains_must_be_two_different_ones_who_can_play_here(waiting: str) -> None:
    assert "at least two" in refused(replace(THREE, captains=("anchor",)))["captains"]
    assert "twice" in refused(replace(THREE, captains=("anchor", "anchor")))["captains"]
    counting = EvaluationRequest(waiting, ("heuristic", "person"), matches=2)
    assert "needs a person" in refused(counting)["captains"]
    assert "variable K" in refused(replace(counting, captains=("heuristic", "away")))["captains"]
