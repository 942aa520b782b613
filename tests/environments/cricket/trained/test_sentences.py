"""What the trained captain may say: legal orders, true clauses, no sentence twice; with no network at all."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from spectator.environments.cricket.people import STYLE_TITLES
from spectator.environments.cricket.trained.captain import FOLDER
from spectator.environments.cricket.trained.network import Tokenizer
from spectator.environments.cricket.trained.perception import KINDS, Sight
from spectator.environments.cricket.trained.policy import network
from spectator.environments.cricket.trained.speech import SpokenOrder, calls_of
from spectator.observations import Observation
from tests.environments.cricket.playing import begin
from tests.environments.cricket.trained.claims import false_claims

VARIED: dict[str, Any] = {"ground": "drawn", "form": "drawn", "fatigue": True, "squads": "uneven"}
KINDS_OF_MATCH: dict[str, dict[str, Any]] = {
    "five overs": {"max_overs": 5, "decisions": "over", **VARIED},
    "women": {"max_overs": 5, "decisions": "over", "profile": "women", "form": "drawn"},
    "twenty overs": {"max_overs": 20, "decisions": "over", **VARIED},
    "sessions": {"max_overs": 10, "decisions": "session"},
    "super overs": {"start": "super_over", "decisions": "over"},
    "chase": {"start": "chase", "decisions": "over", "ground": "drawn"},
    "balls": {"max_overs": 2, "ground": "drawn"},
}


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return network(FOLDER).tokenizer


Said = tuple[Observation, SpokenOrder, list[tuple[str, dict[str, Any]]]]


def said_at_random(tokenizer: Tokenizer, seed: int, **given: Any) -> Iterator[Said]:
    """Every decision of a match in which both sides say anything that they may."""
    environment, observation = begin(seed, **given)
    rng = random.Random(seed)
    while not observation.done:
        sight = Sight(observation.content, [action["tool"] for action in observation.legal_actions])
        speech = SpokenOrder(sight, tokenizer)
        while speech.allowed:
            speech.take(rng.choice(speech.allowed))
        assert speech.order is not None
        calls = calls_of(sight, speech.order)
        yield observation, speech, calls
        for tool, arguments in calls:
            observation = environment.step({"tool": tool, "arguments": arguments})
            assert observation.refused is None, (observation.refused, speech.text)
            if observation.actor != sight.view["side"] or observation.content["phase"] != sight.view["phase"]:
                break


def in_names(speech: SpokenOrder) -> str:
    text = speech.text
    for slot, name in sorted(speech.sight.shown_names().items(), key=lambda one: -len(one[0])):
        text = text.replace(slot, name)
    return text


@pytest.mark.parametrize("kind", KINDS_OF_MATCH)
def test_whatever_is_said_is_legal_true_and_said_once(kind: str, tokenizer: Tokenizer) -> None:
    given, decisions = KINDS_OF_MATCH[kind], 0
    for seed in (11, 12) if kind != "twenty overs" else (11,):
        heard: set[tuple[str | None, str]] = set()
        for observation, speech, calls in said_at_random(tokenizer, seed, **given):
            reason = in_names(speech)
            assert (observation.actor, reason) not in heard
            heard.add((observation.actor, reason))
            decisions += 1
            if given.get("decisions", "ball") == "over":
                tool, arguments = calls[-1]
                assert not false_claims(observation.content, {"tool": tool, "arguments": arguments}, reason)
    assert decisions > 5


@pytest.mark.parametrize("kind", ["five overs", "balls", "super overs"])
def test_every_token_of_a_match_is_known(kind: str, tokenizer: Tokenizer) -> None:
    for _, speech, _ in said_at_random(tokenizer, 21, **KINDS_OF_MATCH[kind]):
        assert 0 not in speech.ids
        assert 0 not in tokenizer.encode(speech.sight.text())


def test_every_style_of_bowling_has_its_word() -> None:
    assert set(KINDS) == set(STYLE_TITLES.values())


def test_a_token_that_cannot_follow_is_refused(tokenizer: Tokenizer) -> None:
    _, observation = begin(3, decisions="over")
    speech = SpokenOrder(Sight(observation.content, ["call_toss"]), tokenizer)
    with pytest.raises(ValueError, match="cannot follow"):
        speech.take(0)


LIES: dict[str, Callable[[str], str]] = {
    "score": lambda reason: reason.replace(" for ", " for 1", 1),
    "side": lambda reason: reason.replace("leg side", "off side") if "leg side" in reason else "",
    "player": lambda reason: reason.replace(" is ", " and Somebody are ", 1) if " is " in reason else "",
    "level": lambda reason: reason.replace("at 0.7", "at 0.6") if "at 0.7" in reason else "",
    "clause": lambda reason: reason.replace(".", " as the moon is full.") if "0." not in reason else "",
}


@pytest.mark.parametrize("lie", LIES)
def test_the_checker_finds_what_is_false(lie: str, tokenizer: Tokenizer) -> None:
    found = 0
    for observation, speech, calls in said_at_random(tokenizer, 31, **KINDS_OF_MATCH["five overs"]):
        tool, arguments = calls[-1]
        told = LIES[lie](in_names(speech))
        if tool in ("bowl_over", "play_over") and told and told != in_names(speech):
            assert false_claims(observation.content, {"tool": tool, "arguments": arguments}, told)
            found += 1
    assert found
