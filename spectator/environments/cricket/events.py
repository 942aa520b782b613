"""Data models of the ``cricket.*`` events."""

from __future__ import annotations

from typing import Any, Final, Literal

from pydantic import Field

from spectator.environments.cricket.laws import Side
from spectator.events import EventData, optional_field


class Score(EventData):
    """A score."""

    runs: int = Field(ge=0)
    wickets: int = Field(ge=0, le=10)
    balls: int = Field(ge=0, description="Valid balls")
    overs: str = Field(description="The same in overs, base six")


class BatterFigures(EventData):
    """A batter's line."""

    number: int = Field(ge=1, le=11, description="Order of appearance")
    name: str
    runs: int = Field(ge=0)
    balls: int = Field(ge=0, description="Balls faced: no-balls count, wides do not")
    fours: int = Field(ge=0)
    sixes: int = Field(ge=0)


class BowlerFigures(EventData):
    """A bowler's line."""

    number: int = Field(ge=1, le=11, description="Order of bowling")
    name: str
    kind: str = Field(description="Style in words")
    overs: str
    balls: int = Field(ge=0)
    maidens: int = Field(ge=0)
    runs: int = Field(ge=0, description="Conceded: without byes, leg-byes and penalties")
    wickets: int = Field(ge=0)
    left: int = Field(ge=0, description="Overs that the bowler may still begin under the limit")


class Extras(EventData):
    """Extras by kind."""

    wides: int = Field(ge=0)
    noballs: int = Field(ge=0)
    byes: int = Field(ge=0)
    legbyes: int = Field(ge=0)
    penalties: int = Field(ge=0)
    total: int = Field(ge=0)


class Ends(EventData):
    """The batter at each end; null if one is awaited."""

    striker: str | None
    non_striker: str | None


class Partnership(EventData):
    """The current partnership."""

    runs: int = Field(ge=0)
    balls: int = Field(ge=0)


class Intents(EventData):
    """Both captains' intents for a ball; null leaves a part to the player."""

    aggression: float = Field(ge=0, le=1, description="Batting: 0.5 is what real sides do in this situation")
    shot: str | None
    attack: float = Field(ge=0, le=1, description="Bowling: 0.5 is what real sides do in this situation")
    length: str | None
    line: str | None
    pace: str | None
    field: str = Field(description="Preset of the field, or custom")


class TossMade(EventData):
    """The toss was made and the winner elected."""

    caller: Side
    call: Literal["heads", "tails"]
    winner: Side
    elected: Literal["bat", "field"]
    team: str = Field(description="Name of the winner's side")


class InningsStarted(EventData):
    """An innings began."""

    innings: int = Field(ge=1, description="1, 2, then 3, 4, ... in super overs")
    batting: Side
    bowling: Side
    team: str
    target: int | None
    overs: int
    balls: int
    powerplay_balls: int
    super_over: bool


class SuperOverStarted(EventData):
    """The match was tied and a super over began."""

    number: int = Field(ge=1)
    batting: Side


class OverStarted(EventData):
    """An over began."""

    innings: int
    over: int = Field(ge=0, description="0-based")
    bowler: str
    score: Score
    powerplay: bool


class BowlerSelected(EventData):
    """The fielding captain chose the bowler of the over."""

    innings: int
    side: Side
    over: int = Field(ge=0)
    bowler: BowlerFigures
    tired: float | None = optional_field("The bowler's load at the start of the over, if bowlers tire")


class BatterSelected(EventData):
    """A batter came in."""

    innings: int
    side: Side
    player: BatterFigures
    bats: Literal["right", "left"]
    wickets: int
    striker: str | None
    non_striker: str | None


class PlanChanged(EventData):
    """A captain declared a plan or a strategy."""

    side: Side
    part: Literal["match_plan", "batting", "bowling"]
    plan: dict[str, Any]


class FielderPlace(EventData):
    """A fielder's place."""

    name: str
    x: float = Field(description="Metres to the striker's off side of the middle stump")
    y: float = Field(description="Metres from the striker's stumps towards the bowler's")


class FieldSet(EventData):
    """A field was set."""

    side: Side
    preset: str
    fielders: list[FielderPlace] = Field(min_length=9, max_length=9)


