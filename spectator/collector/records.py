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
from typing import Annotated, Any, Final, Literal

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
    """One decision and what came of it.

    Args:
        step: Number of the step, from 1.
        prompt: What the model was shown, whole.
        completion: What it wrote, whole.
        action: The action that was carried out or refused.
        parsed_ok: Whether the action is the model's; otherwise a safe default stood in for it.
        source: ``model``, or ``fallback`` where the default stood in.
        failure_class: Why the default stood in.
        reward: What was earned until the agent's next step, whoever acted in between; ``None`` where there
            is no verdict. It belongs to ``source``: what a fallback earned is never the completion's.
        done: Whether the episode was over before the agent's next step.
        terminated: Whether the world came to its end with it.
        truncated: Whether it was cut short after it.
        rule_violations: Codes of the rules that the action broke.
        observation_summary: What was seen before the action.
        outcome_summary: What was seen next, or last.
        tokens_in: Tokens of the prompt, where counted.
        tokens_out: Tokens of the completion, where counted.
        token_ids: Ids of the completion's tokens as the engine gave them.
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

    The hidden truth is not in it: :func:`spectator.collector.records.save_truths_jsonl` keeps it in a file of
    its own, so that a record can be shown and trained on without giving the answer away.

    Args:
        episode_id: Its id; the events are in the journal under it, where one was given.
        environment: Name of the world.
        environment_version: Its version.
        seed: Its seed.
        scenario: Scenario that was played.
        difficulty: Tier of difficulty.
        model: Name of the model, where known.
        sampling: Sampling parameters, as they were given.
        end_reason: ``finished``, ``step_cap``, ``policy_error``, ``environment_error``, ``timeout``, ...
        failure_class: Why there is no verdict, where there is none.
        terminated: Whether the world came to its own end.
        truncated: Whether it was cut short.
        total_reward: Sum of the steps' rewards; ``None`` where there is no verdict.
        model_reward: The part of it that the model earned itself.
        fallback_reward: The part that safe defaults earned in its place.
        own_share: The share of its decisions that the model made itself; ``None`` where there was none.
        refusals: Its answers that were refused.
        penalised: Whether its reward is the penalty of an answer that was not an action.
        cumulative_reward: The environment's own total, where it has one.
        terminal_reward: What the end alone earned, where the environment says so.
        discovered: Whether something was discovered; ``None`` until it is graded.
        correct_mass: Whether its mass was right.
        correct_channel: Whether its channel was right.
        correct_spin: Whether its spin was right.
        spectator_version: Version of this library, and with it of rewards and prompts.
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
"""Fields of an observation that are kept with each step, where the world has them."""


class Seen:
    """What the environment showed, oldest first; ``state`` is its public state at the end."""

    def __init__(self) -> None:
        self.shown: list[Observation] = []
        self.state: Mapping[str, Any] = {}

    def keep(self, stepped: Stepped) -> Stepped:
        """Take in what is shown next."""
        self.shown.append(stepped.observation)
        if stepped.observation.done:
            self.state = stepped.state
        return stepped


def steps_of(
    events: Sequence[Event], seen: Seen, exchanges: Sequence[Exchange], agent: str
) -> list[StepRecord]:
    """One record for each decision of the agent that was carried out or refused.

    Args:
        events: The events of the episode.
        seen: What its environment showed.
        exchanges: The questions to the model, in order.
        agent: Whose decisions.
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
    """The record of a decision; ``after`` is what was shown until the agent's next one, or the end."""
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
    """A step with what the model was shown and wrote."""
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
    """The record of an episode that has ended.

    Args:
        events: Its events.
        steps: Its steps.
        seen: What its environment showed.
        began: When it began, ISO 8601.
        model: The model's name.
        config: What the model was asked with; of it, what is plain is recorded.
    """
    started, ended = events[0], events[-1].data
    options = started.data["options"]
    failure, verdict = failure_of_end(ended), reward_of_end(ended) is not None
    state = seen.state if verdict else {}
    truncated = bool(ended["truncated"])
    if steps and truncated and not steps[-1].done:
        steps = [*steps[:-1], steps[-1].model_copy(update={"truncated": True})]
    if not verdict:
        steps = [one.model_copy(update={"reward": None}) for one in steps]

    def earned(source: str) -> float | None:
        return sum(one.reward or 0.0 for one in steps if one.source == source) if verdict else None

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
        failure_class=failure,
        terminated=bool(ended["terminated"]),
        truncated=truncated,
        total_reward=sum(one.reward or 0.0 for one in steps) if verdict else None,
        model_reward=earned("model"),
        fallback_reward=earned("fallback"),
        own_share=own.share,
        refusals=own.refused,
        penalised=ended.get("penalty") is not None,
        cumulative_reward=state.get("cumulative_reward"),
        terminal_reward=state.get("terminal_reward"),
        discovered=state.get("discovered"),
        correct_mass=state.get("correct_mass"),
        correct_channel=state.get("correct_channel"),
        correct_spin=state.get("correct_spin"),
        sampling=sampling_of(config),
        spectator_version=__version__,
        started_at=began,
        steps=tuple(steps),
    )


