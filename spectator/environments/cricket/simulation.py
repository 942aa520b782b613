"""Simulate whole matches through the match engine, without observations or events."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any

from spectator.environments.cricket.ball.sampler import BallModel
from spectator.environments.cricket.captaincy.captains import STYLES, StyledCaptain
from spectator.environments.cricket.laws import Side, format_of
from spectator.environments.cricket.match.engine import (
    Match,
    PlayedBall,
    circumstances_of,
    load_model,
    teams_in,
)
from spectator.environments.cricket.match.starts import advance
from spectator.environments.cricket.scorer import other
from spectator.environments.world import derive_seed
from spectator.errors import FieldError, InvalidRequest


def simulate(matches: int, seed: int, options: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Play whole matches under any of the world's options, one row per delivery.

    The default captain bowls and bats with the intent of real sides, sets the standard field and picks the
    usual bowler, so the toss is its only decision. A test shows that an episode with the same seed has the
    same deliveries.

    Args:
        seed: Seed of the whole run; match ``m`` has the seed ``derive_seed(seed, "match", m)``.
        options: The complete options.

    Yields:
        match_id, innings (1, 2, then 3, 4, ... in super overs), over (0-based), ball (1-based, every delivery
        of the over), runs_off_bat, extras, extra_kind, wicket, dismissal_kind, target, batter, non_striker,
        bowler, free_hit.

    Raises:
        InvalidRequest: ``options`` ask for a start other than the toss.
    """
    if options["start"] != "toss":
        raise InvalidRequest([FieldError("options.start", "a simulation must start at the toss; use 'toss'")])
    for number in range(matches):
        match = open_match(
            options["max_overs"],
            derive_seed(seed, "match", number),
            caller=options["toss_caller"],
            model=load_model(options["profile"], options["level"]),
            super_over=options["super_over"],
            options=options,
        )
        yield from match_rows(number + 1, match)


def match_rows(match_id: int, match: Match) -> Iterator[dict[str, Any]]:
    """Play a match and yield its rows; see :func:`simulate`."""
    for played in play_out(match):
        innings = match.innings[played.innings - 1]
        side = match.batting[played.innings - 1]
        batters, bowlers = (
            match.teams[side].players,
            match.teams["away" if side == "home" else "home"].players,
        )
        ball = played.counted
        yield {
            "match_id": match_id,
            "innings": played.innings,
            "over": played.over,
            "ball": played.delivery,
            "runs_off_bat": ball.bat,
            "extras": ball.wides + ball.noball + ball.byes + ball.legbyes + ball.penalty,
            "extra_kind": ball.extra_kind,
            "wicket": ball.dismissal is not None,
            "dismissal_kind": ball.dismissal,
            "target": innings.target,
            "batter": batters[played.striker].name,
            "non_striker": batters[played.non_striker].name,
            "bowler": bowlers[played.bowler].name,
            "free_hit": played.free_hit,
        }


def open_match(
    overs: int,
    seed: int,
    *,
    caller: Side = "home",
    model: BallModel | None = None,
    super_over: bool = True,
    elects: Mapping[Side, str] | None = None,
    options: Mapping[str, Any] | None = None,
) -> Match:
    """Return a seed's match after its toss, as an episode of the seed has it.

    Args:
        caller: The side that calls the toss.
        model: The ball model; by default men's cricket at the tables' own scoring level.
        elects: What each side does if it wins the toss, ``bat`` or ``field``; the default captain decides for
            a side that is missing.
        options: Options of ground, form, fatigue, squads and profile; by default ordinary ones.
    """
    circumstances = circumstances_of(seed, options or {})
    teams = teams_in(seed, circumstances, overs, women=(options or {}).get("profile") == "women")
    rng = random.Random(derive_seed(seed, "balls"))
    captains: dict[Side, StyledCaptain] = {
        "home": StyledCaptain(STYLES[0], derive_seed(seed, "policy", "home")),
        "away": StyledCaptain(STYLES[0], derive_seed(seed, "policy", "away")),
    }
    evening = circumstances.conditions.evening
    call, elect = captains[caller].elect(overs, evening)
    won: Side = caller if (rng.random() < 0.5) == (call == "heads") else other(caller)
    if won != caller:
        _, elect = captains[won].elect(overs, evening)
    elect = (elects or {}).get(won, elect)
    first = won if elect == "bat" else other(won)
    model = load_model("men", "all") if model is None else model
    format = format_of(overs)
    return Match(format, teams, first, model, rng, super_over=super_over, circumstances=circumstances)


def play_out(match: Match) -> Iterator[PlayedBall]:
    """Play a match to its result under the default captains, one ball at a time."""
    while match.result is None:
        played = advance(match)
        if played is not None:
            yield played
