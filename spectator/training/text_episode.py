"""One episode for a trainer: answers or tool calls in, text and values out."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Literal

from spectator.episodes.single_agent import OVER, NoEpisode, SingleAgent
from spectator.errors import FailureClass, FieldError, InvalidRequest
from spectator.journal.encoding import reply_message, wire_message
from spectator.journal.outline import OwnCount
from spectator.llm.answers import split_thought
from spectator.llm.chat import (
    ChatAnswer,
    ChatRequest,
    Conversation,
    FrozenMessage,
    FrozenPrefix,
    FrozenTools,
    Message,
    ToolCall,
)
from spectator.llm.exchanges import call_answered
from spectator.llm.tool_calls import CallRejected, ParsedCall, WrittenCall, check_call
from spectator.model_calls import ModelCall
from spectator.observations import LegalAction, Observation, Refusal
from spectator.policies.invalid_answers import InvalidAnswers
from spectator.policies.policy import Action, Decision
from spectator.policies.prompts import correction, form_of
from spectator.policies.turns import call_in, model_decision
from spectator.text import encodable

if TYPE_CHECKING:
    from spectator.training.recorded_run import RecordedEpisode, RecordedRun


CALL_A_TOOL: Final = "Call one of the tools that are offered, with arguments that fit its schema."
"""The form of answers where the world's tools are offered."""


class RecordedDialogue:
    """The conversation of a recorded episode; makes the model call of each answer.

    Args:
        text: The first message.
    """

    def __init__(self, text: str) -> None:
        self._said: list[Message] = []
        self._beginning = FrozenPrefix()
        self._asks: str | None = None
        self.hear(text)

    def open_with(self, messages: Sequence[Message]) -> None:
        """Replace the first message by these."""
        self._said, self._beginning = [FrozenMessage(_encodable(one)) for one in messages], FrozenPrefix()

    def hear(self, text: str) -> None:
        """Add the next message to the model: a tool result after a tool call, else a user message."""
        said: Message = {"role": "user", "content": encodable(text)}
        if self._asks is not None:
            said = {"role": "tool", "tool_call_id": self._asks, "content": said["content"]}
        self._said.append(FrozenMessage(said))

    def next_id(self) -> str:
        """Return an id for the next tool call."""
        return f"call_{len(self._said)}"

    def say(self, answer: ChatAnswer, model: str, tools: Sequence[Mapping[str, Any]] = ()) -> ModelCall:
        """Add an answer; return its model call."""
        messages = Conversation(self._said, len(self._said), self._beginning)
        call = call_answered(ChatRequest(model=model, messages=messages, tools=tools), answer)
        self._said.append(FrozenMessage(wire_message(reply_message(call.reply or {}))))
        self._asks = answer.tool_calls[-1].id if answer.tool_calls else None
        return replace(call, measured={})


def _encodable(message: Message) -> Message:
    content = message.get("content")
    return {**message, "content": encodable(content)} if isinstance(content, str) else message


