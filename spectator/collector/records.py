"""Records of collected episodes, made from events, and JSON Lines files of them."""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import FileIO
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from spectator import __version__
from spectator.collector.generation import Exchange
from spectator.environments.contract import Stepped
from spectator.errors import ConfigurationError, FailureClass, failure_of_end, reward_of_end
from spectator.events import Event
from spectator.journal.encoding import BadLine, atomic_file
from spectator.journal.outline import OwnCount
from spectator.observations import Observation
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

    It does not contain the hidden truth: :func:`spectator.collector.records.save_truths_jsonl` writes that to
    a separate file, so that records can be shown and trained on without revealing the answer.

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


SUMMARY_KEYS: Final = (
    "step_index",
    "selected_channel",
    "selected_beam_energy",
    "candidate_masses_gev",
    "cumulative_significance",
    "resource_usage",
    "rule_violations",
)
"""Fields of an observation that are kept with each step, if the world has them."""


GRADES: Final = (
    "cumulative_reward",
    "terminal_reward",
    "discovered",
    "correct_mass",
    "correct_channel",
    "correct_spin",
)
"""Fields of the public state at the end that are kept with the episode, if it has a verdict."""


class Seen:
    """The observations of an episode, oldest first, and its public ``state`` at the end."""

    def __init__(self) -> None:
        self.shown: list[Observation] = []
        self.state: Mapping[str, Any] = {}

    def keep(self, stepped: Stepped) -> Stepped:
        """Add the next observation; returns ``stepped``."""
        self.shown.append(stepped.observation)
        if stepped.observation.done:
            self.state = stepped.state
        return stepped


def steps_of(
    events: Sequence[Event], seen: Seen, exchanges: Sequence[Exchange], agent: str
) -> list[StepRecord]:
    """Make a record of each decision of the agent that was carried out or refused.

    Args:
        events: The events of the episode.
        seen: Its observations.
        exchanges: The exchanges with the model, in order.
        agent: The actor whose decisions are recorded.
    """
    decided = [event.data for event in events if event.type == "decision.made"]
    following = iter(exchanges)
    steps: list[StepRecord] = []
    last = len(seen.shown) - 1
    places = [place for place, data in enumerate(decided) if data["actor"] == agent and place < last]
    for place, until in pairwise([*places, last]):
        data, before, after = decided[place], seen.shown[place], seen.shown[place + 1 : until + 1]
        asked = [next(following) for _ in data.get("exchanges") or ()]
        steps.append(_step(len(steps) + 1, data, before, after, asked[-1] if asked else Exchange("", None)))
    ended = events[-1].data
    if (penalty := ended.get("penalty")) is not None:  # the rewards add up to it
        rest = penalty - math.fsum(one.reward or 0.0 for one in steps)
        if (undecided := ended.get("undecided")) is None:
            steps[-1:] = [one.model_copy(update={"reward": (one.reward or 0.0) + rest}) for one in steps[-1:]]
        else:
            asked = [next(following) for _ in undecided["exchanges"]]
            seen_last = _summary(seen.shown[-1])
            steps.append(
                _answered(
                    len(steps) + 1, undecided, asked[-1], action={}, parsed_ok=False, source="model",
                    failure_class=ended["failure_class"], reward=rest, observation_summary=seen_last,
                    outcome_summary=seen_last,
                )
            )  # fmt: skip
    return steps


def _step(
    number: int,
    data: Mapping[str, Any],
    before: Observation,
    after: Sequence[Observation],
    asked: Exchange,
) -> StepRecord:
    """Record a decision; ``after`` are the observations until the agent's next one, or the end."""
    own = data["source"] == "model"
    first, last = after[0], after[-1]
    refused = [] if first.refused is None else [first.refused.rule]
    return _answered(
        number,
        data,
        asked,
        action=data["action"],
        parsed_ok=own,
        source="model" if own else "fallback",
        failure_class=data.get("failure_class"),
        reward=math.fsum(one.reward for one in after),
        done=last.done,
        terminated=last.done,
        rule_violations=(*first.content.get("rule_violations", ()), *refused),
        observation_summary=_summary(before),
        outcome_summary=_summary(last),
    )


