"""Records of collected episodes, and JSON Lines files of them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from spectator.errors import ConfigurationError, FailureClass
from spectator.journal.encoding import BadLine, atomic_file
from spectator.text import common_length, encodable

Finite = Annotated[float, Field(allow_inf_nan=False)]
Source = Literal["model", "fallback"]


class StepRecord(BaseModel):
    """One decision and its result.

    Args:
        step: Number of the step, from 1.
        prompt: The model's complete prompt.
        completion: The model's complete answer.
        action: The action that was carried out or refused.
        parsed_ok: Whether the action is the model's; otherwise a safe default replaced it.
        source: ``model``, or ``fallback`` if the default replaced it.
        failure_class: Why the default replaced it.
        reward: Reward until the agent's next step, including other actors' turns in between; ``None``
            without a verdict. It belongs to ``source``: a fallback's reward is never the completion's.
        done: Whether the episode was over before the agent's next step.
        terminated: Whether the world ended the episode with it.
        truncated: Whether the episode was cut short after it.
        rule_violations: Codes of the rules that the action broke.
        observation_summary: Summary of the observation before the action.
        outcome_summary: Summary of the next, or the last, observation.
        tokens_in: Tokens of the prompt, if counted.
        tokens_out: Tokens of the completion, if counted.
        token_ids: Ids of the completion's tokens, from the engine.
        logprobs: Their log probabilities, same length.
        latency_s: How long the answer took, seconds.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    step: Annotated[int, Field(ge=1)]
    prompt: str
    completion: str
    action: Mapping[str, Any]
    parsed_ok: bool
    source: Source
    failure_class: FailureClass | None = None
    reward: Finite | None
    done: bool = False
    terminated: bool = False
    truncated: bool = False
    rule_violations: tuple[str, ...] = ()
    observation_summary: Mapping[str, Any] = Field(default_factory=dict)
    outcome_summary: Mapping[str, Any] = Field(default_factory=dict)
    tokens_in: int | None = None
    tokens_out: int | None = None
    token_ids: tuple[int, ...] | None = None
    logprobs: tuple[Finite, ...] | None = None
    latency_s: Finite | None = None

    @model_validator(mode="after")
    def _agree(self) -> StepRecord:
        if self.terminated and self.truncated:
            raise ValueError("terminated and truncated are never both true")
        if (
            self.token_ids is not None
            and self.logprobs is not None
            and len(self.token_ids) != len(self.logprobs)
        ):
            raise ValueError(f"logprobs: {len(self.logprobs)} for {len(self.token_ids)} token_ids")
        return self


