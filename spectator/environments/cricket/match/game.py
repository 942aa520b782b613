"""A game from toss to result: match, captains, turns, and events."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, Protocol

from spectator.environments.cricket.ball.grounds import Boundaries
from spectator.environments.cricket.ball.plan_effects import LOFT
from spectator.environments.cricket.ball.sampler import BallModel
from spectator.environments.cricket.laws import BOWLERS_DISMISSALS, SIDES, Format, Innings, LawBroken, Side
from spectator.environments.cricket.match import event_data
from spectator.environments.cricket.match.captain_state import CaptainState, Decisions, planned_turn
from spectator.environments.cricket.match.engine import (
    ORDINARY,
    BattingIntent,
    BowlingIntent,
    Circumstances,
    Match,
    PlayedBall,
    segment_of,
)
from spectator.environments.cricket.match.field import STANDARD, Field, standard_field
from spectator.environments.cricket.match.forecasts import PitchReading, decision_values, forecast_data
from spectator.environments.cricket.people import Team
from spectator.events import Fact


class Account(Protocol):
    """An account of decisions, called before each to compare it with the usual one."""

    def match_started(self, match: Match) -> None:
        """Record that play is about to begin, at the toss or in mid-match."""

    def before_over(self, match: Match, bowler: int) -> None:
        """Record that ``bowler`` is about to get the next over."""

    def before_batters(self, match: Match, batters: Sequence[int]) -> None:
        """Record that ``batters`` are about to be sent in, in this order."""

    def before_ball(self, match: Match, batting: BattingIntent, bowling: BowlingIntent) -> None:
        """Record that a ball is about to be bowled with these intents."""

    def after_ball(self, match: Match) -> None:
        """Record that a ball was bowled and all its consequences applied."""

    def dump(self) -> dict[str, Any]:
        """Return the account as plain JSON for :meth:`load`."""

    def load(self, data: Mapping[str, Any]) -> None:
        """Continue from a :meth:`dump`."""


BATTER: Final = (50, 100, 150, 200, 250, 300)
PARTNERSHIP: Final = (50, 100, 150, 200)
TEAM: Final = (50, 100, 150, 200, 250, 300, 350, 400, 450, 500)
WICKETS: Final = 5


def milestones(match: Match, played: PlayedBall) -> list[dict[str, Any]]:
    """Return the ``cricket.milestone_reached`` data of a ball; none in a super over."""
    innings = match.innings[played.innings - 1]
    if innings.format.is_super_over:
        return []
    side = match.batting[played.innings - 1]
    team, rivals = match.teams[side], match.teams["away" if side == "home" else "home"]
    found = [
        {"side": side, "kind": kind, "name": team.named(who) or team.name, "value": value, "balls": balls}
        for kind, who, value, balls in _milestones_of_runs(innings, played)
    ]
    bowler = innings.bowling[played.bowler]
    if bowler.wickets == WICKETS and played.counted.dismissal in BOWLERS_DISMISSALS:
        name = rivals.players[played.bowler].name
        found.append(
            {"side": rivals.side, "kind": "wickets", "name": name, "value": WICKETS, "balls": bowler.balls}
        )
    return [{"innings": played.innings, **one} for one in found]


def _milestones_of_runs(innings: Innings, played: PlayedBall) -> Iterator[tuple[str, int | None, int, int]]:
    """Yield kind, player (``None`` for the side), figure and balls of milestones."""
    runs, ball, striker = innings.runs, played.counted, innings.batting[played.striker]
    stand, stand_balls = innings.partner_runs, innings.partner_balls
    if played.out is not None:
        before = innings.fall[-2][3] if len(innings.fall) > 1 else 0
        stand, stand_balls = innings.partnerships[-1], innings.balls - before
    for kind, who, after, gained, figures, balls in (
        ("batter", played.striker, striker.runs, ball.bat, BATTER, striker.balls),
        ("partnership", None, stand, ball.runs, PARTNERSHIP, stand_balls),
        ("team", None, runs, ball.runs, TEAM, innings.balls),
    ):
        for value in figures if gained else ():
            if after - gained < value <= after:
                yield kind, who, value, balls


Phase = Literal[
    "toss", "elect", "openers", "batter", "bowler", "bowl", "bat", "bowling_plan", "batting_plan", "over"
]

RECENT_BALLS: Final = 12


def shown_aggression(intent: BattingIntent) -> float:
    """Return an intent's effective aggression: a slog is never a block.

    >>> shown_aggression(BattingIntent(0.3)), shown_aggression(BattingIntent(0.3, "slog"))
    (0.3, 0.55)
    """
    return min(1.0, max(0.0, intent.aggression + LOFT.get(intent.shot or "", 0.0)))


class Game:
    """A game from the toss to the result.

    Args:
        rng: Source of all randomness of the toss and the balls.
        caller: The side that calls the toss.
        decisions: Scope of one decision of a captain.
        account: Account of the value of decisions; by default none.
        futures: Number of futures simulated for the forecast after each ball; 0 for no forecast.
        forecast_seed: Returns the seed of a forecast by its number.
        circumstances: Pitch, evening, ground and other facts known to both captains.

    Attributes:
        reads: Whether `reading` observes each ball; true if there is a forecast.
    """

    def __init__(
        self,
        format: Format,
        teams: Mapping[Side, Team],
        model: BallModel,
        rng: random.Random,
        *,
        caller: Side,
        super_over: bool,
        decisions: Decisions = "ball",
        account: Account | None = None,
        futures: int = 0,
        forecast_seed: Callable[[int], int] = int,
        circumstances: Circumstances = ORDINARY,
    ) -> None:
        self.circumstances = circumstances
        self.format = format
        self.teams = teams
        self.model = model
        self.rng = rng
        self.caller = caller
        self.super_over = super_over
        self.decisions: Decisions = decisions
        self.account = account
        self.futures = futures
        self.reads = futures > 0
        self.reading = PitchReading(model)
        self.forecast_seed = forecast_seed
        self.toss_winner: Side | None = None
        self.elected: str | None = None
        self.called = ""
        self.match: Match | None = None
        self.captains: dict[Side, CaptainState] = {side: CaptainState() for side in SIDES}
        self.cut: str | None = None
        self.bowler_ready = False
        self.recent: list[str] = []
        self.this_over: list[str] = []
        self.last_ball: dict[str, Any] | None = None
        self.pending: list[Fact] = []
        self._shown: tuple[Field, Boundaries, dict[str, Any]] | None = None

    def turn(self) -> tuple[Phase, Side | None]:
        """Return the phase and the side that decides; no side once the match is over."""
        match = self.match
        if self.cut is not None:
            return "over", None
        if match is None:
            return ("toss", self.caller) if self.toss_winner is None else ("elect", self.toss_winner)
        if self.decisions != "ball":
            return planned_turn(match, self.captains)
        awaited = match.awaited
        if awaited == "ball":
            return ("bat", match.batting_side) if self.bowler_ready else ("bowl", match.fielding_side)
        if awaited == "batter":
            return ("batter" if match.current.batting else "openers"), match.batting_side
        return ("bowler", match.fielding_side) if awaited == "bowler" else ("over", None)

    @property
    def phase(self) -> Phase:
        """The phase of the decision."""
        return self.turn()[0]

    @property
    def actor(self) -> Side | None:
        """The side that decides; ``None`` once the match is over."""
        return self.turn()[1]

    @property
    def playing(self) -> Match:
        """The match.

        Raises:
            LawBroken: The toss has not been decided.
        """
        if self.match is None:
            raise LawBroken("toss.first", "There is no match before the toss; call the toss first.")
        return self.match

    @property
    def outside_limit(self) -> int:
        """Maximum fielders outside the ring for the next ball."""
        innings = self.playing.current
        return innings.format.outside_limit(innings.balls)

    @property
    def field_frozen(self) -> bool:
        """Whether the field is fixed: a free hit to the striker of the no-ball (N9)."""
        innings = self.playing.current
        last = self.last_ball
        if not innings.free_hit or last is None:
            return False
        return bool(last["striker"] == self.teams[self.playing.batting_side].named(innings.striker))

    def shown_field(self, side: Side) -> dict[str, Any]:
        """Return the field of ``side`` for events, cached until it changes."""
        field = self.captains[side].field
        faced = self.playing.faced if self.circumstances.ground.boundaries else ()
        if self._shown is None or self._shown[0] is not field or self._shown[1] != faced:
            self._shown = (field, faced, field.copy_shown(faced))
        return self._shown[2]

    def emit(self, kind: str, data: Mapping[str, Any]) -> None:
        """Add an event to the pending ones."""
        self.pending.append(Fact(f"cricket.{kind}", data))

    def announce_toss(self) -> None:
        """Announce who won the toss and what they elected."""
        team = self.teams[self.toss_winner].name if self.toss_winner else ""
        toss = {
            "caller": self.caller,
            "call": self.called,
            "winner": self.toss_winner,
            "elected": self.elected,
        }
        self.emit("toss_made", {**toss, "team": team})

    def new_match(self, batting_first: Side) -> Match:
        """Return a match between the two sides, before its first ball."""
        return Match(
            self.format,
            self.teams,
            batting_first,
            self.model,
            self.rng,
            super_over=self.super_over,
            circumstances=self.circumstances,
        )

    def start_match(self, batting_first: Side) -> None:
        """Start the first innings."""
        self.match = self.new_match(batting_first)
        if self.account is not None:
            self.account.match_started(self.match)
        self.announce_innings()
        if self.futures:
            self._forecast({"batting_value": 0.0, "bowling_value": 0.0})

    def announce_innings(self) -> None:
        """Announce an innings and reset both captains' fields and plans for balls."""
        match = self.playing
        if match.number > 2 and match.number % 2:
            self.emit("super_over_started", {"number": match.number // 2, "batting": match.batting_side})
        self.recent, self.this_over, self.last_ball, self.bowler_ready = [], [], None, False
        for captain in self.captains.values():
            captain.field = standard_field(self.outside_limit)
            captain.shot = captain.shot_aggression = captain.delivery = None
        self.emit("innings_started", event_data.innings_started(match))

    def begin_over(self, bowler: int) -> None:
        """Give the ball to a bowler and reset free calls."""
        match = self.playing
        match.check_bowler(bowler)
        if self.account is not None:
            self.account.before_over(match, bowler)
        match.give_ball(bowler)
        self.this_over = []
        for captain in self.captains.values():
            captain.begin_over()
        self.emit("bowler_selected", event_data.bowler_selected(match, bowler))
        self.emit("over_started", event_data.over_started(match))

    def send_in(self, *batters: int) -> None:
        """Send in the batters due, the striker first."""
        match = self.playing
        if self.account is not None:
            self.account.before_batters(match, batters)
        for player in batters:
            match.send_in(player)
            self.emit("batter_selected", event_data.batter_selected(match, player))

    def play_ball(self) -> PlayedBall:
        """Bowl the ball for which both captains are ready, and emit all its events."""
        match = self.playing
        batting_side, fielding_side = match.batting_side, match.fielding_side
        batting, bowling = self.captains[batting_side], self.captains[fielding_side]
        batting_intent, bowling_intent = batting.batting_intent(), bowling.bowling_intent()
        segment = segment_of(match.current)
        values = self._values(batting_intent, bowling_intent) if self.futures else {}
        if self.account is not None:
            self.account.before_ball(match, batting_intent, bowling_intent)
        played = match.play(batting_intent, bowling_intent)
        batting.judge("batting", segment, shown_aggression(batting_intent))
        bowling.judge("bowling", segment, bowling_intent.attack)
        batting.shot = batting.shot_aggression = None
        for captain in (batting, bowling):
            captain.reflected, captain.analysis = False, None
            captain.turn_calls, captain.turn_tools = 0, []
        self.bowler_ready = False
        self.last_ball = event_data.ball_bowled(match, played, batting_intent, bowling_intent)
        sign = self.last_ball["mark"]
        self.recent = [*self.recent, sign][-RECENT_BALLS:]
        self.this_over = [*self.this_over, sign]
        self._emit_ball(played)
        self.open_field()
        if self.account is not None:
            self.account.after_ball(match)
        if self.reads:
            self.reading.observe(played.innings, played.delivered)
        if self.futures:
            self._forecast(values)
        return played

    def _values(self, batting: BattingIntent, bowling: BowlingIntent) -> dict[str, float]:
        seed = self.forecast_seed(2 * self._deliveries() + 1)
        return decision_values(self.playing, batting, bowling, self.futures, seed, self.reading)

    def _forecast(self, values: Mapping[str, float]) -> None:
        seed = self.forecast_seed(2 * self._deliveries())
        found = forecast_data(self.playing, self.futures, seed, self.reading)
        if found is not None:
            self.emit("forecast", {**found, **values})

    def _deliveries(self) -> int:
        return sum(innings.deliveries for innings in self.playing.innings)

    def open_field(self) -> None:
        """Adjust the standard field to the limit outside the ring."""
        captain = self.captains[self.playing.fielding_side]
        if captain.field.preset == STANDARD and self.playing.result is None:
            captain.field = standard_field(self.outside_limit)

    def _emit_ball(self, played: PlayedBall) -> None:
        match = self.playing
        assert self.last_ball is not None  # set by the only caller
        self.emit("ball_bowled", self.last_ball)
        if played.out is not None:
            self.emit("wicket_fell", event_data.wicket_fell(match, played))
        for milestone in milestones(match, played):
            self.emit("milestone_reached", milestone)
        if played.over_ended:
            self.emit("over_completed", event_data.over_completed(match, played.bowler))
        if match.awaited == "innings":
            self.emit("innings_ended", event_data.innings_ended(match))
            match.close_innings()
            if match.result is None:
                self.announce_innings()
            else:
                self.emit("match_ended", event_data.match_ended(match))
