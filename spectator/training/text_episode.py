"""One episode for a trainer: answers or tool calls in, text and values out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from spectator.episodes.single_agent import OVER, NoEpisode, SingleAgent
from spectator.errors import FailureClass, FieldError, InvalidRequest
from spectator.journal.outline import OwnCount
from spectator.llm.tool_calls import CallRejected
from spectator.observations import LegalAction, Observation, Refusal
from spectator.policies.invalid_answers import InvalidAnswers
from spectator.policies.policy import Action
from spectator.policies.prompts import TEXT_ALONE, answer_form, correction
from spectator.policies.turns import action_in

if TYPE_CHECKING:
    from spectator.training.recorded_run import RecordedEpisode, RecordedRun


class TextEpisode:
    """A world for a model in training: one episode at a time, from one thread.

    Args:
        world: Name in the catalogue.
        options: The world's options, for every episode; omitted ones have their defaults.
        opponent: Preset for all other seats; ``None`` for the world's default.
        pack: Evaluation pack.
        run: Run that records the episodes; optional.
        invalid: What an answer that is not an action does; ``fallback`` is not possible here. By default the
            model is asked again once, and then penalised.

    Raises:
        InvalidRequest: The world is unknown, or ``invalid`` asks for a fallback.

    >>> episode = TextEpisode("counting", {"turns": 2})
    >>> prompt = episode.reset(seed=1)
    >>> episode.use("say", {"text": "ACTION: 1"})
    'Changed:\\nturn: 1\\nnext: 2'
    >>> text = episode.answer('{"tool": "say", "arguments": {"text": "ACTION: 2"}}')
    >>> episode.value, episode.done
    (1.0, True)
    >>> prompt = episode.reset(seed=1)
    >>> said = [episode.answer("lorem ipsum") for _ in range(2)]
    >>> episode.value, episode.done, episode.own.share
    (0.0, True, 0.0)
    """

    def __init__(
        self,
        world: str,
        options: Mapping[str, Any] | None = None,
        *,
        opponent: str | None = None,
        pack: str = "default",
        run: RecordedRun | None = None,
        invalid: InvalidAnswers | None = None,
    ) -> None:
        self._invalid = invalid or InvalidAnswers()
        if self._invalid.on_invalid == "fallback":
            rule = "must be penalize, mask or end: no scripted captain decides for a trainer's own agent"
            raise InvalidRequest([FieldError("on_invalid", rule)])
        self._agent = SingleAgent(world)
        self._options = dict(options or {})
        self._opponent = opponent
        self._pack = pack
        self._run = run
        self._recorded: RecordedEpisode | None = None
        self._seen: Observation | None = None
        self._rejected: int
        self._refused: int
        self._total: float
        self.world = self._agent.world
        """The world."""
        free = self.world.briefing.text_field is not None
        self.form = TEXT_ALONE if free else answer_form("json", several=False)
        """The form of answers, as the prompt asks for it."""
        self._begin_count()

    def reset(self, seed: int | None = None, options: Mapping[str, Any] | None = None) -> str:
        """Begin an episode.

        Args:
            seed: 0 .. 2**53 - 1; ``None`` for a random one.
            options: Further options, for this episode.

        Returns:
            The brief and the whole situation, as text.

        Raises:
            InvalidRequest: An option is invalid; the current episode continues.
            EpisodeError: The opponent or the world failed.
        """
        recorded = self._run is not None
        self._seen = self._agent.reset(
            seed,
            options={**self._options, **(options or {})},
            opponent=self._opponent,
            pack=self._pack,
            observe="text",
            tell=recorded,
        )
        self._begin_count()
        if self._run is not None:
            self._leave("another episode was started")
            self._recorded = self._run.begin(self._agent.plan)
            self._recorded.own = self.own
            self._record()
        return self.text

    @property
    def observation(self) -> Observation:
        """The complete last observation.

        Raises:
            NoEpisode: ``reset`` was not called.
        """
        return self._agent.observation if self._seen is None else self._seen

    @property
    def text(self) -> str:
        """The last observation as text for the model, or why its answer was refused."""
        return self._refusal or str(self._agent.shown["text"])

    @property
    def done(self) -> bool:
        """Whether the episode is over, or none was started."""
        return self.ended_invalid or self._seen is None or self._seen.done

    @property
    def truncated(self) -> bool:
        """Whether the episode was cut short."""
        return self.ended_invalid or (self._seen is not None and "truncated" in self._seen.metadata)

    @property
    def penalised(self) -> bool:
        """Whether it ended with a penalty, at an answer that was not an action but may be trained on."""
        return self.ended_invalid and self._invalid.penalty is not None

    @property
    def value(self) -> float | None:
        """Value of the episode so far; at its end the score, or its penalty.

        ``None`` if it ended without a verdict at an answer that was not an action.
        """
        if not self.ended_invalid:
            return 0.0 if self._seen is None else float(self._seen.metadata["value"])
        if self._invalid.on_invalid == "mask" and self._agent.plan.profile.rewards == "step":
            return self._total
        return self._invalid.penalty

    @property
    def rubric(self) -> dict[str, float]:
        """The parts of the score so far."""
        return {} if self._seen is None else dict(self._seen.metadata["rubric"])

    @property
    def tools(self) -> Sequence[LegalAction]:
        """Every tool of the world, by default those that are legal at the beginning."""
        world = self.world
        if world.standing or world.tools:
            return world.standing or world.tools
        if self._seen is None:
            self.reset(seed=0)
        return self.observation.legal_actions

    @property
    def playable(self) -> Sequence[LegalAction]:
        """The tools that may become legal in this episode, each with its widest schema.

        Raises:
            NoEpisode: ``reset`` was not called.
        """
        actions = self.world.briefing.rendering.actions
        return self.tools if actions is None else actions(self.observation)

    @property
    def functions(self) -> list[dict[str, Any]]:
        """:attr:`playable` in the form of chat completions.

        Raises:
            NoEpisode: ``reset`` was not called.
        """
        return [_function(one["tool"], one["arguments"]) for one in self.playable]

    def use(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """Use a tool; illegal calls are rejected and counted, and the text says why.

        Returns:
            The changes, as text.

        Raises:
            NoEpisode: ``reset`` was not called.
            EpisodeError: The opponent or the world failed.
        """
        return self.act(self.world.briefing.as_action(tool, arguments))

    def answer(self, text: str) -> str:
        """Carry out the action in a text; texts without one are rejected and counted."""
        if self.done:
            return self.act({})
        try:
            action = action_in(text, self.world.briefing, self.observation)
        except CallRejected as broken:
            return self.reject(str(broken), broken.failure_class)
        return self.act(action)

    def reject(self, rule: str, failure: FailureClass = "unparsable") -> str:
        """Refuse an answer that is not an action: nothing happens, or the episode ends as its rule says.

        Args:
            rule: What was wrong with it, in words.
            failure: The kind of failure.

        Returns:
            The refusal, with the form that was asked for.
        """
        self._rejected += 1
        self.own.refused += 1
        self._refusal = f"{correction(rule)}\n\n{self.form}"
        self._seen = replace(self.observation, reward=0.0, refused=Refusal("answer.form", rule))
        if self._rejected > self._invalid.invalid_retries:
            self.own.asked += 1
            self._end(failure, rule)
        return self._refusal

    def act(self, action: Action) -> str:
        """Carry out an action, which need not be legal; return the changes as text."""
        if self.ended_invalid:
            return OVER.message
        was_done = self.done
        try:
            self._seen = self._agent.step(action)
        except Exception as error:
            if self._recorded is not None and not isinstance(error, NoEpisode):
                self._recorded.fail(str(error))
            raise
        refused = self._seen.refused is not None
        self._refusal, self._rejected = "", 0
        self._refused = self._refused + 1 if refused else 0
        self._total += self._seen.reward
        if not was_done:
            self.own.asked += 1
            self.own.own += 1
            self.own.refused += refused
        self._record()
        if self._refused > self._invalid.invalid_retries and not self.done:
            self._end("illegal_action", f"{self._refused} actions in a row were refused")
        return self.text

    def _begin_count(self) -> None:
        self.own = OwnCount()
        """How many decisions the model made itself in this episode."""
        self.ended_invalid = False
        """Whether the episode ended at an answer that was not an action."""
        self._refusal, self._rejected, self._refused, self._total = "", 0, 0, 0.0

    def _end(self, failure: FailureClass, why: str) -> None:
        """End at an answer that was not an action; the rewards add up to the penalty."""
        self.ended_invalid = True
        if (penalty := self._invalid.penalty) is not None:
            self._seen = replace(self.observation, reward=self.observation.reward + penalty - self._total)
        if self._recorded is not None:
            masked = self._invalid.on_invalid == "mask"
            self._recorded.end_invalid(failure, why, penalty=penalty, masked=masked)

    def fail(self, detail: str) -> None:
        """If the episode is recorded, record an end as failed, without a score.

        Args:
            detail: The error, as text.
        """
        if self._recorded is not None:
            self._recorded.fail(detail)

    def close(self) -> None:
        """Release all resources. Safe to call twice."""
        self._leave("the agent was closed")
        self._agent.close()

    def _record(self) -> None:
        if self._recorded is not None:
            reward = self._agent.observation.reward or 0.0
            self._recorded.take(self._agent.take_recorded(), reward, self.value or 0.0)

    def _leave(self, detail: str) -> None:
        if self._recorded is not None:
            self._recorded.leave(detail)
            self._recorded = None


def _function(name: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    rules = {name: rule for name, rule in schema.items() if name != "description"}
    parameters = {"type": "object", **rules}
    about = str(schema.get("description", name))
    return {"type": "function", "function": {"name": name, "description": about, "parameters": parameters}}
