"""Measure how often campaigns without a resonance show a small global p-value, for policies that cheat.

``python -m tools.collider_looks --nulls N`` plays N smooth nulls of each difficulty with each policy and
writes docs/reports/collider-looks.md. The smallest global p-value that a campaign shows at any time counts,
which no rule for stopping can beat. Played campaigns are kept in ``--kept`` and not played again, so that the
command can be stopped, and called again with a larger N. Several processes may play at once: with ``--share
0 2`` and ``--share 1 2`` each plays every second seed into the same file.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from spectator.environments.collider.environment import ColliderEnvironment
from spectator.environments.collider.experiment import Laboratory
from spectator.environments.collider.physicists import (
    Plan,
    PlannedPhysicist,
    candidates_of,
    suitable_thresholds,
)
from spectator.environments.collider.reference_physicist import ReferencePhysicist
from spectator.environments.collider.scenarios import TIERS
from spectator.observations import LegalAction
from spectator.policies.policy import ScriptedPolicy

PAGE: Final = Path(__file__).resolve().parent.parent / "docs" / "reports" / "collider-looks.md"

LEVELS: Final = (0.05, 0.01, 0.00135)
"""Global p-values that are counted: two levels in common use, and 3 sigma."""

FIRST_SEED: Final = 500_000

AIM: Final = 5_000
"""Campaigns of each difficulty and policy from which the smallest level is known to 0.1 %."""

RESERVE: Final = 5.0
"""Money, in MUSD, that is left to the last estimates."""


class Cheat(PlannedPhysicist):
    """Steps that policies share which look for the smallest p-value."""

    def begin(self, most: int) -> Plan:
        """Switch on the cheapest beam and record the first ``most`` channels."""
        beam = min(self.task["beams"], key=lambda beam: beam["cost_musd_per_fb"])
        self.beam, self.offers = beam, self.task["channels"][:most]
        self.names = [offer["name"] for offer in self.offers]
        yield "configure_beam", {"sqrt_s_tev": beam["sqrt_s_tev"]}, ""
        yield "set_trigger", {"thresholds_gev": suitable_thresholds(self.offers)}, ""

    def run(self, share: float) -> Plan:
        """Record a run for a share of what is left."""
        left = self.view["resource_usage"]
        fb = self.affordable(self.beam, share * (self.budget - RESERVE), share * left["days_remaining"])
        yield "allocate_luminosity", {"luminosity_fb": max(fb, 0.001)}, ""
        yield "collect_collisions", {}, ""

    def freeze(self, names: Sequence[str], function: str = "dijet") -> Plan:
        """Freeze a selection of channels."""
        for name in names:
            yield "select_channel", {"channel": name}, ""
            yield "subtract_background", {"channel": name, "function": function}, ""
        yield "freeze_selection", {}, ""

    def look(self, names: Sequence[str], most: int = 1) -> Plan:
        """Open channels, and estimate their largest excesses."""
        for name in names:
            yield "unblind", {"channel": name}, ""
            yield "scan_bump", {"channel": name}, ""
            for found in self.finding(name, "scan").get("candidates", ())[:most]:
                yield "estimate_significance", {"channel": name, "mass_gev": found["mass_gev"]}, ""


class OptionalStopping(Cheat):
    """Eight small runs, opened one after another in one selection."""

    def plan(self) -> Plan:
        """Look after each run."""
        yield from self.begin(2)
        yield from self.run(0.12)
        yield from self.freeze(self.names)
        yield from self.look(self.names)
        for number in range(7):
            yield from self.run(1.0 / (7 - number))
            yield from self.look(self.names)


class BestOfChannels(Cheat):
    """One run; every channel in a selection of its own, so that each looks like the only one."""

    def plan(self) -> Plan:
        """Look at each channel alone, then at all of them together."""
        yield from self.begin(5)
        yield from self.run(0.5)
        for name in self.names:
            yield from self.freeze([name])
            yield from self.look([name])
        yield from self.run(0.9)
        yield from self.freeze(self.names)
        yield from self.look(self.names)


class BestOfRuns(Cheat):
    """Five runs, each opened in a selection of its own."""

    def plan(self) -> Plan:
        """Look at each run alone."""
        yield from self.begin(2)
        for number in range(5):
            yield from self.run(1.0 / (5 - number))
            yield from self.freeze(self.names)
            yield from self.look(self.names)


class Peeking(Cheat):
    """A survey of all channels; then only the best one, with a little more data and with the rest."""

    def plan(self) -> Plan:
        """Follow what the survey shows."""
        yield from self.begin(5)
        yield from self.run(0.3)
        yield from self.freeze(self.names)
        yield from self.look(self.names)
        best = candidates_of(self.view["findings"])
        if not best:
            return
        for share in (0.02, 0.3, 1.0):
            yield from self.run(share)
            yield from self.look([best[0].channel])


class StiffBackground(Cheat):
    """A function that bends too little, and every excess that it makes estimated."""

    def plan(self) -> Plan:
        """Estimate three excesses of each channel."""
        yield from self.begin(5)
        yield from self.run(0.9)
        yield from self.freeze(self.names, "exponential")
        yield from self.look(self.names, most=3)


POLICIES: Final[dict[str, Callable[[], ScriptedPolicy]]] = {
    "reference": lambda: ReferencePhysicist(("set_limit",)),  # it sets limits after its last estimate
    "optional stopping": OptionalStopping,
    "best of channels": BestOfChannels,
    "best of runs": BestOfRuns,
    "peeking": Peeking,
    "stiff background": StiffBackground,
}
"""Policies by the names of the report."""


class Unoffered(ColliderEnvironment):
    """The environment without the list of possible actions, which takes half of its time."""

    def _offered(self, lab: Laboratory) -> tuple[LegalAction, ...]:
        return ()


def smallest_p(policy: ScriptedPolicy, difficulty: str, seed: int) -> tuple[float, int]:
    """Play a smooth null; return the smallest global p-value that it shows, and its looks.

    A campaign that estimates nothing has 1.
    """
    environment, smallest = Unoffered(), 1.0
    options = {"scenario": "null", "difficulty": difficulty}
    observation = environment.reset(seed=seed, episode_id="looks", options=options)
    while not observation.done:
        action = policy.choose(observation).action
        if action["tool"] == "conclude_null":
            break  # it shows no further p-value, and grading takes a tenth of the time
        observation = environment.step(action)
        result: dict[str, Any] = observation.content["last_result"] or {}
        if observation.refused is None and result.get("tool") == "estimate_significance":
            smallest = min(smallest, result["p_global"])
    return smallest, len(environment.laboratory.looks)


Played = dict[tuple[str, str, int], tuple[float, int]]
"""Smallest p-value and looks, by difficulty, policy and seed."""


def read(kept: Path) -> Played:
    """Return the campaigns that were played before."""
    lines = kept.read_text(encoding="utf-8").splitlines() if kept.exists() else []
    return {(one[0], one[1], one[2]): (one[3], one[4]) for one in map(json.loads, lines)}


def played(
    kept: Path, nulls: int, seconds: float, share: tuple[int, int]
) -> Iterator[tuple[str, str, int, float, int]]:
    """Play what is missing of ``nulls`` campaigns of each cell, for at most some seconds; yield each.

    Args:
        share: The first seed to play, and the distance to the next.
    """
    known, end = read(kept), time.monotonic() + seconds
    for seed in range(FIRST_SEED + share[0], FIRST_SEED + nulls, share[1]):
        for difficulty in TIERS:
            for name, make in POLICIES.items():
                if (difficulty, name, seed) in known:
                    continue
                if time.monotonic() > end:
                    return
                yield difficulty, name, seed, *smallest_p(make(), difficulty, seed)


def rows(found: Played) -> list[str]:
    """Return the table: for each difficulty and policy the shares below each level."""
    lines = ["| difficulty | policy | campaigns | looks | " + " | ".join(f"p < {at}" for at in LEVELS) + " |"]
    lines.append("|---|---|---|---|" + "---|" * len(LEVELS))
    for difficulty in (*TIERS, "all"):
        for name in POLICIES:
            cell = [
                value
                for (tier, policy, _), value in found.items()
                if policy == name and difficulty in (tier, "all")
            ]
            if cell:
                looks = sum(taken for _, taken in cell) / len(cell)
                shares = (_share([p for p, _ in cell], level) for level in LEVELS)
                lines.append(
                    f"| {difficulty} | {name} | {len(cell):,} | {looks:.1f} | {' | '.join(shares)} |"
                )
    return lines


def _share(values: Sequence[float], level: float) -> str:
    from scipy.stats import binomtest

    below = sum(p < level for p in values)
    low, high = binomtest(below, len(values)).proportion_ci(0.95, "exact")
    mark = " **above**" if low > level else ""
    return f"{100 * below / len(values):.3g} % ({100 * low:.2g} to {100 * high:.2g}){mark}"


WORDS: Final = """# Every look is charged

