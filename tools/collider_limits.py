"""Measure how often limits set inside campaigns cover the true signal.

``python -m tools.collider_limits --limits N`` plays campaigns until N limits are set in each cell and writes
a section of docs/reports/collider-physics.md. Each campaign is played twice with different events: without
a signal, and with signals in units of the median limit that the first one expects. Played campaigns are kept
in ``--kept``, so that the command can be stopped, and called again with a larger N.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from spectator.environments.collider import physics
from spectator.environments.collider.analysis.significance import ALPHA
from spectator.environments.collider.experiment import Laboratory, exposure_of
from spectator.environments.collider.nature import expected_signal
from spectator.environments.collider.physicists import Plan
from spectator.environments.collider.reference_physicist import ReferencePhysicist
from spectator.environments.collider.scenarios import FAMILIES, TIERS
from spectator.environments.collider.task import Difficulty
from spectator.environments.collider.world import VERSION
from spectator.environments.world import derive_seed
from tools.collider_looks import Unoffered
from tools.collider_skill import with_section
from tools.collider_validation.__main__ import IN_CAMPAIGNS, PAGE

STRENGTHS: Final = (0.5, 1.0, 1.5, 3.0)
"""True signals, in median limits; each channel of a campaign has one of them in turn."""

FIRST_SEED: Final = 900_000

AIM: Final = 2_000
"""Limits of each cell from which a coverage of 95 % is known to 0.5 %."""

LEAST: Final = 1.0 - ALPHA - 0.01
"""Coverage below which a cell is marked."""


@dataclass(frozen=True, slots=True)
class CampaignLimit:
    """A limit that a campaign set.

    Args:
        strength: True signal, in median limits of the same campaign with other events.
        signal: True events expected in the opened data.
        rate_fb: True rate at 13 TeV.
        band: Limits expected at -2 to +2 sigma, in events.
    """

    difficulty: str
    seed: int
    channel: str
    strength: float
    signal: float
    limit: float
    rate_fb: float
    rate_limit_fb: float
    band: tuple[float, ...]


class CampaignLimitter(ReferencePhysicist):
    """One run, the analyses of the reference physicist, and a limit in each channel at a given mass."""

    def __init__(self, mass_gev: float) -> None:
        super().__init__(("follow_up",))
        self._mass = mass_gev

    def plan(self) -> Plan:
        """Plan one run, and calibrate it, so that the limit is at the mass that the detector measures."""
        names = [each["name"] for each in self.task["channels"]]
        yield from self._choose_beam()
        yield from self._run(0, names)
        for candle in self.task["candles"]:
            yield "calibrate_detector", {"candle": candle["name"]}, "Where does it lie exactly?"
        yield from self._prepare(names)
        for name in names:
            yield "unblind", {"channel": name}, "Open the box."
            yield "set_limit", {"channel": name, "mass_gev": self._mass}, "What can be excluded?"


def events(lab: Laboratory, channel: str, rate_fb: float) -> float:
    """Return the signal events that a rate leaves in the opened data of a channel, by the truth."""
    analysis, offer = lab.selection.channels[channel], lab.task.channels[channel]
    particle = replace(lab.nature.particles[0], rates_fb={channel: rate_fb})
    nature = replace(lab.nature, particles=(particle,))
    kept = float(physics.score_shares(*nature.shapes[channel].signal)[analysis.cut :].sum())
    opened = (lab.runs[number - 1] for number in analysis.opened)
    return kept * sum(
        (1.0 - run.tuning_fraction) * float(expected_signal(nature, offer, exposure_of(run, channel)).sum())
        for run in opened
    )


def campaign(
    difficulty: Difficulty,
    seed: int,
    strengths: Mapping[str, float],
    rates_fb: Mapping[str, float],
    draw: int,
) -> tuple[Laboratory, list[CampaignLimit]]:
    """Play a campaign with a resonance of given rates; return the limits at its mass.

    Args:
        draw: Which of the campaigns of a seed, that differ in their events only.
    """
    environment = Unoffered()
    scenario = [*FAMILIES][seed % len(FAMILIES)]
    observation = environment.reset(
        seed=seed, episode_id="limits", options={"scenario": scenario, "difficulty": difficulty}
    )
    lab = environment.laboratory
    lab.seed = derive_seed(seed, "collider", "limits", draw)
    particle = replace(lab.nature.particles[0], rates_fb=rates_fb)
    lab.nature = replace(lab.nature, particles=(particle,))
    policy, found = CampaignLimitter(particle.mass_gev), list[CampaignLimit]()
    while not observation.done:
        action = policy.choose(observation).action
        if action["tool"] == "conclude_null":
            break
        if action["tool"] == "set_limit":
            name = action["arguments"]["channel"]
            measured = particle.mass_gev * lab.scale_of(name).scale
            low, high = lab.task.window_gev
            action["arguments"]["mass_gev"] = min(max(low, measured), high)
            if name in lab.selection.channels:
                lab.selection.channels[name].findings["limit_curve"] = {}
        observation = environment.step(action)
        result: dict[str, Any] = observation.content["last_result"] or {}
        if action["tool"] == "set_limit" and observation.refused is None:
            band = result["band"]
            found.append(
                CampaignLimit(
                    difficulty,
                    seed,
                    name,
                    strengths.get(name, 0.0),
                    events(lab, name, rates_fb.get(name, 0.0)),
                    result["signal_limit"],
                    rates_fb.get(name, 0.0),
                    result["rate_limit_fb"],
                    (*band[:2], result["expected_limit"], *band[2:]),
                )
            )
    return lab, found


def limits(difficulty: Difficulty, seed: int) -> list[CampaignLimit]:
    """Return the limits of a campaign without and with signals."""
    lab, without = campaign(difficulty, seed, {}, {}, 0)
    turn = seed // len(FAMILIES)
    strengths = {
        one.channel: STRENGTHS[(turn + number) % len(STRENGTHS)] for number, one in enumerate(without)
    }
    rates = {
        one.channel: strengths[one.channel] * one.band[2] / events(lab, one.channel, 1.0) for one in without
    }
    return [*without, *campaign(difficulty, seed, strengths, rates, 1)[1]]


def read(kept: Path) -> list[CampaignLimit]:
    """Return the limits that were set before."""
    lines = kept.read_text(encoding="utf-8").splitlines() if kept.exists() else []
    return [CampaignLimit(**{**one, "band": tuple(one["band"])}) for one in map(json.loads, lines)]


def played(kept: Path, least: int, seconds: float) -> Iterator[CampaignLimit]:
    """Set limits until each cell holds ``least``, for at most some seconds; yield them."""
    end, known = time.monotonic() + seconds, read(kept)
    seeds = {tier: max((one.seed for one in known if one.difficulty == tier), default=FIRST_SEED - 1)
             for tier in TIERS}  # fmt: skip
    cells = Counter((one.difficulty, one.strength) for one in known)
    while short := [tier for tier in TIERS if min(cells[tier, strength] for strength in STRENGTHS) < least]:
        for tier in short:
            if time.monotonic() > end:
                return
            seeds[tier] += 1
            for one in limits(tier, seeds[tier]):
                cells[tier, one.strength] += 1
                yield one


def by_construction(strength: float) -> float:
    """Return how often a CLs limit covers where the yield is a Gaussian variable.

    >>> [round(by_construction(strength), 3) for strength in (0.5, 1.0, 3.0)]
    [1.0, 0.975, 0.95]
    """
    from scipy.optimize import brentq
    from scipy.special import ndtr, ndtri

    signal = strength * float(ndtri(0.975))
    seen = brentq(lambda x: x - ndtri(ALPHA * ndtr(x)) - signal, -8.0, signal + 1.0)
    return float(ndtr(signal - seen))


def rows(found: Sequence[CampaignLimit]) -> list[str]:
    """Return the tables: how often limits cover, and how often they are below those that are expected."""
    cells: dict[tuple[str, float], list[CampaignLimit]] = defaultdict(list)
    for one in found:
        cells[one.difficulty, one.strength].append(one)
        cells["all", one.strength].append(one)
    heads = ["no signal", *(f"{strength:g}" for strength in STRENGTHS)]
    lines = [f"| difficulty | limit on | {' | '.join(heads)} |", "|---|---|" + "---|" * len(heads)]
    for tier in (*TIERS, "all"):
        row = [cells[tier, strength] for strength in (0.0, *STRENGTHS)]
        for kind, covers in COVERS.items():
            shares = (_share([covers(one) for one in cell], LEAST) for cell in row)
            lines.append(f"| {tier} | {kind} | {' | '.join(shares)} |")
    exact = (f"{100 * by_construction(strength):.1f} %" for strength in STRENGTHS)
    lines += [f"| CLs | Gaussian yield | 100.0 % | {' | '.join(exact)} |", "", BANDS]
    for tier in (*TIERS, "all"):
        below = ([one.limit < one.band[at] for one in cells[tier, 0.0]] for at in range(5))
        lines.append(f"| {tier} | {' | '.join(map(_share, below))} |")
    return lines


COVERS: Final[Mapping[str, Callable[[CampaignLimit], bool]]] = {
    "events": lambda one: one.limit >= one.signal,
    "rate": lambda one: one.rate_limit_fb >= one.rate_fb,
}


def _share(counted: Sequence[bool], least: float = 0.0) -> str:
    number = max(len(counted), 1)
    share = sum(counted) / number
    text = f"{100 * share:.1f} ± {100 * (share * (1 - share) / number) ** 0.5:.1f} %"
    return f"**{text}**" if share < least else text


BANDS: Final = """Without a signal, a limit is below those that are expected at -2, -1, 0, 1 and 2 standard
deviations in 2.3, 15.9, 50, 84.1 and 97.7 % of the campaigns, if these are right. Counts of few events move
in steps.

