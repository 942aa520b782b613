"""What cricket's situations are worth to a captain who sees them: ground, form, tiredness, uneven squads.

``python -m tools.cricket_situations`` plays the planner against the percentage captain, from both seats
of every seed, with each situation on, with all of them, and with orders for an over or a session. Beside the
share of wins stands the value of its decisions from the home seat (hundredths of a win a match), and how much
of that is lost to a planner that is shown everything but the situation.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any, Final

from spectator.environments.cricket import WORLD
from spectator.environments.cricket.ball.grounds import USUAL_BOUNDARY_M
from spectator.environments.cricket.captaincy.captains import STYLES, StyledCaptain
from spectator.environments.cricket.captaincy.planner import PlannerCaptain
from spectator.environments.cricket.environment import CricketEnvironment
from spectator.environments.cricket.match.engine import VARIED
from spectator.environments.world import derive_seed
from spectator.observations import Observation
from spectator.policies.policy import Decision, ScriptedPolicy
from tools.cricket_model.forecast_matches import changes, misses
from tools.cricket_search import WinShare
from tools.cricket_tools import told

SITUATIONS: Final[dict[str, Mapping[str, Any]]] = {
    "ordinary": {},
    "ground": {"ground": "drawn"},
    "form": {"form": "drawn"},
    "fatigue": {"fatigue": True},
    "squads": {"squads": "uneven"},
    "varied": VARIED,
    "over": {"decisions": "over"},
    "session": {"decisions": "session"},
    "varied, over": {**VARIED, "decisions": "over"},
    "varied, session": {**VARIED, "decisions": "session"},
}
"""Options of each row."""

AGENT: Final = "home"
FUTURES: Final = 60
"""Futures of a forecast that is held against what came of it."""
_OF_A_SITUATION: Final = ("tired", "squad_difference")
_OF_FORM: Final = ("bat_form", "bowl_form")


class ShortSightedPlanner(PlannerCaptain):
    """The planner, shown nothing of ground, form and tiredness: it plays as on an ordinary day."""

    def choose(self, observation: Observation) -> Decision:
        """Decide what to do."""
        content = {name: value for name, value in observation.content.items() if name not in _OF_A_SITUATION}
        if ground := content.get("ground"):  # where the rope is now it sees: nobody is placed beyond it
            content["ground"] = ground | {"metres": dict.fromkeys(ground["metres"], USUAL_BOUNDARY_M)}
        content["squads"] = {
            side: {
                **squad,
                "players": [
                    {name: value for name, value in card.items() if name not in _OF_FORM}
                    for card in squad["players"]
                ],
            }
            for side, squad in observation.content["squads"].items()
        }
        return super().choose(
            Observation(
                actor=observation.actor,
                legal_actions=observation.legal_actions,
                content=content,
                reward=observation.reward,
                done=observation.done,
            )
        )


def played(
    side: str, mine: ScriptedPolicy, seed: int, overs: int, given: Mapping[str, Any]
) -> tuple[float, float]:
    """What ``side`` has of one match against the percentage captain, and the sum of the home rewards."""
    world = CricketEnvironment()
    options = WORLD.options_type.model_validate({"max_overs": overs, **given}).model_dump(mode="json")
    observation = world.reset(seed=seed, episode_id="situations", options=options)
    usual = StyledCaptain(STYLES[0], derive_seed(seed, "usual"))
    winner, total = None, 0.0
    while not observation.done:
        captain = mine if observation.actor == side else usual
        observation = world.step(captain.choose(observation).action)
        total += observation.reward
        for fact in world.facts():
            if fact.type == "cricket.match_ended":
                winner = fact.data["winner"]
    return (0.5 if winner is None else float(winner == side)), total


def wins(name: str, overs: int, pairs: int, seed: int) -> WinShare:
    """The planner's wins in a situation, from both seats of every seed."""
    shares = []
    for number in range(pairs):
        of_match, share = derive_seed(seed, "situation", number), 0.0
        for side in WORLD.actors:
            captain = PlannerCaptain(derive_seed(of_match, "mine"))
            share += played(side, captain, of_match, overs, SITUATIONS[name])[0] / 2
        shares.append(share)
    return WinShare.of(name, shares)


