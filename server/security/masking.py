"""Mask names that the operator hides, and store the operator's orders.

The record keeps every name. A name is masked as a whole word in any text; field names and values of the
protocol, such as an event's type, stay. Orders (hidden names, paused starts) survive a restart.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final, Protocol

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from spectator.errors import ConfigurationError, JournalUnavailable
from spectator.events import decode_json, encode_json
from spectator.journal.encoding import atomic_file

HIDDEN: Final = "(name hidden)"
"""Replaces a hidden name."""

FIELD_NAME: Final = re.compile(r"[a-z][a-z0-9_.\-]*")

PROTOCOL_FIELDS: Final = frozenset(
    {
        "agent", "at", "captain", "captain_preset", "environment", "environment_version", "episode_id",
        "epoch", "frame", "id", "opponent", "opponent_choice", "pace", "pack", "policy", "reason", "source",
        "speaks", "status", "type",
    }
)  # fmt: skip
"""Fields whose value is not masked if it looks like a field name."""

FREE: Final = frozenset({"action", "glance", "observation", "world"})
"""Fields whose content is never the protocol's own, so all of it is masked."""

NDJSON: Final = "application/x-ndjson"

DIGEST_HEADER: Final = "Spectator-Digest"
"""Header with the last digest of a record; masked copies have a different one."""


class NameMask:
    """Masks hidden names.

    >>> mask = NameMask({"Bo"})
    >>> mask.text("Bo beats Bob"), mask.json('{"label":"Bo","type":"Bo?","Bo":1}')
    ('(name hidden) beats Bob', '{"label":"(name hidden)","type":"(name hidden)?","(name hidden)":1}')
    """

    def __init__(self, names: Collection[str] = ()) -> None:
        longest_first = sorted(names, key=lambda name: (-len(name), name))
        self.names = tuple(longest_first)
        """The names; if empty, nothing is masked."""
        self._written = tuple(json.dumps(name, ensure_ascii=False)[1:-1] for name in longest_first)
        self._words = re.compile("|".join(map(_word, longest_first))) if longest_first else None

    def text(self, text: str) -> str:
        """Return ``text`` without the names."""
        return text if self._words is None else self._words.sub(HIDDEN, text)

    def json(self, text: str) -> str:
        """Return JSON text without the names; the same object if it holds none."""
        if not any(written in text for written in self._written):
            return text
        shown = decode_json(text)
        masked = self.value(shown)
        return text if masked == shown else encode_json(masked)

    def value(self, value: Any, *, free: bool = False) -> Any:
        """Return a JSON value without the names.

        Args:
            free: Whether nothing in it is the protocol's own.
        """
        if self._words is None:
            return value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self._key(name): self._field(name, one, free) for name, one in value.items()}
        if isinstance(value, list | tuple):
            return [self.value(one, free=free) for one in value]
        return value

    def forming(self, text: str, *, cut: bool, over: bool) -> str:
        """Return unfinished text without what may be a part of a name at its ends.

        Args:
            cut: Whether its beginning was cut off.
            over: Whether nothing more follows.

        >>> NameMask({"Bo Peep"}).forming("Peep sees Bo P", cut=True, over=False)
        ' sees '
        """
        shown = self.text(text)
        for name in self.names:
            for size in range(len(name) - 1, 0, -1):
                if cut and shown.startswith(name[-size:]):
                    shown, cut = shown[size:], False
                if not over and shown.endswith(name[:size]):
                    shown, over = shown[:-size], True
        return shown

    def _key(self, name: str) -> str:
        return name if FIELD_NAME.fullmatch(name) else self.text(name)

    def _field(self, name: str, value: Any, free: bool) -> Any:
        if not free and name in PROTOCOL_FIELDS and isinstance(value, str) and FIELD_NAME.fullmatch(value):
            return value
        return self.value(value, free=free or name in FREE)


def _word(name: str) -> str:
    before = r"(?<!\w)" if re.match(r"\w", name) else ""
    after = r"(?!\w)" if re.search(r"\w\Z", name) else ""
    return f"{before}{re.escape(name)}{after}"


class NameMaskSource(Protocol):
    """The part of the operator's orders that masks names."""

    mask: NameMask
    """Masks the names that are hidden now; a new object after every change."""


ORDERS_FILE: Final = "operator.json"


class StoredOrders(BaseModel):
    """The orders as stored in their file."""

    model_config = ConfigDict(extra="forbid")

    paused_since: str | None = Field(default=None, description="RFC 3339; null while starts are open")
    hidden: frozenset[str] = Field(default=frozenset(), description="Hidden names")


class OperatorOrders:
    """The operator's orders.

    Raises:
        ConfigurationError: The file is unreadable.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / ORDERS_FILE
        try:
            self.kept = StoredOrders.model_validate_json(self._path.read_bytes())
        except FileNotFoundError:
            self.kept = StoredOrders()
        except (OSError, ValidationError) as error:
            raise ConfigurationError(f"{self._path} is unreadable; fix or delete it: {error}") from error
        self.mask = NameMask(self.kept.hidden)
        """Masks the names that are hidden now; a new object after every change."""

    @property
    def paused(self) -> bool:
        """Whether starts are paused."""
        return self.kept.paused_since is not None

    def give(self, **changes: object) -> None:
        """Change the orders; the change takes effect once it is on disk.

        Raises:
            JournalUnavailable: The file cannot be written; nothing is changed.
        """
        kept = StoredOrders.model_validate({**self.kept.model_dump(), **changes})
        try:
            with atomic_file(self._path) as file:
                file.write(json.dumps(kept.model_dump(mode="json"), ensure_ascii=False, indent=1) + "\n")
        except (OSError, ConfigurationError) as error:
            raise JournalUnavailable(f"{self._path} cannot be written: {error}") from error
        self.kept, self.mask = kept, NameMask(kept.hidden)
