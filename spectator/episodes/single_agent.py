"""Play one seat of a world; the opponent's policy plays the others.

An agent is shown every observation whole, what changed since the last one, or text.
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
from spectator.events import EpisodeEnded, Fact
from spectator.json_values import make_patch
from spectator.model_calls import ModelCall
from spectator.observations import Observation, Profile, Refusal
from spectator.policies.dialogue import READING, SituationLines, all_lines, changed_lines, rejection_text
from spectator.policies.policy import Action, Decision, Policy, ScriptedPolicy
from spectator.policies.prompts import ActionCatalogue, Briefing
from spectator.steppers import local

Observe = Literal["full", "delta", "text"]
"""How observations are shown.

``full``: every one whole. ``delta``: the first whole, each later one as a merge patch (RFC 7396) of the one
before. ``text``: the world's own rendering, whole at first, then the lines that changed.
"""

OBSERVE: Final[tuple[Observe, ...]] = get_args(Observe)
"""Every way to show observations, the default first."""


class AgentView:
    """Shows the observations of one episode to its agent, one after the other.

    Args:
        briefing: What is known of the agent's seat.
        observe: How they are shown.

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
        """How they are shown."""
        self._before: dict[str, Any] | None = None
        self._opening: str | None = None
        self._tools: dict[str, Mapping[str, Any]] = {}
        self._telling = SituationLines(briefing)
        self._told: dict[str, str] = {}
        self._catalogue: ActionCatalogue | None = None

    def shown(self, observation: Observation) -> dict[str, Any]:
        """The next observation as the agent sees it, reward, end and metadata beside it left out.

        Returns:
            ``full``: the observation's own members. ``delta``: ``{"whole": members}`` at first, then
            ``{"changed": patch}``. The members are the named lines of the world's rendering where it has
            some, with ``opening`` for what never changes, and else those of the observation, without those
            that are null; beside them ``legal`` names what is legal, ``tools`` holds the JSON schema of
            every tool that was legal so far, as it was last, and ``refused`` why the last action was
            refused. ``text``: ``{"text": text}``.
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
            now |= {"legal": [one["tool"] for one in legal], "tools": _without_null(self._tools)}
        before, self._before = self._before, now
        return {"whole": now} if before is None else {"changed": make_patch(before, now)}

    def _members(self, observation: Observation) -> dict[str, Any]:
        """What is told as members: the world's own lines, or else the observation's, null ones left out."""
        rendering = self._briefing.rendering
        if rendering.lines is None:
            members: dict[str, Any] = _without_null({"actor": observation.actor, **observation.content})
            return members
        if self._opening is None:
            self._opening = "" if rendering.opening is None else rendering.opening(observation)
        lines = {"opening": self._opening, **rendering.lines(observation)}
        return {name: text for name, text in lines.items() if text and name not in rendering.in_full}

    def _text(self, observation: Observation) -> str:
        rendering = self._briefing.rendering
        legal = () if self._briefing.text_field is not None else self._briefing.legal(observation)
        lines = self._telling.lines(observation)
        refused = rejection_text(observation)
        if self._catalogue is not None:
            new = self._catalogue.learn(legal)
            lines |= {**new, **self._catalogue.lines(legal)}
            parts = [refused, changed_lines(self._told, lines, rendering.in_full)]
        else:
            known = () if rendering.actions is None else rendering.actions(observation)
            self._catalogue = ActionCatalogue(known or legal)
            self._catalogue.learn(legal)
            lines |= self._catalogue.lines(legal) if legal else {}
            parts = [*self._beginning(observation, self._catalogue.listed), refused, all_lines(lines)]
        self._told |= lines
        return "\n\n".join(part for part in parts if part)

    def _beginning(self, observation: Observation, listed: str) -> list[str]:
        """What stands before the first situation."""
        briefing = self._briefing
        opening = briefing.rendering.opening
        return [
            f"You decide for {observation.actor or ''!r}. {briefing.task}",
            briefing.rendering.guide,
            READING,
            f"Actions, each with the JSON schema of its arguments:\n{listed}" if listed else "",
            opening(observation) if opening is not None else "",
        ]


def _without_null(value: Any) -> Any:
    """``value`` without the members of objects that are null; a merge patch takes null for removal."""
    if isinstance(value, Mapping):
        return {name: _without_null(member) for name, member in value.items() if member is not None}
    return value


def briefing_for(briefing: Briefing) -> dict[str, str]:
    """What an agent is told once: its ``task``, and the ``legend`` of what it is shown."""
    return {"task": briefing.task, "legend": briefing.rendering.guide}


OVER: Final = Refusal("episode.over", "The episode is over; reset to play again.")


class NoEpisode(EpisodeError):
    """There is nothing to step: reset was not called, or the episode broke down."""

    def __init__(self) -> None:
        super().__init__("no episode is being played; reset first")


@dataclass(slots=True)
class _Game:
    """One episode under way; ``turn`` counts every actor's, ``steps`` the agent's alone."""

    plan: EpisodePlan
    profile: Profile
    episode_id: str
    environment: Environment
    others: Mapping[str, Policy]
    turn: int = 0
    steps: int = 0
    total: float = 0.0
    told: list[tuple[TurnFacts, Sequence[ModelCall]]] | None = None
    refusals: dict[str, int] = field(default_factory=dict)
    shown_at: float = 0.0


class SingleAgent:
    """A world as one agent sees it: ``reset``, ``step``, ``state``, whoever else plays in it.

    The same seed, opponent and actions give the same episode as a live one, event for event. The reward of a
    step is the sum of the world's rewards since the agent's last action, so that all of them add up to the
    score; worlds that reward only their end give 0.0 before it. ``done`` is sticky: any later action is
    refused. An episode longer than the world's step cap ends with ``metadata["truncated"]``.

    ``metadata`` of every observation holds ``rubric``, the parts of the score so far, and ``value``: what the
    episode is worth so far, by ``rubric["score"]`` where the world tells it, else by the rewards; at the end
    it is the score, and where an episode was truncated what it can be credited with. After ``reset`` it holds
    ``brief`` as well, the ``task`` and the ``legend`` of what is shown, unless the text begins with them.

    Synchronous; every call comes from one thread that runs no event loop. An opponent that has to wait for
    something is run on a private loop.

    Args:
        world: Name in the catalogue; loaded here.
        may_spend: Whether an opponent that costs money may be asked for.
        decision_s: Seconds an opponent may take for one decision.
        draw_seed: Draws a seed when none is given.
        new_id: Makes an id when none is given.
        monotonic: Measures how long decisions and steps take, where that is told.

    Raises:
        InvalidRequest: There is no such world.
        ConfigurationError: The name belongs to something that is no world.

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
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.world: World = load_world(world)
        """The world that is played."""
        self.agent = self.world.actors[0]
        """The actor whose decisions ``step`` takes."""
        self._environment: Environment | None = self.world.environment()
        self._may_spend = may_spend
        self._decision_s = decision_s
        self._draw_seed = draw_seed
        self._new_id = new_id
        self._monotonic = monotonic
        self._loop: asyncio.Runner | None = None
        self._game: _Game | None = None
        self._seen: Observation | None = None
        self._view = AgentView(self.world.briefing)
        self.observe: Observe = self._view.observe
        """How :attr:`shown` shows observations."""
        self.tells = False
        """Whether :meth:`take_recorded` has the episode as a record tells it."""
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
        """Begin a new episode and play on until the agent is asked.

        Args:
            seed: 0 .. 2**53 - 1; ``None`` has one drawn, told in ``metadata["seed"]``.
            episode_id: Echoed by ``state``; ``None`` has one made.
            options: The world's options; those left out take their defaults.
            opponent: Preset that takes every other seat; ``None`` for the world's default.
            pack: Evaluation pack.
            tell: Whether :meth:`take_recorded` is to have the episode as a record tells it.
            observe: How :attr:`shown` shows observations; what is returned is always whole.

        Raises:
            InvalidRequest: A field is wrong; the episode under way goes on.
            EpisodeError: The opponent or the world failed; nothing is being played any more.
        """
        if observe not in OBSERVE:
            raise InvalidRequest([FieldError("observe", f"must be one of {', '.join(OBSERVE)}")])
        name, asked = self.world.name, options or {}
        plan = self._plan(EpisodeRequest(name, None, opponent, pack, seed, Pace.MAX, options=asked))
        environment = self._let_go()
        others = {actor: plan.policy(actor) for actor in self.world.actors if actor != self.agent}
        episode_id = self._new_id() if episode_id is None else episode_id
        profile = plan.profile
        game = self._game = _Game(plan, profile, episode_id, environment, others, told=[] if tell else None)
        try:
            seen = environment.reset(seed=plan.seed, episode_id=episode_id, options=plan.options)
            first = local.answered(environment, seen)
            opened = self._take(game, first, beginning=True)
            if game.told is not None:
                game.told.append(((0, list(self._facts)), ()))
            shown = self._play_on(game, opened)
        except BaseException:
            self.abandon()
            raise
        game.shown_at, self.tells = self._monotonic(), tell
        begun = {"episode_id": episode_id, "seed": plan.seed, "agent": self.agent}
        if profile != self.world.profile:
            begun["profile"] = profile.model_dump()
        self._view, self.observe = AgentView(self.world.briefing, observe), observe
        if observe != "text":
            begun["brief"] = briefing_for(self.world.briefing)
        return self._show(game, replace(shown, metadata={**shown.metadata, **begun}))

    def step(self, action: Action, *, reasoning: str = "") -> Observation:
        """Carry out the agent's action and play on until it is asked again, or all is over.

        Args:
            action: Plain JSON; one that is malformed or illegal is refused by the world, under ``refused``.
            reasoning: Why, for the record; the world does not see it.

        Raises:
            NoEpisode: There is nothing to step.
            EpisodeError: The opponent or the world failed; nothing is being played any more.
            Exception: Whatever the world raised; nothing is being played any more.
        """
        game, seen = self._playing()
        self._facts = []
        if seen.done:
            game.steps += 1
            late = replace(seen, reward=0.0, refused=OVER, metadata=_lasting(seen.metadata))
            self._shown = self._view.shown(late)
            return late
        try:
            decision = Decision(action, "remote", reasoning, latency_s=self._monotonic() - game.shown_at)
            shown = self._play_on(game, self._act(game, seen, decision))
        except BaseException:
            self.abandon()
            raise
        game.shown_at = self._monotonic()
        game.steps += 1
        return self._show(game, shown)

    @property
    def state(self) -> Mapping[str, Any]:
        """The world's public state, with ``step_count``: calls of ``step`` in this episode.

        Raises:
            NoEpisode: There is none.
        """
        game, _ = self._playing()
        return {**game.environment.state, "episode_id": game.episode_id, "step_count": game.steps}

    @property
    def observation(self) -> Observation:
        """What the agent saw last.

        Raises:
            NoEpisode: There is none.
        """
        return self._playing()[1]

    @property
    def shown(self) -> Mapping[str, Any]:
        """What the agent saw last, as ``reset`` was asked to show it; see :meth:`AgentView.shown`.

        Raises:
            NoEpisode: There is none.
        """
        self._playing()
        assert self._shown is not None
        return self._shown

    def facts(self) -> Sequence[Fact]:
        """What happened during the last ``reset`` or ``step``, whoever did it, oldest first."""
        return tuple(self._facts)

    @property
    def plan(self) -> EpisodePlan:
        """What is played.

        Raises:
            NoEpisode: Nothing is.
        """
        return self._playing()[0].plan

    def take_recorded(self) -> RecordedTurns:
        """What a record tells of the turns since the last call, if :meth:`reset` was asked to, and the end.

        Raises:
            NoEpisode: Nothing is being played.
            EnvironmentFault: The score or the truth of the world breaks its contract.
        """
        game, seen = self._playing()
        if game.told is None:
            return RecordedTurns((), (), self._end(game, seen) if seen.done else None)
        told, game.told = game.told, []
        steps, calls = [step for step, _ in told], [calls for _, calls in told]
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
        """Give up the episode under way; ``reset`` begins another in a new environment."""
        self._let_go()
        self._environment = None

    def close(self) -> None:
        """Let go of everything. Safe to call twice."""
        self.abandon()
        if self._loop is not None:
            self._loop.close()
            self._loop = None

    def _plan(self, request: EpisodeRequest) -> EpisodePlan:
        plan = plan_episode(request, draw_seed=self._draw_seed)
        asked = self.world.opponents.get(request.opponent or "")
        if asked is not None and asked.mirrors:
            rule = f"{asked.name!r} needs a captain that plays here; the agent decides elsewhere"
            raise InvalidRequest([FieldError("opponent_choice", rule)])
        if plan.opponent is not None and plan.opponent.costs_money and not self._may_spend:
            rule = f"{plan.opponent.name!r} costs money and cannot be asked for here"
            raise InvalidRequest([FieldError("opponent_choice", rule)])
        return plan

    def _let_go(self) -> Environment:
        """End the episode under way; returns an environment for the next."""
        game, self._game, self._seen, self._facts = self._game, None, None, []
        if game is not None:
            for policy in game.others.values():
                if not isinstance(policy, ScriptedPolicy):
                    self._runner().run(policy.aclose())
        if self._environment is None:
            self._environment = self.world.environment()
        return self._environment

    def _show(self, game: _Game, observation: Observation) -> Observation:
        """Keep what the agent sees next, and say what the episode is worth so far."""
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
        if game.told is None:
            stepped = local.answered(game.environment, game.environment.step(decision.action))
            return self._take(game, stepped)
        actor, began = asked.actor or "", self._monotonic()
        action, decided = checked_decision(actor, decision, 0.0, asked.legal_actions)
        stepped = local.answered(game.environment, game.environment.step(action))
        answer = self._take(game, stepped)
        took = self._monotonic() - began
        facts = facts_of_step(actor, decided, stepped, took, game.refusals)
        game.told.append(((game.turn, facts), decision.calls))
        return answer

    def _take(self, game: _Game, stepped: Stepped, *, beginning: bool = False) -> Observation:
        check_contract(stepped, self.world, game.profile, beginning=beginning)
        game.total += stepped.observation.reward
        self._facts.extend(stepped.facts)
        return stepped.observation

    def _play_on(self, game: _Game, observation: Observation) -> Observation:
        """Play the other seats until the agent is asked or all is over; the rewards meanwhile add up."""
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
        """Ask another seat.

        Raises:
            PolicyError: It could not decide.
            DecisionTimeout: It did not, in time.
        """
        actor = observation.actor
        with typed_as(
            lambda error: PolicyError(f"{actor} could not decide: {type(error).__name__}"),
            passing=(DecisionTimeout,),
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
            raise DecisionTimeout(
                f"{observation.actor} did not decide within {self._decision_s:g} s"
            ) from error

    def _runner(self) -> asyncio.Runner:
        if self._loop is None:
            self._loop = asyncio.Runner()
        return self._loop


def _lasting(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """What stays true of an episode that is over."""
    return {name: metadata[name] for name in ("rubric", "value", "truncated") if name in metadata}
