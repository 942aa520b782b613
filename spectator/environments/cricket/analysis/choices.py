"""Weighs whom to send in, whom to give the ball, and what to do first: the rest of the match for each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any, Final, NamedTuple

from spectator.environments.cricket.analysis.weighing import Call, Outcomes, Weighed
from spectator.environments.cricket.forecast.common_numbers import wins
from spectator.environments.cricket.forecast.state import ForecastState
from spectator.environments.cricket.laws.deliveries import Side
from spectator.environments.cricket.laws.result import other
from spectator.environments.cricket.laws.scorer import may_bat
from spectator.environments.cricket.match.advice import usual_bowler
from spectator.environments.cricket.match.engine import Match
from spectator.environments.cricket.match.forecasting import (
    forecast_state,
    read_state,
    with_batters,
    with_bowler,
)
from spectator.environments.cricket.match.game import Game
from spectator.environments.cricket.people.team import Team

FUTURES: Final = 6_000
"""Futures of each choice."""
MOST_BATTERS: Final = 5
"""Batters who are thought of to come in: the next of the order."""
OPENERS: Final = 4
"""The first of the order, of whom any two may open."""

HOW: Final = "The rest of the match from this choice, both sides playing as real ones do."
HOW_TOSS: Final = "The whole match from this choice, if the toss is won, both sides playing as real ones do."


class WeighedChoice(NamedTuple):
    """Somebody or something to choose.

    Args:
        tool: The tool.
        given: Its arguments.
        state: Where the match stands then; ``None`` where it is not foretold, as in a super over.
        bats: Whether whoever chooses bats then.
    """

    tool: str
    given: Mapping[str, Any]
    state: ForecastState | None
    bats: bool


def weigh_choice(
    game: Game, side: Side, tool: str, given: Mapping[str, Any], seed: int
) -> tuple[Weighed, Call] | None:
    """Weigh who or what could be chosen now.

    Args:
        game: Where it stands: at the toss, or with a batter or bowler awaited.
        side: Who chooses.
        tool: What was called; whatever chooses nobody stands for the usual choice.
        given: Its arguments, as accepted.
        seed: Seed of the futures.

    Returns:
        What could be chosen, and what was; ``None`` where the match is not foretold.
    """
    choices = list(_choices(game, side))
    usual = choices[0]
    chosen = (_chosen(game, side, given) if tool == usual.tool else None) or usual
    found: dict[tuple[Any, ...], Outcomes] = {}
    for one in (*choices, chosen):
        if one.state is None:
            return None
        if (key := _key(one)) not in found:
            won = wins(one.state, FUTURES, seed, game.model)
            found[key] = won if one.bats else 1.0 - won
    calls = [Call(one.tool, one.given, found[_key(one)]) for one in choices]
    like = next((one for one in choices if _key(one) == _key(chosen)), chosen)
    decided = Call(tool, like.given if tool == usual.tool else given, found[_key(chosen)])
    return Weighed(calls, FUTURES * len(found), HOW_TOSS if tool == "call_toss" else HOW), decided


def _key(choice: WeighedChoice) -> tuple[Any, ...]:
    state = choice.state
    return () if state is None else (choice.bats, state.bowler, state.striker, state.partner)


def _choices(game: Game, side: Side) -> Iterator[WeighedChoice]:
    """What may be chosen, the usual choice first."""
    match = game.match
    if match is None:
        yield from (_elected(game, side, elect) for elect in ("field", "bat"))
    elif match.awaited == "bowler":
        usual, team = usual_bowler(match), match.teams[match.fielding_side]
        others = [one for one in match.eligible_bowlers() if team.bowls[one] and one != usual]
        yield from (_bowling(game, bowler) for bowler in (usual, *others))
    else:
        waiting = [player for player in range(11) if may_bat(match.current, player)]
        pairs: Sequence[tuple[int, ...]] = [(one,) for one in waiting[:MOST_BATTERS]]
        if not match.current.batting:
            pairs = list(combinations(waiting[:OPENERS], 2))
        yield from (_batting(game, batters) for batters in pairs)


def _chosen(game: Game, side: Side, given: Mapping[str, Any]) -> WeighedChoice | None:
    """What was chosen; ``None`` where that is left to the usual, or is not lawful."""
    match = game.match
    if match is None:
        return _elected(game, side, given["elect"])
    named = [given[part] for part in ("bowler", "batter", "partner") if given.get(part)]
    players = [_found(match.teams[side], name) for name in named]
    if match.awaited == "bowler":
        able = match.eligible_bowlers()
        return _bowling(game, players[0]) if players and players[0] in able else None
    if not players or not all(may_bat(match.current, player) for player in players):
        return None
    return _batting(game, players)


def _found(team: Team, name: str) -> int:
    index = team.find(name)
    return -1 if index is None else index


def _bowling(game: Game, bowler: int) -> WeighedChoice:
    match = game.playing
    state = read_state(match, game.reading)
    name = match.teams[match.fielding_side].named(bowler)
    return WeighedChoice("select_bowler", {"bowler": name}, state and with_bowler(state, bowler), bats=False)


def _batting(game: Game, batters: Sequence[int]) -> WeighedChoice:
    match = game.playing
    state = read_state(match, game.reading)
    named = [match.teams[match.batting_side].named(one) for one in batters]
    given = dict(zip(("batter", "partner"), named, strict=False))
    return WeighedChoice("select_batter", given, state and with_batters(state, match, batters), bats=True)


def _elected(game: Game, side: Side, elect: str) -> WeighedChoice:
    """The match as it would begin; nothing of it is drawn from the game's own generator."""
    standing = game.rng.getstate()
    match: Match = game.new_match(side if elect == "bat" else other(side))
    game.rng.setstate(standing)
    return WeighedChoice("call_toss", {"elect": elect}, forecast_state(match), bats=elect == "bat")
