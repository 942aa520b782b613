"""The analyst: follows a match from its seed and compares possible calls.

For a choice of batter, bowler or toss it simulates the rest of the match for each option. For an order it
simulates the overs covered with the order's effect on each ball, the rival playing as real sides do, and both
sides playing as real ones do afterwards. An order's effect on a ball is the change in each outcome's chance
for the current batter at the time of the order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np

from spectator.environments.contract import Alternatives
from spectator.environments.cricket.ball.sampler import BallModel
from spectator.environments.cricket.ball.situation import SHOTS, DeliveryPlan, Situation
from spectator.environments.cricket.ball.tables import CATEGORIES
from spectator.environments.cricket.calls import (
    Call,
    IntendedCall,
    Outcomes,
    Weighed,
    batting_calls,
    best_of,
    bowling_calls,
    weigh_ball,
)
from spectator.environments.cricket.captaincy.arguments import ADVANCING, TOOLS, PlacedFielder
from spectator.environments.cricket.captaincy.lookahead import (
    INTENTS,
    PLANS,
    fields,
    placed,
    plan_arguments,
    value_under,
)
from spectator.environments.cricket.captaincy.tools import chosen_field
from spectator.environments.cricket.environment import CricketEnvironment
from spectator.environments.cricket.forecast.arrays import Floats
from spectator.environments.cricket.forecast.monte_carlo import wins
from spectator.environments.cricket.forecast.state import ForecastState, plan_overs
from spectator.environments.cricket.laws import LawBroken, Side
from spectator.environments.cricket.match.captain_state import CaptainState, overs_ahead
from spectator.environments.cricket.match.engine import (
    NEUTRAL,
    BattingIntent,
    BowlingIntent,
    Match,
    usual_bowler,
)
from spectator.environments.cricket.match.field import Field, standard_field
from spectator.environments.cricket.match.forecasts import (
    forecast_state,
    read_state,
    with_batters,
    with_bowler,
)
from spectator.environments.cricket.match.game import Game
from spectator.environments.cricket.people import Team
from spectator.environments.cricket.scorer import may_bat, other
from spectator.environments.world import derive_seed
from spectator.observations import Observation
from spectator.policies.policy import Action

FUTURES_OF_A_CHOICE: Final = 6_000
"""Futures simulated for each option of a choice."""
MAX_BATTERS: Final = 5
"""Number of next batters considered to come in."""
OPENERS: Final = 4
"""Number of first batters considered as openers, in any pair."""

HOW_CHOICES: Final = "The rest of the match from this choice, both sides playing as real ones do."
HOW_TOSSES: Final = (
    "The whole match from this choice, if the toss is won, both sides playing as real ones do."
)


class WeighedChoice(NamedTuple):
    """One option of a choice.

    Args:
        state: State of the match after it; ``None`` if there is no forecast, as in a super over.
        bats: Whether the choosing side then bats.
    """

    tool: str
    given: Mapping[str, Any]
    state: ForecastState | None
    bats: bool


def weigh_choice(
    game: Game, side: Side, tool: str, given: Mapping[str, Any], seed: int
) -> tuple[Weighed, Call] | None:
    """Weigh the players or toss decisions that could be chosen now.

    Args:
        game: The game, at the toss or with a batter or bowler awaited.
        tool: The tool called; a tool that chooses no player counts as the usual choice.

    Returns:
        All options and the one chosen; ``None`` if there is no forecast.
    """
    choices = list(_choices(game, side))
    usual = choices[0]
    chosen = (_chosen(game, side, given) if tool == usual.tool else None) or usual
    found: dict[tuple[Any, ...], Outcomes] = {}
    for one in (*choices, chosen):
        if one.state is None:
            return None
        if (key := _key(one)) not in found:
            won = wins(one.state, FUTURES_OF_A_CHOICE, seed, game.model)
            found[key] = won if one.bats else 1.0 - won
    calls = [Call(one.tool, one.given, found[_key(one)]) for one in choices]
    like = next((one for one in choices if _key(one) == _key(chosen)), chosen)
    decided = Call(tool, like.given if tool == usual.tool else given, found[_key(chosen)])
    return Weighed(
        calls, FUTURES_OF_A_CHOICE * len(found), HOW_TOSSES if tool == "call_toss" else HOW_CHOICES
    ), decided


def _key(choice: WeighedChoice) -> tuple[Any, ...]:
    state = choice.state
    return () if state is None else (choice.bats, state.bowler, state.striker, state.partner)


def _choices(game: Game, side: Side) -> Iterator[WeighedChoice]:
    """Yield the options, the usual one first."""
    match = game.match
    if match is None:
        yield from (_elected(game, side, elect) for elect in ("field", "bat"))
    elif match.awaited == "bowler":
        usual, team = usual_bowler(match), match.teams[match.fielding_side]
        others = [one for one in match.eligible_bowlers() if team.bowls[one] and one != usual]
        yield from (_bowling(game, bowler) for bowler in (usual, *others))
    else:
        waiting = [player for player in range(11) if may_bat(match.current, player)]
        pairs: Sequence[tuple[int, ...]] = [(one,) for one in waiting[:MAX_BATTERS]]
        if not match.current.batting:
            pairs = list(combinations(waiting[:OPENERS], 2))
        yield from (_batting(game, batters) for batters in pairs)


def _chosen(game: Game, side: Side, given: Mapping[str, Any]) -> WeighedChoice | None:
    """Return the option chosen; ``None`` if it was left open or is not lawful."""
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
    """Return the option of this election, without drawing from the game's generator."""
    before = game.rng.getstate()
    match: Match = game.new_match(side if elect == "bat" else other(side))
    game.rng.setstate(before)
    return WeighedChoice("call_toss", {"elect": elect}, forecast_state(match), bats=elect == "bat")


