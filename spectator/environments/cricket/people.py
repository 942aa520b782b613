"""Cricketers: names, skills, drawn squads, form of the day, and teams."""

from __future__ import annotations

import functools
import json
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

from spectator.environments.cricket.laws import Side

Hand = Literal["right", "left"]
Role = Literal["batter", "keeper", "all-rounder", "bowler"]
BowlingKind = Literal["pace", "spin"]
BowlingStyle = Literal["right_pace", "left_pace", "off", "leg", "left_orth", "left_wrist"]

PACE_STYLES: tuple[BowlingStyle, ...] = ("right_pace", "left_pace")
SPIN_STYLES: tuple[BowlingStyle, ...] = ("off", "leg", "left_orth", "left_wrist")
STYLE_TITLES: dict[BowlingStyle, str] = {
    "right_pace": "right-arm pace",
    "left_pace": "left-arm pace",
    "off": "off spin",
    "leg": "leg spin",
    "left_orth": "slow left-arm orthodox",
    "left_wrist": "left-arm wrist spin",
}


@dataclass(frozen=True, slots=True)
class Player:
    """One cricketer; ratios are relative to 1, the average of the same job.

    Args:
        id: Unique within a match.
        order: Natural place in the batting order, 1 to 11; the model derives batting ability from it.
        bowls: Kind of bowling; ``None`` for a player who does not bowl.
        style: Bowling style; set exactly if ``bowls`` is, and of that kind.
        bat_runs: Runs per ball faced, relative to the average batter of that order in the same situation.
        bat_out: Dismissals per ball faced, likewise: below 1 is better.
        bowl_runs: Runs conceded per ball: below 1 is better.
        bowl_wickets: Wickets per ball: above 1 is better.
        bowl_extras: Wides and no-balls per ball: below 1 is better.
        bat_spin: How much more the batter scores off spin than off pace, as a log ratio of runs; 0 is usual.
        bat_short: The same for short balls against full ones.
        bat_leg: The same for the leg side against the off side.
        bat_form: Form of the day as a batter: a log ratio of runs, 0 is usual.
        bowl_form: The same as a bowler, for runs saved: above 0 is better.
        speed_kmh: Speed of the stock ball; 0 means the average of the kind (135 for pace, 91 for spin).
    """

    id: str
    name: str
    role: Role
    order: int
    bats: Hand = "right"
    bowls: BowlingKind | None = None
    style: BowlingStyle | None = None
    bat_runs: float = 1.0
    bat_out: float = 1.0
    bowl_runs: float = 1.0
    bowl_wickets: float = 1.0
    bowl_extras: float = 1.0
    speed_kmh: float = 0.0
    bat_spin: float = 0.0
    bat_short: float = 0.0
    bat_leg: float = 0.0
    bat_form: float = 0.0
    bowl_form: float = 0.0

    @property
    def surname(self) -> str:
        """The part of the name after the first space, as a scorecard prints it."""
        return self.name.partition(" ")[2] or self.name


