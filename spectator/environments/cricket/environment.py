"""The cricket environment and its action, options, observation and state."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from spectator.environments.contract import ObservationModel, OptionsModel, StateModel
from spectator.environments.cricket.ball.grounds import GROUND_NAMES, NEUTRAL_GROUND
from spectator.environments.cricket.captaincy.arguments import legal_actions, legal_tools
from spectator.environments.cricket.captaincy.observation import CaptainsCard, observation_content
from spectator.environments.cricket.captaincy.tools import carry_out
from spectator.environments.cricket.decision_account import DecisionAccount
from spectator.environments.cricket.grading import account_rubric, rubric
from spectator.environments.cricket.laws import MAX_OVERS, Side, format_of
from spectator.environments.cricket.match import snapshots
from spectator.environments.cricket.match.engine import (
    DRAWN,
    LEVEL,
    Circumstances,
    circumstances_of,
    load_model,
    teams_in,
)
from spectator.environments.cricket.match.game import Game
from spectator.environments.cricket.match.starts import START_NAMES, match_arranged, play_to_start
from spectator.environments.cricket.people import MAX_UNEVEN, TEAMS
from spectator.environments.cricket.real_match_record import (
    START,
    MatchPlace,
    RealMatch,
    place_of,
    shown,
    teams_at,
)
from spectator.environments.cricket.real_matches import new_match, reach, start_at
from spectator.environments.world import derive_seed
from spectator.events import Fact, optional_field
from spectator.observations import Observation, Refusal
from spectator.policies.policy import Action


class CricketAction(BaseModel):
    """One call of one of the captain's tools."""

    model_config = ConfigDict(extra="forbid", strict=True)

    tool: str = Field(max_length=64, description="Name of a tool in `legal_actions`")
    arguments: dict[str, Any] | None = Field(default=None, description="Its arguments; all are optional")


