"""What actions are told is the same whether it is made anew or was made for an episode before."""

from __future__ import annotations

import copy
from typing import Any

from spectator.llm.exchanges import fingerprint
from spectator.observations import LegalAction
from spectator.policies.action_catalogue import ActionCatalogue


class OwnDict(dict[str, Any]):
    """No plain JSON to ``marshal``: always taken the long way."""


def actions(kind: type[dict[str, Any]]) -> list[LegalAction]:
    share = kind({"type": "number", "title": "Share", "description": "How much", "maximum": 1})
    names = {"title": {"type": "string", "description": "How much"}, "share": share}
    schema = kind(
        {"type": "object", "description": "Bat on", "properties": names, "additionalProperties": False}
    )
    return [LegalAction(tool="bat", arguments=schema), LegalAction(tool="wait", arguments={"type": "object"})]


def told(kind: type[dict[str, Any]]) -> tuple[Any, ...]:
    catalogue = ActionCatalogue()
    first = catalogue.learn(actions(kind))
    tools, size = catalogue.tools()
    later = LegalAction(tool="call", arguments={"type": "object", "description": "Bat on"})
    more = catalogue.learn([*actions(kind), later])
    return first, list(tools), size, more, list(catalogue.tools()[0]), catalogue.listed, catalogue.known


def test_it_is_told_the_same_anew_and_from_before() -> None:
    anew = told(OwnDict)
    assert anew == told(dict) == told(dict)
    assert anew[3] == {"action call": '{"type":"object"}'}, "what was said before is not said again"


def test_what_one_episode_learns_later_no_other_is_told() -> None:
    first, second = ActionCatalogue(actions(dict)), ActionCatalogue(actions(dict))
    before = copy.deepcopy(list(second.tools()[0]))
    assert first.tools()[0] is second.tools()[0], "and encoded once"
    first.learn([LegalAction(tool="call", arguments={"type": "object"})])
    assert len(first.tools()[0]) == 3
    assert list(second.tools()[0]) == before
    assert fingerprint([], first.tools()[0]) != fingerprint([], second.tools()[0])