# Invented for this world. Given names are common in cricketing countries; surnames are made up.
MEN = (
    "Aarav Adil Akeem Alder Amari Anders Anil Arlo Arno Ashan Bashir Beau Bevan Bram Caleb Callum "
    "Chamo Corin Dario Darsh Declan Deven Dilan Eamon Edrik Elias Emre Ewan Faisal Farid Finlay "
    "Gareth Gavan Hamish Haris Hendrik Ilyas Imre Isuru Ivo Jai Jamal Jarek Jomar Junaid Kasun Keiran "
    "Kemar Kiran Kofi Kyan Lahiru Leandro Levi Lorcan Lungi Mahir Malik Marlo Mehran Milo Mohan Nadir "
    "Nalin Neil Nikhil Niro Odean Omar Orin Osman Pavan Pieter Praveen Qasim Rafe Rahil Ravin Rohan "
    "Romel Ruan Sabir Sajid Samar Sefu Shane Sorin Tariq Tavin Teo Thabo Toby Udara Umar Vikram Wes "
    "Yasir Zane"
).split()
WOMEN = (
    "Aaliya Abena Adele Aditi Ailsa Aisha Akua Amara Amina Anaya Anneke Anouk Asha Ayesha Beatriz "
    "Bianca Bindi Bronte Carys Chandra Charis Chipo Claire Dalia Deepa Devi Dilani Efua Eilidh Elara "
    "Elif Erin Esme Farah Fatima Fiona Freya Gauri Gemma Hana Hetty Hira Imani Ines Isha Ishara Jaya "
    "Joanna Kavya Keisha Kirra Laila Lerato Lina Liyana Lucia Maeve Maha Maya Meera Mina Moana Nadia "
    "Naledi Nandi Neha Niamh Nila Noor Odette Orla Padma Pippa Priya Radha Rania Rhea Rina Rosa Roya "
    "Ruth Saba Sadia Safiya Samira Sanvi Shani Sinead Sita Tamsin Tara Thandi Uma Vera Yara Zahra "
    "Zara Zoya"
).split()
SURNAMES = (
    "Abrewin Akinvale Amberlok Antharo Arkwell Ashgrove Badrikar Balasund Banfathe Barravel Bexhorn "
    "Birkano Bolavi Bramholt Brindavar Calloran Cansworth Cheddavi Colvane Corranth Dalmeera Danforro "
    "Dastaran Delvorne Dhanukar Dravenport Dunmarro Eastlane Eboraka Elmorin Fairlaw Farrokand "
    "Fennimoor Galladine Ganderby Gharavel Glenarro Gorasand Gunavel Hallbrack Harsanke Hathorne "
    "Hawkridan Hetmarsh Hollinar Idrovane Inglemar Irfanel Jalvani Jarrowby Jeyasund Jolimant "
    "Kalendar Kandoor Karavast Kelbrook Khanderi Kilmaran Kolawen Kotharel Kumbara Lakshmere Langarro "
    "Lathamby Lokuvane Lowendel Madurage Mahoveni Malvarin Mandlane Marchwell Mbekana Merrowin "
    "Mirzavel Montarro Mosandra Munsarin Nallavar Nandrake Narrowby Ndlorane Northall Nuwanda "
    "Oakhanger Olderane Orrisande Padmaral Pallister-Vane Parthane Pendarro Perivale Pradomar Quennor "
    "Radstone Rahmavel Ranavoor Rathmore Renshawe-Ito Rosandel Rukhsaran Sabharo Samarvel Sandilore "
    "Selvarane Senanday Shahrokan Siddavar Silverane Sohalen Stannadge Sundermark Tamberlane Tandokar "
    "Tarrowin Tennavor Thandari Thornabee Tirumal Torrindon Tulsivan Underlow Upallane Vandermeel "
    "Varghane Vasterling Velanday Verrinder Wakeling-Roo Wanigara Warrowell Westerbrand Wickramal "
    "Windarra Yarravel Yusufane Zamborin Zulkarin O'Darrow O'Kellan"
).split()
TEAMS: Final = (
    "Amber Coast", "Banyan City", "Blackwater", "Capeford", "Coral Bay", "Deccan Vale", "Eastharbour",
    "Fernhill", "Granite Plains", "Harmattan", "Ironbark", "Jacaranda", "Kestrel Point", "Lakeshire",
    "Lantern Isles", "Marigold Town", "Monsoon Port", "Northmoor", "Palmyra Beach", "Red River",
    "Saltmarsh", "Silver Delta", "Tamarind", "Westering",
)  # fmt: skip


def draw_people(rng: random.Random, count: int, *, women: bool = False) -> tuple[str, ...]:
    """Draw full names with distinct surnames, so that a scorecard is never ambiguous."""
    surnames, given = rng.sample(SURNAMES, count), WOMEN if women else MEN
    return tuple(f"{rng.choice(given)} {surname}" for surname in surnames)


