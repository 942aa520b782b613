"""The record of an episode played elsewhere: events, model calls, viewer texts."""

from __future__ import annotations

import re
from array import array
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, Final

from pydantic import BaseModel, Field

from spectator import __version__
from spectator.catalog import world_names
from spectator.clock import timestamp
from spectator.core_events import (
    IMPORTED,
    NAME_PATTERN,
    DecisionMade,
    DecisionSource,
    EpisodeStarted,
    ModelExchange,
    Seat,
    StepTaken,
    core_fact,
)
from spectator.environments.world import MAX_SEED
from spectator.episodes.view import ViewFold
from spectator.events import Event, EventData, Fact, RecordedEvent
from spectator.importing.finite_json import finite_json
from spectator.importing.foreign import ForeignEpisode, ForeignTurn
from spectator.importing.messages import IMAGES_OF
from spectator.journal.encoding import ChatMessage, reply_message, wire_message
from spectator.llm.exchanges import answered
from spectator.model_calls import ModelCall
from spectator.narration.commentary import Line
from spectator.observations import Profile
from spectator.text import clean_text

_PLAIN: Final = re.compile(r"[^a-z0-9]+")


def environment_name(name: str) -> str:
    """Return a short name for a foreign environment, never that of a known world.

    >>> environment_name("Prime/GSM8K v2"), environment_name("counting"), environment_name("")
    ('prime_gsm8k_v2', 'counting_imported', 'imported')
    """
    plain = _PLAIN.sub("_", name.lower()).strip("_")[:48] or "imported"
    plain = plain if plain[0].isalpha() else f"env_{plain}"
    return f"{plain}_imported" if plain in world_names() else plain


def plain_name(name: str | None) -> str | None:
    """Return a valid name for a run or a group; changed names get a digest.

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
"""Characters of a commentary line."""


class SaidMessage(BaseModel):
    """A message that the model received."""

    role: str = Field(description="`user`, `tool`, or another role of its file")
    content: str = Field(description="Its text, capped at 8,192 characters")
    length: int | None = Field(default=None, description="Characters of the whole text, if it was cut")
    name: str | None = Field(default=None, description="Name of the speaker or tool")
    tool_call_id: str | None = Field(default=None, description="The call that it is the result of")
    images: list[str] = Field(default=[], description="Its images, as `data:` URLs")


class ImportedWords(EventData):
    """The model received messages or a text: the task, or an answer of its tools or environment."""

    text: str = Field(description="The text, capped at 8,192 characters; empty if there are messages")
    messages: list[SaidMessage] = Field(default=[], description="The messages, without system messages")
    omitted: int = Field(default=0, ge=0, description="Further messages, which the event has no room for")
    private: int = Field(default=0, ge=0, description="System messages, which only operators may read")
    reward: float | None = Field(description="The reward of the step; null if unknown")
    total: float | None = Field(description="The sum of rewards so far; null if none is known yet")
    answers: int = Field(
        ge=0,
        description="Answers of the model in the whole episode; 0 if there are none or the number is unknown",
    )


def project_said(state: Mapping[str, Any], event: Event) -> Mapping[str, Any]:
    """Return the viewer's patch: the text, and the rewards so far if known."""
    if event.type != SAID:
        return {}
    total, answers = event.data["total"], event.data["answers"]
    known = {} if total is None else {"value": total, "unit": "reward"}
    reward = "" if total is None else f", {total:g} reward so far"
    done = event.turn / answers if answers else 0
    place = f"answer {event.turn} of {answers}" if answers else f"step {event.turn}"
    return {
        "headline": f"{place.capitalize()}{reward}" if event.turn else "The task",
        "observation": _words(event),
        "glance": {"step": event.turn, "progress": done, "at": place, **known},
    }


def narrate_said(event: Event, state: Mapping[str, Any]) -> Sequence[Line]:
    """Return a commentary line for each text, labelled with its reward."""
    if event.type != SAID:
        return ()
    reward = event.data["reward"]
    mark = None if reward is None else f"{reward:+g}"
    return [Line(clean_text(_words(event), LINE) or "…", 3 if not reward else 2, mark, str(event.turn))]


