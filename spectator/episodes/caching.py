"""Owns making a cache of the decisions that a model made in recorded episodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from spectator.episodes.reasking import AskedAgain, Reasked
from spectator.errors import ConfigurationError
from spectator.policies.captains import ModelBuild
from spectator.policies.decision_cache import (
    CachedDecision,
    CacheHead,
    CacheLine,
    DecisionCache,
    Origin,
    context_hash,
)


@dataclass(frozen=True, slots=True)
class Recording:
    """What became of the decisions of some episodes.

    Args:
        decisions: Decisions of the captain.
        new: How many of them were not known.
        otherwise: How many answered a known question in another way, and were left out.
    """

    decisions: int
    new: int
    otherwise: int


def one_captain(episodes: Sequence[Reasked], wanted: str | None) -> str:
    """The captain whose decisions are meant.

    Raises:
        ConfigurationError: There is none, or there are several and none is named.
    """
    names = sorted({one.captain for episode in episodes for one in episode.decisions})
    if wanted is not None and wanted not in names:
        raise ConfigurationError(
            f"{wanted} decided nothing there; these models did: {', '.join(names) or 'none'}"
        )
    if not names:
        raise ConfigurationError("no language model decided there")
    if wanted is None and len(names) > 1:
        raise ConfigurationError(f"several models decided there; choose one by --captain: {', '.join(names)}")
    return wanted or names[0]


def head_of(episodes: Sequence[Reasked], captain: str) -> CacheHead:
    """Whose decisions a cache of ``captain`` holds.

    Raises:
        ConfigurationError: The catalogue has no such model.
    """
    build = next(
        (one.build for episode in episodes for one in episode.decisions if one.captain == captain), None
    )
    if build is None:
        raise ConfigurationError(f"there is no model captain {captain!r} in the catalogue here")
    return CacheHead(model=build.captain.model, style=build.captain.style)


def record_decisions(cache: DecisionCache, episodes: Sequence[Reasked], captain: str) -> Recording:
    """Add the decisions of ``captain`` to ``cache``; the first answer to a question counts.

    Raises:
        ConfigurationError: A decision cannot be vouched for: what was asked is not what this catalogue asks.
    """
    before, otherwise, decisions = len(cache), 0, 0
    for episode in episodes:
        for line in _lines(cache.head, episode, captain):
            decisions += 1
            otherwise += cache.add(line)
    return Recording(decisions, len(cache) - before, otherwise)


def _lines(head: CacheHead, episode: Reasked, captain: str) -> Iterator[CacheLine]:
    seen: Counter[tuple[str, str]] = Counter()
    for one in episode.decisions:
        if one.captain != captain:
            continue
        build = _vouched(one, episode)
        assert one.observation is not None
        context = context_hash(build.task, head, one.observation)
        data, actor = one.decided.data, one.decided.data["actor"]
        fields = {name: data[name] for name in CachedDecision.model_fields}
        origin = {"episode_id": one.decided.episode_id, "turn": one.decided.turn, "actor": actor}
        yield CacheLine(
            context=context,
            occurrence=seen[actor, context],
            decision=CachedDecision.model_validate(fields),
            **{"from": Origin.model_validate(origin)},
        )
        seen[actor, context] += 1


def _vouched(one: AskedAgain, episode: Reasked) -> ModelBuild:
    if one.same and one.build is not None and one.observation is not None:
        return one.build
    if not episode.exchanges:
        why = "it was recorded by a version that did not keep what was asked"
    else:
        why = next(iter(episode.gaps), "what was asked is not known")
    where = f"{one.decided.episode_id}, turn {one.decided.turn}"
    raise ConfigurationError(f"{where} cannot be cached: {why}")
