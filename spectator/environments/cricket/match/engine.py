"""The match engine: the Laws, the ball model and both captains' intents.

It has no policy and no observations. Its driver (environment, simulation, forecast) reads ``awaited`` to see
what must happen next and makes it happen. Squads, pitch, evening, ground and form derive from a match's seed
and options.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, Literal, NamedTuple

from spectator.environments.cricket import scorer
from spectator.environments.cricket.ball.grounds import (
    EVEN,
    GROUNDS,
    NEUTRAL_GROUND,
    Boundaries,
    Conditions,
    Ground,
    as_faced,
    draw_conditions,
    draw_ground,
)
from spectator.environments.cricket.ball.outcomes import RING_POSITIONS, BowledBall
from spectator.environments.cricket.ball.sampler import BallModel
from spectator.environments.cricket.ball.situation import MEMORY, DeliveryPlan, Effects, Situation, loads
from spectator.environments.cricket.forecast.outlook import Outlook, outlook_of
from spectator.environments.cricket.forecast.state import BowlingAttack, choose_bowler, spin_habit
from spectator.environments.cricket.laws import RING_LIMIT, SUPER_OVER, Ball, Format, Innings, LawBroken, Side
from spectator.environments.cricket.match.field import Field, standard_field
from spectator.environments.cricket.people import (
    Team,
    draw_difference,
    draw_fixture,
    teams_of,
    with_difference,
    with_form,
    with_names,
)
from spectator.environments.world import derive_seed

DRAWN: Final = "drawn"
UNEVEN: Final = "uneven"
LEVEL: Final = "level"
VARIED: Final[Mapping[str, Any]] = {"ground": DRAWN, "form": DRAWN, "fatigue": True, "squads": UNEVEN}
"""Options that switch on every optional feature."""


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What both captains know of a match before its toss, except the squads.

    Args:
        formed: Whether players have a form of the day.
        difference: Elo points by which the home squad is stronger; ``None`` for equally drawn squads.

    Attributes:
        unusual: Whether an observation shows more of them than pitch, evening and cards.
    """

    conditions: Conditions = EVEN
    ground: Ground = NEUTRAL_GROUND
    fatigue: bool = False
    formed: bool = False
    difference: float | None = None
    unusual: bool = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        unusual = bool(self.ground.boundaries) or self.fatigue or self.difference is not None
        object.__setattr__(self, "unusual", unusual)


ORDINARY: Final = Circumstances()


def circumstances_of(seed: int, options: Mapping[str, Any]) -> Circumstances:
    """Return the circumstances of a match; missing options mean ordinary ones."""
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


def teams_in(
    seed: int,
    circumstances: Circumstances,
    overs: int,
    *,
    women: bool = False,
    names: tuple[str | None, str | None] = (None, None),
) -> dict[Side, Team]:
    """Return both teams of a match, home first; a name of ``None`` is drawn."""
    drawn = with_names(draw_fixture(derive_seed(seed, "squads"), women=women), *names)
    home, away = with_difference(drawn, circumstances.difference or 0.0, overs)
    if circumstances.formed:
        rng = _generator(seed, "form")
        home, away = with_form(rng, home), with_form(rng, away)
    return teams_of((home, away))


def _generator(seed: int, part: str) -> random.Random:
    return random.Random(derive_seed(seed, part))


NEUTRAL: Final = 0.5
"""Intent of real sides in the same situation."""


class BattingIntent(NamedTuple):
    """The batting captain's intent for a ball.

    Args:
        aggression: 0 to 1; 0.5 is what real sides do in this situation.
        shot: One of the model's shots, or ``None`` for the batter's own choice.
    """

    aggression: float = NEUTRAL
    shot: str | None = None


class BowlingIntent(NamedTuple):
    """The fielding captain's intent for a ball.

    Args:
        attack: 0 to 1; 0.5 is what real sides do in this situation.
        delivery: Planned length, line and pace, or ``None`` for the bowler's own choice.
    """

    attack: float = NEUTRAL
    delivery: DeliveryPlan | None = None
    field: Field = standard_field(RING_LIMIT)


