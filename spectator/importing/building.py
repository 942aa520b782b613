"""The record of an imported episode: its events, and the questions to its model beside them."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, Final

from spectator import __version__
from spectator.clock import timestamp
from spectator.environments.seeds import MAX_SEED
from spectator.episodes.record.view import ViewFold
from spectator.events import (
    DecisionMade,
    EpisodeEnded,
    EpisodeStarted,
    Event,
    EventData,
    Fact,
    ModelExchange,
    RecordedEvent,
    Seat,
    StepTaken,
    Warned,
    core_fact,
    encode_json,
)
from spectator.importing.foreign import ForeignEpisode, ForeignTurn
from spectator.importing.names import environment_name, plain_name
from spectator.importing.reading import parsed
from spectator.importing.shown import SAID, ImportedWords, show_said, tell_said
from spectator.journal.attachments import Attachments
from spectator.journal.chat_form import ChatMessage, reply_message, wire_message
from spectator.llm.exchange import MAX_REPLY, fingerprint
from spectator.model_calls import ModelCall
from spectator.profile import Profile
from spectator.runs.jobs import derived_id
from spectator.text import clean_text

AGENT: Final = "agent"

SHOWN: Final = 8_192
"""Characters of words, of an answer and of arguments that an event keeps; the call beside it keeps all."""

LABEL: Final = 64
LEGAL: Final = 32


@dataclass(frozen=True, slots=True)
class BuiltEpisode:
    """An episode that is ready to be recorded.

    Args:
        episode_id: Its id, the same whenever its file is read.
        events: Its events, in order.
        calls: For each of its decisions, the question behind it.
    """

    episode_id: str
    events: Sequence[RecordedEvent]
    calls: Sequence[Sequence[ModelCall]]

    @property
    def attachments(self) -> Attachments:
        """What is recorded beside the events."""
        return Attachments(calls=self.calls)


def imported_id(episode: ForeignEpisode) -> str:
    """The id under which an episode is recorded: it follows from what the episode is."""
    began = episode.order_ms if episode.began is None else int(episode.began.timestamp() * 1000)
    return derived_id(min(max(0, began), 2**48 - 1), ["import", *episode.key])


def build(episode: ForeignEpisode, run_id: str | None, known_at: datetime) -> BuiltEpisode:
    """The record of an episode.

    Args:
        episode: What the file says of it.
        run_id: The run that it is shown in.
        known_at: When it was there at the latest, for one of which the file tells no time.
    """
    episode_id = imported_id(episode)
    record = _Record(episode_id, episode.began or known_at)
    record.add(0, [_started(episode, run_id)])
    profile = _profile(episode)
    total: float | None = None
    for turn, one in enumerate(episode.turns, 1):
        if turn == 1:
            record.add(0, [_said(_words(one.asked), None, None, len(episode.turns))])
        last = turn == len(episode.turns)
        reward = _reward(episode, one, last)
        total = total if reward is None else (total or 0.0) + reward
        following = episode.after if last else episode.turns[turn].asked
        record.turn(turn, episode, one, reward, total, following, last)
    if not episode.turns:
        record.add(0, [_said(_words(episode.after), None, None, 0)])
    record.add(len(episode.turns), [core_fact(Warned(message=clean_text(n, 500))) for n in episode.notes])
    record.add(len(episode.turns), [core_fact(_ended(episode, profile, total))])
    return BuiltEpisode(episode_id, record.events, record.calls)


class _Record:
    """The events of one episode while they are made.

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
        self._at = at
        self._conversation: list[Mapping[str, Any]] = []
        self._tools: Sequence[Mapping[str, Any]] = ()

    def add(self, turn: int, facts: Sequence[Fact]) -> None:
        """Record ``facts`` of a turn."""
        at = timestamp(self._at)
        for fact in facts:
            draft = Event(self._episode_id, self._epoch, 0, at, turn, fact.type, fact.data)
            self.events += self._fold.add(draft)

    def turn(
        self,
        turn: int,
        episode: ForeignEpisode,
        one: ForeignTurn,
        reward: float | None,
        total: float | None,
        following: Sequence[ChatMessage],
        last: bool,
    ) -> None:
        """Record one answer, what followed it and what it earned."""
        if one.at is not None:
            self._at = max(self._at, one.at)
        elif one.latency_s:
            self._at += timedelta(seconds=one.latency_s)
        facts = [core_fact(self._decided(episode, one))]
        facts.append(_said(_words(following), reward, total, len(episode.turns)))
        if reward is not None:
            taken = StepTaken(
                actor=AGENT,
                next_actor=None if last else AGENT,
                reward=reward,
                done=last and episode.ended,
                rubric=dict(episode.rubric) if last else {},
                duration_s=0.0,
            )
            facts.append(core_fact(taken))
        self.add(turn, facts)

    def _decided(self, episode: ForeignEpisode, one: ForeignTurn) -> DecisionMade:
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
            tokens_in=usage.get("tokens_in"),
            tokens_out=usage.get("tokens_out", None if one.token_ids is None else len(one.token_ids)),
            exchanges=[ModelExchange.model_validate(stated)],
        )

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


