"""The field that a captain asks for: a preset by name, or nine fielders by their places."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from spectator.environments.cricket.ball.grounds import Boundaries
from spectator.environments.cricket.captaincy.arguments import PlacedFielder
from spectator.environments.cricket.laws.innings import LawBroken
from spectator.environments.cricket.match.field import Field, check_field, custom_field, preset_field
from spectator.environments.cricket.match.positions import PRESET_NAMES, STANDARD
from spectator.text import clean_text

NAME_LIMIT: Final = 40


def chosen_field(
    preset: str | None, fielders: Sequence[PlacedFielder] | None, outside_limit: int, faced: Boundaries = ()
) -> Field:
    """The field of a preset (the standard one without a name) or of nine fielders, if it is lawful.

    Args:
        preset: Name of a preset.
        fielders: Nine fielders, instead of a preset.
        outside_limit: Most fielders outside the ring for the next ball.
        faced: The boundaries as the striker sees them; empty for the neutral ground.

    Raises:
        LawBroken: Both are given, the preset is unknown, or the field would be called a no-ball.
    """
    if fielders is not None:
        if preset is not None:
            raise LawBroken("arguments.set_field", "Name a preset or place nine fielders, not both.")
        field = custom_field([(clean_text(man.name, NAME_LIMIT), man.x, man.y) for man in fielders], faced)
    else:
        preset = STANDARD if preset is None else preset
        if preset not in PRESET_NAMES:
            known = ", ".join(PRESET_NAMES)
            raise LawBroken(
                "arguments.preset", f"No preset {clean_text(preset, NAME_LIMIT)!r}. Known: {known}."
            )
        field = preset_field(preset, outside_limit)
    check_field(field, outside_limit)
    return field
