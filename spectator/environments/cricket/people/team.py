"""A side in a match: its players by index and name, its keeper, and who can bowl."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from spectator.environments.cricket.laws.deliveries import Side
from spectator.environments.cricket.people.players import STYLE_TITLES, Player
from spectator.environments.cricket.people.squads import Squad

PART_TIME_RUNS = 1.15
PART_TIME_WICKETS = 0.75
"""House figures for somebody who does not bowl and has to: no table has them, real sides avoid it."""


@dataclass(frozen=True, slots=True)
class Team:
    """A squad in a match.

    Args:
        side: Which actor captains it.
        name: Name of the side.
        short: Two or three capitals.
        players: The eleven in their natural order.
        bowlers: The same as bowlers: one who does not bowl is an occasional off spinner.
        keeper: Index of the wicket-keeper, who does not bowl.
        bowling_worth: Worth of each as a bowler: about 0 for the average, far less for the occasional.
        death_bowlers: The two best quick bowlers.
        bowls: Whether each usually bowls.
        bowls_spin: Whether each bowls spin when he has to.
        kinds: Bowling style of each in words.
    """

    side: Side
    name: str
    short: str
    players: tuple[Player, ...]
    bowlers: tuple[Player, ...]
    keeper: int
    bowling_worth: tuple[float, ...]
    death_bowlers: tuple[int, ...]
    bowls: tuple[bool, ...]
    bowls_spin: tuple[bool, ...]
    kinds: tuple[str, ...]

    @staticmethod
    def of(side: Side, squad: Squad, *, not_short: str = "") -> Team:
        """The team of a squad; its short name is not ``not_short``."""
        players = squad.players
        return Team(
            side=side,
            name=squad.name,
            short=_short(squad.name, not_short),
            players=players,
            bowlers=tuple(as_bowler(player) for player in players),
            keeper=players.index(squad.keeper),
            bowling_worth=tuple(bowling_worth(player) for player in players),
            death_bowlers=best_quick(players),
            bowls=tuple(player.bowls is not None for player in players),
            bowls_spin=tuple(player.bowls != "pace" for player in players),
            kinds=tuple(kind_in_words(player) for player in players),
        )

    def named(self, index: int | None) -> str:
        """Name of the player at ``index``; empty for ``None``."""
        return "" if index is None else self.players[index].name

    def find(self, name: str) -> int | None:
        """Index of the player called ``name``, in any case; a surname alone will do."""
        wanted = name.strip().casefold()
        for index, player in enumerate(self.players):
            if wanted in (player.name.casefold(), player.surname.casefold()):
                return index
        return None

    def card(self, index: int, *, formed: bool = False) -> dict[str, Any]:
        """What both captains know of a player, plain JSON.

        Args:
            index: Whose card.
            formed: Whether players have a form of the day.
        """
        player = self.players[index]
        card: dict[str, Any] = {
            "name": player.name,
            "order": player.order,
            "role": player.role,
            "bats": player.bats,
            "bat_runs": round(player.bat_runs, 2),
            "bat_out": round(player.bat_out, 2),
            "bat_spin": player.bat_spin,
            "bat_short": player.bat_short,
            "bat_leg": player.bat_leg,
        }
        if player.bowls:
            card |= {
                "bowls": STYLE_TITLES[player.style or "off"],
                "bowl_runs": round(player.bowl_runs, 2),
                "bowl_wickets": round(player.bowl_wickets, 2),
            }
        if formed:
            card["bat_form"] = player.bat_form
            if player.bowls:
                card["bowl_form"] = player.bowl_form
        return card


def teams_of(squads: Sequence[Squad]) -> dict[Side, Team]:
    """Home and away teams of two squads."""
    home = Team.of("home", squads[0])
    return {"home": home, "away": Team.of("away", squads[1], not_short=home.short)}


def _short(name: str, taken: str) -> str:
    words = name.replace("-", " ").split()
    short = "".join(word[0] for word in words[:3]) if len(words) > 1 else name[:3]
    short = short.upper()
    return short if short != taken else (name[:3].upper() if name[:3].upper() != taken else name[:4].upper())


def kind_in_words(player: Player) -> str:
    """Bowling style of a player in words; an occasional one for who does not usually bowl."""
    title = STYLE_TITLES[as_bowler(player).style or "off"]
    return title if player.bowls else f"occasional {title}"


def bowling_worth(player: Player) -> float:
    """Worth of a player as a bowler: about 0 for the average, far less for one who does not bowl."""
    if player.bowls is None:
        return -6.0
    return 2.0 * math.log(player.bowl_wickets / player.bowl_runs**2)


def best_quick(players: Sequence[Player]) -> tuple[int, ...]:
    """Indices of the two best quick bowlers, the best first."""
    quick = [index for index, player in enumerate(players) if player.bowls == "pace"]
    return tuple(sorted(quick, key=lambda index: -bowling_worth(players[index]))[:2])


def as_bowler(player: Player) -> Player:
    """The player as a bowler: who does not bowl is an occasional off spinner."""
    if player.bowls:
        return player
    return replace(
        player, bowls="spin", style="off", bowl_runs=PART_TIME_RUNS, bowl_wickets=PART_TIME_WICKETS
    )