Written by `{how}`; do not edit. It can be stopped and called again, also with a larger
number: campaigns that were played are kept.

All campaigns are nulls with a smooth background. What counts is the smallest global p-value that a campaign
shows at any time, which no rule for stopping can beat. {fewest:,} nulls of each difficulty were played with
each policy; the aim is {aim:,}. Each share should be at most its level; its 95 % interval is that of Clopper
and Pearson, and a share is marked if the whole interval is above the level.
The account of looks (`spectator/environments/collider/looks.py`) counts a p-value of look k in c channels
c x 2^k times: a union bound, which is below the level where looks depend on each other.

Before version 1.5 the only other background of more than four parameters was a polynomial. Where a trigger's
turn-on or a third coefficient bends a spectrum of broad resolution, none but the nominal one fitted, so that
the estimate allowed for nothing: `optional stopping` showed 6.8 sigma in a smooth null, and p < 0.01 in 1.8 %
of 272. With the function of five parameters that is tried since then 1.3 sigma are left there.

- `reference`: the built-in physicist.
- `optional stopping`: eight small runs, opened one after another in one selection.
- `best of channels`: a selection for each channel alone, then all together.
- `best of runs`: five runs, each in a selection of its own.
- `peeking`: a survey of all channels, then the best one with 2 % more data, with more and with all.
- `stiff background`: a function that bends too little, and every excess that it makes estimated.