class PlayedBall(NamedTuple):
    """A ball that was bowled, with the state just before it.

    Args:
        innings: 1, 2, then 3, 4, ... in super overs.
        over: 0-based.
        ball: Number of the valid ball within the over, 1 to 6.
        delivery: Number of the delivery within the over, 1, 2, ...
        striker: Index of the batter who faced it.
        powerplay: Whether it was bowled in the first powerplay.
        delivered: The ball as the model drew it.
        out: Index of the dismissed batter.
        fielder: Index of the fielder who took part in a dismissal.
        position: Position of that fielder; ``keeper`` or ``bowler``.
    """

    innings: int
    over: int
    ball: int
    delivery: int
    striker: int
    non_striker: int
    bowler: int
    free_hit: bool
    powerplay: bool
    counted: Ball
    delivered: BowledBall
    out: int | None
    fielder: int | None
    position: str | None
    over_ended: bool


@cache
def load_model(profile: str, level: str | float) -> BallModel:
    """Return the ball model of a profile and scoring level, shared by all matches.

    Args:
        profile: ``men``, ``women`` or ``associates``.
        level: ``all``, a season such as ``ipl 2024``, or the mean total of a 20-over first innings.

    Raises:
        ValueError: The profile or level is unknown.
    """
    return BallModel.load(profile, level)


Awaited = Literal["batter", "bowler", "ball", "innings", "nothing"]


