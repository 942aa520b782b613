"""Episode handlers, which add experience of earlier episodes to a rollout's prompts."""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import math
import os
import re
import zlib
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final, Protocol

from filelock import FileLock
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from spectator.errors import ConfigurationError, FailureClass, PolicyError
from spectator.observations import Observation

Message = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class EpisodeContext:
    """Which episode a prompt belongs to.

    Args:
        env_name: Name of the environment, such as ``counting``.
        env_id: The episode's id; one attempt has one id.
        group_id: The group of samples of one prompt, if it belongs to one.
        member: Number of the sample within its group, from 0.
        step: Number of the decision that is asked for, from 1; at the end, of the last one.
        info: What the environment reported with its last step: the ``info`` of a pooled server or of an
            object with ``step(text)``, the observation's ``metadata`` in other worlds.
    """

    env_name: str
    env_id: str
    group_id: str | None = None
    member: int = 0
    step: int = 1
    info: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EpisodeOutcome:
    """How an episode ended.

    Args:
        total_reward: Sum of its rewards; ``None`` when the environment or the model's endpoint failed, so
            that there is no verdict on what the model did.
        failure_class: Why there is no verdict; ``None`` for an episode that was played to its end.
        info: How it ended: ``end_reason`` and ``turns``, the environment's ``result`` in words where it
            finished, and the ``detail`` of what went wrong where something did.
    """

    total_reward: float | None
    failure_class: FailureClass | None = None
    info: Mapping[str, Any] = field(default_factory=dict)


class EpisodeHandler(Protocol):
    """Sees every prompt before it is trimmed and sent, and every end. Both methods may be async."""

    def handle(
        self, messages: Sequence[Message], context: EpisodeContext
    ) -> Sequence[Message] | Awaitable[Sequence[Message]]:
        """Return the messages to send instead; must not change ``messages`` itself.

        An async method has as long as the model for its decision. Its failure is that of the decision.
        """

    def on_episode_end(self, context: EpisodeContext, outcome: EpisodeOutcome) -> Awaitable[None] | None:
        """Learn from the end of an episode; called once for each, unless the process dies first.

        A failure, or an async method that takes longer than :data:`END_S`, is only logged.
        """


END_S: Final = 30.0
"""Seconds that an async :meth:`EpisodeHandler.on_episode_end` has."""


async def within(result: Any, limit_s: float) -> Any:
    """Return a handler's result; waits for it if it is awaitable.

    Raises:
        PolicyError: It took longer than ``limit_s`` seconds.
    """
    if not inspect.isawaitable(result):
        return result
    try:
        async with asyncio.timeout(limit_s) as scope:
            return await result
    except TimeoutError as error:
        if not scope.expired():
            raise
        raise PolicyError(f"the handler did not answer within {limit_s:g} s") from error


def info_of(shown: Observation | None) -> Mapping[str, Any]:
    """Return what the environment reported with an observation."""
    if shown is None:
        return {}
    info = shown.content.get("info", shown.metadata)
    return info if isinstance(info, Mapping) else {}


class NullHandler:
    """Adds nothing and learns nothing."""

    def handle(self, messages: Sequence[Message], context: EpisodeContext) -> Sequence[Message]:
        """The same messages."""
        return messages

    def on_episode_end(self, context: EpisodeContext, outcome: EpisodeOutcome) -> None:
        """Nothing."""


def with_advice(messages: Sequence[Message], text: str) -> list[Message]:
    """``messages`` with ``text`` at the end of the system message, or as one where there is none.

    Example:
        >>> with_advice([{"role": "system", "content": "Play."}], "Bowl full.")
        [{'role': 'system', 'content': 'Play.\\n\\nBowl full.'}]
        >>> with_advice([{"role": "user", "content": "Go."}], "Bowl full.")[0]
        {'role': 'system', 'content': 'Bowl full.'}
    """
    if not messages or messages[0].get("role") != "system":
        return [{"role": "system", "content": text}, *messages]
    first = messages[0]
    content = first.get("content") or ""
    if isinstance(content, str):
        advised: Any = f"{content}\n\n{text}" if content else text
    else:
        advised = [*content, {"type": "text", "text": text}]
    return [{**first, "content": advised}, *messages[1:]]


