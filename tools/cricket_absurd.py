"""Twenty absurd plans, and what lawful nonsense on the field costs.

``python -m tools.cricket_absurd --overs 20 --pairs 200`` plays each of :data:`PLANS` through whole matches
against the percentage captain, from both seats of every seed, and prints its share of wins. It then prints
what random lawful fields cost a side that bowls a whole innings to them: runs, and hundredths of a win. The
command exits with 1 if a plan surely wins more than :data:`LIMIT`.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from spectator.environments.cricket.ball.situation import DeliveryPlan
from spectator.environments.cricket.match.engine import BattingIntent
from spectator.environments.cricket.match.field import Field, custom_field
from tools.cricket_blind import USUAL, BlindCaptain, lawful_field
from tools.cricket_search import WinShare, contest

LIMIT: Final = 0.25
"""Largest share of wins that an absurd plan may have."""


def _field(*fielders: tuple[float, float]) -> Field:
    """Return a field of (degrees, metres): 0 is square on the off side, 90 straight, 180 square leg."""
    places = [(math.radians(degrees), metres) for degrees, metres in fielders]
    return custom_field(
        [
            (f"fielder {number}", metres * math.cos(angle), metres * math.sin(angle))
            for number, (angle, metres) in enumerate(places, 1)
        ]
    )


CLOSE: Final = _field(*((degrees, 10.0) for degrees in (20, 60, 120, 160, 200, 250, 290, 310, 330)))
SLIPS: Final = _field(*((285.0 + 5 * number, 16.0 + number / 2) for number in range(9)))
BEHIND: Final = _field((205, 15), *((degrees, 15.0) for degrees in range(275, 355, 10)))
STRAIGHT: Final = _field(*((degrees, 27.0) for degrees in (60, 66, 72, 78, 84, 96, 102, 108, 114)))
OFF: Final = _field((-60, 20), (-40, 26), *((degrees, 27.0) for degrees in (-20, 0, 15, 30, 45, 60, 75)))
LEG: Final = _field(
    (130, 27), (150, 27), (170, 27), (178, 15), (200, 26), (60, 27), (65, 27), (70, 27), (75, 20)
)
"""The five fielders that the Laws allow on the leg side, and the rest where hardly any ball goes."""


def _bowling(name: str, field: Field | None, *delivery: str | None) -> BlindCaptain:
    plan = DeliveryPlan(*delivery) if delivery else None
    return replace(USUAL, name=name, fields=(field,) * 3, delivery=(plan,) * 3)


def _batting(name: str, shot: str, aggression: float) -> BlindCaptain:
    return replace(USUAL, name=name, batting=(BattingIntent(aggression, shot),) * 3)


PLANS: Final = (
    _bowling("nine close catchers to everyone", CLOSE),
    _bowling("nine slips and gullies", SLIPS),
    _bowling("nine behind the wicket", BEHIND),
    _bowling("nine straight", STRAIGHT),
    _bowling("nine on the off side", OFF),
    _bowling("nine on the off side, bowling at leg stump", OFF, None, "leg"),
    _bowling("nine on the off side, short at leg", OFF, "short", "leg"),
    _bowling("nine close, bouncers at leg", CLOSE, "short", "leg"),
    _bowling("nine close, full and wide", CLOSE, "full", "wide outside off"),
    _bowling("nine slips, slow short balls at leg", SLIPS, "short", "leg", "slower"),
    _bowling("packed leg side, wide outside off", LEG, None, "wide outside off"),
    _bowling("packed leg side, short at leg", LEG, "short", "leg"),
    _bowling("bouncers at leg, every ball", None, "short", "leg"),
    _batting("reverse sweep to everything", "reverse sweep", 0.5),
    _batting("sweep everything, flat out", "sweep", 1.0),
    _batting("scoop everything, flat out", "scoop", 1.0),
    _batting("late cut everything, flat out", "late cut", 1.0),
    _batting("hook everything, flat out", "hook", 1.0),
    _batting("block every ball", "defend", 0.0),
    replace(USUAL, name="the batting order upside down", batters="reversed"),
)
"""What no side would do; each decides one part of the game and leaves the rest to the usual captain."""

YORKERS: Final = replace(USUAL, name="yorkers", delivery=(DeliveryPlan("yorker", None, None),) * 3)
HITTERS: Final = replace(USUAL, name="hitters", batting=(BattingIntent(0.8), *USUAL.batting[1:]))
MISTAKES: Final = (
    (
        replace(
            USUAL, name="nine close men to set batters, after the powerplay", fields=(None, CLOSE, CLOSE)
        ),
        USUAL,
    ),
    (_bowling("bouncers at leg, every ball", None, "short", "leg"), USUAL),
    (_batting("reverse sweeps to yorkers", "reverse sweep", 0.5), YORKERS),
    (_bowling("short balls on top of a packed leg side", LEG, "short", "leg"), USUAL),
    (replace(USUAL, name="spin with the new ball to hitters", bowlers=("spin", "", "")), HITTERS),
)
"""Mistakes, and the captain against whom each is made."""


def mistake_costs(overs: int, pairs: int, seed: int) -> Iterator[tuple[str, float, float]]:
    """Yield what each mistake costs a usual captain, in hundredths of a win, with its 95 % interval."""
    for mistaken, rival in MISTAKES:
        made = contest(mistaken, overs, pairs, seed, rival=rival)
        usual = contest(USUAL, overs, pairs, seed, rival=rival)
        half = math.hypot(made.half, usual.half)
        yield mistaken.name, 100.0 * (usual.share - made.share), 100.0 * half


def field_costs(fields: Iterable[Field], overs: int, pairs: int, seed: int) -> list[WinShare]:
    """Return the share of wins of a captain that sets each field throughout."""
    return [
        contest(replace(USUAL, name=f"field {at}", fields=(field,) * 3), overs, pairs, seed)
        for at, field in enumerate(fields)
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Play the plans, and random lawful fields; returns 1 if a plan surely wins more than the limit."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--overs", type=int, default=20)
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--fields", type=int, default=40)
    parser.add_argument("--field-pairs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    print("| plan | wins | 95 % | matches |\n|---|---|---|---|")
    found = []
    for plan in PLANS:
        found.append(contest(plan, given.overs, given.pairs, given.seed))
        print(found[-1].row(), flush=True)
    rng = random.Random(given.seed)
    drawn = field_costs(
        [lawful_field(rng, 2) for _ in range(given.fields)], given.overs, given.field_pairs, given.seed
    )
    print("\n| mistake | hundredths of a win | 95 % |\n|---|---|---|")
    for name, cost, half in mistake_costs(given.overs, given.pairs, given.seed):
        print(f"| {name} | {cost:.1f} | ± {half:.1f} |", flush=True)
    if drawn:
        costs = sorted(100.0 * (0.5 - one.share) for one in drawn)
        mean = sum(costs) / len(costs)
        print(
            f"\n{len(costs)} random fields, {2 * given.field_pairs} matches each: {mean:.1f} hundredths"
            f" of a win on average, from {costs[0]:.1f} to {costs[-1]:.1f}"
        )
    return int(any(one.share - 2.0 * one.half > LIMIT for one in found))


if __name__ == "__main__":
    sys.exit(main())
