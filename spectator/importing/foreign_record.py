"""The record of an episode that is played elsewhere: events and the calls behind them, as they come to be."""

from __future__ import annotations

import json
from array import array
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, Final

from spectator import __version__
from spectator.clock import timestamp
from spectator.environments.seeds import MAX_SEED
from spectator.episodes.record.view import ViewFold
from spectator.events import (
    DecisionMade,
    DecisionSource,
    EpisodeStarted,
    Event,
    EventData,
    Fact,
    ModelExchange,
    RecordedEvent,
    Seat,
    StepTaken,
    core_fact,
    encode_json,
)
from spectator.importing.foreign import ForeignEpisode, ForeignTurn
from spectator.importing.names import environment_name, plain_name
from spectator.importing.shown import SAID, ImportedWords, show_said, tell_said
from spectator.journal.chat_form import ChatMessage, reply_message, wire_message
from spectator.llm.exchange import MAX_REPLY, fingerprint
from spectator.model_calls import ModelCall
from spectator.profile import Profile
from spectator.text import clean_text

AGENT: Final = "agent"

SHOWN: Final = 8_192
"""Characters of words, of an answer and of arguments that an event keeps; the call beside it keeps all."""

LABEL: Final = 64
LEGAL: Final = 32


class ForeignRecord:
    """The events of one episode while they are made, each with its patch, and its calls to a model.

    Args:
        episode_id: Whose.
        at: When it begins.
    """

    def __init__(self, episode_id: str, at: datetime) -> None:
        self.events: list[RecordedEvent] = []
        self.calls: list[list[ModelCall]] = []
        self._fold = ViewFold(show_said, tell_said)
        self._episode_id = episode_id
        self._epoch = sha256(episode_id.encode()).hexdigest()[:16]
        self.at = at
        """When what is added next happened."""
        self._conversation: list[Mapping[str, Any]] = []
        self._tools: Sequence[Mapping[str, Any]] = ()

    def add(self, turn: int, facts: Sequence[Fact]) -> None:
        """Record ``facts`` of a turn."""
        at = timestamp(self.at)
        for fact in facts:
            draft = Event(self._episode_id, self._epoch, 0, at, turn, fact.type, fact.data)
            self.events += self._fold.add(draft)

    def pass_time(self, one: ForeignTurn) -> None:
        """Let as much time pass as an answer took."""
        if one.at is not None:
            self.at = max(self.at, one.at)
        elif one.latency_s:
            self.at += timedelta(seconds=one.latency_s)

    def decided(self, episode: ForeignEpisode, one: ForeignTurn) -> DecisionMade:
        """What a model answered, its call kept beside it."""
        call = self._call(episode, one)
        reply = call.reply or {}
        asked = fingerprint(call.messages, call.tools)
        small = len(encode_json(reply)) <= MAX_REPLY
        stated = {"request": asked, "reply": reply if small else None, "digest": call.digest(asked)}
        usage = one.usage or {}
        return DecisionMade(
            actor=AGENT,
            source="model",
            action=_action(reply),
            legal=[tool["function"]["name"][:LABEL] for tool in episode.tools[:LEGAL]],
            reasoning=clean_text(reply.get("thought") or "", SHOWN),
            raw_text=clean_text(reply["content"], SHOWN) if reply.get("content") else None,
            model=clean_text(one.model or episode.agent, 200) or None,
            latency_s=max(0.0, one.latency_s),
            tokens_in=usage.get(
                "tokens_in", None if one.prompt_token_ids is None else len(one.prompt_token_ids)
            ),
            tokens_out=usage.get("tokens_out", None if one.token_ids is None else len(one.token_ids)),
            exchanges=[ModelExchange.model_validate(stated)],
        )

    def done(self, action: Mapping[str, Any], latency_s: float) -> DecisionMade:
        """What somebody did of whom nothing more is known."""
        self.calls.append([])
        return DecisionMade(
            actor=AGENT, source="remote", action=dict(action), reasoning="", latency_s=latency_s
        )

    def take(self) -> tuple[list[RecordedEvent], list[list[ModelCall]]]:
        """The events since the last look, and for each decision among them its calls."""
        taken = self.events, self.calls
        self.events, self.calls = [], []
        return taken

    def _call(self, episode: ForeignEpisode, one: ForeignTurn) -> ModelCall:
        if one.anew:
            self._conversation = []
        self._conversation += [wire_message(message) for message in one.asked]
        self._tools = self._tools or list(episode.tools)
        reply = _reply(one, episode)
        call = ModelCall(
            messages=list(self._conversation),
            tools=self._tools,
            reply=reply,
            prompt_token_ids=None if one.prompt_token_ids is None else array("q", one.prompt_token_ids),
            token_ids=None if one.token_ids is None else array("q", one.token_ids),
            logprobs=None if one.logprobs is None else array("d", one.logprobs),
            about={"model": reply["model"]} if reply["model"] else {},
            measured={"latency_s": one.latency_s} if one.latency_s else {},
        )
        self.calls.append([call])
        self._conversation.append(wire_message(reply_message(reply)))
        return call