FORMAT: Final = 1
"""Version of the file that keeps the statistics."""

LOCK_S: Final = 30.0
"""Seconds to wait for another process that writes the same file."""


class Experience(BaseModel):
    """A piece of advice drawn from earlier episodes.

    Args:
        id: Its name, unique in its file.
        text: What is added to the prompt.
        env_name: The environment it is about; ``None`` for all.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: Annotated[str, Field(min_length=1, max_length=100)]
    text: Annotated[str, Field(min_length=1, max_length=20_000)]
    env_name: str | None = None


class Tally(BaseModel):
    """How often an experience was used, and the sum of what came of it.

    Args:
        used: Episodes with a verdict in which it was used.
        weights: Reward by feature of the prompt; empty for handlers that look at no features.
        precision: Diagonal of the precision of ``weights``, same length.
    """

    model_config = ConfigDict(extra="forbid")

    used: Annotated[int, Field(ge=0)] = 0
    total: Annotated[float, Field(allow_inf_nan=False)] = 0.0
    weights: list[float] = Field(default_factory=list)
    precision: list[float] = Field(default_factory=list)

    @property
    def mean(self) -> float:
        """Mean reward of the episodes that used it; 0 before the first."""
        return self.total / self.used if self.used else 0.0


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")

    version: int = FORMAT
    tallies: dict[str, Tally] = Field(default_factory=dict)
    chosen: dict[str, str] = Field(default_factory=dict)


def load_experiences(path: Path) -> list[Experience]:
    """Read experiences from a JSON file: a list of objects with ``id``, ``text`` and ``env_name``.

    Raises:
        ConfigurationError: The file cannot be read, or an entry is wrong; it names the entry and the field.
    """
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{path}: not readable as JSON: {error}") from error
    if not isinstance(entries, list):
        raise ConfigurationError(f"{path}: must be a list of experiences, not {type(entries).__name__}")
    if not entries:
        raise ConfigurationError(f"{path}: must hold at least one experience")
    found: dict[str, Experience] = {}
    for number, entry in enumerate(entries, 1):
        try:
            one = Experience.model_validate(entry)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"]) or "entry"
            raise ConfigurationError(f"{path}: entry {number}: {where}: {first['msg']}") from error
        if one.id in found:
            raise ConfigurationError(f"{path}: entry {number}: id: {one.id!r} occurs twice")
        found[one.id] = one
    return list(found.values())


class TallyFile:
    """The statistics of a set of experiences, and what episodes under way were given, in one file.

    Several processes may update it.

    An update reads the file, changes it and replaces it whole under a lock, so that a crash
    leaves the old statistics or the new, and no process overwrites another's update.

    Args:
        path: The file; made with the first update.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = FileLock(f"{path}.lock", timeout=LOCK_S)

    def read(self) -> Mapping[str, Tally]:
        """Statistics by experience id.

        Raises:
            ConfigurationError: The file is damaged or of another version.
        """
        return self._read().tallies

    def chosen(self, env_id: str) -> str | None:
        """The experience that an episode under way was given, by :meth:`choose`; ``None`` for none.

        Raises:
            ConfigurationError: As for :meth:`read`.
        """
        return self._read().chosen.get(env_id)

    def choose(self, env_id: str, experience_id: str) -> None:
        """Note which experience an episode was given, for the process that resumes it after a crash."""
        with self._changing() as file:
            file.chosen[env_id] = experience_id

    def forget(self, env_id: str) -> None:
        """Remove the choice of an episode that ended without a verdict."""
        with self._changing() as file:
            file.chosen.pop(env_id, None)

    def update(
        self, experience_id: str, reward: float, features: Sequence[float] = (), *, env_id: str | None = None
    ) -> None:
        """Add one verdict: ``reward`` came of using the experience where the prompt had ``features``.

        Args:
            features: Those of the prompt; empty where the choice depended on none.
            env_id: The episode that has ended with it.
        """
        with self._changing() as file:
            tally = file.tallies.get(experience_id, Tally())
            file.tallies[experience_id] = _updated(tally, reward, features)
            if env_id is not None:
                file.chosen.pop(env_id, None)

    def _read(self) -> _File:
        if not self._path.exists():
            return _File()
        try:
            file = _File.model_validate_json(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ConfigurationError(f"{self._path}: damaged statistics: {error}") from error
        if file.version != FORMAT:
            raise ConfigurationError(
                f"{self._path}: version {file.version} is not supported; this program reads {FORMAT}"
            )
        return file

    @contextmanager
    def _changing(self) -> Iterator[_File]:
        """Yield the file's content under the lock, then write it back."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._lock:
            file = self._read()
            yield file
            self._replace(file.model_dump_json())

    def _replace(self, text: str) -> None:
        beside = self._path.with_name(f"{self._path.name}.new")
        with beside.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, self._path)


def _updated(tally: Tally, reward: float, features: Sequence[float]) -> Tally:
    """One step of ridge regression with a diagonal precision, beside the plain mean.

    Without ``features`` what was learned of them stays as it is.
    """
    if not features:
        return tally.model_copy(update={"used": tally.used + 1, "total": tally.total + reward})
    weights = tally.weights or [0.0] * len(features)
    precision = tally.precision or [1.0] * len(features)
    sums = [w * p + reward * x for w, p, x in zip(weights, precision, features, strict=True)]
    precision = [p + x * x for p, x in zip(precision, features, strict=True)]
    return Tally(
        used=tally.used + 1,
        total=tally.total + reward,
        weights=[s / p for s, p in zip(sums, precision, strict=True)],
        precision=precision,
    )


logger = logging.getLogger(__name__)

EXPLORATION: Final = math.sqrt(2.0)
"""Weight of the bound's width in UCB1 for rewards in [0, 1] (Auer, Cesa-Bianchi, Fischer 2002)."""


class ExperienceHandler(ABC):
    """Adds one experience to every prompt of an episode, the one chosen at its first step.

    The choice is stored with the statistics until the episode has ended, so that it is the same after a crash
    and resume.

    An episode without a verdict (the endpoint or the environment failed) does not count: the experience did
    not cause that.
    """

    def __init__(self, experiences: Sequence[Experience], tallies: TallyFile) -> None:
        self._experiences = experiences
        self._tallies = tallies
        self._chosen: dict[str, tuple[Experience, Sequence[float]] | None] = {}

    def handle(self, messages: Sequence[Message], context: EpisodeContext) -> Sequence[Message]:
        """The messages with the episode's experience in the system message."""
        if context.env_id not in self._chosen:
            self._chosen[context.env_id] = self._select(messages, context)
        chosen = self._chosen[context.env_id]
        return messages if chosen is None else with_advice(messages, chosen[0].text)

    def on_episode_end(self, context: EpisodeContext, outcome: EpisodeOutcome) -> None:
        """Add the episode's reward to the statistics of its experience."""
        chosen = self._chosen.pop(context.env_id, None)
        reward = outcome.total_reward
        if chosen is None:
            return
        if reward is None or not math.isfinite(reward):
            self._tallies.forget(context.env_id)
        else:
            self._tallies.update(chosen[0].id, reward, chosen[1], env_id=context.env_id)

    def _select(
        self, messages: Sequence[Message], context: EpisodeContext
    ) -> tuple[Experience, Sequence[float]] | None:
        fitting = [one for one in self._experiences if one.env_name in (None, context.env_name)]
        if not fitting:
            return None
        features = self.features(messages)
        before = self._tallies.chosen(context.env_id)
        for one in fitting:
            if one.id == before:
                return one, features
        tallies = self._tallies.read()
        known = {one.id: tallies.get(one.id, Tally()) for one in fitting}
        best = max(fitting, key=lambda one: self.value(one, known, features))
        try:
            self._tallies.choose(context.env_id, best.id)
        except OSError as error:  # e.g. a full disk; the episode goes on
            logger.warning("the experience chosen for %s could not be saved: %s", context.env_id, error)
        return best, features

    def features(self, messages: Sequence[Message]) -> Sequence[float]:
        """What of a prompt the choice depends on; nothing unless a handler says so."""
        return ()

    @abstractmethod
    def value(self, experience: Experience, known: Mapping[str, Tally], features: Sequence[float]) -> float:
        """How promising ``experience`` is; the largest is used, the first of equals."""


class TemplateHandler(ExperienceHandler):
    """Adds the experience with the highest mean reward so far; untried ones count as 0."""

    def value(self, experience: Experience, known: Mapping[str, Tally], features: Sequence[float]) -> float:
        """Its mean reward."""
        return known[experience.id].mean


class UcbHandler(ExperienceHandler):
    """Adds the experience with the highest upper confidence bound (UCB1); each is tried once first."""

    def value(self, experience: Experience, known: Mapping[str, Tally], features: Sequence[float]) -> float:
        """Mean reward plus the width of its bound; infinite before the first try."""
        tally = known[experience.id]
        if not tally.used:
            return math.inf
        tried = sum(one.used for one in known.values())
        return tally.mean + EXPLORATION * math.sqrt(math.log(tried) / tally.used)


DIMENSIONS: Final = 64
"""Length of a hashed text."""

LEXICAL_PRIOR: Final = 0.35
"""Weight of the likeness of words between prompt and experience, before anything was learned."""

CONTEXTUAL_EXPLORATION: Final = 1.0
"""Weight of the uncertainty (alpha of LinUCB; Li et al. 2010)."""

WORD: Final = re.compile(r"[a-z0-9]+")


def hashed_text(text: str) -> list[float]:
    """Words of ``text`` hashed into :data:`DIMENSIONS` signed counts, scaled to length 1 (all 0 if empty).

    Example:
        >>> vector = hashed_text("bowl full at the stumps")
        >>> len(vector), round(sum(x * x for x in vector), 6)
        (64, 1.0)
        >>> hashed_text("Bowl FULL at the stumps!") == vector
        True
    """
    counts = [0.0] * DIMENSIONS
    for word in WORD.findall(text.lower()):
        place = zlib.crc32(word.encode())
        counts[place % DIMENSIONS] += 1.0 if place & 0x80000000 else -1.0
    length = math.sqrt(sum(count * count for count in counts))
    return [count / length for count in counts] if length else counts


class ContextualUcbHandler(ExperienceHandler):
    """Adds the experience with the highest upper confidence bound for this very prompt."""

    def features(self, messages: Sequence[Message]) -> Sequence[float]:
        """The text of the prompt, hashed."""
        texts = (message.get("content") for message in messages)
        return hashed_text(" ".join(text for text in texts if isinstance(text, str)))

    def value(self, experience: Experience, known: Mapping[str, Tally], features: Sequence[float]) -> float:
        """Predicted reward, its uncertainty, and how alike the words of prompt and experience are."""
        tally = known[experience.id]
        weights = tally.weights or [0.0] * len(features)
        precision = tally.precision or [1.0] * len(features)
        predicted = sum(w * x for w, x in zip(weights, features, strict=True))
        variance = sum(x * x / p for x, p in zip(features, precision, strict=True))
        likeness = sum(a * b for a, b in zip(hashed_text(experience.text), features, strict=True))
        return predicted + CONTEXTUAL_EXPLORATION * math.sqrt(variance) + LEXICAL_PRIOR * likeness