| difficulty | below -2 | below -1 | below the median | below +1 | below +2 |
|---|---|---|---|---|---|"""

WORDS: Final = """How often a limit that the action `set_limit` sets covers the true signal, in simulated
campaigns of all families, of world {version}, with a narrow resonance. Each takes one run for all money,
with the cuts, ranges and backgrounds of the reference physicist and a calibrated detector, and sets a limit
at the mass in each channel. True signals are in units of the median limit that the same campaign expects
without one. A limit on events is compared with the expected events of the signal, one on the rate with its
cross section times branching. A cell holds {least:,} limits or more; errors are standard errors, and a
share below 94 % is bold. Written by `{how}`.

By construction, CLs limits cover more often than in 95 % where a signal is small, and always where there is
none: the last line of the table has what they are built to cover. 95 ± 1 % is possible from 1.4 median
limits on.
"""


def main(argv: Sequence[str] | None = None) -> None:
    """Play, and write the section."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limits", type=int, default=AIM, help="limits of each difficulty and strength")
    parser.add_argument("--seconds", type=float, default=1e9, help="stop playing after this time")
    parser.add_argument("--kept", type=Path, default=Path("build/collider-limits.jsonl"), help="limits set")
    parser.add_argument("--page", type=Path, default=PAGE, help="the report")
    asked = parser.parse_args(argv)
    asked.kept.parent.mkdir(parents=True, exist_ok=True)
    with asked.kept.open("a", encoding="utf-8") as file:
        for one in played(asked.kept, asked.limits, asked.seconds):
            print(json.dumps(asdict(one)), file=file, flush=True)
    found = read(asked.kept)
    table = "\n".join(rows(found))
    least = min(Counter((one.difficulty, one.strength) for one in found).values())
    how = f"python -m tools.collider_limits --limits {asked.limits}"
    words = WORDS.format(how=how, least=least, version=VERSION.partition("+")[0])
    page = asked.page.read_text(encoding="utf-8")
    asked.page.write_text(with_section(page, IN_CAMPAIGNS, f"{words}\n{table}"), encoding="utf-8")
    print(table)


if __name__ == "__main__":
    main()
