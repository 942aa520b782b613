"""Owns the loop: ask the policy whose turn it is, step the world, tell what happened, until an end.

It knows no game, no viewer and no storage. What differs between a live match and a rollout is what it
is given: a control with a pace, and a port that takes the facts.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from spectator.clock import Clock
from spectator.environments.base import Environment
from spectator.episodes.control import Control, EndRequested
from spectator.episodes.pacing import beats_in
from spectator.episodes.request import EpisodePlan
from spectator.episodes.stepper import Stepper
from spectator.errors import (
    DecisionTimeout,
    EnvironmentFault,
    EpisodeError,
    JournalError,
    PolicyError,
    StepTimeout,
)
from spectator.events import (
    ActionRefused,
    DecisionMade,
    EndReason,
    EpisodeEnded,
    Fact,
    StepTaken,
    core_fact,
    encode_json,
)
from spectator.observations import Observation
from spectator.policies.base import Decision, Policy
from spectator.text import clean_text

logger = logging.getLogger(__name__)

MAX_RAW_TEXT: Final = 8_192
"""Characters of a model's own text that an event keeps."""

MAX_REASONING: Final = 4_096
"""Characters of a stated reason that an event keeps."""

MAX_ACTION_BYTES: Final = 64 * 1024
"""Encoded size beyond which an action is a policy's error."""


@dataclass(frozen=True, slots=True)
class EpisodeLimits:
    """How long an episode may wait for whom.

    Args:
        decision_s: Seconds for one decision.
        step_s: Seconds for one step of the world.
        reset_s: Seconds for its beginning, which may load data.
        episode_s: Seconds for all of it, pauses left out.
    """

    decision_s: float = 120.0
    step_s: float = 30.0
    reset_s: float = 60.0
    episode_s: float = 6 * 3600.0


class Emit(Protocol):
    """Takes the facts of one step; returns once they are recorded."""

    def __call__(self, turn: int, facts: Sequence[Fact]) -> Awaitable[None]:
        """Record ``facts`` as belonging to ``turn``."""
        ...


@dataclass(frozen=True, slots=True)
class _Stepped:
    observation: Observation
    facts: Sequence[Fact]
    state: Mapping[str, Any]


