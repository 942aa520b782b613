"""Cricket captains that ignore the state: constant, by part of the innings, or by the ball's number.

The adversarial search of :mod:`tools.cricket_search` plays them: named ones, random ones, and changes of the
best.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from spectator.environments.cricket.ball.situation import LINES, PACES, PLANNED_LENGTHS, SHOTS, DeliveryPlan
from spectator.environments.cricket.laws import LawBroken
from spectator.environments.cricket.match.engine import (
    BattingIntent,
    BowlingIntent,
    Match,
    segment_of,
    usual_bowler,
)
from spectator.environments.cricket.match.field import (
    PRESETS,
    Field,
    check_field,
    custom_field,
    preset_field,
    standard_field,
)
from spectator.environments.cricket.people import Player, bowling_worth
from spectator.environments.cricket.scorer import may_bat

SEGMENTS: Final = ("powerplay", "middle", "death")

T = TypeVar("T")
Order = Callable[[Player], float]
BOWLERS: Final[Mapping[str, Order]] = {
    "cheapest": lambda player: player.bowl_runs,
    "wickets": lambda player: -player.bowl_wickets,
    "best": lambda player: -bowling_worth(player),
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
    """A captain that looks only at the part of the innings, or at the number of the ball.

    Args:
        name: Its name.
        batting: Aggression and stroke by part of the innings.
        attack: Attack by part of the innings.
        delivery: Planned delivery by part of the innings.
        fields: Field by part of the innings, with and without the powerplay's restrictions; ``None`` for the
            standard.
        bowlers: Keys of `BOWLERS` by part of the innings, or empty for the usual choice.
        batters: A key of `BATTERS`, or empty for the natural order.
        elects: ``bat`` or ``field`` at the toss, or empty for the usual choice.
        turns: Whether intents and deliveries rotate ball by ball instead of by part of the innings.
    """

    name: str = "as usual"
    batting: tuple[BattingIntent, ...] = (BattingIntent(),) * 3
    attack: tuple[float, ...] = (0.5,) * 3
    delivery: tuple[DeliveryPlan | None, ...] = (None,) * 3
    fields: tuple[Field | None, ...] = (None,) * 3
    bowlers: tuple[str, ...] = ("",) * 3
    batters: str = ""
    elects: str = ""
    turns: bool = False

    def bat(self, match: Match) -> BattingIntent:
        """Return the batter's intent."""
        return self.batting[self._turn(match)]

    def bowl(self, match: Match) -> BowlingIntent:
        """Return the bowler's intent."""
        innings, turn = match.current, self._turn(match)
        limit = innings.format.outside_limit(innings.balls)
        field = self.fields[_part(match)]
        if field is None or field.outside > limit:
            field = standard_field(limit)
        return BowlingIntent(self.attack[turn], self.delivery[turn], field)

    def bowler(self, match: Match) -> int:
        """Return the next bowler."""
        rule = self.bowlers[_part(match)]
        if not rule:
            return usual_bowler(match)
        team, order = match.teams[match.fielding_side], BOWLERS[rule]
        able = match.eligible_bowlers()
        own = [player for player in able if team.bowls[player]] or able
        return min(own, key=lambda player: order(team.bowlers[player]))

    def batter(self, match: Match) -> int:
        """Return the next batter."""
        free = [player for player in range(11) if may_bat(match.current, player)]
        if not self.batters:
            return free[0]
        players, order = match.teams[match.batting_side].players, BATTERS[self.batters]
        return min(free, key=lambda player: order(players[player]))

    def _turn(self, match: Match) -> int:
        return match.current.balls % 3 if self.turns else _part(match)


def _part(match: Match) -> int:
    return SEGMENTS.index(segment_of(match.current))


USUAL: Final = BlindCaptain()


def lawful_field(rng: random.Random, outside_limit: int) -> Field:
    """Draw nine fielders anywhere that the Laws allow."""
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
    """Draw a random captain: constant, one per part of the innings, or three in turn."""
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
        return BattingIntent(rng.choice((0.2, 0.35, 0.5, 0.5, 0.55, 0.65, 0.8)), shot)

    def field(part: int) -> Field | None:
        return lawful_field(rng, 2 if part == 0 else 5) if rng.random() < 0.7 else None

    return BlindCaptain(
        f"drawn {number}",
        parts(intent),
        parts(lambda part: rng.choice((0.0, 0.2, 0.5, 0.5, 0.65, 0.8, 1.0))),
        parts(plan),
        (field(0), field(1), field(2)),
        parts(lambda part: rng.choice(("", "", "best", "cheapest", "wickets", "spin", "pace"))),
        rng.choice(("", "", "hitters", "safe")),
        rng.choice(("", "bat", "field")),
        rng.random() < 0.2,
    )