def _answered(number: int, data: Mapping[str, Any], asked: Exchange, **stated: Any) -> StepRecord:
    """Make a step with the model's prompt and completion."""
    written = asked.written
    return StepRecord(
        step=number,
        prompt=asked.prompt,
        completion="" if written is None else written.text,
        **stated,
        tokens_in=data.get("tokens_in"),
        tokens_out=data.get("tokens_out"),
        token_ids=None if written is None or written.token_ids is None else tuple(written.token_ids),
        logprobs=None if written is None or written.logprobs is None else tuple(written.logprobs),
        latency_s=data.get("latency_s"),
    )


def _summary(observation: Observation) -> dict[str, Any]:
    return {name: observation.content[name] for name in SUMMARY_KEYS if name in observation.content}


def record_of(
    events: Sequence[Event],
    steps: Sequence[StepRecord],
    seen: Seen,
    *,
    began: str,
    model: str,
    config: Any,
) -> EpisodeRecord:
    """Make the record of an episode that has ended.

    Args:
        events: Its events.
        steps: Its steps.
        seen: Its observations.
        began: When it began, ISO 8601.
        model: The model's name.
        config: The model's config; its plain JSON values are recorded.
    """
    started, ended = events[0], events[-1].data
    options = started.data["options"]
    verdict, truncated = reward_of_end(ended) is not None, bool(ended["truncated"])
    state = seen.state if verdict else {}
    if steps and truncated and not steps[-1].done:
        steps = [*steps[:-1], steps[-1].model_copy(update={"truncated": True})]
    if not verdict:
        steps = [one.model_copy(update={"reward": None}) for one in steps]
    own = OwnCount.of(events)
    return EpisodeRecord(
        episode_id=started.episode_id,
        environment=started.data["environment"],
        environment_version=started.data["environment_version"],
        seed=started.data["seed"],
        scenario=options.get("scenario"),
        difficulty=options.get("difficulty"),
        model=model,
        end_reason=ended["reason"],
        failure_class=failure_of_end(ended),
        terminated=bool(ended["terminated"]),
        truncated=truncated,
        total_reward=_earned(steps) if verdict else None,
        model_reward=_earned(steps, "model") if verdict else None,
        fallback_reward=_earned(steps, "fallback") if verdict else None,
        own_share=own.share,
        refusals=own.refused,
        penalised=ended.get("penalty") is not None,
        **{name: state.get(name) for name in GRADES},
        sampling=sampling_of(config),
        spectator_version=__version__,
        started_at=began,
        steps=tuple(steps),
    )


def _earned(steps: Sequence[StepRecord], source: Source | None = None) -> float:
    """Sum the rewards of all steps, or of those by one source."""
    return sum(one.reward or 0.0 for one in steps if source in (None, one.source))


def sampling_of(config: Any) -> dict[str, Any]:
    """Return the plain values of a config by name: numbers, strings, booleans and lists of them.

    >>> sampling_of({"temperature": 0.7, "stop": ["."], "device": object()})
    {'temperature': 0.7, 'stop': ['.']}
    """
    if dataclasses.is_dataclass(config) and not isinstance(config, type):
        config = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
    elif not isinstance(config, Mapping):
        config = getattr(config, "__dict__", {})
    return {name: value for name, value in config.items() if isinstance(name, str) and _plain(value)}


def _plain(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_plain, value))
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or isinstance(value, bool | int | str)


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
        ):  # e.g. a full disk: remove what was added, so that a retry does not duplicate it
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


__all__: Sequence[str] = (
    "BadLine",
    "LoadedEpisodes",
    "load_episodes_jsonl",
    "save_episodes_jsonl",
    "save_truths_jsonl",
)
