"""What one server tells of a thought that forms, and what another makes of it when parts are lost."""

from __future__ import annotations

import json
from typing import Any

import pytest

from server.background.live_notices import KEPT_S, OtherAudiences
from server.viewers.other_servers import LARGEST, ThoughtReceiver, ThoughtSender
from spectator.episodes.decisions import Thinking
from spectator.llm.chat import DeltaKind
from spectator.policies.policy import Thought
from tests.fakes import FakePolicy, ManualClock, counted

NOBODY = FakePolicy(counted)


def hear(thinking: Thinking, text: str, kind: DeltaKind = "thought") -> None:
    thinking.hear(Thought("home", 1, kind, text))


def shown(thinking: Thinking) -> tuple[str, str]:
    assert thinking.forming is not None
    return thinking.forming.newest(thinking.forming.heard)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def test_a_thought_is_the_same_there_part_by_part(clock: ManualClock) -> None:
    here, there = Thinking(clock), Thinking(clock)
    teller, told = ThoughtSender(here, withheld=False), ThoughtReceiver(there, clock)
    with here.deciding("home", 3, NOBODY):
        for number in range(50):
            clock.advance(0.1)
            hear(here, f"{number} ", "thought" if number % 2 else "text")
            told.take(json.loads(json.dumps(teller.next())))
            assert shown(there) == shown(here)
        hear(here, "", "restart")
        hear(here, "anew")
        told.take(teller.next())
        assert shown(there) == ("anew", "")
        forming = there.forming
        assert forming is not None and not forming.over
        assert (forming.actor, forming.turn) == ("home", 3)
        assert there.elapsed_s(forming) == pytest.approx(5.0, abs=0.11)
    told.take(teller.next())
    assert forming.over
    with here.deciding("away", 4, NOBODY):
        told.take(teller.next())
        assert there.forming is not None and there.forming.actor == "away"
        assert shown(there) == ("", "")


def test_after_a_lost_part_nothing_is_shown_until_everything_is_told_again(clock: ManualClock) -> None:
    here, there = Thinking(clock), Thinking(clock)
    teller, told = ThoughtSender(here, withheld=False), ThoughtReceiver(there, clock)
    with here.deciding("home", 1, NOBODY):
        for number in range(41):
            hear(here, f"{number} ")
            part = teller.next()
            if number not in (0, 7, 25):
                told.take(part)
            if 25 <= number < 40:
                assert shown(there)[0] == "".join(f"{one} " for one in range(25))
    assert shown(there) == shown(here)


def test_a_long_part_is_cut_to_its_end_and_whatever_it_holds_can_be_sent(clock: ManualClock) -> None:
    here, there = Thinking(clock), Thinking(clock)
    teller, told = ThoughtSender(here, withheld=False), ThoughtReceiver(there, clock)
    with here.deciding("home", 1, NOBODY):
        told.take(teller.next())
        hear(here, "स्पिन \x00" * 800)
        hear(here, "y" * 2000, "text")
        part = teller.next()
        assert part is not None and part["whole"]
        assert len(json.dumps(part, ensure_ascii=False).encode()) <= LARGEST
        told.take(part)
    thought, answer = shown(there)
    assert thought and shown(here)[0].endswith(thought) and answer and set(answer) == {"y"}


def test_of_what_is_withheld_nothing_is_told(clock: ManualClock) -> None:
    here, there = Thinking(clock), Thinking(clock)
    teller, told = ThoughtSender(here, withheld=True), ThoughtReceiver(there, clock)
    sent = []
    with here.deciding("home", 7, NOBODY):
        sent.append(teller.next())
        hear(here, "a yorker")
        assert teller.next() is None
    sent.append(teller.next())
    assert "yorker" not in json.dumps(sent)
    for one in sent:
        told.take(one)
    assert there.forming is not None and there.forming.over


def test_what_was_decided_is_over_though_nobody_told(clock: ManualClock) -> None:
    here, there = Thinking(clock), Thinking(clock)
    teller, told = ThoughtSender(here, withheld=False), ThoughtReceiver(there, clock)
    told.over(9)
    with here.deciding("home", 7, NOBODY):
        told.take(teller.next())
        told.over(6)
        assert there.forming is not None and not there.forming.over
        told.over(7)
        assert there.forming.over


@pytest.mark.parametrize(
    "wrong", [{}, {"actor": "home"}, [], None, "x", {"actor": 1, "turn": "x", "part": 0}]
)
def test_what_is_no_thought_changes_nothing(wrong: Any, clock: ManualClock) -> None:
    there = Thinking(clock)
    with pytest.raises((KeyError, TypeError, ValueError)):
        ThoughtReceiver(there, clock).take(wrong)
    assert there.forming is None


def test_viewers_elsewhere_count_as_long_as_they_are_told_of(clock: ManualClock) -> None:
    changed: list[str] = []
    elsewhere = OtherAudiences(clock, changed.append)
    elsewhere.note("a", {"ep-1": 2, "ep-2": 1})
    elsewhere.note("b", {"ep-1": 3, "ep-2": 0})
    elsewhere.note("b", {"ep-1": 3})
    assert (elsewhere.count("ep-1"), elsewhere.count("ep-2"), elsewhere.count("ep-3")) == (5, 1, 0)
    assert changed == ["ep-1", "ep-2", "ep-1"]
    clock.advance(KEPT_S - 1)
    elsewhere.note("b", {"ep-1": 1})
    elsewhere.note("a", {"ep-2": -5})
    clock.advance(1)
    elsewhere.forget_silent()
    assert (elsewhere.count("ep-1"), elsewhere.count("ep-2")) == (1, 0)
    clock.advance(KEPT_S)
    elsewhere.forget_silent()
    assert not elsewhere.any