def rewards_of(*, stepwise: bool) -> Profile:
    """The profile of an environment elsewhere: rewards of its steps, or of the whole, without bounds."""
    return Profile(
        rewards="step" if stepwise else "end",
        reward_min=None,
        reward_max=None,
        score_min=None,
        score_max=None,
        actions="schema",
    )


def started_fact(
    episode: ForeignEpisode, run_id: str | None, profile: Profile, source: DecisionSource = "model"
) -> Fact:
    """That an episode began elsewhere."""
    environment = environment_name(episode.environment)
    agent = clean_text(episode.agent, LABEL) or "unknown"
    started = EpisodeStarted(
        environment=environment,
        environment_version="elsewhere",
        title=clean_text(episode.title or episode.environment, 100) or environment,
        options={},
        seed=episode.seed if episode.seed is not None and 0 <= episode.seed <= MAX_SEED else 0,
        seats={AGENT: Seat(policy="imported", label=agent, source=source)},
        agent=AGENT,
        pack="imported",
        pace="max",
        narration=False,
        spectator_version=__version__,
        run_id=run_id,
        group_id=plain_name(episode.group),
        profile=profile.recorded,
    )
    return core_fact(started)


def step_fact(reward: float, rubric: Mapping[str, float], *, last: bool, done: bool) -> Fact:
    """That a step was rewarded."""
    taken = StepTaken(
        actor=AGENT,
        next_actor=None if last else AGENT,
        reward=reward,
        done=done,
        rubric=dict(rubric),
        duration_s=0.0,
    )
    return core_fact(taken)


def said_fact(words: str, reward: float | None, total: float | None, answers: int) -> Fact:
    """What viewers are shown; ``answers`` is 0 where nobody knows how many there will be."""
    said: EventData = ImportedWords(
        text=clean_text(words, SHOWN), reward=reward, total=total, answers=answers
    )
    return Fact(SAID, said.model_dump(mode="json"))


def words_of(messages: Sequence[ChatMessage]) -> str:
    """What messages say to viewers: all but the system's, which only the operator reads."""
    shown = [one for one in messages if one["role"] != "system"]
    return "\n\n".join(f"{_speaker(one)}: {one.get('content') or ''}" for one in shown)


def _speaker(message: ChatMessage) -> str:
    return f"{message['role']} {message['name']}" if message.get("name") else str(message["role"])


def _reply(one: ForeignTurn, episode: ForeignEpisode) -> dict[str, Any]:
    """The answer as it is recorded."""
    message = wire_message(one.reply)
    calls = [
        {"id": call["id"], **{name: call["function"][name] for name in ("name", "arguments")}}
        for call in message.get("tool_calls") or ()
    ]
    return {
        "content": message.get("content") or "",
        "thought": message.get("reasoning_content") or "",
        "refusal": None,
        "tool_calls": calls,
        "finish_reason": one.finish_reason,
        "model": one.model or episode.agent or None,
        "usage": dict(one.usage) if one.usage else None,
    }


def _action(reply: Mapping[str, Any]) -> dict[str, Any]:
    """What the model did: one tool, several, or words."""
    calls = [_called(one) for one in reply["tool_calls"]]
    if len(calls) == 1:
        return calls[0]
    return {"calls": calls} if calls else {"text": clean_text(reply["content"], SHOWN)}


def _called(call: Mapping[str, Any]) -> dict[str, Any]:
    given = _object_in(call["arguments"]) if len(call["arguments"]) <= SHOWN else None
    if isinstance(given, dict):
        return {"tool": call["name"], "arguments": given}
    return {"tool": call["name"], "arguments": {"text": clean_text(call["arguments"], SHOWN)}}


def _object_in(arguments: str) -> Any:
    try:
        return json.loads(arguments, parse_constant=lambda name: None)
    except (ValueError, RecursionError):
        return None
