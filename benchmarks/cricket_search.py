"""The adversarial search of cricket: captains that do not look at the state against the percentage captain.

``python -m benchmarks.cricket_search`` plays a list of constant and phase-wise captains, and the best of
those that a random search draws, over seeds that the search has not seen. Every seed is played twice, once
from each seat, so that squads, toss, pitch and evening favour neither.
"""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from spectator.environments.base import derive_seed
from spectator.environments.cricket.ball.vocabulary import LINES, PACES, PLANNED_LENGTHS, SHOTS, DeliveryPlan
from spectator.environments.cricket.laws.deliveries import SIDES, Side
from spectator.environments.cricket.laws.innings import LawBroken
from spectator.environments.cricket.laws.scorer import may_bat
from spectator.environments.cricket.match.advice import usual_bowler
from spectator.environments.cricket.match.engine import BattingIntent, BowlingIntent, Match
from spectator.environments.cricket.match.field import (
    PRESETS,
    Field,
    check_field,
    custom_field,
    preset_field,
    standard_field,
)
from spectator.environments.cricket.match.segments import segment_of
from spectator.environments.cricket.people.players import Player
from spectator.environments.cricket.simulate import open_match

SEGMENTS: Final = ("powerplay", "middle", "death")
LIMIT: Final = 0.52
"""Share of wins against the percentage captain that no such captain may pass."""

T = TypeVar("T")
Order = Callable[[Player], float]
BOWLERS: Final[Mapping[str, Order]] = {
    "cheapest": lambda player: player.bowl_runs,
    "wickets": lambda player: -player.bowl_wickets,
    "spin": lambda player: 0.0 if player.bowls == "spin" else 1.0,
    "pace": lambda player: 0.0 if player.bowls == "pace" else 1.0,
    "worst": lambda player: -player.bowl_runs,
}
BATTERS: Final[Mapping[str, Order]] = {
    "hitters": lambda player: player.order - 30.0 * math.log(player.bat_runs),
    "pure hitters": lambda player: -player.bat_runs,
    "safe": lambda player: player.order + 10.0 * math.log(player.bat_out),
    "middle first": lambda player: (player.order - 5) % 11,
    "reversed": lambda player: -player.order,
}


@dataclass(frozen=True, slots=True)
class BlindCaptain:
    """A captain that looks at nothing but the part of the innings.

    Args:
        name: What it is called.
        batting: Aggression and stroke by part of the innings.
        attack: Attack likewise.
        delivery: Planned delivery likewise.
        fields: Field likewise, with and without the restrictions of the powerplay; ``None`` for the standard.
        bowlers: A key of `BOWLERS`, or empty for the usual choice.
        batters: A key of `BATTERS`, or empty for the natural order.
    """

    name: str = "as usual"
    batting: tuple[BattingIntent, ...] = (BattingIntent(),) * 3
    attack: tuple[float, ...] = (0.5,) * 3
    delivery: tuple[DeliveryPlan | None, ...] = (None,) * 3
    fields: tuple[Field | None, ...] = (None,) * 3
    bowlers: str = ""
    batters: str = ""

    def bat(self, match: Match) -> BattingIntent:
        """What it asks of its batter."""
        return self.batting[SEGMENTS.index(segment_of(match.current))]

    def bowl(self, match: Match) -> BowlingIntent:
        """What it asks of its bowler."""
        innings = match.current
        part = SEGMENTS.index(segment_of(innings))
        limit = innings.format.outside_limit(innings.balls)
        field = self.fields[part]
        if field is None or field.outside > limit:
            field = standard_field(limit)
        return BowlingIntent(self.attack[part], self.delivery[part], field)

    def bowler(self, match: Match) -> int:
        """Who bowls next."""
        if not self.bowlers:
            return usual_bowler(match)
        team, order = match.teams[match.fielding_side], BOWLERS[self.bowlers]
        able = match.eligible_bowlers()
        own = [player for player in able if team.bowls[player]] or able
        return min(own, key=lambda player: order(team.bowlers[player]))

    def batter(self, match: Match) -> int:
        """Who comes in."""
        free = [player for player in range(11) if may_bat(match.current, player)]
        if not self.batters:
            return free[0]
        players, order = match.teams[match.batting_side].players, BATTERS[self.batters]
        return min(free, key=lambda player: order(players[player]))


USUAL: Final = BlindCaptain()


