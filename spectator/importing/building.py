"""The record of an imported episode: its events, and the questions to its model beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from spectator.events import EpisodeEnded, RecordedEvent, Warned, core_fact
from spectator.importing.foreign import ForeignEpisode, ForeignTurn
from spectator.importing.foreign_record import (
    ForeignRecord,
    rewards_of,
    said_fact,
    started_fact,
    step_fact,
    words_of,
)
from spectator.journal.attachments import Attachments
from spectator.model_calls import ModelCall
from spectator.profile import Profile
from spectator.runs.jobs import derived_id
from spectator.text import clean_text


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
    record = ForeignRecord(episode_id, episode.began or known_at)
    profile = _profile(episode)
    record.add(0, [started_fact(episode, run_id, profile)])
    total: float | None = None
    for turn, one in enumerate(episode.turns, 1):
        if turn == 1:
            record.add(0, [said_fact(words_of(one.asked), None, None, len(episode.turns))])
        last = turn == len(episode.turns)
        reward = _reward(episode, one, last)
        total = total if reward is None else (total or 0.0) + reward
        record.pass_time(one)
        facts = [core_fact(record.decided(episode, one))]
        following = episode.after if last else episode.turns[turn].asked
        facts.append(said_fact(words_of(following), reward, total, len(episode.turns)))
        if reward is not None:
            rubric = episode.rubric if last else {}
            facts.append(step_fact(reward, rubric, last=last, done=last and episode.ended))
        record.add(turn, facts)
    if not episode.turns:
        record.add(0, [said_fact(words_of(episode.after), None, None, 0)])
    record.add(len(episode.turns), [core_fact(Warned(message=clean_text(n, 500))) for n in episode.notes])
    record.add(len(episode.turns), [core_fact(_ended(episode, profile, total))])
    return BuiltEpisode(episode_id, record.events, record.calls)


def _profile(episode: ForeignEpisode) -> Profile:
    """Rewards of steps where the file has them, or where an episode that was cut short has any."""
    stepwise = any(one.reward is not None for one in episode.turns) or episode.cut is not None
    return rewards_of(stepwise=stepwise)


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