class Match:
    """A match from its first ball to its result.

    Args:
        batting_first: The side that bats first.
        rng: Source of all randomness of the balls.
        circumstances: Pitch, evening, ground, and whether bowlers tire.

    Attributes:
        current: The innings in progress, or the last one.
        number: Number of that innings: 1, 2, then 3, 4, ... in super overs.
        batting_side: The side that bats in it.
        fielding_side: The side that fields in it.
        effect: Shared effect of the match and this innings, see :class:`..ball.situation.Effects`.
        seen: (length, line) pairs that each batter of the innings faced last, oldest first; see
            :data:`..ball.situation.MEMORY`.
    """

    def __init__(
        self,
        format: Format,
        teams: Mapping[Side, Team],
        batting_first: Side,
        model: BallModel,
        rng: random.Random,
        *,
        super_over: bool = True,
        circumstances: Circumstances = ORDINARY,
    ) -> None:
        self.format = format
        self.teams = teams
        self.model = model
        self.rng = rng
        self.super_over = super_over
        self.conditions = circumstances.conditions
        self.ground = circumstances.ground
        self.fatigue = circumstances.fatigue
        self.effects = model.draw_effects(rng)
        self.seen: dict[int, tuple[int, ...]] = {}
        self.innings: list[Innings] = []
        self.batting: list[Side] = []
        self.result: scorer.Result | None = None
        self._open(batting_first)

    @property
    def awaited(self) -> Awaited:
        """What must happen next; ``innings`` if the innings is over but not the match."""
        if self.result is not None:
            return "nothing"
        awaited = self.innings[-1].awaited
        return "innings" if awaited == "nothing" else awaited

    def copy(self) -> Match:
        """Return an independent copy; it shares the generator until it gets another."""
        twin = Match.__new__(Match)
        twin.__dict__.update(self.__dict__)
        twin.innings = [innings.copy() for innings in self.innings]
        twin.current = twin.innings[-1]
        twin.batting = self.batting.copy()
        twin.seen = self.seen.copy()
        return twin

    def restore(self, effects: Effects, batting: Sequence[Side], innings: Sequence[Innings]) -> None:
        """Replace effects and innings by these, and set the result if they decide it.

        Args:
            effects: Shared effects of the match and its innings.
            batting: The side that bats in each innings.
            innings: The innings, the current one last.
        """
        self.effects, self.batting, self.innings = effects, list(batting), list(innings)
        self._set_current()
        self.settle_result()

    def send_in(self, player: int) -> None:
        """Send a batter in."""
        scorer.take_batter(self.innings[-1], player)

    def give_ball(self, player: int) -> None:
        """Give a bowler the next over.

        Raises:
            LawBroken: See :func:`.scorer.check_bowler`; as a house rule the keeper does not bowl.
        """
        self.check_bowler(player)
        scorer.take_bowler(self.innings[-1], player)

    def check_bowler(self, player: int) -> None:
        """Raise if ``player`` may not bowl the next over; see :meth:`give_ball`."""
        if player == self.teams[self.fielding_side].keeper:
            raise LawBroken("house.keeper", "The wicket-keeper does not bowl; choose another player.")
        scorer.check_bowler(self.innings[-1], player)

    def eligible_bowlers(self) -> list[int]:
        """Return the indices of players who may bowl the next over; empty if none is due."""
        innings = self.innings[-1]
        if innings.closed or innings.bowler is not None:
            return []
        left = scorer.overs_left_of_all(innings)
        left[self.teams[self.fielding_side].keeper] = 0
        for player in (*innings.previous_bowlers, *innings.barred_bowlers):
            left[player] = 0
        return [player for player in range(11) if left[player]]

    def situation(self, batting: BattingIntent, bowling: BowlingIntent) -> Situation | None:
        """Return what the next ball depends on; ``None`` if none can be bowled."""
        innings = self.innings[-1]
        striker, bowler = innings.striker, innings.bowler
        if striker is None or bowler is None or innings.closed:
            return None
        balls, side = innings.balls, self.batting[-1]
        format, target = innings.format, innings.target
        return Situation(
            balls, format.balls, innings.wickets, None if target is None else target - innings.runs,
            self.teams[side].players[striker], innings.batting[striker].balls,
            self.teams["away" if side == "home" else "home"].bowlers[bowler], innings.free_hit,
            balls < format.powerplay_balls, batting.aggression, bowling.attack, bowling.delivery,
            batting.shot, bowling.field.shape, self.effect, self.conditions, self.number % 2 == 0,
            self.seen.get(striker, ()), innings.batting[striker].number, innings.limit,
            self.ground.boundaries, self.loads()[bowler] if self.fatigue else 0.0,
        )  # fmt: skip

    @property
    def faced(self) -> Boundaries:
        """The boundaries from the view of the striker, or else of a right-hander."""
        innings = self.innings[-1]
        player = None if innings.striker is None else self.teams[self.batting[-1]].players[innings.striker]
        left_handed = player is not None and player.bats == "left"
        return as_faced(self.ground.boundaries, innings.balls // 6 % 2, left_handed)

    def outlook(self, format: Format | None = None) -> Outlook:
        """Return what average sides make of such a match: of this format, or of the innings in progress."""
        format = self.current.format if format is None else format
        return outlook_of(self.model, format, self.conditions.evening, self.ground.boundaries, self.fatigue)

    def loads(self) -> list[float]:
        """Return the fielders' loads at this over's start; see `ball.situation.loads`."""
        innings = self.innings[-1]
        return loads(innings.over_starters[: innings.balls // 6], innings.format.overs)

    def play(self, batting: BattingIntent, bowling: BowlingIntent) -> PlayedBall:
        """Bowl one ball and score it.

        Raises:
            LawBroken: No ball can be bowled now.
        """
        innings = self.innings[-1]
        striker, non_striker, bowler = innings.striker, innings.non_striker, innings.bowler
        situation = self.situation(batting, bowling)
        if striker is None or non_striker is None or bowler is None or situation is None:
            raise LawBroken("R1.not_ready", f"No ball can be bowled now; the match awaits: {self.awaited}.")
        number, balls, free_hit = len(self.innings), innings.balls, innings.free_hit
        delivered = self.model.bowl(situation, self.rng)
        self.seen[striker] = (*self.seen.get(striker, ()), delivered.pair)[-MEMORY:]
        over, over_ball, delivery = balls // 6, innings.over_balls + 1, innings.over_deliveries + 1
        position, fielder = (
            self._fielder(delivered, bowler, bowling.field) if delivered.ball.dismissal else (None, None)
        )
        wickets = innings.wickets
        counted = scorer.take_ball(innings, delivered.ball, fielder)
        return PlayedBall(
            number, over, over_ball, delivery, striker, non_striker, bowler, free_hit, situation.powerplay,
            counted, delivered, innings.fall[-1][2] if innings.wickets > wickets else None, fielder, position,
            over_ball == 6 and innings.over_balls == 0,
        )  # fmt: skip

    def close_innings(self) -> None:
        """After an innings, decide the match or open the next innings.

        Raises:
            LawBroken: The innings is not over.
        """
        if self.awaited != "innings":
            raise LawBroken("R1.innings_open", "The innings is still in progress.")
        self.settle_result()
        if self.result is None:
            self._open(scorer.next_batting_side(self.batting))

    def settle_result(self) -> None:
        """Set the result if the innings played so far decide the match."""
        if self.innings[-1].closed:
            self.result = scorer.decide(self.innings, self.batting, super_over=self.super_over)

    def _open(self, batting: Side) -> None:
        number = len(self.innings) + 1
        self.innings.append(
            Innings(
                self.format if number <= 2 else SUPER_OVER,
                target=scorer.target_of(self.innings[-1]) if number % 2 == 0 else None,
                barred_batters=scorer.barred_batters(self.innings, self.batting, batting),
                barred_bowlers=scorer.barred_bowlers(self.innings, self.batting, scorer.other(batting)),
            )
        )
        self.seen = {}
        self.batting.append(batting)
        self._set_current()

    def _set_current(self) -> None:
        """Set what stays the same during the last innings."""
        self.current: Innings = self.innings[-1]
        self.number = len(self.innings)
        self.batting_side: Side = self.batting[-1]
        self.fielding_side: Side = scorer.other(self.batting_side)
        self.effect = self.effects.of(self.number)

    def _fielder(self, delivered: BowledBall, bowler: int, field: Field) -> tuple[str | None, int | None]:
        """Return the position and the index of the fielder who took part in a dismissal."""
        kind = delivered.ball.dismissal
        if kind in ("bowled", "lbw", "hit wicket", "hit the ball twice"):
            return None, None
        if kind == "caught and bowled":
            return "bowler", bowler
        keeper = self.teams[self.fielding_side].keeper
        track = delivered.track
        if kind == "stumped" or track.zone is None or track.fielder == "keeper":
            return "keeper", keeper
        place = field.nearest(track.zone, deep=track.aerial and track.fielder not in RING_POSITIONS)
        others = [player for player in range(11) if player not in (bowler, keeper)]
        return field.fielders[place].name, others[place]


Segment = Literal["powerplay", "middle", "death"]

DEATH_SHARE: Final = 0.25
"""Share of an innings that counts as its death: 5 of 20 overs, as in the tables."""


def segment_of(innings: Innings) -> Segment:
    """Return the part of an innings that its next ball belongs to."""
    return segment_at(innings.balls, innings.format.powerplay_balls, innings.format.balls)


def segment_at(bowled: int, powerplay_balls: int, innings_balls: int) -> Segment:
    """Return the part of an innings of the ball after ``bowled`` valid ones.

    >>> [segment_at(balls, powerplay_balls=9, innings_balls=30) for balls in (0, 9, 24)]
    ['powerplay', 'middle', 'death']
    """
    if bowled < powerplay_balls:
        return "powerplay"
    return "death" if innings_balls - bowled <= DEATH_SHARE * innings_balls else "middle"


def usual_bowler(match: Match) -> int:
    """Return the bowler of the next over in a side without a plan, as an index.

    See :func:`..forecast.state.choose_bowler`; the forecast expects the same.

    Raises:
        LawBroken: No over is due.
    """
    eligible = match.eligible_bowlers()
    if not eligible:
        raise LawBroken("O3.bowler", "No over is due; a bowler can be chosen only between overs.")
    return choose_bowler(bowling_attack(match), eligible)


def bowling_attack(match: Match) -> BowlingAttack:
    """Return the fielding side's bowling in the current innings."""
    innings, team = match.current, match.teams[match.fielding_side]
    return BowlingAttack(
        innings.format.overs,
        innings.format.bowler_overs,
        innings.format.extra_overs,
        innings.over_starters,
        scorer.overs_left_of_all(innings),
        team.bowling_worth,
        team.bowls,
        team.bowls_spin,
        team.death_bowlers,
        spin_habit(team.name, match.number),
    )


def analyze(match: Match, side: Side) -> dict[str, Any]:
    """Return the analyst's figures as plain JSON.

    They are par, projection or chance for average sides (`Outlook`), and the overs that bowlers have left.
    """
    innings = match.current
    outlook = match.outlook()
    balls, lost, runs = innings.balls, innings.wickets, innings.runs
    par_used = outlook.par - outlook.runs_to_come(balls, lost)
    view: dict[str, Any] = {
        "par_so_far": round(par_used, 1),
        "ahead_of_par": round(runs - par_used, 1),
        "projected_total": round(outlook.total(balls, lost, runs)),
    }
    if innings.target is not None:
        chance = outlook.chance(balls, lost, runs, innings.target)
        view["chance_of_chase"] = round(chance, 3)
        view["chance_of_win"] = round(chance if side == match.batting_side else 1.0 - chance, 3)
    team = match.teams[match.fielding_side]
    view["bowlers_left"] = [
        {"name": player.name, "overs": overs}
        for index, player in enumerate(team.players)
        if player.bowls and (overs := scorer.overs_left(innings, index))
    ]
    return view