class CricketOptions(OptionsModel):
    """Options of a match."""

    max_overs: int = Field(default=5, ge=1, le=MAX_OVERS, description="Overs per innings")
    start: Literal[START_NAMES] = Field(  # type: ignore[valid-type]  # a tuple of literals
        default="toss", description="Where play begins; the usual captains play everything before"
    )
    toss_caller: Literal["home", "away"] = Field(default="home", description="The side that calls the toss")
    super_over: bool = Field(default=True, description="Whether super overs decide a tie")
    decisions: Literal["ball", "over", "session"] = Field(
        default="ball",
        description="How much one decision covers: a ball, an over, or all of powerplay, middle or death",
    )
    reward: Literal["score", "result", "decision_value"] = Field(
        default="score",
        description="What is rewarded: the score or the result at the end, or each decision by its effect on "
        "the chance of winning",
    )
    opponent_rating: float = Field(
        default=0.0,
        ge=-1000.0,
        le=1000.0,
        description="Elo points of the opposing captain above one who plays as real sides do; sets the "
        "expected result",
    )
    forecast_futures: int = Field(
        default=0,
        ge=0,
        le=20_000,
        description="Futures simulated after each ball for its forecast; 0 = none; 1,000 give 1.6 % accuracy",
    )
    profile: Literal["men", "women", "associates"] = Field(
        default="men", description="The cricket that the ball model is fitted to"
    )
    level: str | float = Field(
        default="all",
        description="Scoring level: all, a season such as `ipl 2024`, or the mean total of a 20-over first "
        "innings",
    )

    ground: Literal[(*GROUND_NAMES, DRAWN)] = optional_field(  # type: ignore[valid-type]  # a tuple of literals
        "Boundary distances: the neutral ground, a named ground, or one drawn for the seed",
        default=NEUTRAL_GROUND.name,
    )
    form: Literal["level", "drawn"] = optional_field(
        "Whether players have a form of the day, drawn for the seed and shown on their cards", default=LEVEL
    )
    fatigue: bool = optional_field("Whether bowlers tire as they bowl more overs", default=False)
    squads: Literal["drawn", "uneven"] | float = optional_field(
        "Strength of the squads: drawn equal, uneven by a difference drawn for the seed, or the Elo points "
        "by which the home squad is stronger, -400 to 400",
        default=DRAWN,
    )

    home_team: Literal[TEAMS] | None = optional_field(  # type: ignore[valid-type]  # a tuple of literals
        "Name of the home team; drawn for the seed by default"
    )
    away_team: Literal[TEAMS] | None = optional_field(  # type: ignore[valid-type]  # a tuple of literals
        "Name of the away team, another than the home team's"
    )

    real_match: RealMatch | None = optional_field(
        "Record of an imported real match; it sets elevens, toss, overs and pitch"
    )
    real_from: str = optional_field(
        "Where play on a real match starts: innings and overs bowled, such as 2:14.3",
        default=START,
        max_length=12,
        validate_default=True,
    )
    real_team: int = optional_field(
        "Which team of a real match the agent captains: the first or second named", default=1, ge=1, le=2
    )

    @field_validator("real_from")
    @classmethod
    def _playable(cls, real_from: str, info: ValidationInfo) -> str:
        record = info.data.get("real_match")
        if record is None:
            if real_from != START:
                raise ValueError("needs a real match; choose its pack")
            return real_from
        if info.data.get("start") != "toss" or info.data.get("max_overs") != record.overs:
            raise ValueError(f"a real match needs start toss and max_overs {record.overs}")
        place = place_of(record, real_from)
        for _ in reach(new_match(record, place, load_model("men", "all"), random.Random(0)), record, place):
            pass
        return real_from

    @field_validator("away_team")
    @classmethod
    def _another(cls, away_team: str | None, info: ValidationInfo) -> str | None:
        if away_team is not None and away_team == info.data.get("home_team"):
            raise ValueError("must differ from home_team")
        return away_team

    @field_validator("real_match")
    @classmethod
    def _own_names(cls, record: RealMatch | None, info: ValidationInfo) -> RealMatch | None:
        if record is not None and (info.data.get("home_team") or info.data.get("away_team")):
            raise ValueError("names both teams itself; omit home_team and away_team")
        return record

    @field_validator("squads")
    @classmethod
    def _stated_difference(cls, squads: str | float) -> str | float:
        if not isinstance(squads, str) and not abs(squads) <= MAX_UNEVEN:
            raise ValueError(f"the difference must be -{MAX_UNEVEN:g} to {MAX_UNEVEN:g} Elo points")
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
    """What a captain sees; rates are runs per over, or null."""

    phase: Literal[
        "toss", "elect", "openers", "batter", "bowler", "bowl", "bat", "bowling_plan", "batting_plan", "over"
    ]
    task: str = Field(description="The decision to make, in a sentence")
    side: Side | None = Field(description="The side that this captain leads")
    squads: dict[str, Any] = Field(description="{home, away: {name, short, players: [...]}}")
    format: dict[str, Any] = Field(
        description="{overs, powerplay_balls, bowler_overs, profile: men, women or associates, level: mean "
        "total of a 20-over first innings}"
    )
    rules: dict[str, str] = Field(
        default_factory=dict,
        description="{decisions: ball, over or session, reward: score, result or decision_value}: what a "
        "decision covers and what is rewarded",
    )
    conditions: dict[str, str] = Field(
        default_factory=dict,
        description="{pitch: green, even or dry, evening: wearing, even or dew}: green helps pace, dry "
        "spin; dew makes a second innings easier, above all against spin, wearing harder",
    )
    ground: dict[str, Any] | None = Field(
        default=None,
        description="{name, metres, now}: metres from the centre of the pitch to the boundary by sector, "
        "from the view of a right-hander at the first end and (now) of the current striker; overs change "
        "ends; null for the neutral ground",
    )
    tired: dict[str, float] | None = Field(
        default=None,
        description="Load of the fielding side's bowlers at the start of this over, if bowlers tire: plus 1 "
        "for each over bowled, minus 0.4 for each over rested (20 / overs of both in more than 20 overs); "
        "players not listed have none",
    )
    squad_difference: float | None = Field(
        default=None, description="Elo points by which the home squad is stronger, if the squads are uneven"
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
        default=None, description="Maximum fielders outside the ring for the next ball"
    )
    target: int | None = None
    need: int | None = None
    required_rate: float | None = None
    projected: int | None = Field(
        default=None, description="Total that average sides make of a first innings from here"
    )
    card: dict[str, Any] | None = Field(
        default=None,
        description="{out, bowling, maidens, extras, earlier}: dismissed batters, every bowler except the "
        "current one, the current one's maidens, extras by kind, and earlier innings",
    )
    last_ball: dict[str, Any] | None = None
    result: str | None = None
    you: dict[str, Any] | None = Field(
        default=None, description="This captain's plan, strategies, notes and calls"
    )
    choices: dict[str, Any] | None = Field(
        default=None, description="Players who may bowl or come in; the overs that orders cover"
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


AGENT: Final[Side] = "home"

MAX_CONSECUTIVE_REJECTIONS: Final = 100
"""Consecutive refused actions of one captain after which a match is cut short."""


def step_cap(options: Mapping[str, Any]) -> int:
    """Return the number of turns after which a match is cut short.

    Both captains may make every allowed call on every ball: 18 turns a delivery, 7 deliveries an over, two
    innings, and as much again for super overs and refusals.
    """
    return int(500 * options["max_overs"] + 3000)


class CricketEnvironment:
    """A limited-overs match between two captains.

    Description: both captains decide every ball, over or session; a fitted model draws the outcomes.
    Action Space: ``{"tool": name, "arguments": {...}}``; every argument has a default.
    Observation Space: see :class:`CricketObservation`; legal tools come with JSON schemas.
    Starting State: before the toss, or as set by ``start``.
    Rewards: of the home captain, by the option ``reward``: the score or the result on the last step, or each
    decision's effect on the chance of winning; see :mod:`.grading`. ``metadata["rubric"]`` has the parts so
    far on every step.
    Episode End: the match is decided, or cut short by the step cap or by too many refusals in a row.
    Arguments: see :class:`CricketOptions`.
    References: Laws of Cricket 2017 Code, ICC T20I playing conditions, see docs/cricket-laws.md.
    Version History: 1.0 first; 2.0 orders for an over or a session, rewards to choose from.
    """

    def __init__(self) -> None:
        self._episode_id = ""
        self._seed = 0
        self._options: dict[str, Any] = {}
        self._game: Game | None = None
        self._squads: dict[Side, Any] = {}
        self._rules: dict[str, str] = {}
        self._card: CaptainsCard | None = None
        self._legal: tuple[str, ...] = ()
        self._steps = self._step_cap = 0
        self._account: DecisionAccount | None = None
        self._paid = 0.0
        self._graded_at: tuple[int, ...] = ()
        self._parts: dict[str, float] = {}

    def reset(self, *, seed: int, episode_id: str, options: Mapping[str, Any]) -> Observation:
        """Start a match."""
        self._episode_id, self._seed, self._options = episode_id, seed, dict(options)
        self._steps, self._paid = 0, 0.0
        self._take(self._arrange())
        return self._observe()

    def step(self, action: Action) -> Observation:
        """Make the tool call of the captain whose turn it is."""
        game = self._playing
        actor = game.turn()[1]
        if actor is None:
            return self._observe(Refusal("episode.over", "The match is over; reset to play again."))
        self._steps += 1
        if self._steps > self._step_cap:
            return self._cut_short(f"cut short after {self._step_cap} turns")
        refusal = carry_out(game, actor, action, self._legal)
        if refusal is not None:
            captain = game.captains[actor]
            captain.refusals += 1
            captain.refused_in_a_row += 1
            if captain.refused_in_a_row >= MAX_CONSECUTIVE_REJECTIONS:
                return self._cut_short(
                    f"cut short: {MAX_CONSECUTIVE_REJECTIONS} actions in a row were refused"
                )
        return self._observe(refusal)

    def _cut_short(self, why: str) -> Observation:
        """End an undecided match; any later step is refused."""
        self._playing.cut = why
        return self._observe()

    @property
    def state(self) -> Mapping[str, Any]:
        """The public state."""
        return {"episode_id": self._episode_id, **snapshots.public_state(self._game)}

    def snapshot(self) -> bytes:
        """Return everything needed to continue, including the random generator."""
        return snapshots.dump(self._playing, self._seed, self._episode_id, self._options, self._steps)

    def restore(self, snapshot: bytes) -> Observation:
        """Continue from ``snapshot``."""
        header = snapshots.header(snapshot)
        game = snapshots.load(snapshot, _fresh(header["seed"], header["options"]))
        self._seed, self._episode_id, self._options = header["seed"], header["episode_id"], header["options"]
        self._steps = header["steps"]
        self._take(game)
        self._paid = 0.0 if self._account is None else self._account.decided[AGENT]
        return self._observe()

    def facts(self) -> Sequence[Fact]:
        """Return what happened since the last call."""
        if self._game is None:
            return ()
        facts, self._game.pending = self._game.pending, []
        return facts

    def truth(self) -> Mapping[str, Any]:
        """Return what was hidden: the shared effects of match and innings, and the seed.

        It is empty until the match is decided.
        """
        if self._game is None or self._game.actor is not None or self._game.match is None:
            return {}
        effects = self._game.match.effects
        return {"seed": self._seed, "match_effect": effects.match, "innings_effects": list(effects.innings)}

    @property
    def _playing(self) -> Game:
        if self._game is None:
            raise RuntimeError("the environment has no match; call reset first")
        return self._game

    def _take(self, game: Game) -> None:
        self._game, self._graded_at, self._step_cap = game, (), step_cap(self._options)
        self._account = game.account if isinstance(game.account, DecisionAccount) else None
        self._card = None
        self._rules = {name: self._options[name] for name in ("decisions", "reward") if name in self._options}
        self._squads = {
            side: {
                "name": team.name,
                "short": team.short,
                "players": [team.card(index, formed=game.circumstances.formed) for index in range(11)],
            }
            for side, team in game.teams.items()
        }

    def _arrange(self) -> Game:
        game = _fresh(self._seed, self._options)
        real, start = _real_match(self._options), self._options["start"]
        if real is not None:
            record, place, home = real
            shown_match = shown(record, home, self._options.get("real_from", START))
            game.emit("match_arranged", {**match_arranged(game), "real": shown_match})
            start_at(game, record, place, home, self._generator("real_match", 0))
        else:
            game.emit("match_arranged", match_arranged(game))
            if start != "toss":
                play_to_start(game, start, self._generator)
        if game.account is not None and (real is not None or start != "toss"):
            game.account.match_started(game.playing)
        return game

    def _generator(self, part: str, number: int) -> random.Random:
        return random.Random(derive_seed(self._seed, part, number))

    def _observe(self, refused: Refusal | None = None) -> Observation:
        game = self._playing
        phase, actor = game.turn()
        self._legal = legal_tools(game, phase, actor)
        parts, reward = self._graded(game)
        metadata: dict[str, Any] = {"rubric": parts}
        if game.cut is not None:
            metadata["truncated"] = game.cut
        if self._card is None and game.match is not None:
            self._card = CaptainsCard(game.match)
        card = None if self._card is None else self._card.shown()
        content = observation_content(game, self._squads, phase, actor, card)
        content["rules"] = self._rules
        return Observation(
            actor=actor,
            legal_actions=legal_actions(game, self._legal),
            content=content,
            reward=reward,
            done=actor is None,
            refused=refused,
            metadata=metadata,
        )

    def _graded(self, game: Game) -> tuple[dict[str, float], float]:
        """Return the parts of the score so far and the reward of the last step."""
        if self._account is not None:
            decided = self._account.decided[AGENT]
            gained, self._paid = decided - self._paid, decided
            return account_rubric(self._account, AGENT), gained
        options, captain, match = self._options, game.captains[AGENT], game.match
        deliveries = -1 if match is None else sum(innings.deliveries for innings in match.innings)
        change = (deliveries, captain.refusals, captain.charged, captain.plan_changes)
        if change != self._graded_at:
            rating, reward = options.get("opponent_rating", 0.0), options.get("reward", "score")
            rating -= game.circumstances.difference or 0.0
            self._graded_at, self._parts = change, rubric(match, captain, AGENT, rating, reward)
        decided = match is not None and match.result is not None
        return dict(self._parts), self._parts["score"] if decided else 0.0


def _real_match(options: Mapping[str, Any]) -> tuple[RealMatch, MatchPlace, int] | None:
    """Return the real match of these options, where play starts, and the team that takes the home seat."""
    if options.get("real_match") is None:
        return None
    record = RealMatch.model_validate(options["real_match"])
    return record, place_of(record, options.get("real_from", START)), options.get("real_team", 1) - 1


def _fresh(seed: int, options: Mapping[str, Any]) -> Game:
    """Return a game of this seed and these options, before the toss."""
    circumstances, real = circumstances_of(seed, options), _real_match(options)
    if real is None:
        teams = teams_in(
            seed,
            circumstances,
            options["max_overs"],
            women=options["profile"] == "women",
            names=(options.get("home_team"), options.get("away_team")),
        )
    else:
        circumstances = Circumstances(fatigue=circumstances.fatigue)
        teams = teams_at(*real)
    model = load_model(options["profile"], options["level"])
    valued = options.get("reward", "score") == "decision_value"
    return Game(
        format_of(options["max_overs"]),
        teams,
        model,
        random.Random(derive_seed(seed, "balls")),
        caller=options["toss_caller"],
        super_over=options["super_over"],
        decisions=options.get("decisions", "ball"),
        account=DecisionAccount(model, teams) if valued else None,
        futures=options["forecast_futures"],
        forecast_seed=partial(derive_seed, seed, "forecast"),
        circumstances=circumstances,
    )
