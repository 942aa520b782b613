"""What a match is played in: squads, pitch, evening, ground and form, by its seed and options."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from spectator.environments.cricket.ball.grounds import GROUNDS, NEUTRAL_GROUND, Ground, draw_ground
from spectator.environments.cricket.ball.matchups import EVEN, Conditions, draw_conditions
from spectator.environments.cricket.laws.deliveries import Side
from spectator.environments.cricket.people.day import apart, draw_difference, in_form
from spectator.environments.cricket.people.squads import draw_fixture
from spectator.environments.cricket.people.team import Team, teams_of
from spectator.environments.seeds import derive_seed

DRAWN: Final = "drawn"
UNEVEN: Final = "uneven"
LEVEL: Final = "level"
VARIED: Final[Mapping[str, Any]] = {"ground": DRAWN, "form": DRAWN, "fatigue": True, "squads": UNEVEN}
"""All situations at once."""


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What both captains know of a match before its toss, but for its squads.

    Args:
        conditions: Pitch and evening.
        ground: The ground.
        fatigue: Whether bowlers tire.
        formed: Whether players have a form of the day.
        difference: Elo points by which the home squad is the stronger; ``None`` where squads are just drawn.

    Attributes:
        unusual: Whether an observation tells more of them than pitch, evening and cards.
    """

    conditions: Conditions = EVEN
    ground: Ground = NEUTRAL_GROUND
    fatigue: bool = False
    formed: bool = False
    difference: float | None = None
    unusual: bool = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        told = bool(self.ground.boundaries) or self.fatigue or self.difference is not None
        object.__setattr__(self, "unusual", told)


ORDINARY: Final = Circumstances()


def circumstances_of(seed: int, options: Mapping[str, Any]) -> Circumstances:
    """The circumstances of a match; what an option does not ask for is as it always was.

    Args:
        seed: Seed of the match.
        options: Its options.
    """
    ground, squads = options.get("ground", NEUTRAL_GROUND.name), options.get("squads", DRAWN)
    if squads == UNEVEN:
        difference: float | None = draw_difference(_generator(seed, "difference"))
    else:
        difference = None if squads == DRAWN else float(squads)
    return Circumstances(
        draw_conditions(_generator(seed, "conditions")),
        draw_ground(_generator(seed, "ground")) if ground == DRAWN else GROUNDS[ground],
        bool(options.get("fatigue", False)),
        options.get("form", LEVEL) == DRAWN,
        difference,
    )


def teams_in(seed: int, circumstances: Circumstances, overs: int) -> dict[Side, Team]:
    """Both teams of a match.

    Args:
        seed: Seed of the match.
        circumstances: Its circumstances.
        overs: Overs of an innings.
    """
    home, away = apart(draw_fixture(derive_seed(seed, "squads")), circumstances.difference or 0.0, overs)
    if circumstances.formed:
        rng = _generator(seed, "form")
        home, away = in_form(rng, home), in_form(rng, away)
    return teams_of((home, away))


def _generator(seed: int, part: str) -> random.Random:
    return random.Random(derive_seed(seed, part))