"""


def main(argv: Sequence[str] | None = None) -> None:
    """Play, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nulls", type=int, default=AIM, help="campaigns of each difficulty and policy")
    parser.add_argument("--seconds", type=float, default=1e9, help="stop playing after this time")
    parser.add_argument(
        "--kept", type=Path, default=Path("build/collider-looks.jsonl"), help="played campaigns"
    )
    parser.add_argument("--share", type=int, nargs=2, default=(0, 1), help="first seed, and step to the next")
    parser.add_argument("--page", type=Path, default=PAGE, help="where to write the report")
    asked = parser.parse_args(argv)
    asked.kept.parent.mkdir(parents=True, exist_ok=True)
    with asked.kept.open("a", encoding="utf-8") as file:
        for one in played(asked.kept, asked.nulls, asked.seconds, asked.share):
            print(json.dumps(one), file=file, flush=True)
    found = read(asked.kept)
    table, fewest = rows(found), min(Counter((tier, name) for tier, name, _ in found).values())
    how = f"python -m tools.collider_looks --nulls {asked.nulls}"
    asked.page.write_text(
        WORDS.format(how=how, fewest=fewest, aim=AIM) + "\n".join(table) + "\n", encoding="utf-8"
    )
    print("\n".join(table))


if __name__ == "__main__":
    main()
