"""Search for a policy that ignores the data and still scores at the collider.

``python -m tools.collider_search --tier medium --rounds 400`` varies scripts, and plays the best one on other
seeds next to the reference physicist.
"""

from __future__ import annotations

import argparse

from spectator.environments.collider.reference_physicist import ReferencePhysicist
from spectator.environments.collider.scenarios import TIERS
from tools.collider_skill import campaign, mean_of, search_blind


def main() -> None:
    """Search and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tier", choices=list(TIERS), default="medium")
    parser.add_argument("--rounds", type=int, default=200, help="scripts that are tried")
    parser.add_argument("--seeds", type=int, default=24, help="seeds of the search")
    asked = parser.parse_args()
    fresh = range(80_000, 80_100)
    best, scores = search_blind(asked.tier, asked.rounds, range(90_000, 90_000 + asked.seeds), fresh)
    reference = [campaign(ReferencePhysicist(), seed, asked.tier).score for seed in fresh]
    print(best)
    print(f"blind {mean_of(scores)}   reference {mean_of(reference)}")


if __name__ == "__main__":
    main()
