"""The trained captain plays: its own decisions, streamed and recorded; damaged weights say so."""

from __future__ import annotations

import asyncio
import json
import shutil
import threading
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spectator.clock import SystemClock
from spectator.environments.cricket import WORLD
from spectator.environments.cricket.trained.captain import CARD, FOLDER, WEIGHTS, card_of, trained_captain
from spectator.environments.cricket.trained.network import Memory, in_eight_bits
from spectator.environments.cricket.trained.policy import TrainedPolicy, network
from spectator.errors import ConfigurationError
from spectator.policies.policy import Decision, Thought
from tests.environments.cricket.playing import begin, captain
from tests.environments.cricket.trained.claims import false_claims

FIVE: dict[str, Any] = {"decisions": "over", "ground": "drawn", "form": "drawn", "fatigue": True}


async def play(seed: int, heard: list[Thought] | None = None, **given: Any) -> list[tuple[Any, Decision]]:
    """The trained captain's decisions in one match, with what it saw."""
    environment, observation = begin(seed, **given)
    own, other = WORLD.captains["trained"].build(seed), captain("heuristic", seed)
    assert isinstance(own, TrainedPolicy)
    if heard is not None:
        own.stream_thoughts(heard.append)
    decisions = []
    while not observation.done:
        if observation.actor == "home":
            decision = await own.decide(observation, deadline=60.0)
            decisions.append((observation.content, decision))
        else:
            decision = other.choose(observation)
        observation = environment.step(decision.action)
        assert observation.refused is None
    await own.aclose()
    return decisions


@cache
def played(seed: int, **given: Any) -> list[tuple[Any, Decision]]:
    """The decisions of a match that several tests look at."""
    return asyncio.run(play(seed, **given))


def test_its_decisions_are_its_own_true_and_never_said_twice() -> None:
    for seed in (1, 2, 3):
        decisions = played(seed, **FIVE)
        assert {decision.source for _, decision in decisions} == {"model"}
        reasons = [decision.reasoning for _, decision in decisions]
        assert len(set(reasons)) == len(reasons)
        for view, decision in decisions:
            assert not false_claims(view, decision.action, decision.reasoning)


@pytest.mark.parametrize(
    "given",
    [
        {"max_overs": 2, "profile": "women"},
        {"max_overs": 2, "decisions": "over", "profile": "women"},
        {"max_overs": 3, "decisions": "session"},
        {"decisions": "over", "start": "super_over"},
    ],
)
def test_it_plays_every_kind_of_match(given: dict[str, Any]) -> None:
    decisions = asyncio.run(play(5, **given))
    assert {decision.source for _, decision in decisions} == {"model"}
    reasons = [decision.reasoning for _, decision in decisions]
    assert len(set(reasons)) == len(reasons)


def test_the_record_holds_every_token_with_its_chance() -> None:
    heard: list[Thought] = []
    decisions = asyncio.run(play(4, heard, max_overs=1, decisions="over"))
    captain = network(FOLDER)
    card = card_of()
    assert card is not None
    for _, decision in decisions:
        [call] = decision.calls
        assert call.reply is not None and call.token_ids is not None and call.logprobs is not None
        assert call.prompt_token_ids is not None
        assert len(call.token_ids) == len(call.logprobs)
        assert captain.tokenizer.decode(call.prompt_token_ids) == call.messages[-1]["content"]
        assert call.weight_versions == [(card.sha256[:12], len(call.token_ids))]
        assert max(call.logprobs) <= 0.0 < -sum(call.logprobs)
        assert (decision.tokens_in, decision.tokens_out) == (len(call.prompt_token_ids), len(call.token_ids))
        assert decision.cost is None
    for number, (_, decision) in enumerate(decisions, 1):
        parts = [thought.text for thought in heard if thought.decision == number]
        assert len(parts) > 8
        assert "".join(parts) == decision.raw_text


def test_the_chance_of_a_sentence_is_the_networks() -> None:
    """Chances are among the tokens that may follow, so no less than among all."""
    [(_, decision), *_] = asyncio.run(play(4, max_overs=1, decisions="over"))
    [call] = decision.calls
    captain = network(FOLDER)
    assert call.token_ids is not None and call.logprobs is not None and call.prompt_token_ids is not None
    first = next(at for at, chance in enumerate(call.logprobs) if chance < 0)
    memory = Memory(captain)
    last = memory.read([*call.prompt_token_ids, *call.token_ids[:first]])
    whole = memory.chances(last, list(range(len(captain.tokenizer.words))))
    assert whole[call.token_ids[first]] <= call.logprobs[first]


def test_the_same_seed_plays_the_same_match() -> None:
    first, second = played(1, **FIVE), asyncio.run(play(1, **FIVE))
    assert [one.action for _, one in first] == [one.action for _, one in second]
    assert [one.reasoning for _, one in first] == [one.reasoning for _, one in second]


async def test_the_event_loop_goes_on_while_it_thinks() -> None:
    _, observation = begin(7, **FIVE)
    policy, names = TrainedPolicy(7, SystemClock()), set()
    read = Memory.read

    def noted(memory: Memory, ids: Any) -> Any:
        names.add(threading.current_thread().name)
        return read(memory, ids)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Memory, "read", noted)
        await policy.decide(observation, deadline=60.0)
    assert threading.main_thread().name not in names


async def test_too_little_time_falls_back_and_says_why() -> None:
    _, observation = begin(7, **FIVE)
    decision = await TrainedPolicy(7, SystemClock()).decide(observation, deadline=1e-4)
    assert decision.source == "fallback"
    assert decision.fallback_reason is not None and "did not decide" in decision.fallback_reason


def test_a_situation_that_is_too_long_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network(FOLDER), "context", 4)
    _, observation = begin(8, **FIVE)
    decision = asyncio.run(TrainedPolicy(8, SystemClock()).decide(observation, deadline=60.0))
    assert decision.source == "fallback"
    assert decision.fallback_reason is not None and "tokens" in decision.fallback_reason


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for name in (WEIGHTS, CARD):
        shutil.copy(FOLDER / name, tmp_path / name)
    return tmp_path


def test_missing_and_shortened_weights_are_said_in_the_catalogue(copy: Path) -> None:
    assert trained_captain("2.0", copy).missing is None
    weights = copy / WEIGHTS
    weights.write_bytes(weights.read_bytes()[:-1])
    assert "damaged" in (trained_captain("2.0", copy).missing or "")
    weights.unlink()
    assert "needs its weights" in (trained_captain("2.0", copy).missing or "")


def test_weights_with_another_digest_are_refused(copy: Path) -> None:
    weights = bytearray((copy / WEIGHTS).read_bytes())
    weights[len(weights) // 2] ^= 1
    (copy / WEIGHTS).write_bytes(weights)
    with pytest.raises(ConfigurationError, match="SHA-256"):
        trained_captain("2.0", copy).build(1)


def test_another_version_of_the_world_is_said(copy: Path) -> None:
    card = json.loads((copy / CARD).read_text())
    assert "trained on version" not in trained_captain(card["world"], copy).summary
    assert (
        f"trained on version {card['world']} of this world, not 9.9" in trained_captain("9.9", copy).summary
    )
    assert card["size"] <= 8 * 1024**2


def test_eight_bits_keep_the_weights() -> None:
    weights = np.random.default_rng(1).normal(size=(20, 30)).astype(np.float32)
    packed = in_eight_bits({"a": weights})
    again = packed["a"].astype(np.float32) * packed["a.scale"][:, None]
    assert packed["a"].dtype == np.int8
    assert np.abs(again - weights).max() <= np.abs(weights).max() / 250
