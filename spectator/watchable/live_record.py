"""The record of an episode as its loop tells of it: from messages of JSON to events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from spectator.clock import Clock
from spectator.episodes.run.step_events import cut_short
from spectator.events import EpisodeEnded, Fact, RecordedEvent, Warned, core_fact, encode_json
from spectator.importing.foreign import ForeignEpisode, ForeignTurn, NotReadable
from spectator.importing.foreign_record import (
    SHOWN,
    ForeignRecord,
    rewards_of,
    said_fact,
    started_fact,
    step_fact,
    words_of,
)
from spectator.importing.formats.each_row import UNEXPECTED
from spectator.importing.messages import message_of, messages_of, tools_of
from spectator.importing.values import count, integers, number, reals, text, usage_of
from spectator.journal.attachments import Attachments
from spectator.journal.chat_form import ChatMessage
from spectator.text import clean_text

NOTE: Final = 500
"""Characters of a warning that is recorded."""


class LiveRecord:
    """One episode, recorded while it is played.

    Args:
        episode_id: Its id.
        begin: What its loop said when it began.
        run: The run that it belongs to.
        clock: Stamps its events.
    """

    def __init__(self, episode_id: str, begin: Mapping[str, Any], run: str, clock: Clock) -> None:
        self.episode_id = episode_id
        self.ended = False
        """Whether its end was told."""
        self._clock = clock
        self._record = ForeignRecord(episode_id, clock.now())
        self._episode = ForeignEpisode(
            key=[episode_id],
            environment=text(begin.get("environment")),
            title=text(begin.get("environment")),
            turns=(),
            agent=text(begin.get("agent")) or "Agent",
            group=text(begin.get("group")) or None,
            seed=count(begin.get("seed")),
            tools=tools_of(begin.get("tools")),
        )
        self._turn = 0
        self._told_task = False
        self._asked: list[ChatMessage] = []
        self._total: float | None = None
        self._record.add(
            0, [started_fact(self._episode, run, rewards_of(stepwise=True), source="remote"), *_notes(begin)]
        )
        if "observation" in begin:
            self._show_task(_words(begin["observation"]))

    def take(self) -> tuple[Sequence[RecordedEvent], Attachments | None]:
        """What is to be recorded since the last look."""
        events, calls = self._record.take()
        return events, Attachments(calls=calls) if any(calls) else None

    def step(self, told: Mapping[str, Any]) -> None:
        """A step was taken; what of it cannot be read is said in a warning, and the rest is recorded."""
        self._record.at = self._clock.now()
        self._turn += 1
        reward, wrong = number(told.get("reward")), list(_notes(told))
        try:
            facts = [self._answered(told)]
        except UNEXPECTED as error:
            wrong.append(_warning(f"Step {self._turn}: {error}; what the model was asked is not shown."))
            facts = [self._done(told)]
        if reward is not None:
            self._total = (self._total or 0.0) + reward
        facts.append(said_fact(_words(told.get("observation", "")), reward, self._total, 0))
        if reward is not None:
            facts.append(step_fact(reward, {}, last=False, done=False))
        self._record.add(self._turn, [*facts, *wrong])

    def end(self, told: Mapping[str, Any]) -> None:
        """It is over."""
        self._record.at = self._clock.now()
        self._turn = max(self._turn, count(told.get("steps")) or 0)
        total, left_out = number(told.get("total")), count(told.get("left_out")) or 0
        facts = [*_notes(told)]
        if left_out:
            steps = f"{left_out} of its {self._turn} steps are" if left_out > 1 else "One of its steps is"
            facts.append(_warning(f"{steps} not recorded: the loop was faster than its recorder."))
        facts.append(core_fact(self._ended(told, total)))
        self._record.add(self._turn, facts)
        self.ended = True

    def break_off(self, detail: str) -> None:
        """Nobody says any more what becomes of it."""
        if not self.ended:
            self.end({"reason": "interrupted", "detail": detail})

    def _show_task(self, words: str) -> None:
        self._told_task = True
        self._record.add(0, [said_fact(words, None, None, 0)])

    def _show_question(self, answer: ForeignTurn) -> None:
        """Show what was asked beyond what is shown already."""
        asked, known = list(answer.asked), self._asked
        fresh = asked[len(known) :] if asked[: len(known)] == known else asked
        self._asked = asked
        words = words_of([one for one in fresh if one["role"] != "assistant"])
        if not self._told_task:
            self._show_task(words)
        elif words and self._turn > 1:
            self._record.add(self._turn - 1, [said_fact(words, None, self._total, 0)])

    def _answered(self, told: Mapping[str, Any]) -> Fact:
        answer = _answer(told)
        if answer is None:
            return self._done(told)
        decided = self._record.decided(self._episode, answer)
        self._show_question(answer)
        given: dict[str, Any] = {"latency_s": answer.latency_s}
        if told.get("action") is not None:
            given["action"] = _bounded(told["action"])
        return core_fact(decided.model_copy(update=given))

    def _done(self, told: Mapping[str, Any]) -> Fact:
        return core_fact(self._record.done(_bounded(told.get("action")), _took_s(told)))

    def _ended(self, told: Mapping[str, Any], total: float | None) -> EpisodeEnded:
        detail = text(told.get("detail")) or None
        match told.get("reason"):
            case "environment_error":
                return cut_short("environment_error", detail, self._turn, "unknown")
            case "interrupted":
                return cut_short("interrupted", detail, self._turn)
            case "step_cap":
                return cut_short("step_cap", detail, self._turn).model_copy(update={"total_reward": total})
        steps = f"{self._turn} step{'' if self._turn == 1 else 's'}"
        earned = "no reward" if total is None else f"{total:g} reward"
        known = {} if total is None else {"total_reward": total}
        return EpisodeEnded(
            reason="finished",
            score=total,
            result=clean_text(text(told.get("result")) or f"{earned} in {steps}", 300),
            turns=self._turn,
            terminated=True,
            truncated=False,
            **known,
        )


def _answer(told: Mapping[str, Any]) -> ForeignTurn | None:
    """What a model was asked and answered, where the loop says so.

    Raises:
        NotReadable: It is not what it should be.
    """
    reply = told.get("reply")
    messages = messages_of(told.get("messages"), "messages")
    if reply is None:
        if not messages or messages[-1]["role"] != "assistant":
            return None
        said = messages.pop()
    else:
        said = message_of(
            {"role": "assistant", "content": reply} if isinstance(reply, str) else reply, "reply"
        )
    ids = integers(told.get("tokens"))
    if ids is None and told.get("tokens"):
        raise NotReadable("tokens: they must be ids, whole numbers of at least 0")
    logprobs = told.get("logprobs")
    if isinstance(logprobs, list) and len(logprobs) != len(ids or ()):
        raise NotReadable(f"logprobs: there are {len(logprobs)}, of {len(ids or ())} tokens")
    return ForeignTurn(
        asked=messages,
        reply=said,
        anew=True,
        token_ids=ids,
        prompt_token_ids=integers(told.get("prompt_tokens")),
        logprobs=None if ids is None else reals(logprobs, len(ids)),
        model=text(told.get("model")) or None,
        usage=usage_of(told.get("usage"), "prompt_tokens", "completion_tokens"),
        latency_s=_took_s(told),
    )


def _words(observation: object) -> str:
    return observation if isinstance(observation, str) else encode_json(observation)


def _bounded(action: object) -> dict[str, Any]:
    """An action as an event keeps it: an object, or the beginning of what is too long for one."""
    shown = action if isinstance(action, dict) else {"action": action}
    words = encode_json(shown)
    return shown if len(words) <= SHOWN else {"text": clean_text(words, SHOWN)}


def _took_s(told: Mapping[str, Any]) -> float:
    return max(0.0, number(told.get("took_s")) or 0.0)


def _notes(told: Mapping[str, Any]) -> Sequence[Fact]:
    return [_warning(one) for one in told.get("notes", ())]


def _warning(words: str) -> Fact:
    return core_fact(Warned(message=clean_text(words, NOTE)))