TRAIT_SD: Final = {"bat_spin": 0.15, "bat_short": 0.13, "bat_leg": 0.13}
"""Spread of batters' traits, as log ratios of runs between spin and pace, short and full, leg and off side.
It equals the spread of professionals' runs (player_skill.json); an assumption, since no table has it."""

Job = tuple[Role, BowlingKind | None]

SQUAD_SIZE = 11
_SKILL_FILE = Path(__file__).parent / "data" / "player_skill.json"

# Mean and standard deviation between bowlers. With the scatter of single balls they give the spread of usual
# speeds in the professional game; an assumption (pace 130 km/h with slower balls, spin 90 km/h).
_STOCK_SPEED_KMH = {"pace": (135.0, 5.0), "spin": (91.0, 3.5)}

# Jobs in batting order: role, and the kind of bowling (None: does not bowl). Five sides of eight have six
# bowlers and three have seven, because 61 % of full innings use six bowlers, 24 % five and 13 % seven
# (bowler_usage.json). Two to three are spinners, since spin bowls 38 % of balls.
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
"""Jobs of the last seven places, with how often each combination is drawn."""


@dataclass(frozen=True, slots=True)
class Squad:
    """The eleven players of a side, in their natural batting order."""

    name: str
    players: tuple[Player, ...]

    @property
    def bowlers(self) -> tuple[Player, ...]:
        """Players who bowl, in batting order."""
        return tuple(player for player in self.players if player.bowls is not None)

    @property
    def keeper(self) -> Player:
        """The first wicket-keeper in the order."""
        return next(player for player in self.players if player.role == "keeper")


def draw_fixture(seed: int, *, women: bool = False) -> tuple[Squad, Squad]:
    """Draw two squads with distinct names and surnames, reproducibly; only given names differ for women.

    Ratios are log-normal with the latent standard deviations of ``player_skill.json``, by place in the order
    for batting and by kind for bowling. These are the true spread between professionals, which is smaller
    than that of raw averages.

    >>> home, away = draw_fixture(7)
    >>> home.name, home.players[0].name, len(away.bowlers)
    ('Red River', 'Jomar Parthane', 7)
    """
    rng = random.Random(f"fixture:{seed}")
    home, away = rng.sample(TEAMS, 2)
    people = draw_people(rng, 2 * SQUAD_SIZE, women=women)
    traits = random.Random(f"fixture:{seed}:traits")
    return (
        _with_traits(traits, _draw(random.Random(f"fixture:{seed}:a"), home, people[:SQUAD_SIZE], "a")),
        _with_traits(traits, _draw(random.Random(f"fixture:{seed}:b"), away, people[SQUAD_SIZE:], "b")),
    )


def _with_traits(rng: random.Random, squad: Squad) -> Squad:
    """Draw every batter's traits, clipped at two standard deviations."""

    def trait(name: str) -> float:
        return round(TRAIT_SD[name] * max(-2.0, min(2.0, rng.gauss(0.0, 1.0))), 2)

    def with_traits(player: Player) -> Player:
        spin, short, leg = trait("bat_spin"), trait("bat_short"), trait("bat_leg")
        return replace(player, bat_spin=spin, bat_short=short, bat_leg=leg)

    return Squad(squad.name, tuple(map(with_traits, squad.players)))


def _draw(rng: random.Random, team: str, people: tuple[str, ...], side: str) -> Squad:
    (rest,) = rng.choices([jobs for _, jobs in _REST], [weight for weight, _ in _REST])
    players = tuple(
        _draw_player(rng, f"{side}{order}", person, role, kind, order)
        for order, (person, (role, kind)) in enumerate(zip(people, _TOP + rest, strict=True), 1)
    )
    return Squad(team, players)


