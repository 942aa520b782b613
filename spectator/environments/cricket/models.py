"""What goes into and comes out of a match: actions, options, observations and public state, validated."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from spectator.environments.base import ObservationModel, OptionsModel, StateModel
from spectator.environments.cricket.ball.grounds import GROUND_NAMES, NEUTRAL_GROUND
from spectator.environments.cricket.laws.deliveries import Side
from spectator.environments.cricket.laws.formats import MAX_OVERS
from spectator.environments.cricket.match.circumstances import DRAWN, LEVEL
from spectator.environments.cricket.match.engine import load_model
from spectator.environments.cricket.match.starts import START_NAMES
from spectator.environments.cricket.people.day import MOST_UNEVEN
from spectator.events import optional_field


class CricketAction(BaseModel):
    """One call of one of the captain's tools."""

    model_config = ConfigDict(extra="forbid", strict=True)

    tool: str = Field(max_length=64, description="Name of a tool among `legal_actions`")
    arguments: dict[str, Any] | None = Field(default=None, description="Its arguments; all may be left out")


class CricketOptions(OptionsModel):
    """Options of a match."""

    max_overs: int = Field(default=5, ge=1, le=MAX_OVERS, description="Overs of an innings")
    start: Literal[START_NAMES] = Field(  # type: ignore[valid-type]  # a tuple of literals
        default="toss", description="Where play begins; what came before was played by the usual captains"
    )
    toss_caller: Literal["home", "away"] = Field(default="home", description="Who calls the toss")
    super_over: bool = Field(default=True, description="Whether a tie is decided by super overs")
    decisions: Literal["ball", "over", "session"] = Field(
        default="ball",
        description="How much one decision covers: a ball, an over, or all of powerplay, middle or death",
    )
    reward: Literal["score", "result", "decision_value"] = Field(
        default="score",
        description="What is rewarded: the score or the result at the end, or each decision by what it does "
        "to the chance of winning",
    )
    opponent_rating: float = Field(
        default=0.0,
        ge=-1000.0,
        le=1000.0,
        description="Elo points of the other captain above one who plays as real sides do; it sets what is "
        "expected",
    )
    forecast_futures: int = Field(
        default=0,
        ge=0,
        le=20_000,
        description="Futures played after each ball for its forecast; 0 for none, 1,000 is good to 1.6 %",
    )
    profile: Literal["men", "women", "associates"] = Field(
        default="men", description="Whose cricket the ball model is fitted to"
    )
    level: str | float = Field(
        default="all",
        description="Scoring level: all, a season such as `ipl 2024`, or the mean of a 20-over first innings",
    )

    ground: Literal[(*GROUND_NAMES, DRAWN)] = optional_field(  # type: ignore[valid-type]  # a tuple of literals
        "How far the boundary is: the neutral ground, one of the named ones, or one drawn for the seed",
        default=NEUTRAL_GROUND.name,
    )
    form: Literal["level", "drawn"] = optional_field(
        "Whether players have a form of the day, drawn for the seed and told on their cards", default=LEVEL
    )
    fatigue: bool = optional_field("Whether bowlers tire by the overs they bowl", default=False)
    squads: Literal["drawn", "uneven"] | float = optional_field(
        "How strong the squads are: drawn alike, uneven by a difference drawn for the seed, or with the home "
        "squad the stronger by so many Elo points, -400 to 400",
        default=DRAWN,
    )

    @field_validator("squads")
    @classmethod
    def _told_difference(cls, squads: str | float) -> str | float:
        if not isinstance(squads, str) and not abs(squads) <= MOST_UNEVEN:
            raise ValueError(f"a difference must lie in -{MOST_UNEVEN:g} to {MOST_UNEVEN:g} Elo points")
        return squads

    @field_validator("super_over")
    @classmethod
    def _reachable(cls, super_over: bool, info: ValidationInfo) -> bool:
        if info.data.get("start") == "super_over" and not super_over:
            raise ValueError("must be true for a match that starts in a super over")
        return super_over

    @field_validator("level")
    @classmethod
    def _known_level(cls, level: str | float, info: ValidationInfo) -> str | float:
        load_model(info.data.get("profile", "men"), level)
        return level


class CricketObservation(ObservationModel):
    """What a captain sees; rates are runs an over, null where there is none."""

    phase: Literal[
        "toss", "elect", "openers", "batter", "bowler", "bowl", "bat", "bowling_plan", "batting_plan", "over"
    ]
    task: str = Field(description="What is to be decided, in a sentence")
    side: Side | None = Field(description="Which side this captain leads")
    squads: dict[str, Any] = Field(description="{home, away: {name, short, players: [...]}}")
    format: dict[str, int]
    rules: dict[str, str] = Field(
        default_factory=dict,
        description="{decisions: ball, over or session, reward: score, result or decision_value}: what is "
        "asked and what counts",
    )
    conditions: dict[str, str] = Field(
        default_factory=dict,
        description="{pitch: green, even or dry, evening: wearing, even or dew}: green helps pace, dry "
        "spin; dew makes a second innings easier, above all against spin, wearing harder",
    )
    ground: dict[str, Any] | None = Field(
        default=None,
        description="{name, metres, now}: metres from the centre of the pitch to the boundary by sector, as "
        "a right-hander at the first end sees them, and as the striker sees them now; overs change ends; "
        "null for the neutral ground",
    )
    tired: dict[str, float] | None = Field(
        default=None,
        description="Load of the fielding side's bowlers at the start of this over, where bowlers tire: one "
        "more for each over bowled, 0.4 less for each over rested; who is not named has none",
    )
    squad_difference: float | None = Field(
        default=None, description="Elo points by which the home squad is the stronger, where they are uneven"
    )
    innings: int | None = None
    super_over: bool = False
    batting: Side | None = None
    segment: Literal["powerplay", "middle", "death"] | None = None
    score: dict[str, Any] | None = None
    powerplay: bool = False
    free_hit: bool = False
    run_rate: float | None = None
    striker: dict[str, Any] | None = None
    non_striker: dict[str, Any] | None = None
    bowler: dict[str, Any] | None = None
    partnership: int | None = None
    recent: list[str] = Field(default_factory=list, description="Marks of the last balls, oldest first")
    field: dict[str, Any] | None = Field(
        default=None, description="{preset, fielders: [{name, x, y}]}, metres"
    )
    outside_limit: int | None = Field(
        default=None, description="Most fielders outside the ring for the next ball"
    )
    target: int | None = None
    need: int | None = None
    required_rate: float | None = None
    projected: int | None = Field(default=None, description="Resource projection of a first innings")
    card: dict[str, Any] | None = Field(
        default=None,
        description="{out, bowling, maidens, extras, earlier}: who is out, every bowler but the present "
        "one, his maidens, extras by kind, and the innings before",
    )
    last_ball: dict[str, Any] | None = None
    result: str | None = None
    you: dict[str, Any] | None = Field(
        default=None, description="This captain's plan, strategies, notes and calls"
    )
    choices: dict[str, Any] | None = Field(
        default=None, description="Who may bowl or come in; the overs that orders cover"
    )


class CricketState(StateModel):
    """Public state of a match."""

    phase: str
    actor: Side | None
    done: bool
    overs: int
    toss: dict[str, Any] | None
    innings: list[dict[str, Any]]
    result: str | None
