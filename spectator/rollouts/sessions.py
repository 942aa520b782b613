"""Read the sessions of a run step by step, in the format of pooled rollout systems."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from spectator.errors import EpisodeNotFound
from spectator.exports.transcript import calls_by_decision
from spectator.journal.contract import EpisodeSummary, Journal, RecordedCall
from spectator.journal.encoding import ChatMessage, chat_message, reply_message
from spectator.journal.outline import EpisodeOutline, OutlinedDecision, outline_of
from spectator.rollouts.request import RolloutRequest, open_record
from spectator.runs.run_plan import newest_first


@dataclass(frozen=True, slots=True)
class SessionContext:
    """One attempt at an episode.

    Args:
        session_id: The episode's id; every attempt has a different one.
        env_name: Name of the environment.
        llm_model: The model, by its name at its endpoint.
        group_id: The group of samples of one task.
        job_id: The run.
        attempt: Number of the attempt, from 1.
        total_reward: The sum of its rewards; ``None`` without a verdict.
        end_reason: Why it ended; ``None`` while it has not.
        outline: Its other recorded facts.
    """

    session_id: str
    env_name: str
    llm_model: str
    group_id: str | None
    job_id: str | None
    attempt: int
    total_reward: float | None
    end_reason: str | None
    outline: EpisodeOutline


@dataclass(frozen=True, slots=True)
class SessionStep:
    """One decision of the agent.

    Args:
        step_id: Its number within the session, from 1.
        messages: The conversation as it was sent; empty if no model was asked.
        response: The model's answer, even an unusable one; ``None`` if there was none.
        source: Who decided: ``model``, ``fallback``, ...
        step_reward: Reward until the agent's next decision; ``None`` if a fallback decided or there is no
            verdict.
        cumulative_reward: Reward of the session so far, including fallbacks' decisions.
        env_state: ``{"weight_version": ...}`` if the endpoint reports the version of the weights.
        is_terminal: Whether the environment ended the episode with it.
        is_truncated: Whether the session was cut short after it; never true together with ``is_terminal``.
        is_session_completed: Whether the session has a verdict.
        is_trainable: Whether to train on it. With a ``message_cut``, every answer of the model is a sample.
            Without, only the last answer before the conversation ends or restarts (at the model's
            ``history_tokens``), because it contains all earlier ones.
        created_at: When it was recorded, RFC 3339.
    """

    session_id: str
    step_id: int
    messages: Sequence[ChatMessage]
    response: ChatMessage | None
    source: str
    step_reward: float | None
    cumulative_reward: float
    env_state: Mapping[str, Any] | None
    is_terminal: bool
    is_truncated: bool
    is_session_completed: bool
    is_trainable: bool
    created_at: str | None


class DataManager:
    """Reads what a run recorded; safe while it runs."""

    def __init__(self, request: RolloutRequest, journal: Journal) -> None:
        self._request = request
        self._journal = journal

    @classmethod
    @asynccontextmanager
    async def open(cls, folder: Path) -> AsyncIterator[Self]:
        """The record in the folder of a run.

        Raises:
            InvalidRequest: There is no run, or it is of another version.
            JournalError: Its journal cannot be read.
        """
        async with open_record(folder) as (request, journal):
            yield cls(request, journal)

    async def sessions(self, after: str = "") -> AsyncIterator[SessionContext]:
        """Read all sessions, oldest first.

        Args:
            after: Only those whose id comes after this one.
        """
        found = [one async for one in newest_first(self._journal) if one.episode_id > after]
        for summary in reversed(found):
            yield await self._session(summary)

    async def session(self, session_id: str) -> SessionContext:
        """Read one session.

        Raises:
            EpisodeNotFound: There is no such session.
            JournalError: It cannot be read.
        """
        summary = await self._journal.episode(session_id)
        if summary is None:
            raise EpisodeNotFound(session_id)
        return await self._session(summary)

    async def _session(self, summary: EpisodeSummary) -> SessionContext:
        outline = await outline_of(self._journal, summary)
        return SessionContext(
            summary.episode_id, summary.environment, self._request.model.model, summary.group_id,
            summary.run_id, summary.attempt or 1, outline.reward, summary.reason, outline,
        )  # fmt: skip

    async def steps(self, session: SessionContext) -> AsyncIterator[SessionStep]:
        """Read the steps of a session, in order, with one model call in memory at a time."""
        outline = session.outline
        decisions = outline.of_agent
        samples = await self._samples(outline)
        calls = calls_by_decision(self._journal, outline)
        behind = await anext(calls, None)
        total = 0.0
        for number, decision in enumerate(decisions, 1):
            total += decision.earned
            asked: Sequence[RecordedCall] = ()
            if behind is not None and behind[0].seq == decision.seq:
                asked, behind = behind[1], await anext(calls, None)
            last = decision is decisions[-1]
            yield _step(session, number, decision, asked, total, last, decision.seq in samples)

    async def _samples(self, outline: EpisodeOutline) -> set[int]:
        """Find the decisions to train on; without a cut, the last one of each growing conversation."""
        answered = {one.seq for one in outline.of_agent if outline.trainable(one)}
        if self._request.message_cut:
            return answered
        samples: set[int] = set()
        last: int | None = None
        before: Sequence[Mapping[str, Any]] = ()
        async for decision, asked in calls_by_decision(self._journal, outline):
            messages = asked[0].call.messages
            if last is not None and messages[: len(before)] != before:
                samples.add(last)
                last = None
            if decision.seq in answered:
                last = decision.seq
            before = messages
        return samples if last is None else samples | {last}


def _step(
    session: SessionContext,
    number: int,
    decision: OutlinedDecision,
    asked: Sequence[RecordedCall],
    total: float,
    last: bool,
    sample: bool,
) -> SessionStep:
    outline = session.outline
    ended = outline.ended or {}
    reply = asked[-1].call.reply if asked else None
    versions = asked[-1].call.weight_versions if asked else ()
    return SessionStep(
        session.session_id,
        number,
        [chat_message(message) for message in asked[0].call.messages] if asked else [],
        None if reply is None else reply_message(reply),
        decision.source,
        outline.reward_of(decision),
        total,
        {"weight_version": versions[-1][0]} if versions else None,
        last and bool(ended.get("terminated")),
        last and bool(ended.get("truncated")),
        session.total_reward is not None,
        sample,
        asked[-1].decided.at if asked else None,
    )
