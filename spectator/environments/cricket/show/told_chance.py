"""The chance to win that an event tells viewers."""

from __future__ import annotations

from spectator.events import Event


def told_chance(event: Event) -> float | None:
    """The home side's chance by a simulated forecast; ``None`` of any other event and once it is decided."""
    if event.type != "cricket.forecast" or not event.data["futures"]:
        return None
    chance: float = event.data["home"]
    return chance
