"""Measure the value of cricket's situations to a captain that sees them.

``python -m tools.cricket_situations`` plays the planner against the percentage captain, from both seats of
every seed, with ground, form, fatigue and uneven squads, each alone and all together, and with orders for an
over or a session. It prints the share of wins, the value of the decisions from the home seat (hundredths of a
win a match), and how much of that a planner loses that sees everything but the situation.
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
from tools.cricket_tools import mean_text

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
"""Futures of a forecast that is compared with the outcome."""
_OF_A_SITUATION: Final = ("tired", "squad_difference")
_OF_FORM: Final = ("bat_form", "bowl_form")


class ShortSightedPlanner(PlannerCaptain):
    """A planner that sees nothing of ground, form and tiredness."""

    def choose(self, observation: Observation) -> Decision:
        """Decide what to do."""
        content = {name: value for name, value in observation.content.items() if name not in _OF_A_SITUATION}
        if ground := content.get("ground"):  # it sees the current rope: no fielder is placed beyond
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
    """Play one match against the percentage captain.

    Returns:
        The share of ``side``, and the sum of the home rewards.
    """
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
    """Return the planner's wins in a situation, from both seats of every seed."""
    shares = []
    for number in range(pairs):
        of_match, share = derive_seed(seed, "situation", number), 0.0
        for side in WORLD.actors:
            captain = PlannerCaptain(derive_seed(of_match, "mine"))
            share += played(side, captain, of_match, overs, SITUATIONS[name])[0] / 2
        shares.append(share)
    return WinShare.of(name, shares)


def values(name: str, build: type[PlannerCaptain], overs: int, matches: int, seed: int) -> list[float]:
    """Return the value of a planner's decisions in a situation, match by match, in hundredths."""
    given = {**SITUATIONS[name], "reward": "decision_value"}
    found = []
    for number in range(matches):
        of_match = derive_seed(seed, "value", number)
        captain = build(derive_seed(of_match, "mine"))
        found.append(100.0 * played(AGENT, captain, of_match, overs, given)[1])
    return found


def row(name: str, overs: int, pairs: int, matches: int, seed: int) -> str:
    """Return a row of the table."""
    share = wins(name, overs, pairs, seed)
    seen = values(name, PlannerCaptain, overs, matches, seed)
    lost = ""
    if set(SITUATIONS[name]) & {"ground", "form", "fatigue"}:
        blind = values(name, ShortSightedPlanner, overs, matches, seed)
        lost = mean_text([a - b for a, b in zip(seen, blind, strict=True)])
    return f"| {name} | {share.share:.3f} ± {share.half:.3f} | {mean_text(seen)} | {lost} |"


def forecast_row(name: str, overs: int, matches: int) -> str:
    """Return forecast less outcome: total, chance at the start, chance of the chase."""
    found = misses(overs, "all", "men", matches, FUTURES, SITUATIONS[name])
    columns = (
        f"{statistics.fmean(one):+.3f} ± {statistics.stdev(one) / math.sqrt(matches):.3f}"
        for one in zip(*found, strict=True)
    )
    return f"| {name} | {' | '.join(columns)} |"


def ball_row(name: str, overs: int, matches: int) -> str:
    """Return the mean change of the displayed chance by one ball, by innings.

    A correct chance is a martingale: its mean change is 0.
    """
    found = list(changes(matches, FUTURES, SITUATIONS[name], overs))
    moved = [[change.by for match in found for change in match if change.innings == at] for at in (1, 2)]
    whole = [statistics.fmean(change.by for change in match) for match in found if match]
    columns = (
        f"{statistics.fmean(one):+.4f} ± {1.96 * statistics.stdev(one) / math.sqrt(len(one)):.4f}"
        for one in (*moved, whole)
    )
    return f"| {name} | {overs} | {' | '.join(columns)} | {sum(map(len, moved)):,} |"


def main(argv: Sequence[str] | None = None) -> None:
    """Play and print."""
    parser = argparse.ArgumentParser(prog="python -m tools.cricket_situations", description=main.__doc__)
    parser.add_argument("--overs", type=int, default=5)
    parser.add_argument("--pairs", type=int, default=60, help="pairs of matches for the share of wins")
    parser.add_argument("--matches", type=int, default=60, help="matches for the value of decisions")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default=";".join(SITUATIONS), help="names of rows, separated by semicolons")
    parser.add_argument(
        "--forecast", action="store_true", help="compare the forecast with the outcome instead"
    )
    parser.add_argument(
        "--martingale", action="store_true", help="measure how a ball changes the chance instead"
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
