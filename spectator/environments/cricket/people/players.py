"""A cricketer: name, batting hand, bowling style, and ratios of skill."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

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
    """One cricketer; every ratio is multiplicative around 1, the average of those who do the same job.

    Args:
        id: Unique within a match.
        name: Given name and surname.
        role: What the side picked the player for.
        order: Natural place in the batting order, 1 to 11; the model takes batting ability from it.
        bats: The hand.
        bowls: ``None`` for one who does not bowl.
        style: Bowling style, present exactly when ``bowls`` is.
        bat_runs: Runs per ball faced, against the average batter of that order in the same situation.
        bat_out: Dismissals per ball faced, likewise: below 1 is better.
        bowl_runs: Runs conceded per ball: below 1 is better.
        bowl_wickets: Wickets per ball: above 1 is better.
        bowl_extras: Wides and no-balls per ball: below 1 is better.
        bat_spin: How much more the batter makes off spin than off pace, as a log ratio of runs; 0 as usual.
        bat_short: The same of short balls against full ones.
        bat_leg: The same of the leg side against the off side.
        bat_form: Form of the day as a batter: a log ratio of runs, 0 for his usual one.
        bowl_form: The same as a bowler: runs that he saves, so that above 0 is better.
        speed_kmh: Speed of the stock ball; 0 takes the average of the kind (135 for pace, 91 for spin).
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

    def __post_init__(self) -> None:
        if not 1 <= self.order <= 11:
            raise ValueError(f"order must be 1 to 11, not {self.order}")
        if (self.bowls is None) != (self.style is None):
            raise ValueError(f"{self.name}: bowls and style are given together or not at all")
        if self.style is not None and (self.style in SPIN_STYLES) != (self.bowls == "spin"):
            raise ValueError(f"{self.name}: {self.style} is not a style of {self.bowls}")
        for ratio in (self.bat_runs, self.bat_out, self.bowl_runs, self.bowl_wickets, self.bowl_extras):
            if not 0.2 <= ratio <= 5.0:
                raise ValueError(f"{self.name}: a skill ratio must lie in 0.2 to 5, not {ratio}")
        for trait in (self.bat_spin, self.bat_short, self.bat_leg, self.bat_form, self.bowl_form):
            if not -1.0 <= trait <= 1.0:
                raise ValueError(f"{self.name}: a trait must lie in -1 to 1, not {trait}")

    @property
    def surname(self) -> str:
        """The part after the first space, as a scorecard prints it."""
        return self.name.partition(" ")[2] or self.name
