"""The record of an episode played elsewhere: events, model calls, viewer texts."""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, Final

from pydantic import Field

from spectator import __version__
from spectator.catalog import world_names
from spectator.clock import timestamp
from spectator.environments.world import MAX_SEED
from spectator.episodes.view import ViewFold
from spectator.events import (
    NAME_PATTERN,
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
from spectator.journal.encoding import ChatMessage, reply_message, wire_message
from spectator.llm.exchanges import MAX_REPLY, fingerprint
from spectator.model_calls import ModelCall
from spectator.narration.commentary import Line
from spectator.observations import Profile
from spectator.text import clean_text

_PLAIN: Final = re.compile(r"[^a-z0-9]+")


def environment_name(name: str) -> str:
    """A short name for what was played elsewhere; never that of a world that is here.

    >>> environment_name("Prime/GSM8K v2"), environment_name("counting"), environment_name("")
    ('prime_gsm8k_v2', 'counting_imported', 'imported')
    """
    plain = _PLAIN.sub("_", name.lower()).strip("_")[:48] or "imported"
    plain = plain if plain[0].isalpha() else f"env_{plain}"
    return f"{plain}_imported" if plain in world_names() else plain


def plain_name(name: str | None) -> str | None:
    """A name of a run or a group as records take it; one that does not fit is told apart by its digest.

    >>> plain_name("g0"), plain_name(None)
    ('g0', None)
    >>> plain_name("math / 12")
    'math-12-9525047e'
    """
    if not name:
        return None
    if re.fullmatch(NAME_PATTERN, name):
        return name
    kept = re.sub(r"[^A-Za-z0-9._:@]+", "-", name).strip("-._:@")[:40] or "group"
    return f"{kept}-{sha256(name.encode('utf-8', 'replace')).hexdigest()[:8]}"


SAID: Final = "imported.said"

LINE: Final = 300
"""Characters that are shown as a line."""


class ImportedWords(EventData):
    """Something was said to the model: a task, or what its tools or its environment answered."""

    text: str = Field(description="The words, capped at 8,192 characters")
    reward: float | None = Field(description="The reward of the step; null where the file gives none")
    total: float | None = Field(description="All rewards so far; null where the file gave none yet")
    answers: int = Field(
        ge=0,
        description="Answers of the model in the whole episode; 0 where there are none, or nobody knows yet",
    )


def project_said(state: Mapping[str, Any], event: Event) -> Mapping[str, Any]:
    """The words and all rewards so far; no reward where none is known."""
    if event.type != SAID:
        return {}
    total, answers = event.data["total"], event.data["answers"]
    known = {} if total is None else {"value": total, "unit": "reward"}
    said = "" if total is None else f", {total:g} reward so far"
    done = event.turn / answers if answers else 0
    place = f"answer {event.turn} of {answers}" if answers else f"step {event.turn}"
    return {
        "headline": f"{place.capitalize()}{said}" if event.turn else "The task",
        "observation": event.data["text"],
        "glance": {"step": event.turn, "progress": done, "at": place, **known},
    }


def narrate_said(event: Event, state: Mapping[str, Any]) -> Sequence[Line]:
    """A line for each, marked with its reward."""
    if event.type != SAID:
        return ()
    reward = event.data["reward"]
    mark = None if reward is None else f"{reward:+g}"
    return [Line(clean_text(event.data["text"], LINE) or "…", 3 if not reward else 2, mark, str(event.turn))]


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
        self._fold = ViewFold(project_said, narrate_said)
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
