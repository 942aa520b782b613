"""The decision cache: a file of decisions that a model made, keyed by what it was asked.

NDJSON, UTF-8. The first line is ``{"format", "version", "model", "style"}``; each other line one decision::

    {"context": sha256, "occurrence": n, "decision": {...}, "from": {"episode_id", "turn", "actor"}}
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from spectator.errors import ConfigurationError, field_errors
from spectator.events import encode_json, later_field
from spectator.failures import FailureClass
from spectator.observations import Observation
from spectator.ordinary_files import need_ordinary
from spectator.policies.prompting import Style

FORMAT: Final = "spectator.decisions"
"""What the first line of a cache names itself."""

VERSION: Final = 1
"""Version of the format; a file of another one is refused."""

Key = tuple[str, int]
"""A context, and how often it had come up before in the same episode."""

_Model = TypeVar("_Model", bound=BaseModel)

Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class _Line(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class CacheHead(_Line):
    """Whose decisions a cache holds."""

    format: Literal["spectator.decisions"] = FORMAT
    version: Literal[1] = VERSION
    model: str = Field(min_length=1, description="The model that was asked, by its name at its endpoint")
    style: Style = Field(description="How it was asked")


class CachedDecision(_Line):
    """What was decided."""

    action: dict[str, Any]
    source: Literal["model", "fallback"]
    reasoning: str = ""
    raw_text: str | None = None
    parse: Literal["ok", "repaired", "failed"] | None = None
    fallback_reason: str | None = None
    failure_class: FailureClass | None = later_field("The kind of failure behind a fallback")
    model: str | None = None


class Origin(_Line):
    """Where a decision was recorded."""

    episode_id: str
    turn: int = Field(ge=1)
    actor: str


class CacheLine(_Line):
    """One decision, and what it answers."""

    context: Sha256
    occurrence: int = Field(ge=0)
    decision: CachedDecision
    origin: Origin = Field(alias="from")

    @property
    def key(self) -> Key:
        """What it answers."""
        return self.context, self.occurrence


def context_hash(task: str, head: CacheHead, observation: Observation) -> str:
    """SHA-256, in hex, of what a model is asked about ``observation``; equal in every process.

    Its own past turns are no part of it: an observation holds all that the world lets an actor know.

    Args:
        task: What it is told of the game.
        head: Which model, and how it is asked.
        observation: What it sees, its legal actions included.
    """
    asked = {
        "version": VERSION,
        "task": task,
        "model": head.model,
        "style": head.style,
        "observation": observation.to_json(),
    }
    return hashlib.sha256(json.dumps(asked, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


class DecisionCache:
    """Decisions of one model, by what it was asked.

    Args:
        head: Whose they are.
        name: What errors call it.
    """

    def __init__(self, head: CacheHead, name: str) -> None:
        self.head = head
        self.name = name
        self._lines: dict[Key, CacheLine] = {}

    def __len__(self) -> int:
        return len(self._lines)

    def __iter__(self) -> Iterator[CacheLine]:
        return iter(self._lines.values())

    def find(self, context: str, occurrence: int) -> CachedDecision | None:
        """What was decided; ``None`` when this was never asked."""
        line = self._lines.get((context, occurrence))
        return None if line is None else line.decision

    def add(self, line: CacheLine) -> bool:
        """Keep ``line`` unless its question has an answer; whether that is another answer."""
        kept = self._lines.setdefault(line.key, line)
        return kept.decision.action != line.decision.action

    @classmethod
    def load(cls, path: Path) -> DecisionCache:
        """Read a cache.

        Raises:
            ConfigurationError: It cannot be read, or a line breaks the format; the line is named.
        """
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(f"the cache {path} cannot be read: {error}") from error
        if not lines:
            raise ConfigurationError(f"the cache {path} is empty")
        cache = cls(_read(CacheHead, lines[0], path, 1), path.name)
        for number, text in enumerate(lines[1:], 2):
            cache.add(_read(CacheLine, text, path, number))
        return cache

    def save(self, path: Path) -> None:
        """Write it, in place of what was there, whole or not at all.

        Raises:
            ConfigurationError: It cannot be written.
        """
        need_ordinary(path)
        told = [self.head.model_dump(), *(line.model_dump(by_alias=True) for line in self)]
        scratch = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            scratch.write_text("".join(f"{encode_json(one)}\n" for one in told), encoding="utf-8")
            scratch.replace(path)
        except OSError as error:
            scratch.unlink(missing_ok=True)
            raise ConfigurationError(f"the cache {path} cannot be written: {error}") from error


def _read(model: type[_Model], text: str, path: Path, number: int) -> _Model:
    try:
        return model.model_validate_json(text)
    except ValidationError as error:
        wrong = "; ".join(f"{one.field}: {one.rule}" for one in field_errors(_problems(error)))
        raise ConfigurationError(f"the cache {path}, line {number}: {wrong}") from error


def _problems(error: ValidationError) -> Any:
    return error.errors(include_input=False, include_url=False)
