"""What the operator ordered, kept across restarts: whether starts are paused, which names are hidden."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from spectator.errors import ConfigurationError, JournalUnavailable

from .masking import NameMask

FILE: Final = "operator.json"


class OrdersKept(BaseModel):
    """The orders as they lie in their file."""

    model_config = ConfigDict(extra="forbid")

    paused_since: str | None = Field(default=None, description="RFC 3339; null while starts are open")
    hidden: frozenset[str] = Field(default=frozenset(), description="Names that are shown to nobody")


class OperatorOrders:
    """The operator's orders.

    Args:
        folder: Where their file lies.

    Raises:
        ConfigurationError: It is there and cannot be read.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        try:
            self.kept = OrdersKept.model_validate_json(self._path.read_bytes())
        except FileNotFoundError:
            self.kept = OrdersKept()
        except (OSError, ValidationError) as error:
            raise ConfigurationError(f"{self._path} cannot be read; mend or remove it: {error}") from error
        self.mask = NameMask(self.kept.hidden)
        """Masks the names that are hidden now; another object after every change."""

    @property
    def paused(self) -> bool:
        """Whether starts are paused."""
        return self.kept.paused_since is not None

    def give(self, **changes: object) -> None:
        """Keep other orders; they hold once they are on the disk.

        Raises:
            JournalUnavailable: They could not be written; the former ones hold.
        """
        kept = OrdersKept.model_validate({**self.kept.model_dump(), **changes})
        written = self._path.with_suffix(".new")
        try:
            with written.open("w", encoding="utf-8") as file:
                file.write(json.dumps(kept.model_dump(mode="json"), ensure_ascii=False, indent=1) + "\n")
                file.flush()
                os.fsync(file.fileno())
            written.replace(self._path)
        except OSError as error:
            raise JournalUnavailable(f"{self._path} cannot be written: {error}") from error
        self.kept, self.mask = kept, NameMask(kept.hidden)
