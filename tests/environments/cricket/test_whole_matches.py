"""Whole matches through the environment: lawful, complete, exact, and the same in every process."""

from __future__ import annotations

import hashlib
import json

import pytest

from spectator.environments.cricket import WORLD
from spectator.environments.cricket.environment import CricketEnvironment, CricketObservation, CricketState
from spectator.environments.cricket.match.event_data import scorecards
from spectator.environments.cricket.match.starts import START_NAMES
from spectator.environments.world import derive_seed
from spectator.events import encode_json
from tests.environments.cricket.playing import SCRIPTED, Told, begin, captain, options, play
from tests.hash_seeds import printed


def trace(told: Told) -> str:
    """All that a match said, as one digest."""
    said = [[fact.type, fact.data] for fact in told.facts]
    return hashlib.sha256(encode_json([said, told.last.reward]).encode()).hexdigest()


@pytest.mark.parametrize("overs", [1, 2, 3, 4, 5, 9, 10, 13, 20, 50])
def test_a_match_of_any_length_ends_with_a_result_and_lawful_overs(overs: int) -> None:
    told = play(overs, max_overs=overs)
    assert told.last.done
    assert told.of("match_ended")
    match = told.environment._game.match  # type: ignore[union-attr]  # the test looks behind the curtain
    assert match is not None
    for innings in match.innings[:2]:
        begun = [line.overs_begun for line in innings.bowling.values()]
        allowed = match.format.bowler_overs + (match.format.extra_overs > 0)
        assert max(begun) <= allowed
        assert sum(mine > match.format.bowler_overs for mine in begun) <= match.format.extra_overs
        assert all(a != b for a, b in zip(innings.over_starters, innings.over_starters[1:], strict=False))
        assert innings.balls <= 6 * overs


@pytest.mark.parametrize("home", SCRIPTED)
def test_every_captain_plays_a_match_without_a_refusal(home: str) -> None:
    told = play(31, home, "heuristic", max_overs=3)
    assert all(observation.refused is None for observation in told.observations)
    assert 0.0 <= told.last.reward <= 1.0


def test_observations_facts_and_state_fit_their_models() -> None:
    told = play(8, "tactician", "spin_first", max_overs=2)
    for observation in told.observations:
        CricketObservation.model_validate(json.loads(encode_json(observation.to_json())))
    for fact in told.facts:
        WORLD.events[fact.type].model_validate(json.loads(encode_json(fact.data)))
    CricketState.model_validate(json.loads(encode_json(told.environment.state)))


def test_every_event_type_is_told_somewhere() -> None:
    told = [play(seed, "aggressive", "tactician", max_overs=20) for seed in (1, 2, 3)]
    told += [play(1, max_overs=1, start="super_over"), play(1, max_overs=20, start="death")]
    told += [play(1, max_overs=1, forecast_futures=10)]
    assert {fact.type for one in told for fact in one.facts} == set(WORLD.events)


def test_observations_are_small() -> None:
    sizes = [len(encode_json(observation.to_json())) for observation in play(9, max_overs=5).observations]
    assert max(sizes) < 16_000


def test_the_reward_is_nought_until_the_last_step_and_then_the_rubrics_score() -> None:
    told = play(5)
    assert {observation.reward for observation in told.observations[:-1]} == {0.0}
    rubric = told.last.metadata["rubric"]
    assert {"result", "quality", "plan_kept", "clean_calls"} <= set(rubric)
    assert told.last.reward == rubric["score"] > 0.0


def test_the_same_seed_and_actions_say_the_same() -> None:
    assert trace(play(12, "tactician", "random")) == trace(play(12, "tactician", "random"))
    assert trace(play(12)) != trace(play(13))


def test_the_same_in_another_process_under_another_hash_seed() -> None:
    code = (
        "from tests.environments.cricket.test_whole_matches import trace\n"
        "from tests.environments.cricket.playing import play\n"
        "told = play(77, 'tactician', 'aggressive', start='collapse')\n"
        "lines = [line.text for _, line in told.lines]\n"
        "import hashlib; print(trace(told), hashlib.sha256(repr(lines).encode()).hexdigest())\n"
    )
    said = {printed(code, hash_seed) for hash_seed in (0, 4242)}
    assert len(said) == 1
    assert len(said.pop().split()) == 2