class Driver:
    """Plays one episode to its end, whatever happens.

    Args:
        plan: What is played, by whom.
        episode_id: Its id.
        emit: Takes what happened.
        control: The reins.
        clock: Measures.
        limits: How long it may wait.
    """

    def __init__(
        self,
        plan: EpisodePlan,
        episode_id: str,
        *,
        emit: Emit,
        control: Control,
        clock: Clock,
        limits: EpisodeLimits,
    ) -> None:
        self._plan = plan
        self._episode_id = episode_id
        self._emit = emit
        self._control = control
        self._clock = clock
        self._limits = limits
        self._stepper: Stepper[Environment] | None = None
        self._seats: dict[str, Policy] = {}
        self._refusals: dict[str, int] = {}
        self._result: str | None = None
        self._turn = 0

    @property
    def turn(self) -> int:
        """Actions taken or refused so far."""
        return self._turn

    async def run(self) -> EpisodeEnded:
        """Play. Emits everything after ``episode.started``, the end event included, and cleans up.

        Returns:
            The end, also when its event could not be recorded.
        """
        try:
            ended = await self._play_to_an_end()
        except asyncio.CancelledError:
            await self._tell_end(self._cut_short("interrupted", "the server went away"))
            raise
        finally:
            await self._clean_up()
        await self._tell_end(ended)
        return ended

    async def _tell_end(self, ended: EpisodeEnded) -> None:
        try:
            await self._emit(self._turn, [core_fact(ended)])
        except EpisodeError:
            logger.exception("episode %s: the end (%s) could not be recorded", self._episode_id, ended.reason)
        logger.info(
            "episode %s ended: %s after %d turns, score %s",
            self._episode_id,
            ended.reason,
            ended.turns,
            ended.score,
        )

    async def _play_to_an_end(self) -> EpisodeEnded:
        try:
            return await self._play()
        except EndRequested:
            end = self._control.end
            assert end is not None
            return self._cut_short(end.reason, end.detail)
        except (StepTimeout, DecisionTimeout) as error:
            return self._cut_short("timeout", str(error))
        except PolicyError as error:
            return self._cut_short("policy_error", str(error))
        except JournalError as error:
            logger.exception("episode %s: the journal failed", self._episode_id)
            return self._cut_short("interrupted", f"the journal failed: {error}")
        except EnvironmentFault as error:
            return self._cut_short("environment_error", str(error))
        except Exception as error:
            logger.exception("episode %s: the driver failed", self._episode_id)
            return self._cut_short("environment_error", f"{type(error).__name__}: {error}")

    async def _play(self) -> EpisodeEnded:
        self._seats = self._build_seats()
        self._stepper = Stepper(self._plan.world.environment, name=self._episode_id)
        budget = _Budget(self._clock, self._limits.episode_s)
        began = self._clock.monotonic()
        stepped = await self._begin()
        await self._emit(0, stepped.facts)
        beats = beats_in(stepped.facts, self._plan.world.beats)
        step_cap = self._plan.world.step_cap(self._plan.options)
        while not stepped.observation.done:
            await self._control.keep_pace(began, beats)
            with budget.standing_still():
                await self._control.play_on()
            if self._turn >= step_cap:
                return self._cut_short("step_cap", f"cut short after {step_cap} turns")
            if budget.spent():
                return self._cut_short("timeout", f"longer than {self._limits.episode_s:g} s of play")
            began = self._clock.monotonic()
            stepped, facts = await self._take_turn(stepped.observation, budget)
            await self._emit(self._turn, facts)
            beats = beats_in(facts, self._plan.world.beats)
        return self._finished(stepped)

    async def _begin(self) -> _Stepped:
        plan = self._plan

        def reset(environment: Environment) -> _Stepped:
            observation = environment.reset(seed=plan.seed, episode_id=self._episode_id, options=plan.options)
            return _Stepped(observation, environment.facts(), environment.state)

        return await self._in_world(self._limits.reset_s, reset)

    async def _take_turn(self, observation: Observation, budget: _Budget) -> tuple[_Stepped, list[Fact]]:
        actor = observation.actor
        assert actor is not None
        decision = await self._decide(actor, observation)
        began = self._clock.monotonic()

        def step(environment: Environment) -> _Stepped:
            answer = environment.step(decision.action)
            return _Stepped(answer, environment.facts(), environment.state if answer.done else {})

        stepped = await self._in_world(self._limits.step_s, step)
        took = self._clock.monotonic() - began
        with budget.standing_still():
            await self._control.play_on()
        self._turn += 1
        return stepped, self._tell(actor, decision, stepped, took)

    async def _decide(self, actor: str, observation: Observation) -> Decision:
        limit = self._limits.decision_s
        began = self._clock.monotonic()
        try:
            async with self._control.waiting(limit) as scope:
                decision = await self._seats[actor].decide(observation, deadline=limit)
        except EndRequested:
            raise
        except TimeoutError as error:
            if scope.expired():
                raise DecisionTimeout(f"{actor} did not decide within {limit:g} s") from error
            raise PolicyError(f"{actor} could not decide: TimeoutError: {error}") from error
        except Exception as error:
            logger.exception("episode %s: the policy of %s failed", self._episode_id, actor)
            raise PolicyError(f"{actor} could not decide: {type(error).__name__}: {error}") from error
        return _checked(actor, decision, self._clock.monotonic() - began)

    async def _in_world(self, limit_s: float, function: Callable[[Environment], _Stepped]) -> _Stepped:
        assert self._stepper is not None
        try:
            async with self._control.waiting():
                stepped = await self._stepper.call_within(limit_s, function)
        except (EndRequested, EnvironmentFault):
            raise
        except Exception as error:
            logger.exception("episode %s: the environment failed", self._episode_id)
            raise EnvironmentFault(f"{type(error).__name__}: {error}") from error
        _check_observation(stepped.observation, self._plan.world.actors)
        return stepped

    def _tell(self, actor: str, decision: Decision, stepped: _Stepped, took: float) -> list[Fact]:
        observation = stepped.observation
        facts = [_decision_fact(actor, decision)]
        if observation.refused is not None:
            self._refusals[actor] = self._refusals.get(actor, 0) + 1
            refused = observation.refused
            facts.append(
                core_fact(
                    ActionRefused(
                        actor=actor,
                        action=dict(decision.action),
                        rule=refused.rule,
                        message=refused.message,
                        refusals=self._refusals[actor],
                    )
                )
            )
            return facts
        facts.extend(stepped.facts)
        facts.append(
            core_fact(
                StepTaken(
                    actor=actor,
                    next_actor=observation.actor,
                    reward=observation.reward,
                    done=observation.done,
                    rubric=dict(observation.metadata.get("rubric", {})),
                    duration_s=round(took, 6),
                )
            )
        )
        return facts

    def _finished(self, stepped: _Stepped) -> EpisodeEnded:
        result = stepped.state.get("result")
        return EpisodeEnded(
            reason="finished",
            score=stepped.observation.reward,
            result=result if isinstance(result, str) else None,
            turns=self._turn,
            terminated=True,
            truncated=False,
        )

    def _cut_short(self, reason: EndReason, detail: str | None) -> EpisodeEnded:
        return EpisodeEnded(
            reason=reason,
            score=None,
            result=None,
            turns=self._turn,
            detail=None if detail is None else clean_text(detail, 500),
            terminated=False,
            truncated=True,
        )

    def _build_seats(self) -> dict[str, Policy]:
        try:
            return self._plan.seats()
        except Exception as error:
            logger.exception("episode %s: a policy could not be built", self._episode_id)
            raise PolicyError(f"a policy could not be built: {type(error).__name__}: {error}") from error

    async def _clean_up(self) -> None:
        if self._stepper is not None:
            self._stepper.close()
        for actor, policy in self._seats.items():
            try:
                await policy.aclose()
            except Exception:
                logger.exception("episode %s: the policy of %s could not be closed", self._episode_id, actor)


