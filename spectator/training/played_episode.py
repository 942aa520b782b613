"""Episodes in which one model plays every seat, collected until their end for a :class:`RecordedRun`.

Worker processes can play them, and the process of the run records them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spectator.environments.contract import Environment
from spectator.environments.world import World
from spectator.episodes.controls import Pace
from spectator.episodes.plan import EpisodePlan, EpisodeRequest, plan_episode
from spectator.episodes.steps import checked_decision, facts_of_step, finished, sealed, with_total
from spectator.episodes.stream import RecordedTurns, TurnFacts
from spectator.journal.outline import OwnCount
from spectator.model_calls import ModelCall
from spectator.observations import Observation
from spectator.policies.policy import Decision
from spectator.steppers import local


@dataclass(frozen=True, slots=True)
class SelfPlayedEpisode:
    """A finished episode in which one model played every seat. It can be pickled.

    Args:
        environment: Name of the world.
        options: The world's options.
        turns: All turns and the end.
        own: The decisions of the agent's seat.
    """

    environment: str
    seed: int
    options: Mapping[str, Any]
    turns: RecordedTurns
    own: OwnCount

    def plan(self) -> EpisodePlan:
        """Return the plan of the episode."""
        request = EpisodeRequest(
            self.environment, seed=self.seed, pace=Pace.MAX, options=self.options, view="derived"
        )
        return plan_episode(request, draw_seed=lambda: self.seed)


class EpisodeTurns:
    """The turns of an episode in which one model plays every seat.

    Args:
        world: The world.
        environment: Its environment; step it only through this object.
        first: The environment's answer to ``reset``.
        options: The world's complete options.

    >>> from spectator.catalog import load_world
    >>> world = load_world("counting")
    >>> environment = world.environment()
    >>> options = world.options_type.model_validate({"turns": 1}).model_dump(mode="json")
    >>> first = environment.reset(seed=1, episode_id="mine", options=options)
    >>> turns = EpisodeTurns(world, environment, first, options)
    >>> last = turns.step(first, Decision({"text": "ACTION: 1"}, "model"))
    >>> turns.played(1).turns.ended.score
    1.0
    """

    def __init__(
        self, world: World, environment: Environment, first: Observation, options: Mapping[str, Any]
    ) -> None:
        self._world, self._environment, self._options = world, environment, options
        self._steps: list[TurnFacts] = [(0, local.answered(environment, first).facts)]
        self._calls: list[Sequence[ModelCall]] = [()]
        self._refusals: dict[str, int] = {}
        self._own = OwnCount()
        self._total = 0.0
        self._last = first

    def step(self, asked: Observation, decision: Decision) -> Observation:
        """Carry out a decision of the model.

        Args:
            asked: The observation that the decision answers.
            decision: The decision, with its model calls.
        """
        actor = asked.actor or ""
        action, decided = checked_decision(actor, decision, 0.0, asked.legal_actions)
        stepped = local.answered(self._environment, self._environment.step(action))
        facts = facts_of_step(actor, decided, stepped, 0.0, self._refusals)
        self._steps.append((len(self._steps), facts))
        self._calls.append(decision.calls)
        if actor == self._world.actors[0]:
            self._own.take(decision.source, decision.exchanges)
        self._last, self._total = stepped.observation, self._total + stepped.observation.reward
        return self._last

    def played(self, seed: int) -> SelfPlayedEpisode:
        """Return the finished episode, with the rewards of the other seats if the world states them."""
        world, environment, profile = self._world, self._environment, self._world.profile_of(self._options)
        truth = sealed(environment.truth())
        ended = finished(self._total, environment.state, len(self._steps) - 1, profile, truth)
        ended = with_total(ended, self._total, profile)
        parts = self._last.metadata.get("rubric")
        if world.rival_reward is not None and parts:
            earned = world.rival_reward(self._options, parts)
            by_seat = earned if isinstance(earned, Mapping) else dict.fromkeys(world.actors[1:], earned)
            ended = ended.model_copy(update={"seat_rewards": dict(by_seat)})
        turns = RecordedTurns(self._steps, self._calls, ended, truth)
        return SelfPlayedEpisode(world.name, seed, self._options, turns, self._own)
