"""The cricket world, put together as the catalogue takes it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from spectator.environments.cricket.analysis.analyst import CricketAnalyst
from spectator.environments.cricket.captaincy.captains import CAPTAINS, OPPONENTS
from spectator.environments.cricket.captaincy.planner import MATCH_UPS, PLANNER
from spectator.environments.cricket.captaincy.weaker import WEAKER
from spectator.environments.cricket.environment import CricketEnvironment, step_cap
from spectator.environments.cricket.events import BEATS, EVENTS
from spectator.environments.cricket.grading.meter import MEASURES, CricketMeter
from spectator.environments.cricket.grading.reward import PROFILE, PROFILES
from spectator.environments.cricket.match.snapshots import snapshot_for
from spectator.environments.cricket.models import (
    CricketAction,
    CricketObservation,
    CricketOptions,
    CricketState,
)
from spectator.environments.cricket.oracle import ORACLE
from spectator.environments.cricket.packs import PACKS
from spectator.environments.cricket.prompt import EVERY_TOOL, RENDERING
from spectator.environments.cricket.show.board_lines import board_lines
from spectator.environments.cricket.show.commentary import comment
from spectator.environments.cricket.show.glance import chances
from spectator.environments.cricket.show.picture import picture
from spectator.environments.cricket.show.projection import project
from spectator.environments.cricket.show.scenes import scenes
from spectator.environments.cricket.show.spoken import spoken
from spectator.environments.cricket.show.told_chance import told_chance
from spectator.environments.cricket.simulate import simulate
from spectator.environments.cricket.trained.captain import trained_captain
from spectator.environments.world import World

_PANEL = Path(__file__).parent / "panel"


TASK = (
    "You captain one side of a limited-overs cricket match through both innings, to win it. On every "
    "ball the batting captain decides how hard to hit and the fielding captain how hard to attack; the "
    "ball itself is drawn from a model fitted to real matches. Levels go from 0 to 1, and 0.5 is what "
    "real sides do in the same situation: hitting harder brings runs and wickets, attacking harder "
    "brings wickets and runs. Declare a plan, keep to it while it is right, and change it when the "
    "match has changed. The call that plays or bowls the ball is what makes the match go on; a few "
    "other calls an over are free, further ones cost part of your score. Where you give orders for an over "
    "or for several, they are played out before you are asked again, unless you say when to ask sooner."
)
"""What a language model is told before it captains a side."""

RATINGS: Final[dict[str, float]] = {
    "random": -208.0, "novice": -150.0, "blocker": -74.0, "match_ups": 80.0, "planner": 189.0,
}  # fmt: skip
"""Elo points above the percentage captain, of those who differ from it by more than the error of their
matches (docs/cricket-game.md)."""

VERSION: Final = "2.0"

_TRAINED: Final = trained_captain(VERSION)
_RUNGS: Final = {**WEAKER, MATCH_UPS.name: MATCH_UPS, PLANNER.name: PLANNER}

WORLD = World(
    name="cricket",
    version=VERSION,
    title="Cricket",
    title_of_one="{max_overs}-over cricket",
    summary="Captain a side through both innings, ball by ball or by the over; a fitted model bowls.",
    actors=("home", "away"),
    environment=CricketEnvironment,
    snapshot_for=snapshot_for,
    action_type=CricketAction,
    observation_type=CricketObservation,
    state_type=CricketState,
    options_type=CricketOptions,
    events=EVENTS,
    projection=project,
    commentator=comment,
    spoken=spoken,
    captains={**CAPTAINS, **_RUNGS, _TRAINED.name: _TRAINED, ORACLE.name: ORACLE},
    opponents={**OPPONENTS, **_RUNGS, _TRAINED.name: _TRAINED},
    opponent_options={name: {"opponent_rating": rating} for name, rating in RATINGS.items()},
    packs=PACKS,
    beats=BEATS,
    chapters={"cricket.over_completed": "over"},
    step_cap=step_cap,
    default_captain="heuristic",
    default_opponent="heuristic",
    watched_options={"forecast_futures": 1000},
    simulate=simulate,
    task=TASK,
    rendering=RENDERING,
    tools=EVERY_TOOL,
    any_thread=True,
    panel=_PANEL if _PANEL.is_dir() else None,
    chances=chances,
    measures=MEASURES,
    promise=told_chance,
    steps_at_once=lambda options: options["forecast_futures"] == 0,
    board_lines=board_lines,
    picture=picture,
    scenes=scenes,
    meter=CricketMeter,
    analyst=CricketAnalyst,
    showcase=(
        ("planner", "aggressive"),
        ("match_ups", "defensive"),
        ("planner", "spin_first"),
        ("tactician", "match_ups"),
        ("match_ups", "anchor"),
    ),
    profile=PROFILE,
    profiles=PROFILES,
)
