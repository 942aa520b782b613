"""Decisions recorded once: the same context gives the same decision in every process, a miss is told."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from spectator.errors import ConfigurationError
from spectator.observations import Observation, Refusal
from spectator.policies.base import Decision, Policy
from spectator.policies.cached import CachedPolicy, CacheMiss, OnMiss
from spectator.policies.cached_captains import BEHIND, CACHED, cached_presets, load_cached
from spectator.policies.captains import load_captains
from spectator.policies.decision_cache import CacheHead, CacheLine, DecisionCache, context_hash
from spectator.policies.model_presets import ModelSeat
from spectator.policies.prompting import Briefing
from tests.hash_seeds import printed
from tests.policies.seats import observed
from tests.policies.test_model import LEGAL, Steady

HEAD = CacheHead(model="m-8b", style="json")
TASK = "A game."
FROM = {"episode_id": "ep-1", "turn": 1, "actor": "home"}


def line(observation: Observation, level: float, *, occurrence: int = 0, **more: Any) -> CacheLine:
    action = {"tool": "plan", "arguments": {"level": level}}
    decision = {"action": action, "source": "model", "reasoning": f"level {level}", "model": "m", **more}
    context = context_hash(TASK, HEAD, observation)
    return CacheLine.model_validate(
        {"context": context, "occurrence": occurrence, "decision": decision, "from": FROM}
    )


def cache_of(*lines: CacheLine) -> DecisionCache:
    cache = DecisionCache(HEAD, "decisions.ndjson")
    for one in lines:
        cache.add(one)
    return cache


def decide(cache: DecisionCache, *seen: Observation, on_miss: OnMiss = "error") -> list[Decision]:
    policy = CachedPolicy(cache, TASK, on_miss=on_miss, fallback=Steady())

    async def run() -> list[Decision]:
        return [await policy.decide(observation, deadline=10) for observation in seen]

    return asyncio.run(run())


SEEN = observed(LEGAL, ball=1, rate=7.5)


def test_a_recorded_decision_is_made_again_and_named_a_replay() -> None:
    (made,) = decide(cache_of(line(SEEN, 0.8, raw_text="I say", parse="ok")), SEEN)
    assert made.action == {"tool": "plan", "arguments": {"level": 0.8}}
    assert (made.source, made.reasoning, made.raw_text, made.model) == ("replay", "level 0.8", "I say", "m")
    assert made.tokens_in is None and made.exchanges == ()


def test_a_recorded_fallback_stays_one() -> None:
    (made,) = decide(cache_of(line(SEEN, 0.5, source="fallback", fallback_reason="busy: wait")), SEEN)
    assert (made.source, made.fallback_reason) == ("fallback", "recorded: busy: wait")


def test_a_context_that_comes_up_again_has_a_decision_of_its_own() -> None:
    cache = cache_of(line(SEEN, 0.1), line(SEEN, 0.2, occurrence=1))
    assert [one.action["arguments"]["level"] for one in decide(cache, SEEN, SEEN)] == [0.1, 0.2]
    with pytest.raises(CacheMiss, match="a third time"):
        decide(cache, SEEN, SEEN, SEEN)


def test_a_miss_is_an_error_or_a_labelled_fallback() -> None:
    other = observed(LEGAL, ball=2, rate=7.5)
    with pytest.raises(
        CacheMiss, match=r"m-8b was never asked this: no decision for [0-9a-f]{12} in decisions"
    ):
        decide(cache_of(line(SEEN, 0.8)), other)
    made, after = decide(cache_of(line(SEEN, 0.8)), other, SEEN, on_miss="fallback")
    assert (made.source, made.action["tool"]) == ("fallback", "play")
    assert (made.fallback_reason or "").startswith("miss: m-8b was never asked this")
    assert after.source == "replay"


def test_everything_that_is_asked_is_part_of_the_context() -> None:
    refused = Observation("home", LEGAL, SEEN.content, refused=Refusal("r", "m"))
    contexts = [
        context_hash(TASK, HEAD, SEEN),
        context_hash("Another game.", HEAD, SEEN),
        context_hash(TASK, CacheHead(model="m-70b", style="json"), SEEN),
        context_hash(TASK, CacheHead(model="m-8b", style="tools"), SEEN),
        context_hash(TASK, HEAD, observed(LEGAL[:1], **SEEN.content)),
        context_hash(TASK, HEAD, observed(LEGAL, ball=1, rate=7.25)),
        context_hash(TASK, HEAD, Observation("away", LEGAL, SEEN.content)),
        context_hash(TASK, HEAD, refused),
    ]
    assert len(set(contexts)) == len(contexts)
    turned = Observation(
        "home", LEGAL, dict(reversed(list(SEEN.content.items()))), reward=0.5, metadata={"a": 1}
    )
    assert context_hash(TASK, HEAD, turned) == contexts[0]


def test_a_context_is_the_same_in_another_process_with_another_hash_seed() -> None:
    shown = "context_hash(TASK, HEAD, observed(LEGAL, ball=1, rate=7.5))"
    script = f"from tests.policies.test_cached import *; print({shown})"
    assert printed(script, 4711).strip() == context_hash(TASK, HEAD, SEEN)


def test_a_cache_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "decisions.ndjson"
    cache = cache_of(line(SEEN, 0.8, reasoning="é\u2028“why”"), line(SEEN, 0.2, occurrence=1))
    assert not cache.add(line(SEEN, 0.8)) and cache.add(line(SEEN, 0.9))
    cache.save(path)
    again = DecisionCache.load(path)
    assert (again.head, list(again), len(again)) == (HEAD, list(cache), 2)
    assert [one.name for one in tmp_path.iterdir()] == ["decisions.ndjson"]
    first = json.loads(path.read_text(encoding="utf-8").splitlines()[0])
    assert first == {"format": "spectator.decisions", "version": 1, "model": "m-8b", "style": "json"}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is empty"),
        ("{}", "line 1: model"),
        ('{"format":"spectator.decisions","version":2,"model":"m","style":"json"}', "line 1: version"),
        ('{"format":"other","version":1,"model":"m","style":"json"}', "line 1: format"),
        ('{"format":"spectator.decisions","version":1,"model":"m","style":"json"}\n{"context":"x"', "line 2"),
        (b"\xff\xfe", "cannot be read"),
    ],
)
def test_a_file_that_is_no_cache_is_refused_by_its_line(tmp_path: Path, text: str | bytes, says: str) -> None:
    path = tmp_path / "wrong.ndjson"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ConfigurationError, match=says):
        DecisionCache.load(path)


def seat() -> ModelSeat:
    return ModelSeat(Briefing(TASK), lambda seed: Steady())


def write_file(folder: Path, *tables: str) -> Path:
    path = folder / "captains.toml"
    path.write_text("\n".join(tables), encoding="utf-8")
    return path


def test_a_table_with_a_cache_is_a_captain_that_costs_nothing(tmp_path: Path) -> None:
    cache_of(line(SEEN, 0.8)).save(tmp_path / "decisions.ndjson")
    table = '[captains.cached]\nlabel = "Recorded"\ncache = "decisions.ndjson"\non_miss = "fallback"'
    path = write_file(tmp_path, table)
    assert "llm:cached" not in load_captains(path)
    presets = cached_presets(load_cached(path), seat())
    assert set(presets) == {BEHIND, CACHED}
    for preset in presets.values():
        assert (preset.missing, preset.costs_money, preset.source) == (None, False, "replay")
        assert preset.summary == "Decides as m-8b did in 1 situations; in others, the fallback does."
    policy: Policy = presets[CACHED].build(1)
    assert asyncio.run(policy.decide(SEEN, deadline=1)).source == "replay"


def test_a_cache_that_is_not_there_or_damaged_makes_only_its_captain_unavailable(tmp_path: Path) -> None:
    (tmp_path / "damaged.ndjson").write_text("{", encoding="utf-8")
    path = write_file(
        tmp_path,
        '[captains.a]\nlabel = "A"\ncache = "nowhere.ndjson"',
        '[captains.b]\nlabel = "B"\ncache = "damaged.ndjson"',
    )
    presets = cached_presets(load_cached(path), seat())
    assert "needs the file nowhere.ndjson" in (presets["llm:a"].missing or "")
    assert "line 1" in (presets["llm:b"].missing or "")
    assert "[captains.cached]" in (presets[CACHED].missing or "")
    with pytest.raises(ConfigurationError):
        presets[CACHED].build(1)


def test_a_wrong_table_is_refused_with_every_wrong_field(tmp_path: Path) -> None:
    path = write_file(tmp_path, '[captains.c]\ncache = "x"\non_miss = "guess"\nbase_url = "http://h/v1"')
    with pytest.raises(ConfigurationError) as caught:
        load_cached(path)
    for field in ("captains.c.label", "captains.c.on_miss", "captains.c.base_url"):
        assert field in str(caught.value)
    assert load_cached(None) == {}