def sampling_of(config: Any) -> dict[str, Any]:
    """What of a config is plain JSON: numbers, texts, truth values and lists of them, by name.

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
    """What a file holds.

    Args:
        episodes: The episodes in order.
        bad_lines: Lines that could not be read; a torn last line is one of them.
    """

    episodes: list[EpisodeRecord] = field(default_factory=list)
    bad_lines: list[BadLine] = field(default_factory=list)

    def __iter__(self) -> Iterator[EpisodeRecord]:
        return iter(self.episodes)

    def __len__(self) -> int:
        return len(self.episodes)


def save_episodes_jsonl(episodes: Iterable[EpisodeRecord], path: Path | str, *, append: bool = False) -> int:
    """Write episodes, one line each.

    Without ``append`` the file is replaced at once when all are written: until then, and if anything fails,
    it is as it was. With it, whole lines are added to the end, all of them or none, by one process at a
    time; a torn last line, left by a death, is closed first.

    Args:
        episodes: What to write.
        path: The file.
        append: Add to the file instead of replacing it.

    Returns:
        How many were written.

    Raises:
        ConfigurationError: ``path`` is there and no ordinary file.
        OSError: It cannot be written; the file is as it was.
    """
    return _save((_line(episode) for episode in episodes), Path(path), append=append)


def load_episodes_jsonl(path: Path | str) -> LoadedEpisodes:
    """Read what :func:`save_episodes_jsonl` wrote; blank lines are passed over, bad ones reported.

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
    """Write the hidden truth of episodes, by episode id, to a file of its own."""
    lines = (_dumps({"episode_id": key, "truth": dict(truth)}) for key, truth in truths.items())
    return _save(lines, Path(path), append=False)


def _line(episode: EpisodeRecord) -> str:
    """The episode as JSON; each prompt as what it adds to the one before, so that size is linear in steps."""
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
        raise ValueError(f"version: {version!r}; this one reads {VERSION}")
    before = ""
    for step in found["steps"]:
        if not isinstance(step, dict):
            raise ValueError("steps: each must be an object")
        kept = step.pop("prompt_kept")
        if type(kept) is not int or not 0 <= kept <= len(before):
            raise ValueError("prompt_kept: more than the prompt before has")
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
    """``value`` on one line; half a surrogate pair, which has no UTF-8, is escaped with all beyond ASCII."""
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
        raise ConfigurationError(f"{path} is no ordinary file; nothing is added to it")
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
        except BaseException:  # such as a full disk: whoever tried again would add some of them twice
            if raw.tell() == path.stat().st_size:
                raw.truncate(before)
            raise
    return written


def _write(file: FileIO, data: bytes) -> None:
    """Write all of ``data``; what is not buffered may take a part of it at a time."""
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
