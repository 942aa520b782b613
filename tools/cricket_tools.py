"""Measure the value of each decision of cricket's planner: alone, and missing.

``python -m tools.cricket_tools --overs 5`` plays the same seeds each time against the percentage captain,
from the home seat, and sums the value of the decisions (`reward=decision_value`): their effect on the chance
of winning over all outcomes of each ball, in hundredths of a win a match. A share of wins would need a
hundred times as many matches. The toss comes before the first ball and has no such value; its value is the
difference between the chances before the first ball, batting first and second.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterable, Sequence
from typing import Final

from spectator.environments.cricket import WORLD
from spectator.environments.cricket.captaincy.captains import STYLES, StyledCaptain
from spectator.environments.cricket.captaincy.planner import TOOLS, PlannerCaptain
from spectator.environments.cricket.captaincy.reasons import TOSS_FIELD_SHARE, better_first
from spectator.environments.cricket.decision_account import DecisionAccount
from spectator.environments.cricket.environment import CricketEnvironment
from spectator.environments.cricket.simulation import open_match
from spectator.environments.world import derive_seed

AGENT: Final = "home"
DECIDED_IN_PLAY: Final = tuple(sorted(TOOLS))


def value_of(tools: Iterable[str], seed: int, overs: int) -> float:
    """Return the value of a planner's decisions in a match, in hundredths."""
    world = CricketEnvironment()
    asked = {"max_overs": overs, "reward": "decision_value"}
    options = WORLD.options_type.model_validate(asked).model_dump(mode="json")
    observation = world.reset(seed=seed, episode_id="tools", options=options)
    mine = PlannerCaptain(derive_seed(seed, "mine"), tools)
    usual, total = StyledCaptain(STYLES[0], derive_seed(seed, "usual")), 0.0
    while not observation.done:
        captain = mine if observation.actor == AGENT else usual
        observation = world.step(captain.choose(observation).action)
        world.facts()
        total += observation.reward
    return 100.0 * total


def toss_value(seed: int, overs: int) -> float:
    """Return the value to the winner of the toss of electing by format and evening.

    In hundredths, compared with electing as often as real sides do. Half of all tosses are lost, so a match
    has half of it.
    """
    chance: dict[str, float] = {}
    conditions = None
    for mine, theirs in (("bat", "field"), ("field", "bat")):
        match = open_match(overs, seed, elects={"home": mine, "away": theirs})
        account = DecisionAccount(match.model, match.teams)
        account.match_started(match)
        chance[mine], conditions = account.start, match.conditions
    assert conditions is not None
    wanted = better_first(overs, conditions.evening)
    usual = TOSS_FIELD_SHARE * chance["field"] + (1.0 - TOSS_FIELD_SHARE) * chance["bat"]
    return 0.0 if wanted is None else 100.0 * (chance[wanted] - usual)


def mean_text(values: Sequence[float]) -> str:
    """Format a mean with half of its 95 % interval."""
    mean = sum(values) / len(values)
    spread = math.sqrt(sum((one - mean) ** 2 for one in values) / max(1, len(values) - 1))
    return f"{mean:+.2f} ± {1.96 * spread / math.sqrt(len(values)):.2f}"


def table(overs: int, matches: int, tosses: int, seed: int, *, without: bool) -> str:
    """Return a row for each decision, and one for all.

    Args:
        overs: Overs of an innings.
        matches: Matches of each row.
        tosses: Matches whose toss is valued.
        seed: Seed of the matches.
        without: Whether to play all but one, too.
    """
    seeds = [derive_seed(seed, "tools", number) for number in range(matches)]

    def values(tools: Iterable[str]) -> list[float]:
        return [value_of(tools, one, overs) for one in seeds]

    whole = values(DECIDED_IN_PLAY)
    lines = [
        "| decision | alone | what is lost without it |",
        "|---|---|---|",
        f"| all in play | {mean_text(whole)} | |",
    ]
    for tool in DECIDED_IN_PLAY:
        lost = ""
        if without:
            rest = values(set(DECIDED_IN_PLAY) - {tool})
            lost = mean_text([a - b for a, b in zip(whole, rest, strict=True)])
        lines.append(f"| {tool} | {mean_text(values({tool}))} | {lost} |")
    toss = [toss_value(derive_seed(seed, "toss", number), overs) for number in range(tosses)]
    lines.append(f"| toss (won: half of them) | {mean_text([one / 2 for one in toss])} | |")
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> None:
    """Play and print."""
    parser = argparse.ArgumentParser(prog="python -m tools.cricket_tools", description=main.__doc__)
    parser.add_argument("--overs", type=int, default=5)
    parser.add_argument("--matches", type=int, default=100, help="matches of each row")
    parser.add_argument("--tosses", type=int, default=300, help="matches whose toss is weighed")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--alone", action="store_true", help="each decision alone only")
    chosen = parser.parse_args(argv)
    print(table(chosen.overs, chosen.matches, chosen.tosses, chosen.seed, without=not chosen.alone))


if __name__ == "__main__":
    main()
