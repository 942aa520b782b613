"""Play one seat of a world, while the opponent's policy plays the others.

The agent sees observations in full, as changes since the last one, or as text.
"""

from __future__ import annotations

import asyncio
import secrets
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, get_args

from spectator.catalog import load_world
from spectator.core_events import EpisodeEnded
from spectator.environments.contract import Environment, Stepped
from spectator.environments.world import MAX_SEED, World
from spectator.episodes.controls import Pace
from spectator.episodes.plan import EpisodePlan, EpisodeRequest, plan_episode
from spectator.episodes.steps import (
    check_contract,
    checked_decision,
    cut_short,
    facts_of_step,
    finished,
    sealed,
    with_total,
)
from spectator.episodes.stream import RecordedTurns, TurnFacts
from spectator.errors import DecisionTimeout, EpisodeError, FieldError, InvalidRequest, PolicyError, typed_as
from spectator.events import Fact
from spectator.json_values import make_patch, without_null
from spectator.model_calls import ModelCall
from spectator.observations import Observation, Profile, Refusal
from spectator.policies.action_catalogue import ActionCatalogue
from spectator.policies.dialogue import READING, SituationLines, all_lines, changed_lines, rejection_text
from spectator.policies.policy import Action, Decision, Policy, ScriptedPolicy
from spectator.policies.prompts import Briefing
from spectator.steppers import local

Observe = Literal["full", "delta", "text"]
"""The form of observations.

``full``: every one in full. ``delta``: the first in full, each later one as a merge patch (RFC 7396) of the
previous one. ``text``: the world's rendering, first in full, then only the lines that changed.
"""

OBSERVE: Final[tuple[Observe, ...]] = get_args(Observe)
"""Every form of observations, the default first."""


class AgentView:
    """Converts the observations of one episode for its agent, one after the other.

    Args:
        briefing: The briefing for the agent's seat.

    >>> from spectator.catalog import load_world
    >>> from spectator.observations import Observation
    >>> view = AgentView(load_world("counting").briefing, "delta")
    >>> first = view.shown(Observation("counter", (), {"turn": 0, "turns": 2, "next": 1}))
    >>> view.shown(Observation("counter", (), {"turn": 1, "turns": 2, "next": 2}))
    {'changed': {'turn': 1, 'next': 2}}
    """

    def __init__(self, briefing: Briefing, observe: Observe = "full") -> None:
        self._briefing = briefing
        self.observe = observe
        """The form of the observations."""
        self._before: dict[str, Any] | None = None
        self._opening: str | None = None
        self._tools: dict[str, Mapping[str, Any]] = {}
        self._situation = SituationLines(briefing)
        self._lines: dict[str, str] = {}  # the newest text of each line
        self._catalogue: ActionCatalogue | None = None

    def shown(self, observation: Observation) -> dict[str, Any]:
        """Convert the next observation, without reward, end and metadata.

        Returns:
            ``full``: the observation's members. ``delta``: ``{"whole": members}`` at first, then
            ``{"changed": patch}``. The members are the named lines of the world's rendering if it has any,
            with ``opening`` for what never changes, else the observation's members that are not null. In
            addition, ``legal`` names the legal actions, ``tools`` has the latest JSON schema of every tool
            that was legal so far, and ``refused`` says why the last action was refused. ``text``:
            ``{"text": text}``.
        """
        match self.observe:
            case "full":
                return observation.to_json()
            case "delta":
                return self._delta(observation)
            case "text":
                return {"text": self._text(observation)}

    def _delta(self, observation: Observation) -> dict[str, Any]:
        legal, refused = observation.legal_actions, observation.refused
        self._tools = {**self._tools, **{one["tool"]: one["arguments"] for one in legal}}
        now = self._members(observation)
        if refused is not None:
            now["refused"] = refused.to_json()
        if self._tools:
            now |= {"legal": [one["tool"] for one in legal], "tools": without_null(self._tools)}
        before, self._before = self._before, now
        return {"whole": now} if before is None else {"changed": make_patch(before, now)}

    def _members(self, observation: Observation) -> dict[str, Any]:
        """Return the world's named lines, or else the observation's members that are not null."""
        rendering = self._briefing.rendering
        if rendering.lines is None:
            members: dict[str, Any] = without_null({"actor": observation.actor, **observation.content})
            return members
        if self._opening is None:
            self._opening = "" if rendering.opening is None else rendering.opening(observation)
        lines = {"opening": self._opening, **rendering.lines(observation)}
        return {name: text for name, text in lines.items() if text and name not in rendering.in_full}

    def _text(self, observation: Observation) -> str:
        rendering = self._briefing.rendering
        legal = () if self._briefing.text_field is not None else self._briefing.legal(observation)
        lines = self._situation.lines(observation)
        refused = rejection_text(observation)
        if self._catalogue is not None:
            new = self._catalogue.learn(legal)
            lines |= {**new, **self._catalogue.lines(legal)}
            parts = [refused, changed_lines(self._lines, lines, rendering.in_full)]
        else:
            known = () if rendering.actions is None else rendering.actions(observation)
            self._catalogue = ActionCatalogue(known or legal)
            self._catalogue.learn(legal)
            lines |= self._catalogue.lines(legal) if legal else {}
            parts = [*self._beginning(observation, self._catalogue.listed), refused, all_lines(lines)]
        self._lines |= lines
        return "\n\n".join(part for part in parts if part)

    def _beginning(self, observation: Observation, listed: str) -> list[str]:
        """Return the text before the first situation."""
        briefing, opening = self._briefing, self._briefing.rendering.opening
        return [
            f"You decide for {observation.actor or ''!r}. {briefing.task}",
            briefing.rendering.guide,
            READING,
            f"Actions, each with the JSON schema of its arguments:\n{listed}" if listed else "",
            opening(observation) if opening is not None else "",
        ]


