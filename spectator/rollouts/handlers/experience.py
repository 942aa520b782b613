"""Experiences that can be added to a prompt, and the file that keeps how often each helped."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final

from filelock import FileLock
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from spectator.errors import ConfigurationError

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
        total: Sum of their rewards.
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
        raise ConfigurationError(f"{path}: a list of experiences is wanted, not {type(entries).__name__}")
    if not entries:
        raise ConfigurationError(f"{path}: at least one experience is wanted")
    found: dict[str, Experience] = {}
    for number, entry in enumerate(entries, 1):
        try:
            one = Experience.model_validate(entry)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"]) or "entry"
            raise ConfigurationError(f"{path}: entry {number}: {where}: {first['msg']}") from error
        if one.id in found:
            raise ConfigurationError(f"{path}: entry {number}: id: {one.id!r} stands twice")
        found[one.id] = one
    return list(found.values())


class TallyFile:
    """The statistics of a set of experiences, and what episodes under way were given, in one file.

    Several processes may update it.

    An update reads the file, changes it and replaces it whole under a lock, so that a death at any moment
    leaves the old statistics or the new, and no process overwrites what another learned.

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
        """Note which experience an episode was given, for whoever plays it on after a death."""
        with self._changing() as file:
            file.chosen[env_id] = experience_id

    def forget(self, env_id: str) -> None:
        """Note that an episode has ended from which nothing is learned."""
        with self._changing() as file:
            file.chosen.pop(env_id, None)

    def update(
        self, experience_id: str, reward: float, features: Sequence[float] = (), *, env_id: str | None = None
    ) -> None:
        """Add one verdict: ``reward`` came of using the experience where the prompt had ``features``.

        Args:
            experience_id: The experience.
            reward: What came of it.
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
            raise ConfigurationError(f"{self._path}: version {file.version}; this one reads {FORMAT}")
        return file

    @contextmanager
    def _changing(self) -> Iterator[_File]:
        """The file's content, which is written once it was changed."""
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