FUTURES_OF_AN_ORDER: Final = 6_000
"""Futures simulated for each order."""
LIKELIEST: Final = 2
"""Number of options simulated for each part of an order: those worth most on the next ball."""

HOW_ORDERS: Final = (
    "The overs ordered under this order, the rival as real sides play them; from then on both sides play as "
    "real ones do."
)

Given = Mapping[str, Any]
Part = TypeVar("Part")


class IntendedOrder(NamedTuple):
    """An order with the intents that it means.

    Args:
        state: State of the match, including the next bowler.
        batting: How it is batted, by player of the batting side; other players bat as real ones do.
    """

    given: Given
    state: ForecastState
    bowling: BowlingIntent
    batting: Mapping[int, BattingIntent]


def weigh_orders(game: Game, tool: str, order: str, given: Given, seed: int) -> tuple[Weighed, Call] | None:
    """Weigh the orders that could be given now.

    Args:
        game: The game, before or within an over.
        tool: The tool called; a tool that orders nothing counts as playing like real sides.
        order: The tool for orders in this phase.
        given: Arguments of the call, as accepted.

    Returns:
        All orders considered and the one given; ``None`` if there is no forecast, as in a super over.
    """
    state = read_state(game.playing, game.reading)
    if state is None:
        return None
    bowls = order.startswith("bowl")
    read = _bowling_order if bowls else _batting_order
    considered = _bowling_orders(game, state, order) if bowls else _batting_orders(game, state)
    usual: Given = {"attack": NEUTRAL} if bowls else {"aggression": NEUTRAL}

    def weighed(name: str, shown: Given, meant: Given) -> Call:
        one = read(game, state, meant)
        won = wins(one.state, FUTURES_OF_AN_ORDER, seed, game.model, _outcome_ratios(game, one))
        return Call(name, shown, 1.0 - won if bowls else won)

    calls = [weighed(order, one, one) for one in considered]
    decided = weighed(tool, given, given if tool == order else usual)
    return Weighed(calls, FUTURES_OF_AN_ORDER * (len(calls) + 1), HOW_ORDERS), decided


def _bowling_orders(game: Game, state: ForecastState, order: str) -> Iterator[Given]:
    """Yield each bowler as usual, then the usual one with the best alternatives.

    These are plans, fields and attacks, singly and combined.
    """
    match = game.playing
    team = match.teams[match.fielding_side]
    named: Given = {}
    if match.awaited == "bowler":
        usual = usual_bowler(match)
        able = [one for one in match.eligible_bowlers() if team.bowls[one] and one != usual]
        options = [
            {"bowler": team.named(one)} if order == "bowl_over" else {"bowlers": [team.named(one)]}
            for one in (usual, *able)
        ]
        yield from ({**one, "attack": NEUTRAL} for one in options)
        named = options[0]
    else:
        yield {"attack": NEUTRAL}
    balls = _balls(game, _bowling_order(game, state, named))
    plans = _likeliest(game.model, PLANS, balls, lambda ball, plan: replace(ball, delivery=plan), -1.0)
    known = () if game.field_frozen else fields(game.outside_limit, match.faced)
    best = _likeliest(game.model, known, balls, lambda ball, field: replace(ball, field=field.shape), -1.0)
    attacks = _likeliest(game.model, INTENTS, balls, lambda ball, level: replace(ball, attack=level), -1.0)
    yield from ({**named, "attack": NEUTRAL, **plan_arguments(plan)} for plan in plans)
    yield from ({**named, "attack": NEUTRAL, **placed(field)} for field in best)
    yield from ({**named, "attack": level} for level in attacks if level != NEUTRAL)
    together = placed(best[0]) if best else {}
    yield {**named, "attack": attacks[0], **plan_arguments(plans[0]), **together}