PARTS: Final = ("batting", "attack", "delivery", "fields", "bowlers", "batters", "elects", "turns")


def changed(rng: random.Random, captain: BlindCaptain, others: list[BlindCaptain], name: str) -> BlindCaptain:
    """Replace one to three decisions of a captain by drawn, usual or another's ones."""
    for part in rng.sample(PARTS, rng.randint(1, 3)):
        source = rng.choice((drawn(rng, 0), USUAL, rng.choice(others)))
        mine, theirs = getattr(captain, part), getattr(source, part)
        if isinstance(mine, tuple) and rng.random() < 0.5:
            place = rng.randrange(3)
            theirs = (*mine[:place], theirs[place], *mine[place + 1 :])
        captain = replace(captain, **{part: theirs})
    return replace(captain, name=name)


def named() -> Iterator[BlindCaptain]:
    """Yield captains with obvious strategies."""
    yield from _named_bowling()
    yield from _named_batting()
    for elects in ("bat", "field"):
        yield replace(USUAL, name=f"toss: {elects}", elects=elects)
    for rule in BOWLERS:
        yield replace(USUAL, name=f"bowlers: {rule}", bowlers=(rule,) * 3)
    yield replace(USUAL, name="bowlers: best last", bowlers=("worst", "", "best"))
    yield replace(USUAL, name="bowlers: spin in the middle", bowlers=("pace", "spin", "pace"))
    for order in BATTERS:
        yield replace(USUAL, name=f"batters: {order}", batters=order)
    yield replace(USUAL, name="best bowlers, fielding first", bowlers=("best",) * 3, elects="field")


def _named_bowling() -> Iterator[BlindCaptain]:
    for length in PLANNED_LENGTHS:
        yield replace(USUAL, name=f"always {length}", delivery=(DeliveryPlan(length),) * 3)
    for line in LINES:
        yield replace(USUAL, name=f"always {line}", delivery=(DeliveryPlan(None, line),) * 3)
    for pace in PACES:
        yield replace(USUAL, name=f"pace {pace}", delivery=(DeliveryPlan(None, None, pace),) * 3)
    good = DeliveryPlan("good", "stumps")
    yield replace(USUAL, name="good length at the stumps", delivery=(good,) * 3)
    yield replace(USUAL, name="good, then yorkers", delivery=(good, good, DeliveryPlan("yorker", "stumps")))
    mixed = (good, DeliveryPlan("short", "leg"), DeliveryPlan("full", "wide outside off"))
    yield replace(USUAL, name="good, short, full in turn", delivery=mixed, turns=True)
    for preset in PRESETS:
        yield replace(USUAL, name=f"field {preset}", fields=(preset_field(preset, 5),) * 3)
    for level in (0.0, 0.2, 0.35, 0.55, 0.65, 0.8, 1.0):
        yield replace(USUAL, name=f"attack {level:g}", attack=(level,) * 3)
    yield replace(USUAL, name="attack first, save runs last", attack=(1.0, 0.7, 0.0))


def _named_batting() -> Iterator[BlindCaptain]:
    def by_part(name: str, *levels: float) -> BlindCaptain:
        return replace(USUAL, name=name, batting=tuple(BattingIntent(level) for level in levels))

    for level in (0.0, 0.2, 0.35, 0.55, 0.65, 0.8, 1.0):
        yield by_part(f"aggression {level:g}", level, level, level)
    yield by_part("block, then hit", 0.3, 0.5, 0.8)
    yield by_part("hit, then block", 0.8, 0.5, 0.3)
    yield by_part("a little more at the death", 0.5, 0.5, 0.6)
    for shot in sorted(SHOTS):
        yield replace(USUAL, name=f"always {shot}", batting=(BattingIntent(0.5, shot),) * 3)
