"""What is said of a match before its toss: the ground, who is the stronger, and who is in form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from spectator.environments.cricket.ball.grounds import USUAL_M
from spectator.environments.cricket.match.descriptions import surname
from spectator.environments.cricket.people.day import FORM_SD

Data = Mapping[str, Any]

SIDES_APART_M: Final = 8.0
"""From so many metres on, one side of a ground is said to be the shorter."""
UNEQUAL: Final = 25.0
"""From so many Elo points on, a side is said to be the stronger."""
TOLD_FORM: Final = 1.5 * FORM_SD
EVEN_MATCHED: Final = "On paper there is nothing between them."


def before_the_toss(data: Data) -> Iterator[str]:
    """Sentences about the circumstances of a match; none about the ordinary ones.

    Args:
        data: Data of ``cricket.match_arranged``.
    """
    if "ground" in data:
        yield ground_words(data["ground"]["boundaries"])
    if "squad_difference" in data:
        yield _strength(data, data["squad_difference"])
    for side in ("home", "away"):
        words = _form(data["form"][side]) if "form" in data else ""
        if words:
            yield f"{data[side]['name']}: {words}."


def ground_words(boundaries: list[float]) -> str:
    """A sentence on how far the rope is.

    Args:
        boundaries: Metres by sector, as a right-hander at the first end sees them.

    >>> ground_words([64, 60, 60, 66, 72, 78, 78, 72])
    'The boundary is 60 metres on one side and 78 on the other; the ends change that every over.'
    """
    one, other = (sum(boundaries[at : at + 2]) / 2.0 for at in (1, 5))
    straight = (boundaries[3] + boundaries[4]) / 2.0
    if abs(one - other) >= SIDES_APART_M:
        near, far = sorted((one, other))
        sides = f"{near:.0f} metres on one side and {far:.0f} on the other"
        return f"The boundary is {sides}; the ends change that every over."
    square = (one + other) / 2.0
    small, big = max(square, straight) < USUAL_M, min(square, straight) > USUAL_M
    size = "A small ground" if small else "A big ground" if big else "The boundary"
    return f"{size}: {square:.0f} metres square of the wicket, {straight:.0f} straight."


def _strength(data: Data, difference: float) -> str:
    if abs(difference) < UNEQUAL:
        return EVEN_MATCHED
    stronger = data["home" if difference > 0 else "away"]["name"]
    return f"{stronger} have the stronger squad, by {abs(difference):.0f} rating points."


def _form(players: list[Data]) -> str:
    """Who is in form and who is not; empty when nobody stands out."""
    in_form = [one for one in players if _picked_for(one) >= TOLD_FORM]
    out = [one for one in players if _picked_for(one) <= -TOLD_FORM]
    parts = [
        f"{', '.join(surname(one['name']) for one in found[:3])} {words}"
        for found, words in ((in_form, "in form"), (out, "out of form"))
        if found
    ]
    return "; ".join(parts)


def _picked_for(player: Data) -> float:
    """The form in what he is picked for: a bowler's as a bowler."""
    return float(player["bat"] if player["bowl"] is None else player["bowl"])