class BallBowled(EventData):
    """A ball was bowled and scored."""

    innings: int = Field(ge=1)
    side: Side = Field(description="The batting side")
    at: str = Field(
        description="Over and ball that was bowled, such as 3.4 for the fourth ball of the fourth over"
    )
    over: int = Field(ge=0, description="0-based")
    ball: int = Field(ge=1, le=6, description="Number of the valid ball within the over")
    delivery: int = Field(ge=1, description="Number of the delivery within the over")
    striker: str
    non_striker: str
    bowler: str
    bat: int = Field(ge=0, description="Runs off the bat")
    runs: int = Field(ge=0, description="All runs of the ball")
    extras: int = Field(ge=0)
    extra_kind: Literal["wide", "noball", "bye", "legbye", "penalty"] | None
    wides: int = Field(ge=0)
    noball: bool
    byes: int = Field(ge=0)
    legbyes: int = Field(ge=0)
    penalty: int = Field(ge=0)
    ran: int = Field(ge=0, description="Runs completed by running")
    boundary: bool
    mark: str = Field(description="The scorer's sign: ·, 4, W, wd, 2nb, lb")
    kind: Literal["six", "four", "wicket", "dot", "extra", "run"]
    dismissal: str | None
    out: str | None = Field(description="The dismissed batter")
    fielder: str | None = Field(description="The fielder who took part in the dismissal")
    position: str | None = Field(description="Position of that fielder")
    free_hit: bool
    powerplay: bool
    zone: int | None = Field(ge=1, le=8, description="Sector of 45 degrees from fine leg to third; simulated")
    direction: str | None = Field(description="The sector's name")
    length: str = Field(description="Simulated")
    line: str = Field(description="Simulated")
    speed_kmh: float = Field(gt=0, description="Simulated")
    shot: str
    contact: str
    aerial: bool
    intents: Intents
    words: str = Field(description="One short sentence")
    score: Score = Field(description="After the ball")
    target: int | None
    need: int | None = Field(description="Runs still needed after the ball")
    balls_left: int = Field(ge=0)
    striker_line: BatterFigures
    non_striker_line: BatterFigures
    bowler_line: BowlerFigures
    extras_so_far: Extras
    partnership: Partnership
    ends: Ends = Field(description="After the ball")
    free_hit_next: bool
    powerplay_next: bool
    outside_limit_next: int = Field(description="Maximum fielders outside the ring for the next ball")


class WicketFell(EventData):
    """A batter was dismissed."""

    innings: int
    side: Side
    at: str
    player: BatterFigures
    how_out: str = Field(description="As the scorecard prints it")
    dismissal: str
    bowler: str
    fielder: str | None
    wicket: int = Field(ge=1, le=10)
    score: int
    overs: str
    partnership: int


class MilestoneReached(EventData):
    """A batter, partnership, side or bowler reached a round figure."""

    innings: int
    side: Side
    kind: Literal["batter", "partnership", "team", "wickets"]
    name: str
    value: int
    balls: int = Field(description="Balls taken by the batter, partnership, innings or bowler")


class OverCompleted(EventData):
    """An over was completed."""

    innings: int
    side: Side
    over: int = Field(ge=1, description="Overs completed")
    runs: int
    wickets: int
    score: Score
    bowler: BowlerFigures
    maiden: bool
    need: int | None
    balls_left: int
    striker: str | None
    non_striker: str | None


class InningsEnded(EventData):
    """An innings ended."""

    innings: int
    batting: Side
    team: str
    score: Score
    reason: Literal["overs", "all out", "target"]
    extras: Extras
    super_over: bool


class MatchEnded(EventData):
    """The match was decided."""

    result: str
    kind: Literal["runs", "wickets", "super over", "tie"]
    winner: Side | None
    margin: int
    balls_left: int
    super_overs: int


class TeamNames(EventData):
    """A side's names."""

    name: str
    short: str


class GroundTold(EventData):
    """A ground other than the neutral one."""

    name: str
    boundaries: list[float] = Field(
        min_length=8,
        max_length=8,
        description="Metres from the centre of the pitch by sector, from fine leg round to third, from the "
        "view of a right-hander at the first end; overs change ends",
    )
    left_handers: list[str] = Field(description="Left-handed batters, who see the distances mirrored")


class PlayerForm(EventData):
    """A player's form of the day."""

    name: str
    bat: float = Field(description="As a batter: log ratio of runs")
    bowl: float | None = Field(description="As a bowler: log ratio of runs saved; null if not a bowler")


class RealMatchShown(EventData):
    """What happened in the real match from which play starts."""

    title: str
    venue: str
    date: str
    result: str
    start: str = Field(description="Innings and overs from which it is played on, such as 2:14.3")
    attribution: str
    lines: dict[str, list[list[int]]] = Field(description="Real runs and wickets after each over, by innings")
    batting: dict[str, Side] = Field(description="The seat of the side that really batted, by innings")
    prices: list[dict[str, Any]] | None = optional_field("What each real over was worth")


