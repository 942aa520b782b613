"""A conversation of which nothing is ever changed: each prompt begins with the last one."""

from __future__ import annotations

import json

from spectator.llm.chat import Message
from spectator.llm.tool_calls import ParsedCall
from spectator.policies.dialogue import ANSWER_KEPT, Dialogue
from spectator.policies.turns import TokenEstimate, Turn

SYSTEM = "You decide."
OPENING = "Two squads."


def dialogue(room: int = 10_000, history_room: int = 10_000, style: str = "json") -> Dialogue:
    return Dialogue(room, history_room, TokenEstimate(), "xml" if style == "xml" else "json")


def asked(told: Dialogue, note: str = "", **lines: str) -> list[Message]:
    return told.messages(SYSTEM, OPENING, lines, note=note, in_full=frozenset({"recent"}))


def turn(number: int, text: str = "", *, calls: bool = False) -> Turn:
    made = (ParsedCall("go", {"n": number}, f"because {number}", id=f"c{number}"),)
    return Turn(text or f'{{"n":{number}}}', made if calls else (), ["carried out"], made)


def test_every_prompt_begins_with_the_one_before() -> None:
    for calls in (False, True):
        told, before = dialogue(), list[Message]()
        for number in range(20):
            messages = list(asked(told, ball=str(number), squad="always the same"))
            assert messages[: len(before)] == before
            before = messages
            told.add(turn(number, calls=calls))


def test_what_never_changes_is_told_once_and_what_changes_when_it_does() -> None:
    told = dialogue()
    first = asked(told, ball="1", out="", recent="4 1")
    assert first[1]["content"] == "Two squads.\n\nSituation now:\nball: 1\nrecent: 4 1"
    told.add(turn(1))
    assert asked(told, ball="2", out="", recent="4 1 2")[-1]["content"] == "Changed:\nball: 2"
    told.add(turn(2))
    assert asked(told, ball="2", out="Ann 4 (3)", recent="6")[-1]["content"] == "Changed:\nout: Ann 4 (3)"
    told.add(turn(3))
    assert asked(told, ball="2", out="", recent="6")[-1]["content"] == "Changed:\nout: none"
    told.add(turn(4))
    assert asked(told, ball="2", out="", recent="6")[-1]["content"] == "Nothing has changed."


def test_what_was_told_in_a_turn_that_failed_is_told_again() -> None:
    told = dialogue()
    asked(told, ball="1")
    told.add(turn(1))
    asked(told, ball="2", bowler="Bo")  # somebody else decides
    failed = asked(told, "Your last turn could not be used.", ball="3", bowler="Bo")
    assert failed[-1]["content"] == "Your last turn could not be used.\n\nChanged:\nball: 3\nbowler: Bo"
    assert [message["role"] for message in failed] == ["system", "user", "assistant", "user"]


def test_the_models_own_reasons_stay_in_its_calls() -> None:
    told = dialogue()
    asked(told, ball="1")
    told.add(turn(1, calls=True))
    messages = asked(told, ball="2")
    (call,) = messages[2]["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == {"reason": "because 1", "n": 1}
    assert messages[3] == {
        "role": "tool",
        "tool_call_id": "c1",
        "content": "carried out\n\nChanged:\nball: 2",
    }


def test_of_a_long_answer_the_beginning_and_the_decision_are_shown_again() -> None:
    for style, form in (("json", '{"tool":"go","arguments":{"n":1}}'), ("xml", "<tool_call>{")):
        told = dialogue(style=style)
        asked(told, ball="1")
        told.add(turn(1, "x" * 5_000))
        answer = asked(told, ball="2")[2]["content"]
        assert (
            answer.startswith("x" * ANSWER_KEPT + "…\n") and form in answer and len(answer) < ANSWER_KEPT + 80
        )


def test_a_conversation_without_room_begins_anew_with_its_last_decisions_and_the_whole_situation() -> None:
    told, begun = dialogue(room=600, history_room=150), 0
    for number in range(60):
        lines = {"ball": str(number), "plan": "bat deep", "recent": "4"}
        messages = asked(told, **lines)
        assert messages[0]["content"] == SYSTEM and messages[1]["content"].startswith(OPENING)
        assert TokenEstimate().of(told.characters) <= 600
        if len(messages) == 2 and number:
            begun += 1
            text = messages[1]["content"]
            assert f"of {number} in all" in text and f'go {{"n":{number - 1}}}: because {number - 1}' in text
            assert text.endswith(f"Situation now:\nball: {number}\nplan: bat deep\nrecent: 4")
        told.add(turn(number, calls=bool(number % 2)))
    assert 2 <= begun < 30


def test_what_else_a_message_held_goes_back_with_it() -> None:
    told = dialogue()
    asked(told, ball="1")
    kept = turn(1, calls=True)
    kept.verbatim = {"reasoning_content": "hm"}
    told.add(kept)
    assert asked(told, ball="2")[2]["reasoning_content"] == "hm"
