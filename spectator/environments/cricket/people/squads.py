"""Fictional squads, drawn from the spread of skill that the data measure."""

from __future__ import annotations

import functools
import json
import math
import random
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from spectator.environments.cricket.people.names import TEAMS, draw_people, name_fault
from spectator.environments.cricket.people.players import (
    SPIN_STYLES,
    BowlingKind,
    BowlingStyle,
    Hand,
    Player,
    Role,
)

TRAIT_SD: Final = {"bat_spin": 0.15, "bat_short": 0.13, "bat_leg": 0.13}
"""Spread of batters' likes and dislikes, as log ratios of runs between spin and pace, short and full, leg and
off side: as much as the runs of professionals differ (player_skill.json); an assumption, no table has it."""

Job = tuple[Role, BowlingKind | None]

SQUAD_SIZE = 11
_SKILL_FILE = Path(__file__).parent.parent / "data" / "player_skill.json"

# Mean and standard deviation between bowlers, so that with the scatter of single balls the spread is that of
# the usual speeds of the professional game; an assumption (pace 130 km/h with slower balls, spin 90 km/h).
_STOCK_SPEED_KMH = {"pace": (135.0, 5.0), "spin": (91.0, 3.5)}

# Who plays where, in batting order: role, and the kind bowled (None: does not bowl). Six bowl in five sides
# of eight and seven in three, because 61 % of full innings use six bowlers, 24 % five and 13 % seven
# (bowler_usage.json); two to three are spinners, for spin bowls 38 % of balls.
_BATTER: Final[Job] = ("batter", None)
_KEEPER: Final[Job] = ("keeper", None)
_PACE_ROUNDER: Final[Job] = ("all-rounder", "pace")
_SPIN_ROUNDER: Final[Job] = ("all-rounder", "spin")
_PACER: Final[Job] = ("bowler", "pace")
_SPINNER: Final[Job] = ("bowler", "spin")
_TOP: Final = (_BATTER, _BATTER, _BATTER, _KEEPER)
_REST: Final = (
    (3, (_BATTER, _SPIN_ROUNDER, _PACE_ROUNDER, _SPINNER, _PACER, _PACER, _PACER)),
    (2, (_BATTER, _PACE_ROUNDER, _SPIN_ROUNDER, _SPINNER, _SPINNER, _PACER, _PACER)),
    (3, (_SPIN_ROUNDER, _PACE_ROUNDER, _SPIN_ROUNDER, _PACER, _SPINNER, _PACER, _PACER)),
)
"""How often the last seven places are so filled."""


@dataclass(frozen=True, slots=True)
class Squad:
    """Eleven who play, in their natural batting order.

    Args:
        name: Name of the side.
        players: Exactly eleven, with distinct ids and names.
    """

    name: str
    players: tuple[Player, ...]

    def __post_init__(self) -> None:
        fault = name_fault(self.name)
        if fault:
            raise ValueError(f"name {fault}")
        if len(self.players) != SQUAD_SIZE:
            raise ValueError(f"players must be {SQUAD_SIZE}, not {len(self.players)}")
        if len({player.id for player in self.players}) != SQUAD_SIZE:
            raise ValueError("players must have distinct ids")

    @property
    def bowlers(self) -> tuple[Player, ...]:
        """Those who bowl, in batting order."""
        return tuple(player for player in self.players if player.bowls is not None)

    @property
    def keeper(self) -> Player:
        """The first wicket-keeper of the order."""
        return next(player for player in self.players if player.role == "keeper")

    def player(self, player_id: str) -> Player:
        """Find one by id; raises `KeyError` when nobody has it."""
        for player in self.players:
            if player.id == player_id:
                return player
        raise KeyError(player_id)


