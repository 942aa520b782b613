"""Owns the commentary: what is said about a match, drawn from its events alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from spectator.events import Event
from spectator.narration.base import Line


def comment(event: Event, state: Mapping[str, Any]) -> Sequence[Line]:
    """Lines about ``event``."""
    data = event.data
    if event.type == "cricket.ball_bowled":
        return [Line(data["words"], at=data["at"], label=data["mark"])]
    if event.type == "cricket.match_ended":
        return [Line(data["result"] + ".", priority=0)]
    return ()
