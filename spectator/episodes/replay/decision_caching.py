"""Making a cache of the decisions that a model made in recorded episodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from spectator.environments.world import World
from spectator.episodes.replay.prompts import EpisodePrompts, RebuiltPrompts, model_build
from spectator.errors import ConfigurationError
from spectator.failures import failure_of_decision
from spectator.policies.decision_cache import (
    CachedDecision,
    CacheHead,
    CacheLine,
    DecisionCache,
    Origin,
    context_hash,
)
from spectator.policies.model_presets import ModelBuild


@dataclass(frozen=True, slots=True)
class Recording:
    """What became of the decisions of some episodes.

    Args:
        decisions: Decisions of the captain.
        new: How many of them were not known.
        otherwise: How many answered a known question in another way, and were left out.
    """

    decisions: int = 0
    new: int = 0
    otherwise: int = 0

    def __add__(self, other: Recording) -> Recording:
        return Recording(
            self.decisions + other.decisions, self.new + other.new, self.otherwise + other.otherwise
        )


def models_in(started: Mapping[str, Any]) -> set[str]:
    """Presets of the models that played, by an episode's first event."""
    return {seat["policy"] for seat in started["seats"].values() if seat["source"] == "model"}


def one_captain(names: Collection[str], wanted: str | None) -> str:
    """The model whose decisions are meant.

    Args:
        names: Presets of the models that played.
        wanted: The one that was asked for; ``None`` for the only one.

    Raises:
        ConfigurationError: There is none, or there are several and none is named.
    """
    known = ", ".join(sorted(names))
    if not names:
        raise ConfigurationError("no language model decided there")
    if wanted is not None and wanted not in names:
        raise ConfigurationError(f"{wanted} decided nothing there; these models did: {known}")
    if wanted is None and len(names) > 1:
        raise ConfigurationError(f"several models decided there; choose one by --captain: {known}")
    return wanted or next(iter(names))


def head_of(world: World, captain: str) -> CacheHead:
    """Whose decisions a cache of ``captain`` holds.

    Raises:
        ConfigurationError: The catalogue has no such model.
    """
    build = model_build(world, captain)
    if build is None:
        raise ConfigurationError(f"there is no model captain {captain!r} in the catalogue here")
    return CacheHead(model=build.captain.model, style=build.captain.style)


def record_decisions(cache: DecisionCache, episode: EpisodePrompts, captain: str) -> Recording:
    """Add the decisions of ``captain`` in one episode to ``cache``; the first answer to a question counts.

    Raises:
        ConfigurationError: A decision cannot be vouched for: what was asked is not what this catalogue asks.
    """
    before = len(cache)
    otherwise = [cache.add(line) for line in _lines(cache.head, episode, captain)]
    return Recording(len(otherwise), len(cache) - before, sum(otherwise))


def _lines(head: CacheHead, episode: EpisodePrompts, captain: str) -> Iterator[CacheLine]:
    seen: Counter[tuple[str, str]] = Counter()
    for one in episode.decisions:
        if one.captain != captain:
            continue
        build = _vouched(one, episode)
        assert one.observation is not None
        context = context_hash(build.task, head, one.observation)
        data, actor = one.decided.data, one.decided.data["actor"]
        fields = {name: data[name] for name in CachedDecision.model_fields if name in data}
        fields["failure_class"] = failure_of_decision(data)
        origin = {"episode_id": one.decided.episode_id, "turn": one.decided.turn, "actor": actor}
        yield CacheLine(
            context=context,
            occurrence=seen[actor, context],
            decision=CachedDecision.model_validate(fields),
            **{"from": Origin.model_validate(origin)},
        )
        seen[actor, context] += 1


def _vouched(one: RebuiltPrompts, episode: EpisodePrompts) -> ModelBuild:
    if one.same and one.build is not None and one.observation is not None:
        return one.build
    if not episode.exchanges:
        why = "it was recorded by a version that did not keep what was asked"
    else:
        why = next(iter(episode.gaps), "what was asked is not known")
    where = f"{one.decided.episode_id}, turn {one.decided.turn}"
    raise ConfigurationError(f"{where} cannot be cached: {why}")
