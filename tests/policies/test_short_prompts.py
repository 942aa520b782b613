"""The prompt for small models: short at every turn, with an example, and with nothing that is not there."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, get_args

import pytest

from spectator.catalog import load_world
from spectator.evaluation.estimate import prompt_text, rehearse
from spectator.llm.chat import ChatAnswer
from spectator.llm.tool_calls import find_calls
from spectator.policies.model_settings import ModelSettings, Style
from spectator.policies.short_prompts import brief_actions, signature

MATCHES: tuple[tuple[str, Mapping[str, Any], str], ...] = (
    ("counting", {}, "heuristic"),
    ("collider", {}, "heuristic"),
    ("collider", {}, "reference"),
    ("cricket", {"max_overs": 5, "decisions": "over"}, "heuristic"),
    ("cricket", {"max_overs": 5, "decisions": "over"}, "random"),
    ("cricket", {"max_overs": 2}, "tactician"),
)


@pytest.mark.parametrize("style", get_args(Style))
@pytest.mark.parametrize(("name", "options", "captain"), MATCHES)
def test_no_prompt_of_a_match_has_more_than_700_tokens(
    name: str, options: Mapping[str, Any], captain: str, style: Style
) -> None:
    asked = ModelSettings(model="m", style=style, prompt="short")
    for seat in rehearse(load_world(name), asked, options, 7, captain=captain).values():
        for request in seat.requests:
            size = sum(len(message["content"]) for message in request.messages)
            assert size / 4 <= 700 and "situation now:" in request.messages[-1]["content"].casefold()


@pytest.mark.parametrize("prompt", ["full", "short"])
@pytest.mark.parametrize("style", ["json", "xml"])
@pytest.mark.parametrize("name", ["counting", "collider", "cricket"])
def test_the_example_is_an_answer_in_the_form_that_is_asked_for(name: str, style: Style, prompt: str) -> None:
    asked = ModelSettings(model="m", style=style, prompt=prompt)  # type: ignore[arg-type]
    world = load_world(name)
    seat = rehearse(world, asked, {}, 7, captain=world.default_captain)[world.actors[0]]
    system = seat.requests[0].messages[0]["content"]
    [example] = re.findall(r"^For example: (.*)$", system, re.MULTILINE)
    [call] = find_calls(ChatAnswer(text=example), ())
    assert call.tool and call.arguments and example in system.rpartition("\n\n")[2]


@pytest.mark.parametrize("prompt", ["full", "short"])
def test_both_seats_of_a_match_share_the_opening(prompt: str) -> None:
    asked = ModelSettings(model="m", style="json", prompt=prompt)  # type: ignore[arg-type]
    seats = rehearse(load_world("cricket"), asked, {"max_overs": 2}, 7, captain="heuristic")
    home, away = (prompt_text(seats[side].requests[0].messages, ()) for side in ("home", "away"))
    shared = next(at for at, (a, b) in enumerate(zip(home, away, strict=False)) if a != b)
    assert (
        home[:shared].endswith("You decide for '")
        and len(seats["home"].requests[0].messages[0]["content"]) < shared
    )


def test_the_cricket_prompt_names_no_line_that_it_does_not_have() -> None:
    asked = ModelSettings(model="m", style="json")
    options = {"max_overs": 2, "decisions": "over"}
    seat = rehearse(load_world("cricket"), asked, options, 7, captain="heuristic")["home"]
    system = seat.requests[0].messages[0]["content"]
    assert "`rules`" not in system and "reward: " in seat.requests[0].messages[1]["content"]
    assert all("`choices." not in prompt_text(request.messages, ()) for request in seat.requests)


def test_optional_texts_lists_and_objects_are_not_offered() -> None:
    text, share = {"type": "string"}, {"type": "number", "minimum": 0, "maximum": 1}
    rule = {
        "properties": {"note": text, "name": text, "by": {"type": "array"}, "power": share},
        "required": ["name"],
    }
    [action] = brief_actions([{"tool": "hit", "arguments": rule}])
    assert list(action["arguments"]["properties"]) == ["name", "power"]
    assert signature(action) == "hit(name: text, power?: 0..1)"