def _draw_player(
    rng: random.Random, id_: str, name: str, role: Role, kind: BowlingKind | None, order: int
) -> Player:
    skill = _skill()
    batting = skill["batters"][batting_group(order)]
    left = skill["left_handed_share_of_balls_by_position"][str(order)]
    bats: Hand = "left" if rng.random() < left else "right"
    runs = _ratio(rng, batting["run_rate_ratio"]["latent_sd"])
    out = _ratio(rng, batting["dismissal_ratio"]["latent_sd"])
    if kind is None:
        return Player(id_, name, role, order, bats, bat_runs=runs, bat_out=out)
    bowling = skill["bowlers"][kind]
    return Player(
        id_, name, role, order, bats, kind, _draw_style(rng, kind), runs, out,
        bowl_runs=_ratio(rng, bowling["runs_conceded_ratio"]["latent_sd"]),
        bowl_wickets=_ratio(rng, bowling["wicket_ratio"]["latent_sd"]),
        bowl_extras=_ratio(rng, bowling["wide_noball_ratio"]["latent_sd"]),
        speed_kmh=round(rng.gauss(*_STOCK_SPEED_KMH[kind]), 1),
    )  # fmt: skip


def batting_group(order: int) -> str:
    """Map a place in the order to a group of ``player_skill.json``."""
    return "top" if order <= 3 else "middle" if order <= 6 else "lower" if order <= 8 else "tail"


def _draw_style(rng: random.Random, kind: BowlingKind) -> BowlingStyle:
    (style,) = rng.choices(*_styles(kind))
    return style


@functools.cache
def _styles(kind: BowlingKind) -> tuple[list[BowlingStyle], list[float]]:
    """Return the styles of a kind of bowling and their shares among regular bowlers."""
    shares: dict[BowlingStyle, float] = _skill()["bowler_style_share_of_regular_bowlers"]
    styles = [style for style in shares if (style in SPIN_STYLES) == (kind == "spin")]
    return styles, [shares[style] for style in styles]


def _ratio(rng: random.Random, latent_sd: float) -> float:
    """Draw a ratio with mean 1 and about this deviation, clipped at three of them."""
    sigma = math.sqrt(math.log1p(latent_sd**2))
    return math.exp(sigma * max(-3.0, min(3.0, rng.gauss(0.0, 1.0))) - sigma * sigma / 2)


@functools.cache
def _skill() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(_SKILL_FILE.read_text(encoding="utf-8"))
    return loaded


FORM_SD: Final = 0.08
"""Spread of form, as a log ratio of runs: equal to the spread of professionals' runs (player_skill.json). An
assumption, since no table of ours separates form from luck."""

UNEVEN_SD: Final = 100.0
"""Spread of the difference between uneven squads, in Elo points; an assumption."""
MAX_UNEVEN: Final = 400.0

SKILL_A_POINT: Final = 0.00045
"""Log ratio of each of a side's skills, at twenty overs, for each Elo point of difference; one side gains
half of it and the other loses half. Measured by simulation (docs/cricket-game.md)."""
FULL_OVERS: Final = 20
OVERS_POWER: Final = 0.25
"""Exponent of the overs in the skill that a point needs: shorter matches depend more on luck."""

Squads = tuple[Squad, Squad]


def with_names(squads: Squads, home: str | None, away: str | None) -> Squads:
    """Give teams the stated names; a drawn team of that name takes the other drawn name.

    >>> from spectator.environments.cricket.people import draw_fixture
    >>> drawn = draw_fixture(7)
    >>> [squad.name for squad in drawn], [squad.name for squad in with_names(drawn, None, "Red River")]
    (['Red River', 'Silver Delta'], ['Silver Delta', 'Red River'])
    """
    first, second = (squad.name for squad in squads)
    names = [home or (second if away == first else first), away or (first if home == second else second)]
    return replace(squads[0], name=names[0]), replace(squads[1], name=names[1])


def with_form(rng: random.Random, squad: Squad) -> Squad:
    """Draw each player's form of the day, as a batter and (if any) a bowler.

    Form is drawn around 0, equally often good and bad, and clipped at two standard deviations.
    """

    def drawn() -> float:
        return round(FORM_SD * max(-2.0, min(2.0, rng.gauss(0.0, 1.0))), 2) + 0.0

    def formed(player: Player) -> Player:
        bat, bowl = drawn(), drawn()
        return replace(player, bat_form=bat, bowl_form=bowl if player.bowls else 0.0)

    return Squad(squad.name, tuple(formed(player) for player in squad.players))


