"""Measure how often the side batting second wins between equal captains, by overs and evening.

``python -m tools.cricket_toss --overs 5,10,20 --matches 2500`` plays whole matches under the percentage
captain, in which the winner of the toss bats. The captains' elections are based on this
(`spectator.environments.cricket.captaincy.reasons`).
"""

from __future__ import annotations

import argparse
import math

from spectator.environments.cricket.ball.grounds import EVENINGS
from spectator.environments.cricket.match.engine import load_model
from spectator.environments.cricket.simulation import open_match, play_out
from spectator.environments.world import derive_seed


def chases(overs: int, matches: int, seed: int, level: str | float = "all") -> dict[str, list[float]]:
    """Return the share of the side batting second in each match, by evening: 1, 0 or 0.5.

    Args:
        overs: Overs of an innings.
        matches: Number of matches.
        seed: Seed of all of them.
        level: Scoring level: ``all``, or the mean total of a first innings of 20 overs.
    """
    model = load_model("men", level)
    found: dict[str, list[float]] = {evening: [] for evening in EVENINGS}
    for number in range(matches):
        match = open_match(
            overs, derive_seed(seed, "toss", number), model=model, elects={"home": "bat", "away": "bat"}
        )
        for _ in play_out(match):
            pass
        assert match.result is not None
        winner = match.result.winner
        found[match.conditions.evening].append(0.5 if winner is None else float(winner != match.batting[0]))
    return found


def share_text(shares: list[float]) -> str:
    """Format a share with half of its 95 % interval."""
    if not shares:
        return ""
    share = sum(shares) / len(shares)
    return f"{share:.3f} ± {1.96 * math.sqrt(max(share * (1.0 - share), 0.01) / len(shares)):.3f}"


def main(argv: list[str] | None = None) -> None:
    """Play and print."""
    parser = argparse.ArgumentParser(prog="python -m tools.cricket_toss", description=main.__doc__)
    parser.add_argument("--overs", default="5,20", help="lengths of an innings")
    parser.add_argument("--matches", type=int, default=2500, help="matches of each length")
    parser.add_argument("--seed", type=int, default=99)
    parser.add_argument("--level", type=float, help="mean total of a first innings of 20 overs")
    chosen = parser.parse_args(argv)
    print(f"| overs | all | {' | '.join(EVENINGS)} | matches |\n|---|---|---|---|---|---|")
    for overs in (int(one) for one in chosen.overs.split(",")):
        found = chases(overs, chosen.matches, chosen.seed, chosen.level or "all")
        every = [one for shares in found.values() for one in shares]
        cells = " | ".join(share_text(shares) for shares in (every, *found.values()))
        print(f"| {overs} | {cells} | {len(every):,} |", flush=True)


if __name__ == "__main__":
    main()