def briefing_for(briefing: Briefing) -> dict[str, str]:
    """Return an agent's ``task`` and the ``legend`` of its observations."""
    return {"task": briefing.task, "legend": briefing.rendering.guide}


OVER: Final = Refusal("episode.over", "The episode is over; reset to play again.")


class NoEpisode(EpisodeError):
    """There is no episode: reset was not called, or the episode failed."""

    def __init__(self) -> None:
        super().__init__("there is no episode; call reset first")


@dataclass(slots=True)
class _Game:
    """A running episode; ``turn`` counts all actors' actions, ``steps`` only the agent's."""

    plan: EpisodePlan
    profile: Profile
    episode_id: str
    environment: Environment
    others: Mapping[str, Policy]
    turn: int = 0
    steps: int = 0
    total: float = 0.0
    recorded: list[tuple[TurnFacts, Sequence[ModelCall]]] | None = None
    refusals: dict[str, int] = field(default_factory=dict)
    shown_at: float = 0.0


class SingleAgent:
    """A world for a single agent: ``reset``, ``step`` and ``state``, with policies in the other seats.

    The same seed, opponent and actions give the same episode as a live one, event for event. The reward of a
    step is the sum of the world's rewards since the agent's last action, so that all rewards add up to the
    score; worlds that reward only their end give 0.0 before it. ``done`` stays true, and any later action is
    refused. An episode longer than the world's step cap ends with ``metadata["truncated"]``.

    ``metadata`` of every observation contains ``rubric``, the parts of the score so far, and ``value``, the
    episode's current value: ``rubric["score"]`` if the world provides it, else the sum of rewards. At the end
    it is the score; for a truncated episode it is the value to credit. After ``reset`` it also contains
    ``brief``, the ``task`` and the ``legend`` of observations, unless the text begins with them.

    Synchronous; call it from one thread that runs no event loop. Opponents that wait run on a private loop.
    What needs an episode raises :class:`NoEpisode` if there is none.

    Args:
        world: Name in the catalogue.
        may_spend: Whether an opponent that costs money is allowed.
        decision_s: Time limit for an opponent's decision, in seconds.
        draw_seed: Draws a seed if none is given.
        new_id: Makes an id if none is given.

    Raises:
        InvalidRequest: There is no such world.
        ConfigurationError: The entry point does not name a world.

    >>> agent = SingleAgent("counting")
    >>> observation = agent.reset(seed=1, options={"turns": 1})
    >>> agent.step({"text": f"ACTION: {observation.content['next']}"}).reward
    1.0
    >>> agent.close()
    """

    def __init__(
        self,
        world: str,
        *,
        may_spend: bool = False,
        decision_s: float = 120.0,
        draw_seed: Callable[[], int] = lambda: secrets.randbelow(MAX_SEED + 1),
        new_id: Callable[[], str] = lambda: str(uuid.uuid4()),
    ) -> None:
        self.world: World = load_world(world)
        """The world."""
        self.agent = self.world.actors[0]
        """The actor whose decisions ``step`` takes."""
        self._environment: Environment | None = self.world.environment()
        self._may_spend = may_spend
        self._decision_s = decision_s
        self._draw_seed = draw_seed
        self._new_id = new_id
        self._loop: asyncio.Runner | None = None
        self._game: _Game | None = None
        self._seen: Observation | None = None
        self._view = AgentView(self.world.briefing)
        self.observe: Observe = self._view.observe
        """The form of :attr:`shown`."""
        self.tells = False
        """Whether :meth:`take_recorded` returns the episode's turns."""
        self._shown: Mapping[str, Any] | None = None
        self._facts: list[Fact] = []

    def reset(
        self,
        seed: int | None = None,
        episode_id: str | None = None,
        *,
        options: Mapping[str, Any] | None = None,
        opponent: str | None = None,
        pack: str = "default",
        tell: bool = False,
        observe: Observe = "full",
    ) -> Observation:
        """Begin a new episode and play until it is the agent's turn.

        Args:
            seed: 0 .. 2**53 - 1; ``None`` draws one, returned in ``metadata["seed"]``.
            episode_id: Echoed by ``state``; ``None`` makes one.
            options: The world's options; omitted ones take their defaults.
            opponent: Preset for every other seat; ``None`` for the world's default.
            tell: Whether :meth:`take_recorded` shall return the episode's turns.
            observe: The form of :attr:`shown`; the returned observation is always in full.

        Raises:
            InvalidRequest: A field is invalid; the running episode continues.
            EpisodeError: The opponent or the world failed; there is no episode any more.
        """
        if observe not in OBSERVE:
            raise InvalidRequest([FieldError("observe", f"must be one of {', '.join(OBSERVE)}")])
        name, asked = self.world.name, options or {}
        plan = self._plan(EpisodeRequest(name, None, opponent, pack, seed, Pace.MAX, options=asked))
        environment = self._end_episode()
        others = {actor: plan.policy(actor) for actor in self.world.actors if actor != self.agent}
        episode_id, profile = self._new_id() if episode_id is None else episode_id, plan.profile
        game = self._game = _Game(plan, profile, episode_id, environment, others)
        game.recorded = [] if tell else None
        try:
            seen = environment.reset(seed=plan.seed, episode_id=episode_id, options=plan.options)
            first = local.answered(environment, seen)
            opened = self._take(game, first, beginning=True)
            if game.recorded is not None:
                game.recorded.append(((0, list(self._facts)), ()))
            shown = self._play_on(game, opened)
        except BaseException:
            self.abandon()
            raise
        game.shown_at, self.tells = time.monotonic(), tell
        begun = {"episode_id": episode_id, "seed": plan.seed, "agent": self.agent}
        if profile != self.world.profile:
            begun["profile"] = profile.model_dump()
        self._view, self.observe = AgentView(self.world.briefing, observe), observe
        if observe != "text":
            begun["brief"] = briefing_for(self.world.briefing)
        return self._show(game, replace(shown, metadata={**shown.metadata, **begun}))

    def step(self, action: Action | Decision, *, reasoning: str = "") -> Observation:
        """Carry out the agent's action and play until its next turn or the end.

        Args:
            action: Plain JSON; the world refuses a malformed or illegal one, see ``refused``. A decision is
                recorded with its model calls.
            reasoning: The reason, for the record; the world does not see it.

        Raises:
            NoEpisode: There is no episode.
            EpisodeError: The opponent or the world failed; there is no episode any more.
            Exception: Any exception of the world; there is no episode any more.
        """
        game, seen = self._playing()
        self._facts = []
        if seen.done:
            game.steps += 1
            late = replace(seen, reward=0.0, refused=OVER, metadata=_lasting(seen.metadata))
            self._shown = self._view.shown(late)
            return late
        try:
            made = action if isinstance(action, Decision) else Decision(action, "remote", reasoning)
            decision = replace(made, latency_s=time.monotonic() - game.shown_at)
            shown = self._play_on(game, self._act(game, seen, decision))
        except BaseException:
            self.abandon()
            raise
        game.shown_at = time.monotonic()
        game.steps += 1
        return self._show(game, shown)

    @property
    def state(self) -> Mapping[str, Any]:
        """The world's public state, with ``step_count``: calls of ``step`` in this episode."""
        game, _ = self._playing()
        return {**game.environment.state, "episode_id": game.episode_id, "step_count": game.steps}

    @property
    def observation(self) -> Observation:
        """The agent's last observation."""
        return self._playing()[1]

    @property
    def shown(self) -> Mapping[str, Any]:
        """The agent's last observation in the form chosen at ``reset``; see :meth:`AgentView.shown`."""
        self._playing()
        assert self._shown is not None
        return self._shown

    def facts(self) -> Sequence[Fact]:
        """Return what happened during the last ``reset`` or ``step``, oldest first."""
        return tuple(self._facts)

    @property
    def plan(self) -> EpisodePlan:
        """The plan of the episode."""
        return self._playing()[0].plan

    def take_recorded(self) -> RecordedTurns:
        """Return what to record of the turns since the last call (with ``tell``), and the end.

        Raises:
            NoEpisode: There is no episode.
            EnvironmentFault: The score or the truth of the world breaks its contract.
        """
        game, seen = self._playing()
        if game.recorded is None:
            return RecordedTurns((), (), self._end(game, seen) if seen.done else None)
        recorded, game.recorded = game.recorded, []
        steps, calls = [step for step, _ in recorded], [calls for _, calls in recorded]
        if not seen.done:
            return RecordedTurns(steps, calls)
        truth = sealed(game.environment.truth()) if "truncated" not in seen.metadata else None
        return RecordedTurns(steps, calls, self._end(game, seen, truth), truth)

    def _end(self, game: _Game, seen: Observation, truth: str | None = None) -> EpisodeEnded:
        if "truncated" not in seen.metadata:
            ended = finished(game.total, game.environment.state, game.turn, game.profile, truth)
        else:
            ended = cut_short("step_cap", str(seen.metadata["truncated"]), game.turn)
        return with_total(ended, game.total, game.profile)

    def abandon(self) -> None:
        """Abandon the running episode; ``reset`` begins another in a new environment."""
        self._end_episode()
        self._environment = None

    def close(self) -> None:
        """Release all resources. Safe to call twice."""
        self.abandon()
        if self._loop is not None:
            self._loop.close()
            self._loop = None

    def _plan(self, request: EpisodeRequest) -> EpisodePlan:
        plan = plan_episode(request, draw_seed=self._draw_seed)
        asked = self.world.opponents.get(request.opponent or "")
        if asked is not None and asked.mirrors:
            rule = f"{asked.name!r} needs a captain in this process"
        elif plan.opponent is not None and plan.opponent.costs_money and not self._may_spend:
            rule = f"{plan.opponent.name!r} costs money and is not allowed here"
        else:
            return plan
        raise InvalidRequest([FieldError("opponent_choice", f"{rule}; use another opponent")])

    def _end_episode(self) -> Environment:
        """End the running episode; return an environment for the next."""
        game, self._game, self._seen, self._facts = self._game, None, None, []
        if game is not None:
            for policy in game.others.values():
                if not isinstance(policy, ScriptedPolicy):
                    self._runner().run(policy.aclose())
        if self._environment is None:
            self._environment = self.world.environment()
        return self._environment

    def _show(self, game: _Game, observation: Observation) -> Observation:
        """Set the agent's observation, with the episode's current value in its metadata."""
        over = observation.done and "truncated" not in observation.metadata
        rubric = observation.metadata.get("rubric")
        parts = dict(rubric) if isinstance(rubric, Mapping) else {}
        score = parts.setdefault("score", game.total)
        worth = {"rubric": parts, "value": game.total if over else score}
        self._seen = replace(observation, metadata={**observation.metadata, **worth})
        self._shown = self._view.shown(self._seen)
        return self._seen

    def _playing(self) -> tuple[_Game, Observation]:
        if self._game is None or self._seen is None:
            raise NoEpisode
        return self._game, self._seen

    def _act(self, game: _Game, asked: Observation, decision: Decision) -> Observation:
        game.turn += 1
        if game.recorded is None:
            return self._take(game, local.answered(game.environment, game.environment.step(decision.action)))
        actor, began = asked.actor or "", time.monotonic()
        action, decided = checked_decision(actor, decision, 0.0, asked.legal_actions)
        stepped = local.answered(game.environment, game.environment.step(action))
        answer, took = self._take(game, stepped), time.monotonic() - began
        facts = facts_of_step(actor, decided, stepped, took, game.refusals)
        game.recorded.append(((game.turn, facts), decision.calls))
        return answer

    def _take(self, game: _Game, stepped: Stepped, *, beginning: bool = False) -> Observation:
        check_contract(stepped, self.world, game.profile, beginning=beginning)
        game.total += stepped.observation.reward
        self._facts.extend(stepped.facts)
        return stepped.observation

    def _play_on(self, game: _Game, observation: Observation) -> Observation:
        """Play the other seats until the agent's turn or the end, summing up the rewards."""
        step_cap, reward = self.world.step_cap(game.plan.options), observation.reward
        while not observation.done and game.turn < step_cap and observation.actor != self.agent:
            decision = self._decide(game.others[observation.actor or ""], observation)
            observation = self._act(game, observation, decision)
            reward += observation.reward
        if not observation.done and game.turn >= step_cap:
            cut = {**observation.metadata, "truncated": f"cut short after {step_cap} turns"}
            return replace(observation, actor=None, legal_actions=(), reward=reward, done=True, metadata=cut)
        return observation if reward == observation.reward else replace(observation, reward=reward)

    def _decide(self, policy: Policy, observation: Observation) -> Decision:
        """Ask the policy of another seat.

        Raises:
            PolicyError: It could not decide.
            DecisionTimeout: It did not decide in time.
        """
        said = f"{observation.actor} could not decide"
        with typed_as(
            lambda error: PolicyError(f"{said}: {type(error).__name__}"), passing=(DecisionTimeout,)
        ):
            if isinstance(policy, ScriptedPolicy):
                return policy.choose(observation)
            return self._runner().run(self._within(policy, observation))

    async def _within(self, policy: Policy, observation: Observation) -> Decision:
        try:
            async with asyncio.timeout(self._decision_s) as scope:
                return await policy.decide(observation, deadline=self._decision_s)
        except TimeoutError as error:
            if not scope.expired():
                raise
            late = f"{observation.actor} did not decide within {self._decision_s:g} s"
            raise DecisionTimeout(late) from error

    def _runner(self) -> asyncio.Runner:
        if self._loop is None:
            self._loop = asyncio.Runner()
        return self._loop


def _lasting(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata that stays valid after the end."""
    return {name: metadata[name] for name in ("rubric", "value", "truncated") if name in metadata}