def _batting_orders(game: Game, state: ForecastState) -> Iterator[Given]:
    """Yield each intent, the best strokes, and the best stroke with the best intent."""
    yield from ({"aggression": level} for level in INTENTS)
    balls = _balls(game, _batting_order(game, state, {}))
    shots = _likeliest(game.model, SHOTS, balls, lambda ball, shot: replace(ball, shot=shot), 1.0)
    level = _likeliest(
        game.model, INTENTS, balls, lambda ball, one: replace(ball, shot=shots[0], aggression=one), 1.0
    )[0]
    yield from ({"aggression": NEUTRAL, "shot": shot} for shot in shots)
    if level != NEUTRAL:
        yield {"aggression": level, "shot": shots[0]}


def _likeliest(
    model: BallModel,
    parts: Iterable[Part],
    balls: list[Situation],
    with_part: Callable[[Situation, Part], Situation],
    sign: float,
) -> list[Part]:
    """Return the parts that move the balls' value most, up (``sign`` 1) or down (-1)."""
    ranked = sorted(
        parts, key=lambda part: -sign * sum(value_under(model, with_part(ball, part)) for ball in balls)
    )
    return ranked[:LIKELIEST]


def _bowling_order(game: Game, state: ForecastState, given: Given) -> IntendedOrder:
    match, captain = game.playing, game.captains[game.playing.fielding_side]
    team = match.teams[match.fielding_side]
    if match.awaited == "bowler":
        named = given.get("bowler") or next(iter(given.get("bowlers") or ()), None)
        found = team.find(named) if named else None
        able = match.eligible_bowlers()
        state = with_bowler(state, found if found is not None and found in able else usual_bowler(match))
    plan = {part: given.get(part) for part in ("length", "line", "pace")}
    delivery = DeliveryPlan(**plan) if any(plan.values()) else None
    intent = BowlingIntent(given.get("attack", NEUTRAL), delivery, _field(game, given, captain.field))
    return IntendedOrder(given, state, intent, {})


def _field(game: Game, given: Given, current: Field) -> Field:
    """Return the ordered field, or the current one without a lawful order."""
    preset, placements = given.get("preset"), given.get("fielders")
    if not preset and not placements:
        return current
    fielders = [PlacedFielder.model_validate(one) for one in placements] if placements else None
    try:
        return chosen_field(preset, fielders, game.outside_limit, game.playing.faced)
    except LawBroken:
        return current


def _batting_order(game: Game, state: ForecastState, given: Given) -> IntendedOrder:
    match = game.playing
    team = match.teams[match.batting_side]
    if match.awaited == "bowler":
        state = with_bowler(state, usual_bowler(match))
    level: float = given.get("aggression", NEUTRAL)
    shot = given.get("shot")
    own: dict[int | None, float] = {
        team.find(one["batter"]): one["aggression"] for one in given.get("by_batter") or ()
    }
    intents = {player: BattingIntent(own.get(player, level), shot) for player in range(11)}
    return IntendedOrder(given, state, BowlingIntent(field=game.captains[match.fielding_side].field), intents)


def _balls(game: Game, order: IntendedOrder) -> list[Situation]:
    """Return the next ball of an order to each of the two batters in."""
    innings = game.playing.current
    over = innings.balls // 6
    batters_at_crease = [player for player in (innings.striker, innings.non_striker) if player is not None]
    return [_ball(game, order, over, player) for player in batters_at_crease]