def _words(event: Event) -> str:
    """Return what the model received as one text."""
    said = [f"{_speaker(one)}: {one['content']}" for one in event.data.get("messages") or ()]
    return clean_text("\n\n".join(said), SHOWN) if said else str(event.data["text"])


AGENT: Final = "agent"

SHOWN: Final = 8_192
"""Characters of a text, answer or arguments in an event; the model call has the complete ones."""

ROOM: Final = 8 * SHOWN
"""Characters of all messages of an event."""

IMAGES: Final = 2_000_000
"""Characters of all images of an episode; later ones are placeholders in their messages."""

LABEL: Final = 64
LEGAL: Final = 32


class ForeignRecord:
    """Builds the events of one episode, with their patches, and its model calls."""

    def __init__(self, episode_id: str, at: datetime) -> None:
        self.events: list[RecordedEvent] = []
        self.calls: list[list[ModelCall]] = []
        self._fold = ViewFold(project_said, narrate_said)
        self._episode_id = episode_id
        self._epoch = sha256(episode_id.encode()).hexdigest()[:16]
        self.at = at
        """Time of the next added events."""
        self._conversation: list[Mapping[str, Any]] = []
        self._tools: Sequence[Mapping[str, Any]] = ()
        self._room_for_images = IMAGES

    def add(self, turn: int, facts: Sequence[Fact]) -> None:
        """Add events for the ``facts`` of a turn."""
        at = timestamp(self.at)
        for fact in facts:
            draft = Event(self._episode_id, self._epoch, 0, at, turn, fact.type, fact.data)
            self.events += self._fold.add(draft)

    def pass_time(self, one: ForeignTurn) -> None:
        """Advance the time to that of an answer, or by its duration."""
        if one.at is not None:
            self.at = max(self.at, one.at)
        elif one.latency_s:
            self.at += timedelta(seconds=one.latency_s)

    def said(
        self,
        said: Sequence[ChatMessage] | str,
        reward: float | None = None,
        total: float | None = None,
        answers: int = 0,
    ) -> Fact:
        """Return the fact that the model received a text, or messages without the private system messages.

        Args:
            answers: Answers in the whole episode; 0 if there are none or the number is unknown.
        """
        messages = () if isinstance(said, str) else said
        shown = [one for one in messages if one["role"] != "system"]
        kept: list[SaidMessage] = []
        room = ROOM
        for one in shown:
            if room <= 0:
                break
            whole, limit = str(one.get("content") or ""), min(SHOWN, room)
            content = clean_text(whole, limit)
            room -= len(content)
            kept.append(
                SaidMessage(
                    role=clean_text(str(one["role"]), LABEL),
                    content=content,
                    length=len(whole) if len(whole) > limit else None,
                    name=clean_text(one.get("name") or "", LABEL) or None,
                    tool_call_id=clean_text(one.get("tool_call_id") or "", 200) or None,
                    images=[image for image in one.get(IMAGES_OF, ()) if self._has_room(image)],
                )
            )
        words = ImportedWords(
            text=clean_text(said, SHOWN) if isinstance(said, str) else "", messages=kept,
            omitted=len(shown) - len(kept), private=len(messages) - len(shown),
            reward=reward, total=total, answers=answers,
        )  # fmt: skip
        return Fact(SAID, words.model_dump(mode="json", exclude_defaults=True))

    def _has_room(self, image: str) -> bool:
        """Whether the episode has room for an image; it is then taken."""
        fits = len(image) <= self._room_for_images
        self._room_for_images -= len(image) if fits else 0
        return fits

    def decided(self, episode: ForeignEpisode, one: ForeignTurn) -> DecisionMade:
        """Return the decision of a model's answer, and keep its call."""
        call = self._call(episode, one)
        reply = call.reply or {}
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
            exchanges=[ModelExchange.model_validate(answered(call))],
        )

    def done(self, action: Mapping[str, Any], latency_s: float) -> DecisionMade:
        """Return the decision of an agent of which only the action is known."""
        self.calls.append([])
        return DecisionMade(
            actor=AGENT, source="remote", action=dict(action), reasoning="", latency_s=latency_s
        )

    def take(self) -> tuple[list[RecordedEvent], list[list[ModelCall]]]:
        """Return the new events, and the model calls of each decision among them."""
        taken = self.events, self.calls
        self.events, self.calls = [], []
        return taken

    def _call(self, episode: ForeignEpisode, one: ForeignTurn) -> ModelCall:
        if one.fresh_prompt:
            self._conversation = []
        self._conversation += [
            wire_message({name: value for name, value in message.items() if name != IMAGES_OF})
            for message in one.asked
        ]
        self._tools = self._tools or list(episode.tools)
        reply = _reply(one, episode)
        call = ModelCall(
            messages=list(self._conversation),
            tools=self._tools,
            reply=reply,
            prompt_token_ids=None if one.prompt_token_ids is None else array("q", one.prompt_token_ids),
            token_ids=None if one.token_ids is None else array("q", one.token_ids),
            logprobs=None if one.logprobs is None else array("d", one.logprobs),
            weight_versions=() if one.weight_version is None else [(one.weight_version, 0)],
            about={"model": reply["model"]} if reply["model"] else {},
            measured={"latency_s": one.latency_s} if one.latency_s else {},
        )
        self.calls.append([call])
        self._conversation.append(wire_message(reply_message(reply)))
        return call