class TextEpisode:
    """A world for a model in training: one episode at a time, from one thread.

    A recorded episode keeps the model's words. ``use`` and ``answer`` make the model call from the episode's
    texts. An adapter that has the call, with messages, tokens and weight versions, passes it as ``calls``; an
    empty sequence means that the action is from the same answer as the last one.

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
        self._model = "" if run is None else run.model
        self._recorded: RecordedEpisode | None = None
        self._dialogue: RecordedDialogue | None = None
        self._offered: FrozenTools | None = None
        self._unused: Decision | None = None
        self._seen: Observation | None = None
        self.own: OwnCount
        self._rejected: int
        self._rejected_calls: list[ModelCall]
        self._refused: int
        self._total: float
        self._acted: bool
        self.world = self._agent.world
        """The world."""
        self.form = form_of(self.world.briefing, "json", 1)
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
        self._seen = self._agent.reset(
            seed, options={**self._options, **(options or {})}, opponent=self._opponent, pack=self._pack,
            observe="text", tell=self._run is not None,
        )  # fmt: skip
        self._begin_count()
        if self._run is not None:
            self._leave("another episode was started")
            self._recorded = self._run.begin(self._agent.plan)
            self._dialogue, self._offered, self._unused = RecordedDialogue(self.text), None, None
            self._recorded.own = self.own
            self._record()
        return self.text

    def open_with(self, messages: Sequence[Message]) -> None:
        """Set the first messages of the model, if they hold more than the text of ``reset``."""
        if self._dialogue is not None:
            self._dialogue.open_with(messages)

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

        It is 0 until the world has carried out an action of the model. ``None`` if the episode ended without
        a verdict at an answer that was not an action.
        """
        if self.ended_invalid:
            return self.value_if_stopped
        return float(self._seen.metadata["value"]) if self._seen is not None and self._acted else 0.0

    @property
    def value_if_stopped(self) -> float | None:
        """What the episode counts for if it ends now at an answer that is not an action."""
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

    def use(self, tool: str, arguments: Mapping[str, Any], calls: Sequence[ModelCall] | None = None) -> str:
        """Use a tool; calls that do not fit a legal tool are rejected and counted, and the text says why.

        Args:
            tool: Its name.
            arguments: Its arguments.
            calls: The model calls behind it, for the record.

        Returns:
            The changes, as text.

        Raises:
            NoEpisode: ``reset`` was not called.
            EpisodeError: The opponent or the world failed.
        """
        if calls is None and self._dialogue is not None and not self.done:
            written = json.dumps(dict(arguments), default=str, ensure_ascii=False)
            call = ToolCall(self._dialogue.next_id(), tool, encodable(written))
            self._offered = self._offered or FrozenTools(self.functions)
            calls = [self._said(ChatAnswer(text="", tool_calls=[call]), self._offered)]
        if self.done:
            return self.act({}, calls)
        try:
            named = check_call(WrittenCall(tool, arguments), self.world.briefing.legal(self.observation))
        except CallRejected as broken:
            return self.reject(str(broken), broken.failure_class, calls or (), form=CALL_A_TOOL)
        return self.act(self.world.briefing.as_action(named.tool, named.arguments), calls)

    def answer(self, text: str | ChatAnswer, calls: Sequence[ModelCall] | None = None) -> str:
        """Carry out the action in an answer; answers without one are rejected and counted.

        Args:
            text: The whole answer; a :class:`~spectator.llm.chat.ChatAnswer` also has its tokens.
            calls: The model calls behind it, for the record.

        Returns:
            The changes, as text.

        Raises:
            NoEpisode: ``reset`` was not called.
            EpisodeError: The opponent or the world failed.
        """
        if self.done:
            return self.act({})
        answer = ChatAnswer(text=text) if isinstance(text, str) else text
        if calls is None and self._dialogue is not None:
            thought, words = split_thought(answer.text)
            parts = [part for part in (answer.thought, thought) if part]
            calls = [self._said(replace(answer, text=words, thought="\n\n".join(parts)))]
        try:
            named = call_in(answer, self.world.briefing, self.observation)
        except CallRejected as broken:
            return self.reject(str(broken), broken.failure_class, calls or ())
        return self.act(self.world.briefing.as_action(named.tool, named.arguments), calls, named, "ok")

    def reject(
        self,
        rule: str,
        failure: FailureClass = "unparsable",
        calls: Sequence[ModelCall] = (),
        *,
        form: str | None = None,
    ) -> str:
        """Refuse an answer that is not an action: nothing happens, or the episode ends as its rule says.

        Args:
            rule: What was wrong with it, in words.
            failure: The kind of failure.
            calls: The model calls behind it, for the record.
            form: The form that the prompt asks for; default: :attr:`form`.

        Returns:
            The refusal, with the form that was asked for.
        """
        self._rejected += 1
        self.own.refused += 1
        self._refusal = correction(rule, form or self.form)
        self._seen = replace(self.observation, reward=0.0, refused=Refusal("answer.form", rule))
        self._rejected_calls += calls
        if self._dialogue is not None:
            self._dialogue.hear(self.text)
        if self._rejected > self._invalid.invalid_retries:
            self.own.asked += 1
            self._end(failure, rule)
        return self._refusal

    @property
    def sent_back(self) -> bool:
        """Whether the last answer was not an action, so that the model is asked again or was penalised."""
        return self._rejected > 0

    def stop(self, rule: str, calls: Sequence[ModelCall] = ()) -> None:
        """End, as the rule for answers that are not actions says, where the model cannot be asked again.

        Does nothing if the episode is over.

        Args:
            rule: What was wrong with the last answer, in words.
            calls: The model calls behind it, for the record, if it was not rejected yet.
        """
        if self.done:
            return
        if calls or not self._rejected:
            self._rejected += 1
            self._rejected_calls += calls
            self.own.refused += 1
        self.own.asked += 1
        self._end("unparsable", rule)

    def _said(self, answer: ChatAnswer, tools: Sequence[Mapping[str, Any]] = ()) -> ModelCall:
        assert self._dialogue is not None and self._run is not None
        return self._dialogue.say(self._versioned(answer), self._run.model, tools)

    def call(self, messages: Sequence[Message], answer: ChatAnswer) -> ModelCall | None:
        """Return the model call of an answer with tools; ``None`` if the episode is not recorded.

        Args:
            messages: The conversation that was sent.
            answer: The answer.
        """
        if self._run is None:
            return None
        self._offered = self._offered or FrozenTools(self.functions)
        request = ChatRequest(model=self._run.model, messages=messages, tools=self._offered)
        return replace(call_answered(request, self._versioned(answer)), measured={})

    def _versioned(self, answer: ChatAnswer) -> ChatAnswer:
        version = None if self._run is None else self._run.weight_version
        if version is None or answer.weight_versions:
            return answer
        return replace(answer, weight_versions=[(version, len(answer.token_ids or ()))])

    def act(
        self,
        action: Action,
        calls: Sequence[ModelCall] | None = None,
        named: ParsedCall | None = None,
        parse: Literal["ok", "failed"] | None = None,
    ) -> str:
        """Carry out an action, which need not be legal; return the changes as text.

        Args:
            action: Plain JSON.
            calls: The model calls behind it, for the record; ``None`` if no model is known to have decided.
            named: The call in the answer, with its reason.
            parse: How the answer became the action.
        """
        if self.ended_invalid:
            return OVER.message
        was_done = self.done
        recorded = self._recorded is not None and calls is not None and not was_done
        behind = [*self._rejected_calls, *(calls or ())]
        decision = model_decision(action, behind, self._model, named, parse) if recorded else action
        try:
            self._seen = self._agent.step(decision)
        except Exception as error:
            if self._recorded is not None and not isinstance(error, NoEpisode):
                self._recorded.fail(str(error), decision if isinstance(decision, Decision) else None)
            raise
        refused = self._seen.refused is not None
        self._acted |= not refused
        self._refusal, self._rejected = "", 0
        self._rejected_calls = []
        self._refused = self._refused + 1 if refused else 0
        self._total += self._seen.reward
        if not was_done:
            self.own.asked += 1
            self.own.own += 1
            self.own.refused += refused
        self._record()
        if self._dialogue is not None:
            self._dialogue.hear(self.text)
        if self._refused > self._invalid.invalid_retries and not self.done:
            self._end("illegal_action", f"{self._refused} actions in a row were refused")
        return self.text

    def _begin_count(self) -> None:
        self._rejected_calls = []
        self._refusal, self._rejected, self._refused, self._total = "", 0, 0, 0.0
        self._acted = False
        self.own = OwnCount()
        """How many decisions the model made itself in this episode."""
        self.ended_invalid = False
        """Whether the episode ended at an answer that was not an action."""

    def _end(self, failure: FailureClass, why: str) -> None:
        """End at an answer that was not an action; the rewards add up to the penalty."""
        self.ended_invalid = True
        if (penalty := self._invalid.penalty) is not None:
            self._seen = replace(self.observation, reward=self.observation.reward + penalty - self._total)
        if self._recorded is not None:
            masked = self._invalid.on_invalid == "mask"
            calls = self._rejected_calls
            unused = model_decision({}, calls, self._model) if calls else None
            self._recorded.end_invalid(failure, why, penalty=penalty, masked=masked, unused=unused)

    def note_unused(self, calls: Sequence[ModelCall]) -> None:
        """Record an answer that leads to no action with the end of the episode."""
        if self._recorded is not None and not self.done:
            self._unused = model_decision({}, calls, self._model)

    def fail(self, detail: str) -> None:
        """If the episode is recorded, record an end as failed, without a score."""
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
            self._recorded.leave(detail, self._unused)
            self._recorded = self._dialogue = None


def _function(name: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    rules = {name: rule for name, rule in schema.items() if name != "description"}
    parameters = {"type": "object", **rules}
    about = str(schema.get("description", name))
    return {"type": "function", "function": {"name": name, "description": about, "parameters": parameters}}