def won(match: Match, captains: Mapping[Side, BlindCaptain]) -> dict[Side, float]:
    """Play a match to its end; what each side has of it: 1, 0, or half of a tie."""
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
        name: Whose.
        share: Mean share of wins.
        error: Its standard error, over pairs.
        pairs: How many seeds were played from both seats.
    """

    name: str
    share: float
    error: float
    pairs: int

    def row(self) -> str:
        """A row of a Markdown table, with the interval of 95 %."""
        return f"| {self.name} | {self.share:.3f} | ± {1.96 * self.error:.3f} | {2 * self.pairs:,} |"


def contest(captain: BlindCaptain, overs: int, pairs: int, seed: int) -> WinShare:
    """``captain`` against the usual one, from both seats of every seed."""
    shares = []
    for number in range(pairs):
        match_seed = derive_seed(seed, "search", number)
        share = 0.0
        for side, other in (SIDES, SIDES[::-1]):
            captains = {side: captain, other: USUAL}
            share += won(open_match(overs, match_seed), captains)[side] / 2
        shares.append(share)
    mean = sum(shares) / pairs
    error = math.sqrt(sum((share - mean) ** 2 for share in shares) / max(1, pairs - 1) / pairs)
    return WinShare(captain.name, mean, error, pairs)


def lawful_field(rng: random.Random, outside_limit: int) -> Field:
    """Nine fielders anywhere that the Laws allow."""
    while True:
        spots: list[tuple[str, float, float]] = []
        outside = rng.randint(0, outside_limit)
        while len(spots) < 9:
            far = len(spots) < outside
            x, y = (
                (rng.uniform(-64, 64), rng.uniform(-55, 75))
                if far
                else (rng.uniform(-24, 24), rng.uniform(-22, 40))
            )
            spots.append((f"spot {len(spots)}", round(x, 1), round(y, 1)))
        try:
            field = custom_field(spots)
            check_field(field, outside_limit)
        except LawBroken:
            continue
        return field


def drawn(rng: random.Random, number: int) -> BlindCaptain:
    """A captain drawn at random: constant, or one for each part of the innings."""
    whole = rng.random() < 0.5

    def parts(draw: Callable[[int], T]) -> tuple[T, ...]:
        first = draw(0)
        return (first,) * 3 if whole else (first, draw(1), draw(2))

    def plan(part: int) -> DeliveryPlan | None:
        if rng.random() < 0.25:
            return None
        return DeliveryPlan(
            rng.choice((None, *PLANNED_LENGTHS)), rng.choice((None, *LINES)), rng.choice((None, *PACES))
        )

    def intent(part: int) -> BattingIntent:
        shot = rng.choice(sorted(SHOTS)) if rng.random() < 0.3 else None
        return BattingIntent(rng.choice((0.2, 0.35, 0.5, 0.5, 0.65, 0.8)), shot)

    def field(part: int) -> Field | None:
        return lawful_field(rng, 2 if part == 0 else 5) if rng.random() < 0.7 else None

    return BlindCaptain(
        f"drawn {number}",
        parts(intent),
        parts(lambda part: rng.choice((0.0, 0.2, 0.5, 0.8, 1.0))),
        parts(plan),
        (field(0), field(1), field(2)),
        rng.choice(("", "", "cheapest", "wickets", "spin", "pace")),
        rng.choice(("", "", "hitters", "safe")),
    )


def named() -> Iterator[BlindCaptain]:
    """Captains that somebody would think of."""
    for length in PLANNED_LENGTHS:
        yield replace(USUAL, name=f"always {length}", delivery=(DeliveryPlan(length),) * 3)
    for line in LINES:
        yield replace(USUAL, name=f"always {line}", delivery=(DeliveryPlan(None, line),) * 3)
    good = DeliveryPlan("good", "stumps")
    yield replace(USUAL, name="good length at the stumps", delivery=(good,) * 3)
    for preset in PRESETS:
        yield replace(USUAL, name=f"field {preset}", fields=(preset_field(preset, 5),) * 3)
    for level in (0.0, 0.2, 0.35, 0.65, 0.8, 1.0):
        yield replace(USUAL, name=f"aggression {level:g}", batting=(BattingIntent(level),) * 3)
        yield replace(USUAL, name=f"attack {level:g}", attack=(level,) * 3)
    yield replace(USUAL, name="attack first, save runs last", attack=(1.0, 0.7, 0.0))
    yield replace(USUAL, name="block, then hit",
                  batting=(BattingIntent(0.3), BattingIntent(0.5), BattingIntent(0.8)))  # fmt: skip
    yield replace(USUAL, name="hit, then block",
                  batting=(BattingIntent(0.8), BattingIntent(0.5), BattingIntent(0.3)))  # fmt: skip
    for shot in ("slog", "defend", "flick", "cut"):
        yield replace(USUAL, name=f"always {shot}", batting=(BattingIntent(0.5, shot),) * 3)
    for order in BOWLERS:
        yield replace(USUAL, name=f"bowlers: {order}", bowlers=order)
    for order in BATTERS:
        yield replace(USUAL, name=f"batters: {order}", batters=order)


def search(overs: int, draws: int, pairs: int, seed: int) -> list[BlindCaptain]:
    """The best few of many drawn captains: half are dropped after each round, which doubles the matches."""
    rng = random.Random(seed)
    captains = [drawn(rng, number) for number in range(draws)]
    round_number = 0
    while len(captains) > 3:
        scores = {
            captain.name: contest(captain, overs, pairs, seed + 1000 + round_number) for captain in captains
        }
        captains.sort(key=lambda captain: -scores[captain.name].share)
        captains = captains[: len(captains) // 2]
        pairs, round_number = 2 * pairs, round_number + 1
    return captains


def table(scores: Sequence[WinShare]) -> str:
    """All scores, best first."""
    head = ["| captain | wins | 95 % | matches |", "|---|---|---|---|"]
    return "\n".join([*head, *(score.row() for score in sorted(scores, key=lambda one: -one.share))])


def main(argv: list[str] | None = None) -> None:
    """Search and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cricket_search", description=main.__doc__)
    parser.add_argument("--overs", type=int, default=5)
    parser.add_argument("--pairs", type=int, default=1000, help="pairs of matches of each named captain")
    parser.add_argument("--draws", type=int, default=32, help="captains that the search draws")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="named captains whose name holds this")
    chosen = parser.parse_args(argv)
    captains = [captain for captain in named() if chosen.only in captain.name]
    scores = [contest(captain, chosen.overs, chosen.pairs, chosen.seed) for captain in captains]
    if chosen.draws:
        found = search(chosen.overs, chosen.draws, max(20, chosen.pairs // 20), chosen.seed)
        scores += [contest(one, chosen.overs, 2 * chosen.pairs, chosen.seed + 7) for one in found]
    print(table(scores))


if __name__ == "__main__":
    main()