class EpisodeRecord(BaseModel):
    """A collected episode.

    It does not contain the hidden truth: :func:`save_truths_jsonl` writes that to a separate file, so that
    records can be shown and trained on without revealing the answer.

    Args:
        episode_id: Its id, also in the journal if there is one.
        environment: Name of the world.
        environment_version: Its version.
        seed: Its seed.
        scenario: Scenario that was played.
        difficulty: Tier of difficulty.
        model: Name of the model, if known.
        sampling: Sampling parameters, as given.
        end_reason: ``finished``, ``step_cap``, ``policy_error``, ``environment_error``, ``timeout``, ...
        failure_class: Why there is no verdict, if there is none.
        terminated: Whether the world ended the episode itself.
        truncated: Whether it was cut short.
        total_reward: Sum of the steps' rewards; ``None`` without a verdict.
        model_reward: The part of it that the model earned itself.
        fallback_reward: The part that safe defaults earned in its place.
        own_share: The share of decisions that the model made itself; ``None`` without decisions.
        refusals: Answers that were refused.
        penalised: Whether its reward is the penalty for an answer that was not an action.
        cumulative_reward: The environment's own total, if it has one.
        terminal_reward: Reward of the end alone, if the environment reports it.
        discovered: Whether something was discovered; ``None`` until it is graded.
        correct_mass: Whether its mass was right.
        correct_channel: Whether its channel was right.
        correct_spin: Whether its spin was right.
        spectator_version: Version of this library, which determines rewards and prompts.
        started_at: ISO 8601, UTC.
        steps: The steps in order.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    episode_id: str
    environment: str
    environment_version: str
    seed: int
    scenario: str | None = None
    difficulty: str | None = None
    model: str | None = None
    sampling: Mapping[str, Any] = Field(default_factory=dict)
    end_reason: str
    failure_class: FailureClass | None = None
    terminated: bool
    truncated: bool
    total_reward: Finite | None
    model_reward: Finite | None = None
    fallback_reward: Finite | None = None
    own_share: Finite | None = None
    refusals: int = 0
    penalised: bool = False
    cumulative_reward: Finite | None = None
    terminal_reward: Finite | None = None
    discovered: bool | None = None
    correct_mass: bool | None = None
    correct_channel: bool | None = None
    correct_spin: bool | None = None
    spectator_version: str | None = None
    started_at: str | None = None
    steps: tuple[StepRecord, ...] = ()

    @model_validator(mode="after")
    def _agree(self) -> EpisodeRecord:
        if self.terminated and self.truncated:
            raise ValueError("terminated and truncated are never both true")
        numbers = [step.step for step in self.steps]
        if numbers != list(range(1, len(numbers) + 1)):
            raise ValueError("steps: must be numbered 1, 2, 3, ... in order")
        return self


FORMAT: Final = "spectator.collector"
VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class LoadedEpisodes:
    """The content of a file.

    Args:
        episodes: The episodes in order.
        bad_lines: Unreadable lines, which may include a torn last line.
    """

    episodes: list[EpisodeRecord] = field(default_factory=list)
    bad_lines: list[BadLine] = field(default_factory=list)

    def __iter__(self) -> Iterator[EpisodeRecord]:
        return iter(self.episodes)

    def __len__(self) -> int:
        return len(self.episodes)

    def __getitem__(self, place: int) -> EpisodeRecord:
        return self.episodes[place]


class Collected(Protocol):
    """What :func:`spectator.collector.collector.collect_episode` returns: it has a record."""

    @property
    def record(self) -> EpisodeRecord:
        """The episode."""


def save_episodes_jsonl(
    episodes: Iterable[EpisodeRecord | Collected], path: Path | str, *, append: bool = False
) -> int:
    """Write episodes, one line each.

    Without ``append`` the file is replaced atomically once all are written; on an error it is unchanged. With
    ``append``, whole lines are added to the end, all of them or none; only one process may append at a time.
    A torn last line, left by a crash, is terminated first.

    Args:
        episodes: The episodes to write, as records or as they were collected; never their hidden truth.
        path: The file.
        append: Add to the file instead of replacing it.

    Returns:
        How many were written.

    Raises:
        ConfigurationError: ``path`` exists and is not a regular file.
        OSError: It cannot be written; the file is unchanged.
    """
    records = (one if isinstance(one, EpisodeRecord) else one.record for one in episodes)
    return _save(map(_line, records), Path(path), append=append)


def load_episodes_jsonl(path: Path | str) -> LoadedEpisodes:
    """Read what :func:`save_episodes_jsonl` wrote; skips blank lines and reports bad ones.

    Raises:
        OSError: The file cannot be read.
    """
    loaded = LoadedEpisodes()
    with Path(path).open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                loaded.episodes.append(_episode(line))
            except (ValueError, TypeError, KeyError, RecursionError) as error:
                loaded.bad_lines.append(BadLine(number, _reason(error)))
    return loaded


def save_truths_jsonl(truths: Mapping[str, Mapping[str, Any]], path: Path | str) -> int:
    """Write the hidden truths of episodes, by episode id, to a separate file."""
    lines = (_dumps({"episode_id": key, "truth": dict(truth)}) for key, truth in truths.items())
    return _save(lines, Path(path), append=False)


def _line(episode: EpisodeRecord) -> str:
    """Dump an episode; a prompt is stored as its difference from the last, so size is linear in steps."""
    dumped = episode.model_dump(mode="json")
    before = ""
    for step in dumped["steps"]:
        prompt = step.pop("prompt")
        kept = common_length(before, prompt)
        step["prompt_kept"], step["prompt_added"] = kept, prompt[kept:]
        before = prompt
    return _dumps({"format": FORMAT, "version": VERSION, **dumped})


def _episode(line: bytes) -> EpisodeRecord:
    found = json.loads(line)
    if not isinstance(found, dict) or found.pop("format", None) != FORMAT:
        raise ValueError(f"format: must be {FORMAT!r}")
    version = found.pop("version", None)
    if version != VERSION:
        raise ValueError(f"version: {version!r} is not supported; this program reads {VERSION}")
    before = ""
    for step in found["steps"]:
        if not isinstance(step, dict):
            raise ValueError("steps: each must be an object")
        kept = step.pop("prompt_kept")
        if type(kept) is not int or not 0 <= kept <= len(before):
            raise ValueError("prompt_kept: must be from 0 to the length of the prompt before")
        before = step["prompt"] = before[:kept] + step.pop("prompt_added")
    return EpisodeRecord.model_validate(found)


def _reason(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc'])) or 'episode'}: {first['msg']}"
    if isinstance(error, KeyError):
        return f"{error.args[0]}: missing"
    return str(error)


def _dumps(value: Any) -> str:
    """Dump on one line; with a lone surrogate, which UTF-8 lacks, all non-ASCII characters are escaped."""
    line = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    if encodable(line) == line:
        return line
    return json.dumps(value, allow_nan=False, separators=(",", ":"))


def _save(lines: Iterable[str], path: Path, *, append: bool) -> int:
    if append and path.exists():
        return _append(lines, path)
    written = 0
    with atomic_file(path) as file:
        for line in lines:
            file.write(line + "\n")
            written += 1
    return written


def _append(lines: Iterable[str], path: Path) -> int:
    if not path.is_file():
        raise ConfigurationError(f"{path} is not a regular file; use another path")
    with path.open("a+b", buffering=0) as raw:
        before = raw.tell()
        try:
            if before and _last_byte(raw) != b"\n":
                _write(raw, b"\n")
            written = 0
            for line in lines:
                _write(raw, line.encode() + b"\n")
                written += 1
            os.fsync(raw.fileno())
        except (
            BaseException
        ):  # such as a full disk: remove what was added, so that a retry does not double it
            if raw.tell() == path.stat().st_size:
                raw.truncate(before)
            raise
    return written


def _write(file: FileIO, data: bytes) -> None:
    """Write all of ``data``; an unbuffered file may take only part of it per call."""
    left = memoryview(data)
    while left:
        left = left[file.write(left) :]


def _last_byte(file: Any) -> bytes:
    file.seek(-1, os.SEEK_END)
    return bytes(file.read(1))
