"""The cricket world as registered in the catalogue, with its evaluation packs.

A pack is a named, versioned set of matches with development seeds. A development seed is below 2**52. A
sealed seed (``spectator.environments.world.sealed_seeds``) has bit 52 set and is derived from a phrase
kept outside this repository, so the two kinds never overlap.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, Final

from spectator.environments.cricket.analyst import CricketAnalyst
from spectator.environments.cricket.ball.prices import style_shares
from spectator.environments.cricket.captaincy.captains import CAPTAINS, OPPONENTS, WEAKER
from spectator.environments.cricket.captaincy.draft import weigh_draft
from spectator.environments.cricket.captaincy.planner import MATCH_UPS, PLANNER
from spectator.environments.cricket.environment import (
    CricketAction,
    CricketEnvironment,
    CricketObservation,
    CricketOptions,
    CricketState,
    step_cap,
)
from spectator.environments.cricket.events import BEATS, EVENTS
from spectator.environments.cricket.forecast.state import spin_shares
from spectator.environments.cricket.grading import MEASURES, PROFILE, PROFILES, CricketMeter, rival_reward
from spectator.environments.cricket.imported_matches import imported_packs
from spectator.environments.cricket.match.engine import VARIED
from spectator.environments.cricket.match.snapshots import snapshot_for
from spectator.environments.cricket.oracle import ORACLE
from spectator.environments.cricket.people import TEAMS
from spectator.environments.cricket.prompt import EVERY_TOOL, RENDERING
from spectator.environments.cricket.question import question
from spectator.environments.cricket.show.commentary import comment
from spectator.environments.cricket.show.drawing import picture
from spectator.environments.cricket.show.phrases import table as phrase_table
from spectator.environments.cricket.show.projection import project
from spectator.environments.cricket.show.scenes import scenes
from spectator.environments.cricket.show.spoken import spoken
from spectator.environments.cricket.show.summary import (
    board_lines,
    call_values,
    chances,
    moment_name,
    percentile,
    reported_win_chance,
    sides,
)
from spectator.environments.cricket.simulation import simulate
from spectator.environments.cricket.trained.captain import own_captain, trained_captain
from spectator.environments.world import SEALED_BIT, Pack, World, derive_seed

SEEDS_A_PACK: Final = 40


def development_seeds(name: str, version: str) -> tuple[int, ...]:
    """Return the public seeds of a pack; an agent may be developed on them."""
    return tuple(
        derive_seed(number, "cricket", "development", name, version) % SEALED_BIT
        for number in range(SEEDS_A_PACK)
    )


def _pack(name: str, version: str, summary: str, **options: Any) -> Pack:
    return Pack(name, version, summary, options, development_seeds(name, version))


PACKS: Final[dict[str, Pack]] = {
    pack.name: pack
    for pack in (
        Pack("default", "1", "A whole match from the toss, with any seed and length."),
        _pack("powerplay", "1", "Bat first from the first ball of ten overs: use the powerplay.",
              start="bat_first", max_overs=10),
        _pack("chase", "1", "Bat second: the first innings is over and the target is set.", start="chase"),
        _pack("defend", "1", "Field second: your side has batted, hold them to it.", start="defend"),
        _pack("death", "1", "Bat first with a quarter of the overs to come, then defend.", start="death"),
        _pack("super-over", "1", "The match is tied: one over each decides it.", start="super_over"),
        _pack("varied", "1", "A whole match with ground, form, tired bowlers and uneven squads all on.",
              **VARIED),
        _pack("collapse", "1", "Bat first with early wickets gone: make a total of it.", start="collapse"),
    )
}  # fmt: skip
"""Packs by name."""


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
"""The task description that a language model gets before it captains a side."""

RATINGS: Final[dict[str, float]] = {
    "random": -208.0, "novice": -150.0, "blocker": -74.0, "match_ups": 80.0, "planner": 189.0,
}  # fmt: skip
"""Elo points above the percentage captain, for opponents whose difference exceeds the error of the
measurement (docs/cricket-game.md)."""

VERSION: Final = "2.4"

_TRAINED: Final = trained_captain(VERSION)
_RUNGS: Final = {**WEAKER, MATCH_UPS.name: MATCH_UPS, PLANNER.name: PLANNER}


def _prepare() -> None:
    """Load the files that the ball, the attack and the commentary read."""
    style_shares()
    spin_shares()
    phrase_table("written")
    percentile(1, 1, 0)


WORLD = World(
    name="cricket",
    version=VERSION,
    title="Cricket",
    title_of_one="{max_overs}-over cricket",
    summary="Captain a side through both innings, ball by ball or by the over; a fitted model bowls.",
    actors=("home", "away"),
    environment=CricketEnvironment,
    prepare=_prepare,
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
    imported_packs=imported_packs,
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
    promise=reported_win_chance,
    call_values=call_values,
    steps_at_once=lambda options: options["forecast_futures"] == 0,
    board_lines=board_lines,
    picture=picture,
    scenes=scenes,
    meter=CricketMeter,
    analyst=CricketAnalyst,
    question=question,
    weigh_draft=weigh_draft,
    showcase=(
        ("planner", "aggressive"),
        ("match_ups", "defensive"),
        ("planner", "spin_first"),
        ("tactician", "match_ups"),
        ("match_ups", "anchor"),
    ),
    profile=PROFILE,
    profiles=PROFILES,
    own_captain=partial(own_captain, VERSION),
    rival_reward=rival_reward,
    sides=sides,
    moment_name=moment_name,
    team_names=TEAMS,
)