def draw_fixture(seed: int, names: tuple[str | None, str | None] = (None, None)) -> tuple[Squad, Squad]:
    """Draw two squads that share neither a side's name nor a surname; equal arguments give equal squads.

    Ratios are log-normal with the latent standard deviations of ``player_skill.json``, by place in the order
    for batting and by kind for bowling: the true spread between professionals, which is smaller than that of
    raw averages.

    Args:
        seed: Any integer.
        names: Names of the sides, drawn from our list where ``None``; see :func:`.names.name_fault`.

    Raises:
        ValueError: A name breaks the rule for names.

    >>> home, away = draw_fixture(7)
    >>> home.name, home.players[0].name, len(away.bowlers)
    ('Red River', 'Jomar Parthane', 7)
    """
    rng = random.Random(f"fixture:{seed}")
    taken = {name for name in names if name is not None}
    drawn = rng.sample([team for team in TEAMS if team not in taken], 2)
    people = draw_people(rng, 2 * SQUAD_SIZE)
    home, away = (given or team for given, team in zip(names, drawn, strict=True))
    traits = random.Random(f"fixture:{seed}:traits")
    return (
        _with_traits(traits, _draw(random.Random(f"fixture:{seed}:a"), home, people[:SQUAD_SIZE], "a")),
        _with_traits(traits, _draw(random.Random(f"fixture:{seed}:b"), away, people[SQUAD_SIZE:], "b")),
    )


def _with_traits(rng: random.Random, squad: Squad) -> Squad:
    """The squad with every batter's likes and dislikes, clipped at two standard deviations."""

    def trait(name: str) -> float:
        return round(TRAIT_SD[name] * max(-2.0, min(2.0, rng.gauss(0.0, 1.0))), 2)

    return Squad(
        squad.name,
        tuple(
            replace(
                player,
                bat_spin=trait("bat_spin"),
                bat_short=trait("bat_short"),
                bat_leg=trait("bat_leg"),
            )
            for player in squad.players
        ),
    )


def _draw(rng: random.Random, team: str, people: tuple[str, ...], side: str) -> Squad:
    (rest,) = rng.choices([jobs for _, jobs in _REST], [weight for weight, _ in _REST])
    jobs = _TOP + rest
    skill = _skill()
    return Squad(
        team,
        tuple(
            _draw_player(rng, f"{side}{order}", person, role, kind, order, skill)
            for order, (person, (role, kind)) in enumerate(zip(people, jobs, strict=True), 1)
        ),
    )


def _draw_player(
    rng: random.Random,
    id_: str,
    name: str,
    role: Role,
    kind: BowlingKind | None,
    order: int,
    skill: dict[str, Any],
) -> Player:
    batting = skill["batters"][batting_group(order)]
    left = skill["left_handed_share_of_balls_by_position"][str(order)]
    bats: Hand = "left" if rng.random() < left else "right"
    runs = _ratio(rng, batting["run_rate_ratio"]["latent_sd"])
    out = _ratio(rng, batting["dismissal_ratio"]["latent_sd"])
    if kind is None:
        return Player(id_, name, role, order, bats, bat_runs=runs, bat_out=out)
    bowling = skill["bowlers"][kind]
    return Player(
        id_,
        name,
        role,
        order,
        bats,
        kind,
        _draw_style(rng, kind),
        runs,
        out,
        bowl_runs=_ratio(rng, bowling["runs_conceded_ratio"]["latent_sd"]),
        bowl_wickets=_ratio(rng, bowling["wicket_ratio"]["latent_sd"]),
        bowl_extras=_ratio(rng, bowling["wide_noball_ratio"]["latent_sd"]),
        speed_kmh=round(rng.gauss(*_STOCK_SPEED_KMH[kind]), 1),
    )


def batting_group(order: int) -> str:
    """Map a place in the order to the group of ``player_skill.json``."""
    return "top" if order <= 3 else "middle" if order <= 6 else "lower" if order <= 8 else "tail"


def _draw_style(rng: random.Random, kind: BowlingKind) -> BowlingStyle:
    (style,) = rng.choices(*_styles(kind))
    return style


@functools.cache
def _styles(kind: BowlingKind) -> tuple[list[BowlingStyle], list[float]]:
    """Styles of a kind of bowling, and how often regular bowlers have each."""
    shares: dict[BowlingStyle, float] = _skill()["bowler_style_share_of_regular_bowlers"]
    styles = [style for style in shares if (style in SPIN_STYLES) == (kind == "spin")]
    return styles, [shares[style] for style in styles]


def _ratio(rng: random.Random, latent_sd: float) -> float:
    """Draw a ratio with mean 1 and about this standard deviation, clipped at three of them."""
    sigma = math.sqrt(math.log1p(latent_sd**2))
    return math.exp(sigma * max(-3.0, min(3.0, rng.gauss(0.0, 1.0))) - sigma * sigma / 2)


@functools.cache
def _skill() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(_SKILL_FILE.read_text(encoding="utf-8"))
    return loaded
