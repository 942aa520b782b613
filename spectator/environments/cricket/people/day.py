"""What sets two squads apart on the day: the form of each player, and a stated difference of strength."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import Final

from spectator.environments.cricket.people.players import Player
from spectator.environments.cricket.people.squads import Squad

FORM_SD: Final = 0.08
"""Spread of form, as a log ratio of runs: as much as the runs of professionals differ anyhow
(player_skill.json); an assumption, since no table of ours tells form from luck."""

UNEVEN_SD: Final = 100.0
"""Spread of the difference of two uneven squads, in Elo points; an assumption."""
MOST_UNEVEN: Final = 400.0

SKILL_A_POINT: Final = 0.00045
"""Log ratio of every skill of a side, at twenty overs, for each Elo point of difference: half of it is given
to one side and half taken from the other. Measured by simulation (docs/cricket-game.md)."""
FULL_OVERS: Final = 20
OVERS_POWER: Final = 0.25
"""How the skill that a point takes goes with the overs: shorter matches are more of a lottery."""

Squads = tuple[Squad, Squad]


def in_form(rng: random.Random, squad: Squad) -> Squad:
    """The squad on a day: each player's form as a batter and, if he bowls, as a bowler.

    Form is drawn about 0, is as often good as bad, and goes no further than two standard deviations.
    """

    def drawn() -> float:
        return round(FORM_SD * max(-2.0, min(2.0, rng.gauss(0.0, 1.0))), 2) + 0.0

    def formed(player: Player) -> Player:
        bat, bowl = drawn(), drawn()
        return replace(player, bat_form=bat, bowl_form=bowl if player.bowls else 0.0)

    return Squad(squad.name, tuple(formed(player) for player in squad.players))


def draw_difference(rng: random.Random) -> float:
    """Elo points by which the home squad is the stronger; below 0 it is the weaker."""
    return float(round(max(-2.5, min(2.5, rng.gauss(0.0, 1.0))) * UNEVEN_SD))


def apart(squads: Squads, difference: float, overs: int) -> Squads:
    """Two squads of which the first is the stronger by so many Elo points, in a match of so many overs.

    >>> from spectator.environments.cricket.people.squads import draw_fixture
    >>> home, away = apart(draw_fixture(7), 200.0, overs=20)
    >>> home.players[0].bat_runs > draw_fixture(7)[0].players[0].bat_runs
    True
    """
    if not difference:
        return squads
    skill = 0.5 * SKILL_A_POINT * difference * (FULL_OVERS / overs) ** OVERS_POWER
    home, away = squads
    return _moved(home, skill), _moved(away, -skill)


def _moved(squad: Squad, skill: float) -> Squad:
    more, less = math.exp(skill), math.exp(-skill)

    def moved(player: Player) -> Player:
        bowls = player.bowls is not None
        return replace(
            player,
            bat_runs=_kept(player.bat_runs * more),
            bat_out=_kept(player.bat_out * less),
            bowl_runs=_kept(player.bowl_runs * less) if bowls else player.bowl_runs,
            bowl_wickets=_kept(player.bowl_wickets * more) if bowls else player.bowl_wickets,
        )

    return Squad(squad.name, tuple(moved(player) for player in squad.players))


def _kept(ratio: float) -> float:
    return min(5.0, max(0.2, ratio))