class _Budget:
    """Time of play left, pauses not counted."""

    def __init__(self, clock: Clock, limit_s: float) -> None:
        self._clock = clock
        self._until = clock.monotonic() + limit_s

    def spent(self) -> bool:
        return self._clock.monotonic() > self._until

    def standing_still(self) -> _StandingStill:
        return _StandingStill(self)

    def extend(self, seconds: float) -> None:
        self._until += seconds

    def monotonic(self) -> float:
        return self._clock.monotonic()


class _StandingStill:
    """Adds the time spent inside to the budget."""

    def __init__(self, budget: _Budget) -> None:
        self._budget = budget
        self._began = 0.0

    def __enter__(self) -> None:
        self._began = self._budget.monotonic()

    def __exit__(self, *_: object) -> None:
        self._budget.extend(self._budget.monotonic() - self._began)


def _checked(actor: str, decision: Decision, took: float) -> Decision:
    """The decision with its latency, once its action is known to be plain JSON of a sane size."""
    try:
        size = len(encode_json(dict(decision.action)).encode())
    except (TypeError, ValueError) as error:
        raise PolicyError(f"{actor} decided on something that is not plain JSON: {error}") from error
    if size > MAX_ACTION_BYTES:
        raise PolicyError(
            f"{actor} decided on an action of {size} bytes; at most {MAX_ACTION_BYTES} are taken"
        )
    if decision.latency_s is not None:
        return decision
    return Decision(
        **{name: getattr(decision, name) for name in Decision.__slots__ if name != "latency_s"},
        latency_s=round(took, 6),
    )


def _decision_fact(actor: str, decision: Decision) -> Fact:
    raw_text = decision.raw_text
    return core_fact(
        DecisionMade(
            actor=actor,
            source=decision.source,
            action=dict(decision.action),
            reasoning=clean_text(decision.reasoning, MAX_REASONING),
            raw_text=None if raw_text is None else clean_text(raw_text, MAX_RAW_TEXT),
            parse=decision.parse,
            fallback_reason=decision.fallback_reason,
            model=decision.model,
            latency_s=decision.latency_s or 0.0,
            tokens_in=decision.tokens_in,
            tokens_out=decision.tokens_out,
        )
    )


def _check_observation(observation: Observation, actors: Sequence[str]) -> None:
    """Raise an EnvironmentFault unless the world kept its contract."""
    if not isinstance(observation, Observation):
        raise EnvironmentFault(f"answered {type(observation).__name__}, not an observation")
    if not math.isfinite(observation.reward):
        raise EnvironmentFault(f"the reward {observation.reward} is not finite")
    if observation.done:
        return
    if observation.actor not in actors:
        raise EnvironmentFault(f"asks {observation.actor!r}, which is none of {', '.join(actors)}")
    if not observation.legal_actions:
        raise EnvironmentFault(f"leaves {observation.actor} nothing legal to do")