def draw_difference(rng: random.Random) -> float:
    """Draw the Elo points by which the home squad is stronger (negative: weaker)."""
    return float(round(max(-2.5, min(2.5, rng.gauss(0.0, 1.0))) * UNEVEN_SD))


def with_difference(squads: Squads, difference: float, overs: int) -> Squads:
    """Make the first squad stronger than the second.

    Args:
        difference: Elo points by which the first becomes stronger; negative for weaker.

    >>> from spectator.environments.cricket.people import draw_fixture
    >>> home, away = with_difference(draw_fixture(7), 200.0, overs=20)
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
            bat_runs=_clipped(player.bat_runs * more),
            bat_out=_clipped(player.bat_out * less),
            bowl_runs=_clipped(player.bowl_runs * less) if bowls else player.bowl_runs,
            bowl_wickets=_clipped(player.bowl_wickets * more) if bowls else player.bowl_wickets,
        )

    return Squad(squad.name, tuple(moved(player) for player in squad.players))


def _clipped(ratio: float) -> float:
    return min(5.0, max(0.2, ratio))


PART_TIME_RUNS = 1.15
PART_TIME_WICKETS = 0.75
"""House figures for a player who does not bowl but has to; no table has them, as real sides avoid it."""


@dataclass(frozen=True, slots=True)
class Team:
    """A squad in a match.

    Args:
        short: Two or three capitals.
        players: The eleven in their natural order.
        bowlers: The same players as bowlers; one who does not bowl is an occasional off spinner.
        keeper: Index of the wicket-keeper, who does not bowl.
        bowling_worth: Value of each as a bowler: about 0 for the average, far less for an occasional one.
        death_bowlers: The two best quick bowlers.
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
        """Return the team of a squad, with a short name other than ``not_short``."""
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
        """Return the name of the player at ``index``; empty for ``None``."""
        return "" if index is None else self.players[index].name

    def find(self, name: str) -> int | None:
        """Return the index of the player with this name or surname, ignoring case."""
        wanted = name.strip().casefold()
        for index, player in enumerate(self.players):
            if wanted in (player.name.casefold(), player.surname.casefold()):
                return index
        return None

    def card(self, index: int, *, formed: bool = False) -> dict[str, Any]:
        """Return what both captains know of a player, as plain JSON.

        Args:
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
    """Return the home and away teams of two squads."""
    home = Team.of("home", squads[0])
    return {"home": home, "away": Team.of("away", squads[1], not_short=home.short)}


def _short(name: str, taken: str) -> str:
    words = name.replace("-", " ").split()
    short = "".join(word[0] for word in words[:3]) if len(words) > 1 else name[:3]
    short = short.upper()
    return short if short != taken else (name[:3].upper() if name[:3].upper() != taken else name[:4].upper())


def kind_in_words(player: Player) -> str:
    """Return a player's bowling style in words, "occasional ..." for a non-bowler."""
    title = STYLE_TITLES[as_bowler(player).style or "off"]
    return title if player.bowls else f"occasional {title}"


def bowling_worth(player: Player) -> float:
    """Return a player's value as a bowler: about 0 on average, -6 for a non-bowler."""
    if player.bowls is None:
        return -6.0
    return 2.0 * math.log(player.bowl_wickets / player.bowl_runs**2)


def best_quick(players: Sequence[Player]) -> tuple[int, ...]:
    """Return the indices of the two best quick bowlers, best first."""
    quick = [index for index, player in enumerate(players) if player.bowls == "pace"]
    return tuple(sorted(quick, key=lambda index: -bowling_worth(players[index]))[:2])


def as_bowler(player: Player) -> Player:
    """Return the player as a bowler, a non-bowler as an occasional off spinner."""
    if player.bowls:
        return player
    return replace(
        player, bowls="spin", style="off", bowl_runs=PART_TIME_RUNS, bowl_wickets=PART_TIME_WICKETS
    )