def rewards_of(*, stepwise: bool) -> Profile:
    """Return the profile of a foreign environment, with unbounded rewards."""
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
    """Return the fact that the episode began."""
    environment = environment_name(episode.environment)
    agent = clean_text(episode.agent, LABEL) or "unknown"
    started = EpisodeStarted(
        environment=environment,
        environment_version="elsewhere",
        title=clean_text(episode.title or episode.environment, 100) or environment,
        options={},
        seed=episode.seed if episode.seed is not None and 0 <= episode.seed <= MAX_SEED else 0,
        seats={AGENT: Seat(policy=IMPORTED, label=agent, source=source)},
        agent=AGENT,
        pack=IMPORTED,
        pace="max",
        narration=False,
        spectator_version=__version__,
        run_id=run_id,
        group_id=plain_name(episode.group),
        profile=profile.recorded,
    )
    return core_fact(started)


def step_fact(reward: float, rubric: Mapping[str, float], *, last: bool, done: bool) -> Fact:
    """Return the fact that a step was rewarded."""
    taken = StepTaken(
        actor=AGENT,
        next_actor=None if last else AGENT,
        reward=reward,
        done=done,
        rubric=dict(rubric),
        duration_s=0.0,
    )
    return core_fact(taken)


def _speaker(message: ChatMessage) -> str:
    return f"{message['role']} {message['name']}" if message.get("name") else str(message["role"])


def _reply(one: ForeignTurn, episode: ForeignEpisode) -> dict[str, Any]:
    """Return the answer in its recorded form."""
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
    """Return the model's action: one tool call, several, or text."""
    calls = [_call_action(one) for one in reply["tool_calls"]]
    if len(calls) == 1:
        return calls[0]
    return {"calls": calls} if calls else {"text": clean_text(reply["content"], SHOWN)}


def _call_action(call: Mapping[str, Any]) -> dict[str, Any]:
    given = _parsed(call["arguments"]) if len(call["arguments"]) <= SHOWN else None
    if isinstance(given, dict):
        return {"tool": call["name"], "arguments": given}
    return {"tool": call["name"], "arguments": {"text": clean_text(call["arguments"], SHOWN)}}


def _parsed(arguments: str) -> Any:
    try:
        return finite_json(arguments)
    except (ValueError, RecursionError):
        return None
