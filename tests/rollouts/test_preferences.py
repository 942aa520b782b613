"""Which decisions answer the same question, so that one of them can be preferred."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from spectator.exports.preferences import answers_of, comparison_sets
from spectator.journal.outline import EpisodeOutline
from tests.journal.test_outline import FINISHED, SUMMARY, decides, earns, outlined


def named(
    episode_id: str, *facts: Any, parent: str | None = None, turn: int = 1, **more: Any
) -> EpisodeOutline:
    begins = {"episode_id": parent, "seq": 3, "turn": turn, "captains_seed": 1}
    outline = outlined(facts, more.get("ended", FINISHED), None if parent is None else begins)
    outline.summary = replace(SUMMARY, episode_id=episode_id, parent=parent)
    return outline


def questions(outline: EpisodeOutline, *others: EpisodeOutline) -> list[Any]:
    known = {one.summary.episode_id: one for one in (outline, *others)}
    return [question for question, _ in answers_of(outline, known)]


PARENT = named("a", decides(1), earns(1, 0.0), decides(2), earns(2, 0.5))


def test_each_accepted_answer_answers_the_question_that_it_was_asked_last() -> None:
    repaired = named("a", decides(1, asked=2), earns(1, 0.5))
    assert questions(PARENT) == [("asked", "r1.0"), ("asked", "r2.0")]
    assert questions(repaired) == [("asked", "r1.1")]


def test_a_fork_answers_what_its_parent_was_asked_whoever_decides_there() -> None:
    fork = named(
        "b", decides(1), earns(1, 0.0), decides(2, source="human", asked=0), earns(2, 1.0), parent="a"
    )
    assert questions(fork, PARENT) == [("asked", "r2.0")]
    assert questions(fork) == [("fork", "a 2")], "siblings of a parent that is not at hand still meet"
    again = named("c", decides(1), decides(2, source="heuristic", asked=0), earns(2, 1.0), parent="b")
    assert questions(again, fork, PARENT) == [("fork", "b 2")]


def test_where_another_actor_decides_first_the_situation_is_not_the_parents() -> None:
    fork = named(
        "b", decides(1), decides(2, "away", source="random", asked=0),
        decides(3, source="heuristic", asked=0), earns(3, 1.0), parent="a",
    )  # fmt: skip
    parent = named("a", decides(1), decides(2, "away", source="random", asked=0), decides(3), earns(3, 0.5))
    assert questions(fork, parent) == []


def test_stand_ins_and_episodes_without_a_verdict_answer_nothing() -> None:
    helped = named("a", decides(1, source="fallback", failure_class="timeout"), decides(2), earns(2, 1.0))
    assert questions(helped) == [("asked", "r2.0")]
    assert questions(named("a", decides(1), ended=None)) == []
    failed = {"reason": "environment_error", "score": None}
    assert questions(named("a", decides(1), ended=failed)) == []


def test_groups_are_compared_with_their_forks_and_episodes_with_theirs() -> None:
    def summary(name: str, **more: Any) -> Any:
        return replace(SUMMARY, episode_id=name, **more)

    found = [
        summary("a", group_id="g", run_id="r"), summary("b", group_id="g", run_id="r"),
        summary("a-fork", parent="a"), summary("fork-of-fork", parent="a-fork"),
        summary("c", group_id="g", run_id="other"),
        summary("d"), summary("d-fork", parent="d"),
        summary("x-1", parent="gone"), summary("x-2", parent="gone"), summary("alone"),
    ]  # fmt: skip
    sets = [[one.episode_id for one in compared] for compared in comparison_sets(found)]
    assert sets == [["a", "b", "a-fork", "fork-of-fork"], ["d", "d-fork"], ["x-1", "x-2"]]