class MatchArranged(EventData):
    """Both sides were named; the toss follows."""

    home: TeamNames
    away: TeamNames
    overs: int
    balls: int
    powerplay_balls: int
    bowler_overs: int
    caller: Side
    profile: Literal["men", "women", "associates"] = optional_field(
        "The cricket that the ball model is fitted to", default="men"
    )
    level: float | None = optional_field(
        "Mean total of a 20-over first innings, if it is not the profile's own"
    )
    ground: GroundTold | None = optional_field("The ground, if it is not the neutral one")
    fatigue: bool = optional_field("Whether bowlers tire", default=False)
    form: dict[Side, list[PlayerForm]] | None = optional_field("Form of the day, if players have one")
    squad_difference: float | None = optional_field(
        "Elo points by which the home squad is stronger, if the squads are uneven"
    )
    real: RealMatchShown | None = optional_field("The real match that is played on")


class Standing(EventData):
    """State of an innings at the start of play."""

    innings: int
    batting: Side
    bowling: Side
    target: int | None
    score: Score
    balls_left: int
    striker: BatterFigures | None
    non_striker: BatterFigures | None
    partnership: Partnership
    powerplay: bool
    outside_limit: int
    bowler: BowlerFigures | None = optional_field("The bowler, if play begins within an over")
    marks: list[str] | None = optional_field("Marks of the over in progress")
    free_hit: bool = optional_field("Whether the next ball is a free hit", default=False)


class PositionSet(EventData):
    """Play begins in mid-match, after what the usual captains or a real match played."""

    scorecards: dict[str, dict[str, Any]] = Field(description="By innings, as viewers see them")
    scores: dict[Side, Score]
    now: Standing | None = Field(description="Null when the next innings is about to begin")


class ForecastMade(EventData):
    """Many futures of the match were simulated: chances, and the value of decisions."""

    innings: int = Field(ge=1)
    delivery: int = Field(ge=0, description="Deliveries of the innings so far")
    batting: Side
    home: float = Field(ge=0, le=1, description="Chance that home wins; a tie counts half")
    away: float = Field(ge=0, le=1)
    se: float = Field(ge=0, description="Standard error of both")
    tie: float = Field(ge=0, le=1, description="Chance that the scores end level")
    total: float = Field(description="Mean total of the innings in progress")
    total_low: int = Field(description="A tenth of the totals are below")
    total_median: int
    total_high: int = Field(description="A tenth of the totals are above")
    over_runs: float = Field(ge=0, description="Runs still to come in this over")
    over_wicket: float = Field(ge=0, le=1, description="Chance of a wicket in the rest of this over")
    futures: int = Field(ge=0, description="Number of futures simulated; 0 once the match is decided")
    batting_value: float = Field(
        description="Effect of the batting captain's decision on the last ball on the side's chance to win"
    )
    bowling_value: float = Field(description="The same for the fielding captain's decision and side")


EVENTS: Final[dict[str, type[EventData]]] = {
    "cricket.match_arranged": MatchArranged,
    "cricket.toss_made": TossMade,
    "cricket.position_set": PositionSet,
    "cricket.innings_started": InningsStarted,
    "cricket.super_over_started": SuperOverStarted,
    "cricket.over_started": OverStarted,
    "cricket.bowler_selected": BowlerSelected,
    "cricket.batter_selected": BatterSelected,
    "cricket.plan_changed": PlanChanged,
    "cricket.field_set": FieldSet,
    "cricket.ball_bowled": BallBowled,
    "cricket.forecast": ForecastMade,
    "cricket.wicket_fell": WicketFell,
    "cricket.milestone_reached": MilestoneReached,
    "cricket.over_completed": OverCompleted,
    "cricket.innings_ended": InningsEnded,
    "cricket.match_ended": MatchEnded,
}

BEATS: Final[dict[str, float]] = {
    "cricket.ball_bowled": 3.25,
    "cricket.wicket_fell": 0.75,
    "cricket.milestone_reached": 0.25,
    "cricket.over_completed": 0.5,
    "cricket.innings_started": 1.5,
    "cricket.innings_ended": 1.5,
    "cricket.super_over_started": 1.5,
    "cricket.toss_made": 1.5,
}
"""Beats of the broadcast pace: a ball takes 6.5 to 8 s, enough to read both captains' reasons."""