def values(name: str, build: type[PlannerCaptain], overs: int, matches: int, seed: int) -> list[float]:
    """What a planner's decisions do to its chance of winning in a situation: hundredths, match by match."""
    given = {**SITUATIONS[name], "reward": "decision_value"}
    found = []
    for number in range(matches):
        of_match = derive_seed(seed, "value", number)
        captain = build(derive_seed(of_match, "mine"))
        found.append(100.0 * played(AGENT, captain, of_match, overs, given)[1])
    return found


def row(name: str, overs: int, pairs: int, matches: int, seed: int) -> str:
    """A row of the table."""
    share = wins(name, overs, pairs, seed)
    seen = values(name, PlannerCaptain, overs, matches, seed)
    lost = ""
    if set(SITUATIONS[name]) & {"ground", "form", "fatigue"}:
        blind = values(name, ShortSightedPlanner, overs, matches, seed)
        lost = told([a - b for a, b in zip(seen, blind, strict=True)])
    return f"| {name} | {share.share:.3f} ± {share.half:.3f} | {told(seen)} | {lost} |"


def forecast_row(name: str, overs: int, matches: int) -> str:
    """Forecast less outcome in a situation: total, chance at the start, chance of the chase."""
    found = misses(overs, "all", "men", matches, FUTURES, SITUATIONS[name])
    told = (
        f"{statistics.fmean(one):+.3f} ± {statistics.stdev(one) / math.sqrt(matches):.3f}"
        for one in zip(*found, strict=True)
    )
    return f"| {name} | {' | '.join(told)} |"


def ball_row(name: str, overs: int, matches: int) -> str:
    """How far one ball moves the displayed chance of the side batting first, on average, by innings.

    A chance that is right moves by nothing on average: it is a martingale.
    """
    found = list(changes(matches, FUTURES, SITUATIONS[name], overs))
    moved = [[change.by for match in found for change in match if change.innings == at] for at in (1, 2)]
    whole = [statistics.fmean(change.by for change in match) for match in found if match]
    told = (
        f"{statistics.fmean(one):+.4f} ± {1.96 * statistics.stdev(one) / math.sqrt(len(one)):.4f}"
        for one in (*moved, whole)
    )
    return f"| {name} | {overs} | {' | '.join(told)} | {sum(map(len, moved)):,} |"


def main(argv: Sequence[str] | None = None) -> None:
    """Play and print."""
    parser = argparse.ArgumentParser(prog="python -m tools.cricket_situations", description=main.__doc__)
    parser.add_argument("--overs", type=int, default=5)
    parser.add_argument("--pairs", type=int, default=60, help="of matches, for the share of wins")
    parser.add_argument("--matches", type=int, default=60, help="for the value of decisions")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default=";".join(SITUATIONS), help="names of rows, with semicolons between")
    parser.add_argument(
        "--forecast", action="store_true", help="the forecast against what came of it instead"
    )
    parser.add_argument(
        "--martingale", action="store_true", help="what a ball does to the displayed chance instead"
    )
    chosen = parser.parse_args(argv)
    if chosen.martingale:
        print(
            "| situation | overs | first innings | second innings | both | balls |\n|---|---|---|---|---|---|"
        )
        for name in chosen.only.split(";"):
            print(ball_row(name, chosen.overs, chosen.matches), flush=True)
        return
    if chosen.forecast:
        print("| situation | total | chance at the start | chance of the chase |\n|---|---|---|---|")
        for name in chosen.only.split(";"):
            print(forecast_row(name, chosen.overs, chosen.matches), flush=True)
        return
    print("| situation | wins | value of its decisions | of it by seeing the situation |\n|---|---|---|---|")
    for name in chosen.only.split(";"):
        print(row(name, chosen.overs, chosen.pairs, chosen.matches, chosen.seed), flush=True)


if __name__ == "__main__":
    main()