@pytest.mark.parametrize("start", ["toss", "super_over"])
def test_a_snapshot_taken_anywhere_has_the_same_future(start: str) -> None:
    told = play(14, "tactician", "aggressive", max_overs=2, start=start)
    captains = {
        side: captain(name, derive_seed(14, "policy", side))
        for side, name in (("home", "tactician"), ("away", "aggressive"))
    }
    environment, observation = begin(14, max_overs=2, start=start)
    said = list(environment.facts())
    number = 0
    while not observation.done:
        twin = CricketEnvironment()
        kept = environment.snapshot()
        shown = twin.restore(kept)
        assert shown.to_json() == {**observation.to_json(), "refused": None}
        assert twin.snapshot() == kept
        if number % 2:
            environment = twin
        assert observation.actor is not None
        observation = environment.step(captains[observation.actor].choose(observation).action)
        said += environment.facts()
        number += 1
    assert said == told.facts
    assert observation.reward == told.last.reward


@pytest.mark.parametrize("wrong", [b"", b"{}", b"[]", b"nonsense", b'{"seed": 1}'])
def test_what_is_not_a_snapshot_is_refused(wrong: bytes) -> None:
    environment, _ = begin(3)
    with pytest.raises(ValueError):
        environment.restore(wrong)
    assert environment.step({"tool": "call_toss"}).refused is None


def test_after_the_end_every_action_is_refused() -> None:
    told = play(2, max_overs=1)
    again = told.environment.step({"tool": "bowl_delivery"})
    assert (again.done, again.actor, again.legal_actions) == (True, None, ())
    assert again.refused is not None
    assert again.refused.rule == "episode.over"


def test_the_truth_is_sealed_until_the_end() -> None:
    environment, _ = begin(4)
    assert environment.truth() == {}
    ended = play(4, max_overs=1).environment.truth()
    assert set(ended) == {"seed", "match_effect", "innings_effects"}


@pytest.mark.parametrize("start", START_NAMES)
@pytest.mark.parametrize("overs", [1, 5, 20])
def test_what_viewers_see_is_the_scorecard(start: str, overs: int) -> None:
    told = play(6, "aggressive", "defensive", max_overs=overs, start=start)
    match = told.environment._game.match  # type: ignore[union-attr]  # the test looks behind the curtain
    assert match is not None
    world = told.state["world"]
    assert world["scorecards"] == scorecards(match)
    assert world["result"] == told.of("match_ended")[0]["result"]
    last = match.innings[-1]
    assert world["score"][match.batting[-1]]["runs"] == last.runs


def no_null(value: object) -> bool:
    if isinstance(value, dict):
        return all(item is not None and no_null(item) for item in value.values())
    if isinstance(value, list):
        return len(value) <= 30 and all(item is not None and no_null(item) for item in value)
    return True


def test_the_viewers_state_holds_no_null_and_no_long_list() -> None:
    told = play(15, "tactician", "aggressive", max_overs=20)
    assert no_null(told.state["world"])
    assert len(encode_json(told.state["world"])) < 40_000


def test_bad_options_are_refused_by_name() -> None:
    for field, wrong in (
        ("max_overs", 0), ("max_overs", 51), ("max_overs", "5"), ("max_overs", None), ("max_overs", 5.5),
        ("start", "tea"), ("toss_caller", "umpire"), ("profile", "cats"),
        ("level", "last year"), ("level", 1e9),
        ("super_over", 1), ("weather", "rain"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=field):
            options(**{field: wrong})


def test_a_match_without_super_overs_cannot_start_in_one() -> None:
    with pytest.raises(ValueError, match="super_over"):
        options(start="super_over", super_over=False)


@pytest.mark.parametrize(("profile", "level"), [("women", "all"), ("associates", "all"), ("men", 200.0)])
def test_other_profiles_and_levels_play(profile: str, level: str | float) -> None:
    assert play(3, profile=profile, level=level, max_overs=2).last.done