def _started(episode: ForeignEpisode, run_id: str | None) -> Fact:
    environment = environment_name(episode.environment)
    profile = _profile(episode)
    agent = clean_text(episode.agent, LABEL) or "unknown"
    started = EpisodeStarted(
        environment=environment,
        environment_version="elsewhere",
        title=clean_text(episode.title or episode.environment, 100) or environment,
        options={},
        seed=episode.seed if episode.seed is not None and 0 <= episode.seed <= MAX_SEED else 0,
        seats={AGENT: Seat(policy="imported", label=agent, source="model")},
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


def _profile(episode: ForeignEpisode) -> Profile:
    """Rewards of steps where the file has them, or where an episode that was cut short has any."""
    stepwise = any(one.reward is not None for one in episode.turns) or episode.cut is not None
    return Profile(
        rewards="step" if stepwise else "end",
        reward_min=None,
        reward_max=None,
        score_min=None,
        score_max=None,
        actions="schema",
    )


def _reward(episode: ForeignEpisode, one: ForeignTurn, last: bool) -> float | None:
    """What an answer earned, as far as the file says: the reward of the whole belongs to the last one."""
    if any(turn.reward is not None for turn in episode.turns):
        return one.reward
    return episode.reward if last and episode.error is None else None


def _ended(episode: ForeignEpisode, profile: Profile, total: float | None) -> EpisodeEnded:
    reward = total if episode.reward is None else episode.reward
    stated: dict[str, Any] = {"score": None, "result": None, "turns": len(episode.turns)}
    if episode.error is not None:
        detail = clean_text(episode.error, 500)
        return EpisodeEnded(
            reason="environment_error", detail=detail, failure_class="unknown", terminated=False,
            truncated=True, **stated,
        )  # fmt: skip
    if episode.cut is not None:
        return EpisodeEnded(
            reason="step_cap", detail=clean_text(episode.cut, 500), failure_class="truncated",
            total_reward=reward, terminated=False, truncated=True, **stated,
        )  # fmt: skip
    if not episode.ended:
        detail = "its file ends before it does"
        return EpisodeEnded(reason="interrupted", detail=detail, terminated=False, truncated=True, **stated)
    known = {"total_reward": reward} if profile.rewards == "step" else {}
    stated |= {"score": reward, "result": _result(episode, reward)}
    return EpisodeEnded(reason="finished", terminated=True, truncated=False, **stated, **known)


def _result(episode: ForeignEpisode, reward: float | None) -> str:
    said = "no reward in its file" if reward is None else f"{reward:g} reward"
    answers = len(episode.turns)
    return clean_text(episode.result or f"{said} in {answers} answer{'' if answers == 1 else 's'}", 300)


def _said(words: str, reward: float | None, total: float | None, answers: int) -> Fact:
    said: EventData = ImportedWords(
        text=clean_text(words, SHOWN), reward=reward, total=total, answers=answers
    )
    return Fact(SAID, said.model_dump(mode="json"))


def _words(messages: Sequence[ChatMessage]) -> str:
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
    given = parsed(call["arguments"].encode()) if len(call["arguments"]) <= SHOWN else None
    if isinstance(given, dict):
        return {"tool": call["name"], "arguments": given}
    return {"tool": call["name"], "arguments": {"text": clean_text(call["arguments"], SHOWN)}}
