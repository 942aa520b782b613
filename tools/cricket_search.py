"""Search for captains that ignore the state and still beat the percentage captain.

``python -m tools.cricket_search --overs 5`` plays the named captains of :mod:`tools.cricket_blind` and many
drawn ones, halves them round by round, changes the survivors and halves again. At last it plays the finalists
and the best of the named on fresh seeds, so that the luck that selected them does not count. Every seed is
played from both seats, so that squads, toss, pitch and evening favour neither.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from spectator.environments.cricket.laws import SIDES, Side
from spectator.environments.cricket.match.engine import VARIED, Match
from spectator.environments.cricket.simulation import open_match
from spectator.environments.world import derive_seed
from tools.cricket_blind import USUAL, BlindCaptain, changed, drawn, named

LIMIT: Final = 0.52
"""Largest allowed share of wins against the percentage captain."""
KEPT: Final = 10
"""Captains left by the halving."""
CHILDREN: Final = 8
"""Changes tried of each surviving captain."""


def won(match: Match, captains: Mapping[Side, BlindCaptain]) -> dict[Side, float]:
    """Play a match; returns the share of each side: 1, 0, or half of a tie."""
    while match.result is None:
        awaited = match.awaited
        if awaited == "ball":
            match.play(captains[match.batting_side].bat(match), captains[match.fielding_side].bowl(match))
        elif awaited == "batter":
            match.send_in(captains[match.batting_side].batter(match))
        elif awaited == "bowler":
            match.give_ball(captains[match.fielding_side].bowler(match))
        else:
            match.close_innings()
    winner = match.result.winner
    return {side: 0.5 if winner is None else float(winner == side) for side in SIDES}


@dataclass(frozen=True, slots=True)
class WinShare:
    """Share of wins over pairs of matches.

    Args:
        name: Name of the captain.
        share: Mean share of wins.
        error: Its standard error, over pairs.
        pairs: Seeds played from both seats.
    """

    name: str
    share: float
    error: float
    pairs: int

    @classmethod
    def of(cls, name: str, shares: Sequence[float]) -> WinShare:
        """Return the score of the shares of pairs."""
        pairs = len(shares)
        mean = sum(shares) / pairs
        error = math.sqrt(sum((share - mean) ** 2 for share in shares) / max(1, pairs - 1) / pairs)
        return cls(name, mean, error, pairs)

    @property
    def half(self) -> float:
        """Half of the interval of 95 %."""
        return 1.96 * self.error

    def row(self) -> str:
        """Return a row of a Markdown table, with the 95 % interval."""
        return f"| {self.name} | {self.share:.3f} | ± {self.half:.3f} | {2 * self.pairs:,} |"


def contest(
    captain: BlindCaptain,
    overs: int,
    pairs: int,
    seed: int,
    first: int = 0,
    options: Mapping[str, Any] | None = None,
    rival: BlindCaptain = USUAL,
) -> WinShare:
    """Play a captain against another one, from both seats of every seed.

    Args:
        captain: The captain to test.
        overs: Overs of an innings.
        pairs: Number of seeds.
        seed: Seed of the seeds.
        first: Number of the first of them.
        options: Options of ground, form, fatigue and squads; by default ordinary ones.
        rival: The other captain, by default the usual one.
    """
    shares = []
    for number in range(first, first + pairs):
        match_seed = derive_seed(seed, "search", number)
        share = 0.0
        for side, other in (SIDES, SIDES[::-1]):
            elects = {side: captain.elects} if captain.elects else {}
            captains = {side: captain, other: rival}
            share += won(open_match(overs, match_seed, elects=elects, options=options), captains)[side] / 2
        shares.append(share)
    return WinShare.of(captain.name, shares)


def halved(captains: Sequence[BlindCaptain], overs: int, pairs: int, seed: int) -> list[BlindCaptain]:
    """Return the best `KEPT`, halving with twice the matches on fresh seeds each round."""
    left, rounds = distinct(captains), 0
    while len(left) > KEPT:
        of_round = derive_seed(seed, "round", rounds)
        scores = {captain.name: contest(captain, overs, pairs, of_round) for captain in left}
        left = sorted(left, key=lambda captain: -scores[captain.name].share)[: max(KEPT, len(left) // 2)]
        print(f"{len(scores)} captains, best {scores[left[0].name].row()}", file=sys.stderr, flush=True)
        pairs, rounds = 2 * pairs, rounds + 1
    return left


def distinct(captains: Sequence[BlindCaptain]) -> list[BlindCaptain]:
    """Return the captains that differ from the usual one and from each other."""
    seen, found = {replace(USUAL, name="")}, list[BlindCaptain]()
    for captain in captains:
        decides = replace(captain, name="")
        if decides not in seen:
            seen.add(decides)
            found.append(captain)
    return found


def search(overs: int, draws: int, pairs: int, seed: int, generations: int) -> tuple[list[BlindCaptain], int]:
    """Search among named, drawn and changed captains.

    Args:
        overs: Overs of an innings.
        draws: Captains to draw.
        pairs: Pairs of matches of the first round.
        seed: Seed of draws and matches.
        generations: Rounds of changes and halving.

    Returns:
        The best few, and how many were tried.
    """
    rng = random.Random(seed)
    pool = [*named(), *(drawn(rng, number) for number in range(draws))]
    best = halved(pool, overs, pairs, derive_seed(seed, "search"))
    tried = len(pool)
    for generation in range(generations):
        changes = [
            changed(rng, one, best, f"changed {generation + 1}.{number}.{child}")
            for number, one in enumerate(best)
            for child in range(CHILDREN)
        ]
        tried += len(changes)
        best = halved([*best, *changes], overs, 4 * pairs, derive_seed(seed, "generation", generation))
    return best, tried


def table(scores: Sequence[WinShare]) -> str:
    """Return all scores as a table, best first."""
    head = ["| captain | wins | 95 % | matches |", "|---|---|---|---|"]
    return "\n".join([*head, *(score.row() for score in sorted(scores, key=lambda one: -one.share))])


def main(argv: list[str] | None = None) -> None:
    """Search and print; exits with 1 if a captain surely wins more than `LIMIT`."""
    parser = argparse.ArgumentParser(prog="python -m tools.cricket_search", description=main.__doc__)
    parser.add_argument("--overs", type=int, default=5)
    parser.add_argument("--pairs", type=int, default=4000, help="pairs of matches of each finalist")
    parser.add_argument("--named-pairs", type=int, default=500, help="pairs of matches of each named captain")
    parser.add_argument("--draws", type=int, default=160, help="captains that the search draws")
    parser.add_argument("--first", type=int, default=20, help="pairs of matches of the first round")
    parser.add_argument("--generations", type=int, default=2, help="rounds of changes of the survivors")
    parser.add_argument("--finalists", type=int, default=6, help="found and named captains on fresh seeds")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="named captains whose name contains this")
    parser.add_argument(
        "--varied", action="store_true", help="named captains and finalists in varied situations"
    )
    chosen = parser.parse_args(argv)
    options = VARIED if chosen.varied else None
    overs, finalists, words = chosen.overs, list[BlindCaptain](), "named captains only"
    if chosen.draws:
        found, tried = search(overs, chosen.draws, chosen.first, chosen.seed, chosen.generations)
        finalists, words = found[: chosen.finalists], f"the search tried {tried} captains"
    captains = [captain for captain in named() if chosen.only in captain.name]
    first = {
        captain.name: contest(
            captain, overs, chosen.named_pairs, derive_seed(chosen.seed, "named"), options=options
        )
        for captain in captains
    }
    captains.sort(key=lambda captain: -first[captain.name].share)
    print(f"named captains\n\n{table(list(first.values()))}\n", flush=True)
    finalists = distinct([*finalists, *captains[: chosen.finalists]])
    fresh = derive_seed(chosen.seed, "fresh")
    scores = [contest(one, overs, chosen.pairs, fresh, options=options) for one in finalists]
    print(f"finalists, on fresh seeds ({words})\n\n{table(scores)}", flush=True)
    for one in finalists:
        print(one, file=sys.stderr)
    over = [score for score in scores if score.share - score.half > LIMIT]
    if over:
        sys.exit(f"above {LIMIT:.0%} with 95 % confidence: {', '.join(score.name for score in over)}")


if __name__ == "__main__":
    main()
