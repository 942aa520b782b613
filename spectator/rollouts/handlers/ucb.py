"""Handlers that choose an experience by how often it helped: the best mean, or an upper confidence bound."""

from __future__ import annotations

import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Final

from spectator.rollouts.handlers.base import EpisodeContext, EpisodeOutcome, Message, with_advice
from spectator.rollouts.handlers.experience import Experience, Tally, TallyFile

logger = logging.getLogger(__name__)

EXPLORATION: Final = math.sqrt(2.0)
"""Weight of the bound's width in UCB1 for rewards in [0, 1] (Auer, Cesa-Bianchi, Fischer 2002)."""


class ExperienceHandler(ABC):
    """Adds one experience to every prompt of an episode, the one chosen at its first step.

    The choice is kept in the file of the statistics until the episode has ended, so that whoever plays it on
    after a death goes on with the same.

    An episode without a verdict (the endpoint or the environment failed) teaches nothing: the experience is
    not to blame for it.

    Args:
        experiences: What can be added.
        tallies: Where the statistics are kept.
    """

    def __init__(self, experiences: Sequence[Experience], tallies: TallyFile) -> None:
        self._experiences = experiences
        self._tallies = tallies
        self._chosen: dict[str, tuple[Experience, Sequence[float]] | None] = {}

    def handle(self, messages: Sequence[Message], context: EpisodeContext) -> Sequence[Message]:
        """The messages with the episode's experience in the system message."""
        if context.env_id not in self._chosen:
            self._chosen[context.env_id] = self._select(messages, context)
        chosen = self._chosen[context.env_id]
        return messages if chosen is None else with_advice(messages, chosen[0].text)

    def on_episode_end(self, context: EpisodeContext, outcome: EpisodeOutcome) -> None:
        """Add the episode's reward to the statistics of its experience."""
        chosen = self._chosen.pop(context.env_id, None)
        reward = outcome.total_reward
        if chosen is None:
            return
        if reward is None or not math.isfinite(reward):
            self._tallies.forget(context.env_id)
        else:
            self._tallies.update(chosen[0].id, reward, chosen[1], env_id=context.env_id)

    def _select(
        self, messages: Sequence[Message], context: EpisodeContext
    ) -> tuple[Experience, Sequence[float]] | None:
        fitting = [one for one in self._experiences if one.env_name in (None, context.env_name)]
        if not fitting:
            return None
        features = self.features(messages)
        before = self._tallies.chosen(context.env_id)
        for one in fitting:
            if one.id == before:
                return one, features
        tallies = self._tallies.read()
        known = {one.id: tallies.get(one.id, Tally()) for one in fitting}
        best = max(fitting, key=lambda one: self.value(one, known, features))
        try:
            self._tallies.choose(context.env_id, best.id)
        except OSError as error:  # such as a full disk, which is no reason to end the episode
            logger.warning("what %s was given is not kept: %s", context.env_id, error)
        return best, features

    def features(self, messages: Sequence[Message]) -> Sequence[float]:
        """What of a prompt the choice depends on; nothing unless a handler says so."""
        return ()

    @abstractmethod
    def value(self, experience: Experience, known: Mapping[str, Tally], features: Sequence[float]) -> float:
        """How promising ``experience`` is; the largest is used, the first of equals."""


class TemplateHandler(ExperienceHandler):
    """Adds the experience with the highest mean reward so far; untried ones count as 0."""

    def value(self, experience: Experience, known: Mapping[str, Tally], features: Sequence[float]) -> float:
        """Its mean reward."""
        return known[experience.id].mean


class UcbHandler(ExperienceHandler):
    """Adds the experience with the highest upper confidence bound (UCB1); each is tried once first."""

    def value(self, experience: Experience, known: Mapping[str, Tally], features: Sequence[float]) -> float:
        """Mean reward plus the width of its bound; infinite before the first try."""
        tally = known[experience.id]
        if not tally.used:
            return math.inf
        tried = sum(one.used for one in known.values())
        return tally.mean + EXPLORATION * math.sqrt(math.log(tried) / tally.used)
