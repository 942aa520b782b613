"""Owns the evaluation packs: named, versioned sets of matches."""

from __future__ import annotations

from typing import Final

from spectator.environments.base import Pack

PACKS: Final[dict[str, Pack]] = {
    pack.name: pack for pack in (Pack("default", "1", "A whole match from the toss, as long as asked."),)
}