def _ball(game: Game, order: IntendedOrder, over: int, player: int, usual: bool = False) -> Situation:
    """Return a ball of an over under an order, or as real sides play it if ``usual``."""
    match = game.playing.copy()
    bowler = plan_overs(order.state)[over]
    if match.awaited == "bowler":
        match.give_ball(order.state.bowler if order.state.bowler is not None else usual_bowler(match))
    innings = match.current
    field = standard_field(innings.format.outside_limit(6 * over))
    bowling = BowlingIntent(field=field) if usual else order.bowling
    batting = BattingIntent() if usual else order.batting.get(player, BattingIntent())
    template = match.situation(batting, bowling)
    assert template is not None, "a batter is on strike and a bowler has the ball"
    line = innings.batting.get(player)
    return replace(
        template,
        balls_bowled=max(innings.balls, 6 * over),
        powerplay=6 * over < innings.format.powerplay_balls,
        striker=match.teams[match.batting_side].players[player],
        striker_balls=0 if line is None else line.balls,
        place=0 if line is None else line.number,
        bowler=match.teams[match.fielding_side].bowlers[bowler],
        free_hit=False,
        seen=(),
        effect=game.reading.expected(match.number).mean,
    )


def _outcome_ratios(game: Game, order: IntendedOrder) -> Floats:
    """Return an order's multipliers on chances, by over, outcome and striker."""
    match, model = game.playing, game.model
    overs = (match.current.format.balls + 5) // 6
    ratios = np.ones((overs, CATEGORIES, 22), dtype=np.float32)
    for number in overs_ahead(match, game.decisions):
        for player in range(11):
            meant = np.array(model.weights(_ball(game, order, number - 1, player)))
            usual = np.array(model.weights(_ball(game, order, number - 1, player, usual=True)))
            ratios[number - 1, :, player] = np.divide(meant, usual, out=np.ones(CATEGORIES), where=usual > 0)
    return ratios


NOTHING: Final = Alternatives(
    (), 0, 0, "Super overs and decided matches are not simulated, so there are no alternatives."
)
REFUSED: Final = Alternatives(
    (), 0, 0, "The call was refused and the captain asked again; see the next decision."
)


class CricketAnalyst(CricketEnvironment):
    """A match without forecasts that weighs calls on request.

    It estimates the day from every ball.
    """

    def reset(self, *, seed: int, episode_id: str, options: Mapping[str, Any]) -> Observation:
        """Start a match without the costly parts that do not affect play."""
        plain = {**options, "forecast_futures": 0, "reward": "score"}
        observation = super().reset(seed=seed, episode_id=episode_id, options=plain)
        self._playing.reads = True
        return observation

    def step(self, action: Action) -> Observation:
        """Make the call and drop the facts."""
        observation = super().step(action)
        self.facts()
        return observation

    def alternatives(self, decided: Action, cards: Sequence[Action] = ()) -> Alternatives:
        """Return the alternatives to ``decided`` in the current state."""
        game = self._playing
        phase, side = game.turn()
        if side is None:
            return NOTHING
        twin = CricketEnvironment()
        twin.restore(self.snapshot())
        if twin.step(decided).refused is not None:
            return REFUSED
        tool = decided["tool"]
        given = TOOLS[tool].model_validate(dict(decided.get("arguments") or {})).model_dump()
        seed = derive_seed(self._seed, "alternatives", self._steps) % 2**32
        found: tuple[Weighed, Call] | None
        if phase in ("bowl", "bat"):
            after = game if tool in ADVANCING else twin._playing
            offered = {card["tool"] for card in cards}
            found = self._weigh_ball(side, tool, given, after.captains[side], seed, offered)
        elif phase in ("bowling_plan", "batting_plan"):
            found = weigh_orders(game, tool, self._legal[0], given, seed)
        else:
            found = weigh_choice(game, side, tool, given, seed)
        return NOTHING if found is None else best_of(*found, cards)

    def _weigh_ball(
        self,
        side: Side,
        tool: str,
        given: Mapping[str, Any],
        after: CaptainState,
        seed: int,
        offered: Collection[str],
    ) -> tuple[Weighed, Call] | None:
        """Weigh the calls for the ball.

        With an advancing call, the calls made before it count as well, as do those ``offered`` before them.
        """
        game = self._playing
        own = game.captains[side]
        legal = (*self._legal, *own.turn_tools, *offered) if tool in ADVANCING else self._legal
        if side == game.playing.fielding_side:
            calls = list(bowling_calls(game, own.bowling_intent(), legal))
            return weigh_ball(game, calls, IntendedCall(tool, given, after.bowling_intent()), seed)
        calls = list(batting_calls(own.batting_intent(), legal, own.shot_aggression is not None))
        return weigh_ball(game, calls, IntendedCall(tool, given, after.batting_intent()), seed)
