"""The outline of an episode: what each decision earned, and which answers may be trained on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from spectator.events import Event
from spectator.journal.contract import EpisodeSummary
from spectator.journal.outline import EpisodeOutline

SUMMARY = EpisodeSummary(
    "ep-1", "e1", "w", "W", "m", "M", "", "default", 1, "now", None, None, None, None, None, 0
)  # fmt: skip


def decides(
    turn: int, actor: str = "home", source: str = "model", *, asked: int = 1, **more: Any
) -> tuple[int, str, dict[str, Any]]:
    exchanges = [{"request": f"r{turn}.{number}"} for number in range(asked)]
    made = {"actor": actor, "source": source, "action": {"turn": turn}, "exchanges": exchanges or None}
    return turn, "decision.made", {**made, **more}


def earns(turn: int, reward: float, actor: str = "home") -> tuple[int, str, dict[str, Any]]:
    return turn, "step.taken", {"actor": actor, "reward": reward}


def outlined(
    facts: Sequence[tuple[int, str, Mapping[str, Any]]],
    ended: Mapping[str, Any] | None = None,
    parent: Mapping[str, Any] | None = None,
) -> EpisodeOutline:
    outline = EpisodeOutline(SUMMARY)
    begun = (0, "episode.started", {"agent": "home", "parent": parent})
    over = [] if ended is None else [(99, "episode.ended", ended)]
    for seq, (turn, kind, data) in enumerate([begun, *facts, *over], 1):
        outline.take(Event("ep-1", "e1", seq, "now", turn, kind, data))
    return outline


def earned(outline: EpisodeOutline) -> list[float | None]:
    return [outline.reward_of(one) for one in outline.decisions.values()]


FINISHED = {"reason": "finished", "score": 0.5}
PARENT = {"episode_id": "ep-0", "seq": 3, "turn": 1, "captains_seed": 1}


def test_a_reward_belongs_to_the_agents_newest_decision_whoever_acted() -> None:
    facts = [
        earns(0, 9.0), decides(1), earns(1, 0.1), decides(2, "away"), earns(2, -0.3, "away"),
        decides(3), earns(3, 0.2), decides(4, "away"), earns(4, 0.5, "away"),
    ]  # fmt: skip
    assert earned(outlined(facts, FINISHED)) == [pytest.approx(-0.2), None, pytest.approx(0.7), None]


def test_what_an_answer_planned_earns_for_it_and_what_a_stand_in_did_for_nobody() -> None:
    facts = [
        decides(1), earns(1, 0.1), decides(2, asked=0), earns(2, 0.2),
        decides(3, source="fallback", failure_class="timeout"), earns(3, 0.4),
        decides(4), earns(4, 0.8),
    ]  # fmt: skip
    outline = outlined(facts, FINISHED)
    assert earned(outline) == [pytest.approx(0.3), 0.0, None, 0.8]
    assert outline.fallbacks == 1


@pytest.mark.parametrize(
    ("ended", "reward"),
    [
        (None, None),
        (FINISHED, 0.5),
        ({"reason": "finished", "score": 0.0}, 0.0),
        ({"reason": "step_cap", "score": None, "total_reward": -1.5}, -1.5),
        ({"reason": "step_cap", "score": None}, None),
        ({"reason": "environment_error", "score": None, "total_reward": 3.0}, None),
        ({"reason": "policy_error", "score": None, "total_reward": 3.0}, None),
        ({"reason": "timeout", "score": None, "total_reward": 3.0}, None),
        ({"reason": "stopped", "score": None, "total_reward": 3.0}, None),
        ({"reason": "interrupted", "score": None, "total_reward": 3.0}, None),
    ],
)
def test_there_is_a_reward_where_there_is_a_verdict(
    ended: Mapping[str, Any] | None, reward: float | None
) -> None:
    outline = outlined([decides(1), earns(1, 0.1)], ended)
    assert outline.reward == reward
    assert earned(outline) == [None if reward is None else 0.1]


def test_a_forks_first_decisions_are_its_parents() -> None:
    outline = outlined([decides(1), earns(1, 0.1), decides(2), earns(2, 0.2)], FINISHED, PARENT)
    assert [one.inherited for one in outline.decisions.values()] == [True, False]
    assert earned(outline) == [None, 0.2]


def test_a_refusal_is_the_decisions_own() -> None:
    refused = (1, "action.refused", {"actor": "home", "rule": "no.way"})
    outline = outlined([decides(1), refused, decides(2), earns(2, 1.0)], FINISHED)
    assert [one.refused for one in outline.decisions.values()] == ["no.way", None]
